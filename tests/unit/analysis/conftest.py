"""Other people's measurements, and tables small enough to check by hand."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

DATA = Path(__file__).parents[3].parent / "shared" / "data"

HUMANEVAL_FIVE = [
    "simple | gpt-3.5-turbo-0125",
    "simple | gpt-4-turbo-2024-04-09",
    "simple_incr_temp | gpt-4-turbo-0409-5step",
    "simple_repeat | gpt-4-turbo-0409-5repeats-no-temp-incr",
    "simple_boosting | l3_8b-gpt35-l3_70b-gpt4-0409",
]


@pytest.fixture(scope="session")
def shared() -> Callable[[str], pl.DataFrame]:
    """Reads a file of `../shared/data`; skips the test where that folder is absent."""

    def read(name: str) -> pl.DataFrame:
        if not DATA.is_dir():
            pytest.skip(f"{DATA} is not there")
        return pl.read_csv(DATA / name)

    return read


@pytest.fixture(scope="session")
def humaneval_outcomes(shared: Callable[[str], pl.DataFrame]) -> pl.DataFrame:
    raw = shared("humaneval_outcomes.csv.gz")
    return raw.select(
        "task_id",
        strategy=pl.col("strategy") + " | " + pl.col("config"),
        repeat=pl.col("run").str.extract(r"(\d+)$").cast(pl.Int64),
        confirmed_success=pl.col("is_solved").cast(pl.Boolean),
    )


@pytest.fixture(scope="session")
def humaneval_calls(shared: Callable[[str], pl.DataFrame]) -> pl.DataFrame:
    raw = shared("humaneval_calls.csv.gz")
    return raw.select(
        "task_id",
        "model",
        "total_tokens",
        strategy=pl.col("strategy") + " | " + pl.col("config"),
        repeat=pl.col("run").str.extract(r"(\d+)$").cast(pl.Int64),
        round=pl.col("call_index") + 1,
        input_tokens=pl.col("prompt_tokens"),
        output_tokens=pl.col("completion_tokens"),
        latency_ms=pl.col("latency_s") * 1000,
    )


def trials(rows: list[tuple[str, str, int, bool | None]]) -> pl.DataFrame:
    """Outcomes from (task_id, strategy, repeat, confirmed_success)."""
    return pl.DataFrame(
        rows,
        schema={
            "task_id": pl.String,
            "strategy": pl.String,
            "repeat": pl.Int64,
            "confirmed_success": pl.Boolean,
        },
        orient="row",
    )
