"""Ledger rows become rows of the tables: tasks, trials, judgings, jobs and calls.

Rows that belong together follow each other: those of a task, in it of a strategy and repeat, in it of a job, there by
attempt and turn. Only the rows at hand and those of the last trial are kept, so a run may have any length.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import polars as pl

from db.ledger_frames import LINE
from db.ledger_row import COLUMNS

Draw = Callable[[str, int], list[int]]
"""Gives so many new ids of a table of the database."""

_UNANSWERED = "The imported ledger holds no used answer for one of its calls."
_IMPORTED = pl.lit("imported")
_OWNER = ["task_id", "strategy", "repeat"]
_JOB = [*_OWNER, "try", "round", "sample"]
_CALL_COLUMNS = [
    name
    for name in COLUMNS
    if name not in {*_JOB, "run_id", "source_platform", "kind", "used", "winner", "opponent"}
]
_MOST_TURNS = 2**15
_JOB_COLUMNS = ["try", "round", "sample", "state", "attempt", "answer_attempt", "error"]
_OUTCOME = [
    pl.when("answered").then(pl.lit("ok")).otherwise(pl.lit("failed")).alias("state"),
    pl.when(~pl.col("answered")).then(pl.lit(_UNANSWERED)).alias("reason"),
]
_TIMES = ["started_at", "finished_at"]
# What no ledger says.
_UNKNOWN_TASK = {
    **dict.fromkeys(("category", "difficulty", "goal"), pl.lit("")),
    "weight": pl.lit(1),
    "files": pl.lit("{}"),
    "checks": pl.lit("[]"),
    "prompt_bytes": pl.lit(0),
}
_UNKNOWN_JUDGING = {"judge": _IMPORTED, "kind": _IMPORTED, "question": pl.lit("[]"), "state": pl.lit("ok")}


class Tangled(Exception):
    """The rows do not follow each other as they belong together, or contradict each other."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Some thousand calls, and what they belong to unless an earlier batch holds it."""

    tables: Mapping[str, pl.DataFrame]
    """What goes into which table, each after those that it refers to."""
    lines: pl.Series
    """Where in the file each call stands."""


@dataclass(frozen=True, kw_only=True)
class Names:
    """Strategies and models of the run with their ids; `add_…` makes what is new."""

    strategies: dict[str, int] = field(default_factory=dict)
    lanes: dict[str, int] = field(default_factory=dict)
    add_strategy: Callable[[str], int]
    add_lane: Callable[[str], int]

    def learn(self, frame: pl.DataFrame) -> None:
        """Make what the rows name for the first time, in their order."""
        for strategy in frame["strategy"].drop_nulls().unique(maintain_order=True):
            if strategy not in self.strategies:
                self.strategies[strategy] = self.add_strategy(strategy)
        for model in frame["model"].unique(maintain_order=True):
            if model not in self.lanes:
                self.lanes[model] = self.add_lane(model)


