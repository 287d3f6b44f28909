"""The outcome of one run of a program: what its end and its report mean for the call.

| what happened | status, class | next |
|---|---|---|
| a report with an answer | `ok` | used |
| a report without one | `error` or `unknown: empty_output` | trial fails |
| the gateway's refusal, with its status | `error` or `unknown`, as `gateway.classify` says | as it says |
| another error of the client's | `error` or `unknown: client_error` | job fails |
| no report: chatter, nothing, a crash | `unknown: bad_response` | job fails |
| out of time · too much output | `unknown: timeout` · `output_too_large` | job fails |
| the worker stopped | `unknown: cancelled` | retry |
| there is no such program | `error: program_missing` | run pauses |

An error whose usage the client does not tell is `unknown`, since it may have been paid: all but a refusal before
anything was done. What costs as much as an agent is not repeated of itself, but where the gateway's own answer says
that time mends it; a run that may have been paid uses up a try then (`workers.settling`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from analysis.usage import Usage
from workers.commands import Client, Report, ReportInvalid, Turn
from workers.commands.guardian import CANNOT_RUN
from workers.commands.process import Run
from workers.gateway import Disposition, Outcome
from workers.gateway.body import Said
from workers.gateway.classify import EMPTY_OUTPUT, Verdict, verdict_on
from workers.gateway.explanation import Explainer

CLIENT_ERROR = Verdict(error="client_error", disposition=Disposition.FAIL)
_CANNOT_RUN = (126, CANNOT_RUN)


@dataclass(frozen=True, kw_only=True)
class Ran(Outcome):
    """A run of a program. `content`, `usage` and `raw_usage` are those of its first turn, or of all of it."""

    later_turns: Sequence[Turn] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    """What it has written in its folder."""
    priced: bool = True
    """False where the client says that it used another model than the one it was given."""

    @property
    def whole(self) -> Outcome:
        """With the tokens of all its turns; later ones are only there where each tells its own."""
        usages = [self.usage, *(turn.usage for turn in self.later_turns)]
        return replace(
            self,
            usage=Usage(
                input_tokens=_sum(usage.input_tokens for usage in usages),
                output_tokens=_sum(usage.output_tokens for usage in usages),
                total_tokens=_sum(usage.total_tokens for usage in usages),
            ),
        )


class Reader:
    """Makes outcomes of runs of one client; no text that leaves it holds the key."""

    def __init__(self, client: Client, *, program: str, model: str, key: str) -> None:
        self._client = client
        self._program = program
        self._model = model
        self._key = key
        self._explainer = Explainer(key)

    def read(self, run: Run, *, wall_time_s: float) -> Ran:
        """The outcome, without the files."""
        printed = run.printed.decode("utf-8", "replace").replace(self._key, "[key]")
        if run.ended != "by itself":
            return self._stopped(run, printed, wall_time_s)
        try:
            report = self._client.read(printed)
        except ReportInvalid as error:
            if run.code in _CANNOT_RUN:
                return self.not_started(f"{self._program} cannot be run: {_last(run, printed)}")
            said = f"{self._program} ended with exit code {run.code}, but {error}. {_last(run, printed)}"
            return self._unknown("bad_response", said, run)
        return self._reported(report, run)

    def _reported(self, report: Report, run: Run) -> Ran:
        first, *later = report.turns
        told = Ran(
            status="ok",
            disposition=Disposition.USED,
            # The answer stands in the last row.
            content=first.content if later else report.answer,
            usage=first.usage,
            raw_usage=first.raw,
            finish_reason="turn" if report.by_turns else "run",
            http_status=report.http_status,
            response_id=report.response_id,
            latency_ms=None if later else run.latency_ms,
            later_turns=[*later[:-1], replace(later[-1], content=report.answer)] if later else (),
            priced=report.models <= {self._client.gateway_model(self._model)},
        )
        if report.error is not None:
            return self._failed(told, report)
        if not (report.answer or "").strip():
            return self._bad(told, EMPTY_OUTPUT, f"{self._program} gave an empty answer")
        return told

    def _failed(self, told: Ran, report: Report) -> Ran:
        said = f"{self._program}: {report.error}"
        if report.http_status is None:
            return self._bad(told, CLIENT_ERROR, said)
        verdict = verdict_on(report.http_status, Said(text=report.error or ""), None)
        return self._bad(told, verdict, said, paid=report.progressed)

    def _bad(self, told: Ran, verdict: Verdict, said: str, *, paid: bool = True) -> Ran:
        """An error; an unknown outcome where it may have been paid and nobody says how much."""
        status: Literal["error", "unknown"] = (
            "unknown" if paid and told.usage.total_tokens is None else "error"
        )
        return replace(
            told,
            status=status,
            disposition=verdict.disposition,
            error=verdict.error,
            message=self._explain(verdict.error, said),
        )

    def _stopped(self, run: Run, printed: str, wall_time_s: float) -> Ran:
        match run.ended:
            case "worker":
                said = f"The worker was stopped, and {self._program} with it."
                return self._unknown("cancelled", said, run, disposition=Disposition.RETRY)
            case "output":
                return self._unknown(
                    "output_too_large", f"{self._program} printed without end and was stopped.", run
                )
        said = f"{self._program} had not ended after wall_time_s = {wall_time_s:g} and was stopped. "
        return self._unknown("timeout", said + self._why(run, printed), run)

    def _why(self, run: Run, printed: str) -> str:
        """What it waited for, if it had said so."""
        try:
            error = self._client.read(printed).error
        except ReportInvalid:
            error = None
        return error or _last(run, printed)

    def _unknown(self, error: str, said: str, run: Run, disposition: Disposition = Disposition.FAIL) -> Ran:
        return Ran(
            status="unknown",
            disposition=disposition,
            error=error,
            message=self._explain(error, said),
            finish_reason="run",
            latency_ms=run.latency_ms,
        )

    def unreadable(self, error: Exception) -> Ran:
        """It ran, and reading what it left behind failed here."""
        said = f"what {self._program} left cannot be read ({type(error).__name__}: {error})"
        return Ran(
            status="unknown",
            disposition=Disposition.FAIL,
            error="bad_response",
            message=self._explain("bad_response", said),
            finish_reason="run",
        )

    def not_started(self, said: str) -> Ran:
        """It cannot be run here, which no other trial would mend."""
        return Ran(
            status="error",
            disposition=Disposition.PAUSE_RUN,
            error="program_missing",
            message=self._explain("program_missing", said),
            finish_reason="run",
        )

    def note(self, said: str) -> str:
        """A line about a run that went well."""
        return self._explain("", said)

    def _explain(self, error: str, said: str) -> str:
        return self._explainer.explain(error, said)


def _sum(counts: Iterable[int | None]) -> int | None:
    found = list(counts)
    return None if None in found else sum(count for count in found if count is not None)


def _last(run: Run, printed: str) -> str:
    """The last line that speaks of an error, or else the last line: mostly it says why."""
    words = (run.last_words.decode("utf-8", "replace").strip() or printed.strip()).splitlines()
    if not words:
        return "It said nothing."
    said = next((line for line in reversed(words) if "error" in line.lower()), words[-1])
    return f"Its last words: {said.strip()[:300]}"
