"""Which files a report consists of, so that the next one in the same folder leaves none of them behind.

`report_files.json` names them. It is read as text from outside: only plain names of the kinds that a report writes, in
its folder or in `charts/`, are ever removed, whatever it says.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from analysis.report.files import write_chunks

NAME = "report_files.json"
_OURS = re.compile(r"report\.html|\w+\.(csv|parquet)|charts/\w+\.(svg|png)", re.ASCII)


def renew(out: Path, files: Iterable[Path]) -> Path:
    """Remove what the former report in `out` wrote and this one did not, and name this one's `files`."""
    names = sorted(path.relative_to(out).as_posix() for path in files)
    charts = out / "charts"
    for name in _former(out / NAME) - set(names):
        elsewhere = name.startswith("charts/") and charts.is_symlink()
        if _OURS.fullmatch(name) and not elsewhere and (out / name).is_file():
            (out / name).unlink(missing_ok=True)
    if charts.is_dir() and not charts.is_symlink() and not any(charts.iterdir()):
        charts.rmdir()
    return write_chunks(out / NAME, [json.dumps({"files": [*names, NAME]}, indent=2) + "\n"])


def _former(path: Path) -> set[str]:
    """The names in the list; none where there is no list, or one that cannot be read."""
    try:
        names = json.loads(path.read_text(encoding="utf-8"))["files"]
        return {name for name in names if isinstance(name, str)}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return set()
