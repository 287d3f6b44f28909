"""Any program that reads the prompt from standard input and prints one JSON object: answer and usage.

    {"answer": "42", "usage": {"input_tokens": 900, "output_tokens": 60}}
    {"answer": "42", "turns": [{"usage": {…}, "content": "…"}, {"usage": {…}}]}
    {"error": "the gateway refused the key", "http_status": 401}

`usage` may be in any form that a gateway reports it in: what the gateway said can be passed on as it is, if there was
one request; else it is the program that adds up.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from analysis.usage import usage_from_raw
from workers.commands.base import Address, Client, Report, ReportInvalid, Turn, known, last_object, text_of

_MOST_TURNS = 1000


class Generic(Client):
    """Is told the gateway as the `openai` package reads it."""

    name: ClassVar[str] = "generic"
    program: ClassVar[Sequence[str]] = ()
    settings_file: ClassVar[str] = ""

    def arguments(self, address: Address, more: Sequence[str]) -> Sequence[str]:
        return tuple(more)

    def variables(self, address: Address) -> Mapping[str, str]:
        return {
            "OPENAI_BASE_URL": address.base_url or "",
            "OPENAI_API_KEY": address.key,
            "PARETOKEN_MODEL": address.model,
        }

    def read(self, printed: str) -> Report:
        said = last_object(printed)
        answer, error, status = (
            text_of(said.get("answer")),
            text_of(said.get("error")),
            said.get("http_status"),
        )
        if answer is None and error is None:
            raise ReportInvalid('its JSON object has neither "answer" nor "error" as a text')
        turns = _turns(said.get("turns"))
        return Report(
            answer=answer if error is None else None,
            turns=turns or (_turn(said, notes=("total_cost_usd", "cost_usd")),),
            by_turns=bool(turns),
            error=error,
            http_status=status if isinstance(status, int) and 400 <= status <= 599 else None,
            progressed=True,  # nobody knows its requests but itself
            response_id=text_of(said.get("id")),
        )


def _turns(value: object) -> Sequence[Turn]:
    """The turns, if each of them tells its usage; a sum with a hole in it would be taken for the whole."""
    given = [turn for turn in value if isinstance(turn, Mapping)] if isinstance(value, list) else []
    turns = [_turn(turn) for turn in given[:_MOST_TURNS]]
    complete = len(given) <= _MOST_TURNS and all(turn.usage.total_tokens is not None for turn in turns)
    return turns if complete else ()


def _turn(said: Mapping[str, Any], notes: Sequence[str] = ()) -> Turn:
    usage = said.get("usage")
    raw = dict(usage) if isinstance(usage, Mapping) else {}
    kept = raw | {name: said[name] for name in notes if name in said}
    return Turn(usage=known(usage_from_raw(raw)), raw=kept or None, content=text_of(said.get("content")))
