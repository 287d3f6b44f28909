"""Ledger rows, one after another, become lines for the tables: tasks, trials, judgings, jobs and calls.

Rows that belong together follow each other: those of a task, in it of a trial or judging, in it of a job, there by
attempt and turn. Only the task, trial and job at hand are remembered, so a run may have any length.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from datetime import datetime
from typing import cast

import msgspec

from db.copy_text import fields, quoted
from db.ledger_row import LedgerRow

_UNANSWERED = "The imported ledger holds no used answer for one of its calls."

State = dict[str, object]


class Tangled(Exception):
    """The rows do not follow each other as they belong together, or contradict each other."""


@dataclass(kw_only=True, slots=True)
class Batch:
    """CSV lines for some thousand calls and for what they belong to, unless an earlier batch holds it."""

    task: list[str] = attribute(default_factory=list)
    trial: list[str] = attribute(default_factory=list)
    judging: list[str] = attribute(default_factory=list)
    job: list[str] = attribute(default_factory=list)
    call: list[str] = attribute(default_factory=list)
    judged_trial: list[str] = attribute(default_factory=list)
    changed_trials: list[State] = attribute(default_factory=list)
    """What earlier batches hold as it was then."""
    changed_jobs: list[State] = attribute(default_factory=list)
    rows: list[int] = attribute(default_factory=list)
    """Where in the file each call stands."""


@dataclass(slots=True)
class _Trial:
    """A trial counts as answered when every job of its last try is."""

    id: int
    head: str
    strategy: str
    repeat: int
    line: int
    winner: str | list[str] | None
    opponent: str | list[str] | None
    started_at: datetime
    finished_at: datetime | None
    try_: int = 1
    answered: bool = True
    written: bool = False

    def take(self, number: int, row: LedgerRow) -> None:
        if row.winner != self.winner or row.opponent != self.opponent:
            raise Tangled
        # Without `min`, which takes as long as all the rest.
        if number < self.line:  # noqa: PLR1730
            self.line = number
        if row.started_at < self.started_at:  # noqa: PLR1730
            self.started_at = row.started_at
        if row.finished_at is not None and (self.finished_at is None or row.finished_at > self.finished_at):
            self.finished_at = row.finished_at

    def settle(self, try_: int, answered: bool) -> None:
        """Count a job that is over."""
        if try_ > self.try_:
            self.try_, self.answered = try_, answered
        elif try_ == self.try_:
            self.answered = self.answered and answered

    def state(self) -> State:
        return {
            "state": "ok" if self.answered else "failed",
            "reason": None if self.answered else _UNANSWERED,
            "try": self.try_,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
        }


@dataclass(slots=True)
class _Job:
    """The job at hand. One object is used for all of them, which takes half the time."""

    id: int = 0
    head: str = ""
    attempt: int = 0
    turn: int = 0
    answer_attempt: int | None = None
    error: str | None = None
    written: bool = False

    def begin(self, job_id: int, head: str, row: LedgerRow) -> None:
        self.id, self.head, self.written = job_id, head, False
        self.attempt, self.turn, self.error = row.attempt, row.turn, row.error
        self.answer_attempt = row.attempt if row.used else None

    def take(self, row: LedgerRow) -> None:
        if (row.attempt, row.turn) <= (self.attempt, self.turn):
            raise Tangled
        self.attempt, self.turn, self.error = row.attempt, row.turn, row.error
        if row.used:
            if self.answer_attempt not in (None, row.attempt):
                raise Tangled
            self.answer_attempt = row.attempt

    def line(self) -> str:
        if self.answer_attempt is None:
            return f"{self.head},failed,{self.attempt},null,{quoted(self.error)},0\n"
        return f"{self.head},ok,{self.attempt},{self.answer_attempt},null,0\n"

    def state(self) -> State:
        answered = self.answer_attempt is not None
        return {
            "id": self.id,
            "state": "ok" if answered else "failed",
            "attempt": self.attempt,
            "answer_attempt": self.answer_attempt,
            "error": None if answered else self.error,
        }


class Groups:
    """Takes the rows of a run and collects what is to be written.

    `ids` draws new ids of a table. `add_strategy` and `add_lane` make what has no id yet: strategies by their name,
    lanes by their model.
    """

    def __init__(
        self,
        *,
        run: int,
        ids: Mapping[str, Iterator[int]],
        strategies: Mapping[str, int],
        add_strategy: Callable[[str], int],
        add_lane: Callable[[str], int],
    ) -> None:
        self.size = 0
        """Characters that were collected for `call` since the last cut."""
        self.rows = self.trials = 0
        self._run, self._ids = run, ids
        self._add_strategy, self._add_lane = add_strategy, add_lane
        self._strategies = dict(strategies)
        self._lanes: dict[str, int] = {}
        self._batch = Batch()
        self._slot: tuple[object, ...] = (None,) * 6
        self._task = self._tasks = 0
        self._trial: _Trial | None = None
        self._judging: tuple[object, ...] = ()
        # What the jobs of the trial or judging begin with.
        self._owner = ""
        self._job = _Job()

    def add(self, number: int, row: LedgerRow) -> None:
        """Take the row that stands there in the file.

        Raises:
            Tangled: it does not follow the one before.
        """
        lane = self._lanes.get(row.model) or self._lane_of(row.model)
        slot = (row.task_id, row.strategy, row.repeat, row.try_, row.round, row.sample)
        job, batch = self._job, self._batch
        if slot != self._slot:
            self._turn_to(slot, number, row)
            job_id = next(self._ids["job"])
            job.begin(job_id, f"{job_id},{self._owner},{lane},{row.try_},{row.round},{row.sample}", row)
            batch.job.append(job.line())
        else:
            job.take(row)
            self._change_job()
        if self._trial is not None:
            self._trial.take(number, row)
        line = _call(job.id, self._run, row)
        batch.call.append(line)
        batch.rows.append(number)
        self.rows += 1
        self.size += len(line)

    def cut(self) -> Batch:
        """What was collected since the last cut. The trial and the job at hand go on, and may change in a later one."""
        self._write_trial()
        self._job.written = True
        batch, self._batch, self.size = self._batch, Batch(), 0
        return batch

    def end(self) -> Batch:
        """The last batch."""
        self._close_trial()
        return self.cut()

    def _lane_of(self, model: str) -> int:
        found = self._lanes[model] = self._add_lane(model)
        return found

    def _change_job(self) -> None:
        if self._job.written:
            self._batch.changed_jobs = [self._job.state()]
        else:
            self._batch.job[-1] = self._job.line()

    def _turn_to(self, slot: tuple[object, ...], number: int, row: LedgerRow) -> None:
        """End what the row does not belong to, and begin what it does."""
        if slot[:3] != self._slot[:3]:
            self._close_trial()
            if slot[0] != self._slot[0]:
                self._add_task(row.task_id)
            if row.strategy is not None:
                self._add_trial(row.strategy, number, row)
        else:
            self._settle_job()
        if row.strategy is None and self._judging != (self._task, row.repeat, row.round):
            self._add_judging(row)
        self._slot = slot

    def _add_task(self, task_id: str) -> None:
        self._tasks += 1
        self._task = next(self._ids["task"])
        head = f"{self._task},{self._run},{self._tasks}"
        self._batch.task.append(f'{head},{quoted(task_id)},"","",1,"",{{}},[],0\n')

    def _add_trial(self, strategy: str, number: int, row: LedgerRow) -> None:
        if strategy not in self._strategies:
            self._strategies[strategy] = self._add_strategy(strategy)
        self.trials += 1
        trial = next(self._ids["trial"])
        head = f"{trial},{self._run},{self._task},{self._strategies[strategy]},{row.repeat}"
        said = row.winner, row.opponent
        self._trial = _Trial(
            trial, head, strategy, row.repeat, number, *said, row.started_at, row.finished_at
        )
        self._owner = f"{self._run},{trial},null"

    def _add_judging(self, row: LedgerRow) -> None:
        """Of a judge's calls of one round; what they were about no ledger says."""
        judging = next(self._ids["judging"])
        self._judging = (self._task, row.repeat, row.round)
        head = f"{judging},{self._run},{self._task},{row.repeat},{row.round}"
        self._batch.judging.append(f"{head},imported,imported,[],ok\n")
        self._owner = f"{self._run},null,{judging}"

    def _settle_job(self) -> None:
        if self._trial is not None:
            self._trial.settle(cast(int, self._slot[3]), self._job.answer_attempt is not None)

    def _close_trial(self) -> None:
        trial = self._trial
        if trial is None:
            return
        self._settle_job()
        self._write_trial()
        if trial.opponent is not None:
            head = f"{trial.id},{self._task},{trial.repeat},{trial.line},{quoted(trial.strategy)}"
            winner, opponent = (msgspec.json.encode(said).decode() for said in (trial.winner, trial.opponent))
            self._batch.judged_trial.append(f"{head},{quoted(winner)},{quoted(opponent)}\n")
        self._trial = None

    def _write_trial(self) -> None:
        trial = self._trial
        if trial is None:
            return
        state = trial.state()
        if trial.written:
            self._batch.changed_trials.append({"id": trial.id, **state})
        else:
            trial.written = True
            self._batch.trial.append(f"{trial.head},{fields(*state.values())}\n")


def _call(job: int, run: int, row: LedgerRow) -> str:
    values = fields(
        job, row.attempt, row.turn, run, row.model, row.status, row.error, row.purpose, row.retry_reason,
        row.input_tokens, row.output_tokens, row.total_tokens, row.cached_input_tokens, row.reasoning_tokens,
        row.cost_usd, row.http_status, row.response_id, row.finish_reason, row.latency_ms, row.first_byte_ms,
        row.worker, row.started_at, row.finished_at,
    )  # fmt: skip
    return f"{values},{quoted(row.usage)},{quoted(row.content)},0,imported\n"
