"""`report.html`: one file that opens from disk without a network.

Every text goes through Jinja's escaping, after control characters and those that turn the direction of writing were
made visible; data stand in `<script type="application/json">` with `<`, `>` and `&` escaped. The browser is told to run
nothing but the page's two scripts and to ask for nothing (a content security policy with their hashes).
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from analysis.report.answer import answer
from analysis.report.drawing import Chart
from analysis.report.plain_words import DEFINITIONS, diagnoses, left_out
from analysis.report.rendering import browser_code
from analysis.report.scaling_table import HEADERS, SIMULATED, ScalingRow
from analysis.report.sections import sections
from analysis.safetext import terminal_text
from analysis.study import Study

_FOLDER = files(__name__)


def page(
    study: Study,
    charts: Sequence[Chart],
    *,
    rows: Sequence[ScalingRow],
    notes: Sequence[str],
    warnings: Sequence[str],
    title: str,
    provenance: Mapping[str, str],
    simulated: bool,
) -> str:
    """The whole page.

    Args:
        rows: the scaling table.
        notes, warnings: sentences, as `cautions` gives them.
        title: what the report is about.
        provenance: facts about where the numbers come from, by their name.
    """
    library, own, style = browser_code(), _asset("page.js"), _asset("page.css")
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_visible,
    )
    return environment.from_string(_asset("page.html.j2")).render(
        title=title,
        answer=answer(study, rows),
        simulated=SIMULATED if simulated else "",
        headers=HEADERS,
        rows=[row.texts() for row in rows],
        recommended=[row.recommended for row in rows],
        sections=list(sections(study, charts)),
        notes=notes,
        warnings=warnings,
        diagnoses=list(diagnoses(study)),
        definitions=DEFINITIONS,
        statuses=study.trials.group_by("status").len().sort("status").rows(),
        provenance=provenance,
        left_out=left_out(study),
        style=Markup(style),  # noqa: S704 - our own file
        scripts=[Markup(library), Markup(own)],  # noqa: S704 - our own file, and the charts' library
        policy=_policy(style, library, own),
        json_of=_json,
    )


def _asset(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _visible(value: object) -> object:
    """Control characters and turns of direction as `\\uXXXX`, so that no text can hide what it says."""
    return terminal_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _json(value: Any) -> Markup:
    """JSON for a script element: pure ASCII without a character that could end the element."""
    text = json.dumps(value, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - nothing in it is markup any more


def _policy(style: str, *scripts: str) -> str:
    code = " ".join(map(_hash, scripts))
    nothing_else = "img-src data: blob:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {code}; style-src {_hash(style)}; {nothing_else}"


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
