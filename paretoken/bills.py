"""A provider's usage export: a CSV file with one line per day and model, or several."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from decimal import Decimal, InvalidOperation
from pathlib import Path

from paretoken.errors import InputError

COLUMNS = ("date", "model", "requests", "input_tokens", "output_tokens", "cost_usd")
OPTIONAL = "cost_usd"
_OTHER_MARKS = (";", "\t", "|")
_MOST_USD = 10**12


@dataclass(frozen=True, kw_only=True)
class Charge:
    """One line of a bill."""

    day: date
    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    """None where the bill does not say it."""
    rounding_usd: float
    """Half a unit of the last digit that the bill writes."""


def names(text: str, option: str) -> dict[str, str]:
    """`wanted=theirs,…` as a mapping; the last `=` of a part divides it.

    Raises:
        InputError: a part is not of that form.
    """
    found = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        wanted, _, theirs = part.rpartition("=")
        if not wanted or not theirs:
            raise InputError(f"{option}: {part!r} is not of the form name=name. Separate several by commas.")
        found[wanted] = theirs
    return found


def read_bill(
    path: Path, *, columns: Mapping[str, str], models: Mapping[str, str], timezone: tzinfo
) -> list[Charge]:
    """The lines of a bill.

    Args:
        columns: ours -> the file's, for those of `COLUMNS` that are called otherwise there.
        models: the file's -> the ledger's, likewise.
        timezone: whose day a time with an offset of its own falls on.

    Raises:
        InputError: the file cannot be read, lacks a column, or has a line that says something else.
    """
    lines = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
    try:
        header = [cell.strip() for cell in next(lines, [])]
        places = _places(path, header, columns)
        found = []
        for cells in lines:
            if any(cell.strip() for cell in cells):
                _require_width(path, lines.line_num, cells, header)
                found.append(_charge(_Line(path, lines.line_num, cells, places), models, timezone))
        return found
    except csv.Error as error:
        raise InputError(f"{path}:{lines.line_num}: no CSV ({error}). Export the bill again.") from None


def _require_width(path: Path, number: int, cells: Sequence[str], header: Sequence[str]) -> None:
    """A line of another width would be read shifted. Empty cells at the end count nowhere but in what is missing."""
    columns = _filled(header)
    if _filled(cells) > columns or len(cells) < columns:
        raise InputError(
            f"{path}:{number}: {len(cells)} cells under {columns} columns. Quote numbers that hold a comma."
        )


def _filled(cells: Sequence[str]) -> int:
    return max((place for place, cell in enumerate(cells, start=1) if cell.strip()), default=0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}). Name the bill with --bill.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text. Export the bill as CSV in UTF-8.") from None


def _places(path: Path, header: Sequence[str], columns: Mapping[str, str]) -> dict[str, int]:
    strange = [name for name in columns if name not in COLUMNS]
    if strange:
        raise InputError(f"--columns: {strange[0]!r} is none of {', '.join(COLUMNS)}.")
    _require_commas(path, header)
    places = {}
    for name in COLUMNS:
        theirs = columns.get(name, name)
        if header.count(theirs) > 1:
            raise InputError(f"{path}:1: two columns are named {theirs!r}. Rename one.")
        if theirs in header:
            places[name] = header.index(theirs)
        elif name != OPTIONAL or name in columns:
            raise InputError(
                f"{path}:1: no column {theirs!r}; it has {', '.join(header) or 'none'}. "
                f"Say which one it is: --columns {name}=NAME"
            )
    return places


def _require_commas(path: Path, header: Sequence[str]) -> None:
    """Other faults of a first line than a column's name, which `--columns` would not mend."""
    if not any(header):
        raise InputError(f"{path}:1: is blank. The names of the columns stand there: take blank lines out.")
    first = header[0].lower()
    if first.startswith("sep="):
        raise InputError(f"{path}:1: is a line for a spreadsheet. Take it out, and separate cells by ','.")
    other = [mark for mark in _OTHER_MARKS if len(header) == 1 and mark in first]
    if other:
        raise InputError(f"{path}:1: separated by {other[0]!r}. Export the bill with ',' between cells.")


@dataclass(frozen=True)
class _Line:
    path: Path
    number: int
    cells: Sequence[str]
    places: Mapping[str, int]

    def cell(self, name: str) -> str:
        place = self.places.get(name, len(self.cells))
        return self.cells[place].strip() if place < len(self.cells) else ""

    def text(self, name: str) -> str:
        found = self.cell(name)
        if not found:
            raise self.wrong(name, "is empty")
        return found

    def wrong(self, name: str, what: str) -> InputError:
        return InputError(f"{self.path}:{self.number}: {name} {what}. Correct the line, or leave it out.")

    def number_of(self, name: str) -> Decimal:
        text = self.text(name)
        try:
            found = Decimal(text.removeprefix("$"))
        except InvalidOperation:
            raise self.wrong(name, f"is {text[:60]!r}, no number such as 1234 or 0.5") from None
        if not found.is_finite() or found < 0:
            raise self.wrong(name, f"is {text[:60]!r}, not a number from 0 on")
        return found

    def cost(self) -> Decimal:
        found = self.number_of(OPTIONAL)
        if found > _MOST_USD:
            raise self.wrong(OPTIONAL, f"is {self.text(OPTIONAL)[:60]!r}, more than {_MOST_USD:,} USD")
        return found

    def count(self, name: str) -> int:
        found = self.number_of(name)
        if found != found.to_integral_value() or found > 2**62:
            raise self.wrong(name, f"is {self.text(name)[:60]!r}, no whole number")
        return int(found)

    def day(self, timezone: tzinfo) -> date:
        text = self.text("date")
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise self.wrong("date", f"is {text[:60]!r}, no day such as 2026-01-31") from None
        try:
            return found.date() if found.tzinfo is None else found.astimezone(timezone).date()
        except OverflowError:
            raise self.wrong("date", f"is {text[:60]!r}, no day from the year 1 to 9999") from None


def _charge(line: _Line, models: Mapping[str, str], timezone: tzinfo) -> Charge:
    cost = line.cost() if line.cell(OPTIONAL) else None
    model = line.text("model")
    return Charge(
        day=line.day(timezone),
        model=models.get(model, model),
        requests=line.count("requests"),
        input_tokens=line.count("input_tokens"),
        output_tokens=line.count("output_tokens"),
        cost_usd=None if cost is None else float(cost),
        rounding_usd=0.0 if cost is None else _half_a_unit(cost),
    )


def _half_a_unit(cost: Decimal) -> float:
    exponent = cost.as_tuple().exponent
    assert isinstance(exponent, int)
    return 0.5 * 10.0 ** min(exponent, 0)


def read_bills(
    paths: Sequence[Path], *, columns: Mapping[str, str], models: Mapping[str, str], timezone: tzinfo
) -> Iterator[Charge]:
    """The lines of several files, one after the other; see `read_bill`."""
    for path in paths:
        yield from read_bill(path, columns=columns, models=models, timezone=timezone)
