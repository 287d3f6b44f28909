"""Templates into pages. Every text is escaped, and what it holds of control characters is shown, not sent."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from analysis.safetext import terminal_text

_UNKNOWN = "unknown"
_NOTHING = "–"
"""There is none (yet): nothing that could be known."""
_MOST_TEXT = 100_000
_MOST_JSON = 20_000


def page(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """The page of a template."""
    return HTMLResponse(_TEMPLATES.get_template(template).render(**values), status_code=status)


def address(*parts: str | int, **query: str | int | None) -> str:
    """The path of a page on this server: every part quoted, the query without what is None or empty."""
    # A lone surrogate cannot be quoted; what it stood in is then not found, which harms nobody.
    path = "".join(f"/{quote(str(part), safe='', errors='replace')}" for part in parts)
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return (path or "/") + (f"?{urlencode(given, errors='replace')}" if given else "")


def _shown(value: Any) -> Any:
    """What stands on the page for a value; Jinja escapes it afterwards."""
    if value is None:
        return _UNKNOWN
    return terminal_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _usd(value: float | None) -> str:
    return _UNKNOWN if value is None else f"${value:,.4f}"


def _count(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _moment(value: datetime | None) -> str:
    return _NOTHING if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _as_json(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False, indent=2), _MOST_JSON)


def _cut(value: str, most: int = _MOST_TEXT) -> str:
    """For texts that are no answers, which seldom are so long; answers are cut in the database."""
    return value if len(value) <= most else f"{value[:most]}\n… (cut; {len(value):,} characters in all)"


def _share(part: int, of: int) -> str:
    return f"{100 * part / of:.1f} %" if of else _NOTHING


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("paretoken.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Any] = {
        "usd": _usd, "count": _count, "moment": _moment, "as_json": _as_json, "cut": _cut, "share": _share,
    }  # fmt: skip
    made.filters.update(filters)
    made.globals["address"] = address
    return made


_TEMPLATES = _environment()
