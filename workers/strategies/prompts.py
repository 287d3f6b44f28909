"""How a task and its files become chat messages.

Templates are filled by literal replacement in one pass: a goal, a file or a reply that happens to hold
`{files}` or a stray brace stays what it is.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Annotated

from pydantic import AfterValidator, Field

from workers.strategies.base import ModelCall, Strategy, TaskView

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
_LEAST_FENCE = 3


def template(*allowed: str, needs: str = "goal") -> AfterValidator:
    """Validator of a prompt parameter: which `{placeholders}` it may hold, and the one that it must hold."""

    def validate(text: str) -> str:
        listing = ", ".join(f"{{{name}}}" for name in allowed)
        for name in _PLACEHOLDER.findall(text):
            if name not in allowed:
                raise ValueError(f"unknown placeholder {{{name}}}; allowed: {listing}")
        if f"{{{needs}}}" not in text:
            raise ValueError(f"the placeholder {{{needs}}} is missing, the model would not see it")
        return text

    return AfterValidator(validate)


TaskPrompt = Annotated[str, template("goal", "files")]
"""A prompt that shows the model the task and nothing else."""


class Prompted(Strategy):
    """Base of the kinds whose every call is one user message made from a template."""

    files_max_chars: int = Field(default=40_000, ge=0)
    """How many characters of the task's files a prompt may hold in all; the rest is cut, and said to be."""

    def fill(self, prompt: str, task: TaskView, **values: str) -> str:
        """The prompt with the task's goal and files, and further values, put in."""
        files = files_text(task.files, self.files_max_chars)
        return fill(prompt, {"goal": task.goal, "files": files, **values})

    def draw(self, prompt: str, task: TaskView, count: int) -> Sequence[ModelCall]:
        """Round 1 as so many independent samples of one prompt."""
        text = self.fill(prompt, task)
        return [self.ask(text, stage=1, sample=sample) for sample in range(1, count + 1)]

    def ask(
        self, text: str, *, stage: int, sample: int, model: str = "", temperature: float | None = None
    ) -> ModelCall:
        """One call with this text as its user message; model and temperature are the strategy's unless given."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return ModelCall(
            round=stage,
            sample=sample,
            messages=[*system, {"role": "user", "content": text}],
            model=model or self.model,
            max_tokens=self.max_tokens,
            temperature=self.temperature if temperature is None else temperature,
        )


def fill(prompt: str, values: Mapping[str, str]) -> str:
    """Put the values in for the placeholders. An empty value also takes the blank line after it away."""
    for name, value in values.items():
        if not value:
            prompt = prompt.replace(f"{{{name}}}\n\n", "")
    return _PLACEHOLDER.sub(lambda found: values[found[1]], prompt).strip()


def fenced(text: str, language: str = "") -> str:
    """The text in a fenced block that it cannot close itself."""
    fence = "`" * max([_LEAST_FENCE, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def numbered(heading: str, texts: Mapping[int, str]) -> str:
    """Several texts that models wrote, each in a fenced block under the heading and its number."""
    return "\n\n".join(f"{heading} {number}:\n{fenced(text)}" for number, text in texts.items())


def files_text(files: Mapping[str, str], max_chars: int) -> str:
    """Each file in a fenced block under its name, in the task's order, until the budget is used up."""
    parts: list[str] = []
    for name, content in files.items():
        shown = content if len(content) <= max_chars else _whole_lines(content, max_chars)
        max_chars -= len(shown)
        parts.append(_file_text(name, shown, len(content)))
    return "\n\n".join(parts)


def _whole_lines(content: str, max_chars: int) -> str:
    # Half a row would be read as data, so the cut falls at the end of a line.
    return content[: content.rfind("\n", 0, max_chars) + 1]


def _file_text(name: str, shown: str, length: int) -> str:
    heading = f"File `{name}`:"
    cut = f"[`{name}` is cut here: {len(shown):,} of its {length:,} characters are shown]"
    if not shown and length:
        return f"{heading}\n{cut}"
    block = f"{heading}\n{fenced(shown, PurePath(name).suffix[1:])}"
    return block if len(shown) == length else f"{block}\n{cut}"
