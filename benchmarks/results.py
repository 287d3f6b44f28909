"""What a benchmark found: tables of rows, as JSON or Markdown, with the command and the commit they come from."""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Tables = Mapping[str, Sequence[Row]]
"""Title -> rows, all with the same keys; units stand in the keys."""


def main(
    doc: str | None,
    add_options: Callable[[argparse.ArgumentParser], None],
    measure: Callable[[argparse.Namespace], Tables],
) -> None:
    """The command line of a benchmark."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    add_options(parser)
    options = parser.parse_args()
    # What was started is ended, also when somebody ends this.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found = document(measure(options))
    print(json.dumps(found, indent=2) if options.json else markdown(found))


def document(tables: Tables) -> Row:
    """The tables with what they were measured on."""
    name = Path(sys.argv[0]).stem
    words = [word for word in sys.argv[1:] if word != "--json"]
    return {
        "command": " ".join(["python -m", f"benchmarks.{name}", *words]),
        "commit": commit(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[2], 2),
        "tables": tables,
    }


def commit() -> str:
    """The checkout's commit, with a plus where files were changed since."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        found = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip() + ("+" if changed.stdout else "")


def markdown(found: Mapping[str, Any]) -> str:
    """The tables as they stand in docs/performance.md."""
    lines = [f"`{found['command']}` at {found['commit']}, {found['cores']} cores"]
    for title, rows in found["tables"].items():
        lines += ["", f"**{title}**", ""]
        if not rows:
            continue
        heads = list(rows[0])
        lines.append("| " + " | ".join(head.replace("_", " ") for head in heads) + " |")
        lines.append("|" + "|".join("---" if isinstance(rows[0][h], str) else "---:" for h in heads) + "|")
        lines += ["| " + " | ".join(_cell(row[head]) for head in heads) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        case int():
            return f"{value:,}"
    return str(value).replace("|", "\\|")


def ratio(value: float | None, reference: float | None) -> float | None:
    """Rounded; None where one is missing."""
    return round(value / reference, 3) if value is not None and reference else None