class Groups:
    """Takes the rows of a run, table by table."""

    def __init__(self, *, run: int, names: Names, draw: Draw) -> None:
        self.rows = self.trials = 0
        self._run = pl.lit(run).alias("run")
        self._names, self._draw = names, draw
        # The rows of the last trial, or those of judges beside it: more of them may come.
        self._open: pl.DataFrame | None = None
        self._tasks = 0
        self._task: tuple[str, int] | None = None

    def add(self, frame: pl.DataFrame) -> Batch | None:
        """What these rows complete, if anything.

        Raises:
            Tangled: rows do not follow each other.
        """
        if self._open is not None:
            frame = pl.concat([self._open, frame])
        last = frame.select(_changed(_OWNER).arg_true().last()).item()
        self._open = frame.slice(last)
        return self._batch(frame.head(last)) if last else None

    def end(self) -> Batch | None:
        """The last batch."""
        return None if self._open is None else self._batch(self._open)

    def _batch(self, frame: pl.DataFrame) -> Batch:
        self._names.learn(frame)
        tasks, frame = self._with_task(frame)
        frame = frame.with_columns(
            owner_no=_changed(_OWNER).cum_sum(),
            job_no=_changed(_JOB).cum_sum(),
            lane=pl.col("model").replace_strict(self._names.lanes, return_dtype=pl.Int64),
        )
        _require_order(frame)
        jobs = _jobs(frame)
        trials = self._with_id("trial", _trials(frame, jobs))
        judgings = self._with_id("judging", _judgings(frame))
        jobs = self._with_id("job", _owned(jobs, trials, judgings))
        self.rows += frame.height
        self.trials += trials.height
        strategies = pl.col("strategy").replace_strict(self._names.strategies, return_dtype=pl.Int64)
        tables = {
            "task": tasks.select("id", self._run, "position", "task_id", **_UNKNOWN_TASK),
            "trial": trials.select("id", self._run, "task", strategies, "repeat", "try", *_OUTCOME, *_TIMES),
            "judging": judgings.select("id", self._run, "task", "repeat", number="round", **_UNKNOWN_JUDGING),
            "job": jobs.select("id", self._run, "trial", "judging", "lane", *_JOB_COLUMNS, reserve_tokens=0),
            "call": frame.select(
                *_CALL_COLUMNS,
                self._run,
                job=jobs["id"].gather(frame["job_no"] - 1),
                reserve_tokens=0,
                key_fingerprint=_IMPORTED,
            ),
            "judged_trial": trials.filter(pl.col("opponent").is_not_null()).select(
                "task", "strategy", "repeat", LINE, "winner", "opponent", trial="id"
            ),
        }
        filled = {name: table for name, table in tables.items() if table.height}
        return Batch(tables=filled, lines=frame[LINE])

    def _with_id(self, table: str, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(id=pl.Series(self._draw(table, rows.height), dtype=pl.Int64))

    def _with_task(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The tasks that begin here, and the rows with the id of theirs."""
        number = _changed(["task_id"]).cum_sum() - 1
        found = frame.filter(_changed(["task_id"]))["task_id"]
        # Its first trials may be in an earlier batch.
        begun = [self._task[1]] if self._task and self._task[0] == found[0] else []
        new = self._with_id("task", found.slice(len(begun)).to_frame())
        new = new.with_columns(position=pl.int_range(self._tasks + 1, self._tasks + 1 + pl.len()))
        self._tasks += new.height
        ids = pl.Series([*begun, *new["id"]], dtype=pl.Int64)
        self._task = found[-1], ids[-1]
        return new, frame.with_columns(task=ids.gather(frame.select(number).to_series()))


def _changed(columns: list[str]) -> pl.Expr:
    """Whether a row differs there from the one before it."""
    return pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in columns)


def _require_order(frame: pl.DataFrame) -> None:
    order = pl.col("attempt") * _MOST_TURNS + pl.col("turn")
    again = (pl.col("job_no") == pl.col("job_no").shift()) & (order <= order.shift())
    same_attempt = (pl.col("job_no") == pl.col("job_no").shift()) & ~_changed(["attempt"])
    same_trial = pl.col("strategy").is_not_null() & (pl.col("owner_no") == pl.col("owner_no").shift())
    if frame.select(
        (again | (same_attempt & _changed(["used"])) | (same_trial & _changed(["winner", "opponent"]))).any()
    ).item():
        raise Tangled


def _jobs(frame: pl.DataFrame) -> pl.DataFrame:
    """The jobs of the rows; of one without an answer the last error counts."""
    used = pl.col("attempt").filter("used")
    answered = pl.col("answer_attempt").is_not_null()
    found = frame.group_by("job_no", maintain_order=True).agg(
        pl.first("owner_no", "strategy", "try", "round", "sample", "lane"),
        pl.last("attempt", "error"),
        answer_attempt=used.last(),
        also_answered=used.first(),
    )
    if found["answer_attempt"].ne_missing(found["also_answered"]).any():
        raise Tangled
    return found.with_columns(
        state=pl.when(answered).then(pl.lit("ok")).otherwise(pl.lit("failed")),
        error=pl.when(~answered).then("error"),
    )


def _trials(frame: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """The trials of the rows. One counts as answered when every job of its last try is."""
    last_try = pl.col("try") == pl.col("try").max()
    tried = jobs.group_by("owner_no", maintain_order=True).agg(
        pl.max("try"), answered=(pl.col("state") == "ok").filter(last_try).all()
    )
    of_trials = frame.filter(pl.col("strategy").is_not_null())
    found = of_trials.group_by("owner_no", maintain_order=True).agg(
        pl.first("task", "strategy", "repeat", "winner", "opponent"),
        pl.min(LINE, "started_at"),
        pl.max("finished_at"),
    )
    return found.join(tried, on="owner_no", maintain_order="left")


def _judgings(frame: pl.DataFrame) -> pl.DataFrame:
    """A judge's calls of one round; what they were about no ledger says."""
    calls = frame.filter(pl.col("strategy").is_null())
    return calls.select("owner_no", "round", "task", "repeat").unique(maintain_order=True)


def _owned(jobs: pl.DataFrame, trials: pl.DataFrame, judgings: pl.DataFrame) -> pl.DataFrame:
    """The jobs with the id of their trial or judging."""
    of_trials = trials.select("owner_no", trial="id")
    of_judgings = judgings.select("owner_no", "round", judging="id")
    jobs = jobs.join(of_trials, on="owner_no", how="left", maintain_order="left")
    return jobs.join(of_judgings, on=["owner_no", "round"], how="left", maintain_order="left")
