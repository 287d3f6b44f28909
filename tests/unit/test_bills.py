"""A bill as a provider exports it, and what is said of one that cannot be read."""

import sys
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from paretoken.bills import Charge, names, read_bill
from paretoken.cli import main
from paretoken.errors import InputError

HEADER = "date,model,requests,input_tokens,output_tokens,cost_usd\n"


def read(path: Path, text: str, columns: str = "", models: str = "", zone: str = "UTC") -> list[Charge]:
    path.write_text(text)
    return read_bill(
        path,
        columns=names(columns, "--columns"),
        models=names(models, "--models"),
        timezone=ZoneInfo(zone),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bill.csv"


def test_a_line_as_it_is(path: Path) -> None:
    assert read(path, HEADER + "2026-01-31,m,2,300,40,$0.12\n\n") == [
        Charge(day=date(2026, 1, 31), model="m", requests=2, input_tokens=300, output_tokens=40, cost_usd=0.12,
               rounding_usd=0.005)
    ]  # fmt: skip


def test_other_names_other_order_no_cost_and_a_byte_order_mark(path: Path) -> None:
    text = '\ufeffModel, Day ,n,out,in,note\r\n"gpt,x",2026-01-31,1.0,4,3,hello\r\n'
    columns = "date=Day,model=Model,requests=n,input_tokens=in,output_tokens=out"
    [charge] = read(path, text, columns, models="gpt=other")
    assert (charge.model, charge.requests, charge.input_tokens, charge.output_tokens) == ("gpt,x", 1, 3, 4)
    assert charge.cost_usd is None
    [charge] = read(path, HEADER + "2026-01-31,gpt=x,1,3,4,\n", models="gpt=x=m")
    assert (charge.model, charge.cost_usd) == ("m", None)


@pytest.mark.parametrize(
    ("text", "zone", "day"),
    [
        ("2026-01-31", "Asia/Tokyo", 31),
        ("2026-01-31T23:30:00", "Asia/Tokyo", 31),
        # A time with an offset: 23:30 UTC is 08:30 of the next day in Tokyo, and 15:30 of the same in Los Angeles.
        ("2026-01-30T23:30:00Z", "Asia/Tokyo", 31),
        ("2026-01-31T23:30:00+00:00", "America/Los_Angeles", 31),
    ],
)
def test_days(path: Path, text: str, zone: str, day: int) -> None:
    [charge] = read(path, HEADER + f"{text},m,1,1,1,1\n", zone=zone)
    assert charge.day == date(2026, 1, day)


BAD = {
    "no such column": ("date,model\n", ":1: no column 'requests'; it has date, model. Say which one it is"),
    "empty": ("", ":1: is blank. The names of the columns"),
    "a blank line first": ("\n" + HEADER, ":1: is blank."),
    "semicolons": ("date;model;requests;input_tokens;output_tokens\n", ":1: separated by ';'. Export"),
    "tabs": ("date\tmodel\n", ":1: separated by '\\t'. Export"),
    "a line for a spreadsheet": ("sep=,\n" + HEADER, ":1: is a line for a spreadsheet. Take it out"),
    "too early": (
        HEADER + "0001-01-01T00:00:00+14:00,m,1,1,1,1\n",
        ":2: date is '0001-01-01T00:00:00+14:00', no day",
    ),
    "too late": (
        HEADER + "9999-12-31T23:59:59-14:00,m,1,1,1,1\n",
        ":2: date is '9999-12-31T23:59:59-14:00', no day",
    ),
    "a number with a comma": (
        HEADER + "2026-11-29,sim-small,10,14,188,457,0.0024\n",
        ":2: 7 cells under 6 columns. Quote",
    ),
    "more than there is": (
        HEADER + "2026-01-31,m,1,1,1,1e308\n",
        ":2: cost_usd is '1e308', more than 1,000,000,000,000 USD",
    ),
    "two of a name": ("date,date,model\n", ":1: two columns are named 'date'"),
    "a day": (HEADER + "31.1.2026,m,1,1,1,1\n", ":2: date is '31.1.2026', no day such as 2026-01-31"),
    "later line": (HEADER + "2026-01-31,m,1,1,1,1\n2026-01-31,m,x,1,1,1\n", ":3: requests is 'x', no number"),
    "half a request": (HEADER + "2026-01-31,m,1.5,1,1,1\n", ":2: requests is '1.5', no whole number"),
    "negative": (HEADER + "2026-01-31,m,1,-1,1,1\n", ":2: input_tokens is '-1', not a number from 0 on"),
    "not finite": (HEADER + "2026-01-31,m,1,1,1,NaN\n", ":2: cost_usd is 'NaN', not a number"),
    "huge": (HEADER + "2026-01-31,m,1e99,1,1,1\n", ":2: requests is '1e99', no whole number"),
    "missing cell": (HEADER + "2026-01-31,m,1,1\n", ":2: 4 cells under 6 columns. Quote"),
    "no model": (HEADER + "2026-01-31,,1,1,1,1\n", ":2: model is empty"),
    "a quote": (HEADER + '2026-01-31,"m"x,1,1,1,1\n', ":2: no CSV"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_bill_is_told_by_file_and_line(path: Path, case: str) -> None:
    text, complaint = BAD[case]
    with pytest.raises(InputError) as refused:
        read(path, text)
    assert str(refused.value).startswith(f"{path}{complaint}")


def test_empty_cells_at_the_end_shift_nothing(path: Path) -> None:
    [plain] = read(path, HEADER + "2026-01-31,m,1,1,1,1\n")
    assert read(path, HEADER.strip() + ",\n2026-01-31,m,1,1,1,1\n2026-01-31,m,1,1,1,1,,\n") == [plain, plain]


@pytest.mark.parametrize("option", ["--columns", "--models"])
def test_what_is_about_a_bill_needs_one(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["paretoken", "audit", "arena", option, "date=Day"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, f"{option}: is about a bill" in capsys.readouterr().err) == (2, True)


def test_files_and_options_that_cannot_be_used(path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_bill(path, columns={}, models={}, timezone=ZoneInfo("UTC"))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        read_bill(path, columns={}, models={}, timezone=ZoneInfo("UTC"))
    with pytest.raises(InputError, match="'price' is none of date"):
        read(path, HEADER, columns="price=x")
    with pytest.raises(InputError, match=r"'date' is not of the form name=name"):
        names("date", "--columns")
