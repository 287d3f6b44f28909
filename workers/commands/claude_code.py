"""Claude Code (`@anthropic-ai/claude-code` 2.x): `claude -p --output-format json` prints one object at its end.

`usage` in it sums the requests of the main conversation; `modelUsage` sums all of them, those of sub-agents too, so
it is what counts where it is there. `total_cost_usd` is made up for models that Claude Code does not know: a note.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from analysis.usage import usage_from_raw
from workers.commands.base import Address, Client, Report, ReportInvalid, Turn, known, last_object, text_of

# Its own default is ten, which takes minutes and makes a wrong key look like a program that hangs.
_RETRIES = "3"
_MODELS = ("ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL")
_NOTES = ("total_cost_usd", "num_turns", "modelUsage", "session_id")
_NAMES = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
    "cacheCreationInputTokens": "cache_creation_input_tokens",
}


class ClaudeCode(Client):
    """Calls `/v1/messages` below a base URL without `/v1`."""

    name: ClassVar[str] = "claude-code"
    program: ClassVar[Sequence[str]] = ("claude",)
    settings_file: ClassVar[str] = ".claude/settings.json"

    def base_url(self, url: str) -> str:
        return url.rstrip("/").removesuffix("/v1")

    def gateway_model(self, model: str) -> str:
        # A mark like `[1m]` is Claude Code's own.
        return model.partition("[")[0]

    def arguments(self, address: Address, more: Sequence[str]) -> Sequence[str]:
        return ("-p", "--output-format", "json", *more)

    def variables(self, address: Address) -> Mapping[str, str]:
        # Settings of the user's own may take the key from the variable that it has in the experiment.
        where = (
            {address.key_variable: address.key}
            if address.base_url is None
            else {"ANTHROPIC_BASE_URL": address.base_url}
        )
        return {
            **where,
            "ANTHROPIC_AUTH_TOKEN": address.key,
            # Whatever it does on the side goes to the same model, whose price is known.
            **dict.fromkeys(_MODELS, address.model),
            "CLAUDE_CODE_MAX_RETRIES": _RETRIES,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def read(self, printed: str) -> Report:
        said = last_object(printed)
        if said.get("type") != "result":
            raise ReportInvalid('it printed no JSON object of type "result"')
        usage = said.get("usage")
        raw = dict(usage) if isinstance(usage, Mapping) else {}
        used = _used(said.get("modelUsage"))
        counted = known(usage_from_raw(_summed(used.values()) or raw))
        answer = text_of(said.get("result"))
        failed = bool(said.get("is_error"))
        status, turns = said.get("api_error_status"), said.get("num_turns")
        return Report(
            answer=None if failed else answer,
            turns=[Turn(usage=counted, raw=raw | {name: said[name] for name in _NOTES if name in said})],
            error=_error(said, answer) if failed else None,
            http_status=status if isinstance(status, int) and 400 <= status <= 599 else None,
            progressed=isinstance(turns, int) and turns > 1,
            response_id=text_of(said.get("session_id")),
            models=frozenset(self.gateway_model(model) for model in used),
        )


def _used(value: object) -> Mapping[str, Mapping[str, Any]]:
    """Model, with its marks -> what it used, of the models that were used at all."""
    given = value if isinstance(value, Mapping) else {}
    return {
        str(model): used
        for model, used in given.items()
        if isinstance(used, Mapping) and any(used.get(name) for name in _NAMES)
    }


def _summed(models: Collection[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What all models used together, under the gateway's names; nothing where one of the numbers is none."""
    if not models:
        return {}
    counts = {ours: [used.get(theirs, 0) for used in models] for theirs, ours in _NAMES.items()}
    if any(not isinstance(count, int) for found in counts.values() for count in found):
        return {}
    return {name: sum(found) for name, found in counts.items()}


def _error(said: Mapping[str, Any], answer: str | None) -> str:
    errors = said.get("errors")
    listed = [text for text in errors if isinstance(text, str)] if isinstance(errors, list) else []
    return answer or "; ".join(listed) or text_of(said.get("subtype")) or "no reason given"
