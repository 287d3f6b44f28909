"""Codex (`@openai/codex` 0.95 and newer): `codex exec --json` prints one event a line.

The usage of `turn.completed` is that of the session so far, so a turn's own is the difference to the one before; cached
tokens are part of the input, reasoning is part of the output.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from analysis.usage import usage_from_raw
from workers.commands.base import Address, Client, Report, ReportInvalid, Turn, known, objects_in, text_of

_PROVIDER = "paretoken"
_KEY = "PARETOKEN_CODEX_KEY"
_SECRECY = (
    # What the model lets run is not to see the key, and a snapshot of the shell would write it into a file.
    'shell_environment_policy.inherit="core"',
    "features.shell_snapshot=false",
)
_STATUS = re.compile(r"\bstatus:? (4\d\d|5\d\d)\b")
_COUNTS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")


class Codex(Client):
    """Calls `/responses` below its base URL; it speaks no other interface since 0.95."""

    name: ClassVar[str] = "codex"
    program: ClassVar[Sequence[str]] = ("codex",)
    settings_file: ClassVar[str] = ".codex/config.toml"

    def arguments(self, address: Address, more: Sequence[str]) -> Sequence[str]:
        settings = [] if address.base_url is None else _provider(address.base_url)
        options = [part for setting in (*settings, *_SECRECY) for part in ("-c", setting)]
        return ("exec", "--json", "--skip-git-repo-check", "-m", address.model, *options, *more, "-")

    def variables(self, address: Address) -> Mapping[str, str]:
        return {address.key_variable if address.base_url is None else _KEY: address.key}

    def read(self, printed: str) -> Report:
        events = objects_in(printed)
        if not any(event.get("type") == "thread.started" for event in events):
            raise ReportInvalid("it printed no event thread.started")
        errors = [text for event in events if (text := _error(event))]
        reached = [event["usage"] for event in events if _has_usage(event)]
        messages = [text for event in events if (text := _message(event)) is not None]
        # Errors that it got over are followed by the end of the turn.
        ended = bool(events) and events[-1].get("type") == "turn.completed"
        error = None if ended else (errors or ["it ended before its turn did"])[-1]
        turns = _turns(reached)
        return Report(
            answer=messages[-1] if messages and error is None else None,
            turns=turns or (Turn(raw=_last_usage(reached)),),
            by_turns=bool(turns),
            error=error,
            http_status=_status(error),
            progressed=any(_is_progress(event) for event in events),
            response_id=next(
                (text_of(event.get("thread_id")) for event in events if "thread_id" in event), None
            ),
        )


def _provider(base_url: str) -> Sequence[str]:
    provider = {"name": _PROVIDER, "base_url": base_url, "env_key": _KEY, "wire_api": "responses"}
    # JSON strings are TOML strings.
    table = ", ".join(f"{name} = {json.dumps(value)}" for name, value in provider.items())
    return (f"model_provider={json.dumps(_PROVIDER)}", f"model_providers.{_PROVIDER}={{{table}}}")


def _has_usage(event: Mapping[str, Any]) -> bool:
    return event.get("type") == "turn.completed" and isinstance(event.get("usage"), Mapping)


def _last_usage(reached: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return reached[-1] if reached else None


def _turns(reached: Sequence[Mapping[str, Any]]) -> Sequence[Turn]:
    """A turn for each sum that was reached; none where one of them cannot be told from it."""
    turns = []
    before: Mapping[str, Any] = {}
    for sums in reached:
        counts = {name: sums[name] for name in _COUNTS if isinstance(sums.get(name), int)}
        own = {name: count - before.get(name, 0) for name, count in counts.items()}
        usage = known(usage_from_raw(_details(own)))
        if usage.total_tokens is None:
            return ()
        turns.append(Turn(usage=usage, raw=sums))
        before = counts
    return turns


def _details(counts: Mapping[str, int]) -> Mapping[str, Any]:
    """Its counts under the names of the responses interface."""
    return {
        "input_tokens": counts.get("input_tokens"),
        "output_tokens": counts.get("output_tokens"),
        "input_tokens_details": {"cached_tokens": counts.get("cached_input_tokens")},
        "output_tokens_details": {"reasoning_tokens": counts.get("reasoning_output_tokens")},
    }


def _is_progress(event: Mapping[str, Any]) -> bool:
    """Whatever the model said, thought or did; a warning of Codex's own is an item too."""
    item = event.get("item")
    return event.get("type") == "item.completed" and isinstance(item, Mapping) and item.get("type") != "error"


def _message(event: Mapping[str, Any]) -> str | None:
    item = event.get("item")
    if event.get("type") != "item.completed" or not isinstance(item, Mapping):
        return None
    return text_of(item.get("text")) if item.get("type") == "agent_message" else None


def _error(event: Mapping[str, Any]) -> str | None:
    if event.get("type") == "error":
        return text_of(event.get("message"))
    error = event.get("error")
    return text_of(error.get("message")) if isinstance(error, Mapping) else None


def _status(error: str | None) -> int | None:
    found = _STATUS.search(error or "")
    return int(found[1]) if found else None
