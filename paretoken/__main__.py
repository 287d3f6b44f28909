"""`python -m paretoken`."""

from paretoken.cli import main

main()
