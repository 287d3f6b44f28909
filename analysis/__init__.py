"""Pure numbers: comparisons, Bradley-Terry, intervals, scaling, cost, and the arithmetic that all share.

Imports none of the other packages and knows no queue, database or network; only `analysis.report` writes
files.
"""
