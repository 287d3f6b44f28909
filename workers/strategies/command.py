"""An external agent: a program that works on the task in a folder of its own and calls the gateway itself."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from workers.commands import CLIENTS
from workers.strategies.base import Answer, Ended, ModelCall, Reply, Strategy, TaskView
from workers.strategies.prompts import TaskPrompt, fill

PROMPT = """{goal}

{files}"""

_MOST_TOKENS = 1_000_000_000


def _http(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ValueError(
            "must start with http:// or https://, name a host, and hold no user name or password"
        )
    return url


def _inside(files: Mapping[str, str]) -> Mapping[str, str]:
    for name in files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise ValueError(f"{name!r} is no file below HOME")
    return files


class Command(Strategy):
    """One run of a program, which makes as many calls as it likes; they are one job."""

    kind: ClassVar[str] = "command"
    calls_formula: ClassVar[str] = "1 run; its requests are the program's own"

    client: Literal["claude-code", "codex", "generic"]
    """How the program is started, and how its report is read."""
    command: Sequence[str] = ()
    """Program and arguments; no shell reads them. Left out: `claude` or `codex`."""
    arguments: Sequence[str] = ()
    """Further arguments, put behind those that the client needs."""
    base_url: Annotated[str, AfterValidator(_http)] | None = None
    """Where the program finds its interface of the gateway; left out, made from the gateway's base URL."""
    home: Annotated[Mapping[str, str], AfterValidator(_inside)] = {}
    """Files that it finds in its HOME, such as `.codex/config.toml`. In the experiment: a folder."""
    max_total_tokens: int = Field(ge=1, le=_MOST_TOKENS)
    """What is reserved for a run. A trial that uses more has failed."""
    wall_time_s: float = Field(default=600, gt=0, le=86_400)
    """After it the program is stopped."""
    prompt: TaskPrompt = PROMPT

    @model_validator(mode="after")
    def _has_program(self) -> Self:
        if not (self.command or CLIENTS[self.client].program):
            raise ValueError(
                f"client = {self.client!r} needs command, a list of the program and its arguments"
            )
        return self

    @property
    def opening_samples(self) -> int:
        return 1

    def deadline_s(self, timeout_s: float) -> float:
        return self.wall_time_s

    def opening(self, task: TaskView) -> Sequence[ModelCall]:
        listing = "\n".join(["Files in the present folder:", *(f"- {name}" for name in task.files)])
        text = fill(self.prompt, {"goal": task.goal, "files": listing if task.files else ""})
        system = [{"role": "system", "content": self.system}] if self.system else []
        call = ModelCall(
            round=1,
            sample=1,
            messages=[*system, {"role": "user", "content": text}],
            model=self.model,
            max_tokens=self.max_total_tokens,
        )
        return [call]

    def proceed(self, task: TaskView, replies: Sequence[Reply]) -> Answer | Ended:
        [reply] = replies
        used = reply.total_tokens
        if used is not None and used > self.max_total_tokens:
            message = f"{used:,} tokens used, max_total_tokens = {self.max_total_tokens:,}"
            return Ended(reason="tokens", message=message)
        return Answer(text=reply.content)
