"""Whole texts and files, which a browser keeps and does not open; the run's report and its tables."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from analysis.safetext import csv_value
from db import browse
from db.runs import RUN_ID_PATTERN, find_run
from db.text import encodable, to_database
from paretoken.web.rendering import page

REPORT = "report.html"
MOST_ROWS = 500
"""Rows of a table on its page."""
MOST_CELL = 1_000
"""Characters of a cell on its page."""
# An output may be a cell; the module's own limit is 131,072 characters.
csv.field_size_limit(2**31 - 1)
_SHOWN = (".csv", ".md", ".json", ".jsonl", ".parquet", ".svg", ".png")
# The report has scripts of its own. In a sandbox it is of no site: it reads no cookie and no other page, asks for
# nothing on any network, and may only draw and give its charts to be saved.
_REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


@dataclass(frozen=True, kw_only=True)
class Listed:
    """The files of a run's folder, by name."""

    report: bool
    tables: Sequence[str]
    others: Sequence[str]


def listed(reports: Path, run_id: str) -> Listed:
    """What there is of a run; nothing where its folder is not there."""
    folder = _folder(reports, run_id)
    names = sorted(path.name for path in folder.iterdir() if _plain(path)) if folder is not None else []
    return Listed(
        report=REPORT in names,
        tables=[name for name in names if name.endswith(".csv")],
        others=[name for name in names if name.endswith(_SHOWN) and not name.endswith(".csv")],
    )


def _folder(reports: Path, run_id: str) -> Path | None:
    folder = reports / run_id
    return folder if re.fullmatch(RUN_ID_PATTERN, run_id) and folder.is_dir() else None


def _plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and not path.name.startswith(".")


def _file(request: Request, name: str) -> Path:
    """The file of that name in the folder of the run; only what `listed` names, so no name leads elsewhere."""
    reports: Path = request.app.state.reports
    with request.app.state.pool.connection() as connection:
        run_id: str = find_run(connection, to_database(request.path_params["run_id"]))["run_id"]
    found = listed(reports, run_id)
    if name not in (*found.tables, *found.others, *([REPORT] if found.report else [])):
        raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such file of this run.")
    return reports / run_id / name


def report(request: Request) -> Response:
    """The run's report, as `paretoken report` wrote it."""
    return FileResponse(
        _file(request, REPORT), media_type="text/html", headers={"Content-Security-Policy": _REPORT_POLICY}
    )


def report_file(request: Request) -> Response:
    """A file of the run's folder, to keep."""
    path = _file(request, request.path_params["name"])
    return FileResponse(path, media_type="application/octet-stream", filename=path.name)


def table(request: Request) -> Response:
    """The first rows of a CSV of the run's folder."""
    path = _file(request, request.path_params["name"])
    if path.suffix != ".csv":
        raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such table of this run.")
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = [[_cell(cell) for cell in row] for row in islice(csv.reader(file), MOST_ROWS + 2)]
    return page(
        "table.html",
        run_id=request.path_params["run_id"],
        name=path.name,
        header=rows[0] if rows else [],
        rows=rows[1 : MOST_ROWS + 1],
        most=MOST_ROWS,
        cut=len(rows) > MOST_ROWS + 1,
    )


def _cell(cell: str) -> str:
    # A character is written in six at the most, so ten times as many are enough to know.
    text = csv_value(cell[: 10 * MOST_CELL])
    return text if len(text) <= MOST_CELL else f"{text[:MOST_CELL]}…"


def answer(request: Request) -> Response:
    """A trial's whole answer."""
    where = _where(request, "trial")
    return _whole("answer", where, request, f"answer-{where['trial']}")


def output(request: Request) -> Response:
    """What one call answered, whole."""
    where = _where(request, "job", "attempt", "turn")
    return _whole("output", where, request, f"output-{where['job']}-{where['attempt']}-{where['turn']}")


def _where(request: Request, *names: str) -> dict[str, int | str]:
    given = request.path_params
    return {"run_id": to_database(given["run_id"])} | {name: given[name] for name in names}


def _whole(what: browse.Text, where: dict[str, int | str], request: Request, name: str) -> Response:
    with request.app.state.pool.connection() as connection:
        text = browse.text(connection, what, **where)
    if text is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such text in this run.")
    return as_text(text, name)


def as_text(text: str, name: str) -> Response:
    """A text as a download; `name` is this program's own."""
    return Response(
        encodable(text).encode(),
        media_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.txt"'},
    )


def trial_file(request: Request) -> Response:
    """What an agent wrote in a file of its folder. Its name is the model's, so it is not used."""
    where = _where(request, "trial", "try", "name")
    with request.app.state.pool.connection() as connection:
        content = browse.trial_file(connection, **where | {"name": to_database(str(where["name"]))})
    if content is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "This trial wrote no such file.")
    headers = {"Content-Disposition": f'attachment; filename="file-{where["trial"]}.bin"'}
    return Response(content, media_type="application/octet-stream", headers=headers)
