"""What a terminal shows of a run: readable at any usual width, and never a number cut in two."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from analysis.report.scaling_table import ScalingRow
from paretoken.reporting import options, table

ROW = ScalingRow(
    strategy="sc_k10",
    ok_trials=1_000,
    ok_calls=10_000,
    success_rate=0.893,
    avg_total_tokens=15_627.4,
    elo=1_082.5,
    elo_low=1_042.4,
    elo_high=1_122.6,
    elo_per_1k=69.3,
    marginal_elo_per_1k=5.03,
    assessment="cannot tell yet",
    more_tasks=3_611,
    recommended=True,
)
LONG = replace(ROW, strategy="a-strategy-with-a-name-of-forty-characters")
NARROW = ("89.3 %", "15,627.4", "1,082.5", "(1,042.4 to 1,122.6)", "+5.03")
WIDE = ("1,000", "10,000", "89.3 %", "15,627.4", "1,082.5 (1,042.4 to 1,122.6)", "69.3", "+5.03")


@pytest.mark.parametrize(
    ("width", "rows", "whole"), [(80, [ROW], NARROW), (120, [ROW], WIDE), (150, [ROW, LONG], WIDE)]
)
def test_numbers_stay_whole_and_nothing_is_wider_than_the_terminal(
    width: int, rows: list[ScalingRow], whole: tuple[str, ...]
) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width)
    console.print(table(rows, width=width))
    shown = out.getvalue()
    assert max(len(line) for line in shown.splitlines()) <= width
    assert all(text in shown for text in whole)
    assert "".join(shown.split()).count("recommended") == len(rows)


def test_a_name_of_a_strategy_cannot_steer_the_terminal() -> None:
    out = io.StringIO()
    Console(file=out, width=120).print(table([replace(ROW, strategy="\x1b[31mred")], width=120))
    assert "\x1b" not in out.getvalue()


def test_the_analysis_section_reaches_the_analysis_and_missing_keys_leave_its_defaults() -> None:
    given = options({"analysis": {"baseline": "b", "threshold_elo_per_1k": 5.0, "reference_cost_usd": 0.2}})
    assert (given.baseline, given.threshold, given.reference_cost_usd) == ("b", 5.0, 0.2)
    unset = options(
        {"analysis": {"baseline": None, "threshold_elo_per_1k": None, "reference_cost_usd": None}}
    )
    assert (unset.baseline, unset.threshold, unset.reference_cost_usd) == (None, 2.0, 0.07)
