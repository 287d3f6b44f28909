"""`report.html` in a browser: readable, self-contained, harmless, and its numbers are those of the CSV files."""

import csv
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import Browser

from analysis.judges import QUALITY
from analysis.options import Options
from analysis.report import Wanted, page, write_report
from analysis.report.charts import charts
from analysis.report.scaling_table import scaling_rows
from analysis.safetext import csv_value
from analysis.study import Study, study
from tests.browser import Tab, Theme, open_tab

# A formula, a script, an escape sequence, NUL, a right-to-left override; a surrogate is where one can be: in the title.
HOSTILE = (
    '=HYPERLINK("http://127.0.0.1:1")</script><script>alert(1)</script><img src=x onerror=alert(2)>'
    "\x1b[31m\0\u202eabc"
)
STRATEGIES = {"baseline": 1, "cot": 2, "sc_k3": 4, HOSTILE: 7, "sc_k10": 20}
"""Name -> how many hundred tokens."""
LONG = "long " * 200_000
"""A line of a megabyte; on one task alone, since frames copy it to each row."""
THEMES: tuple[Theme, ...] = ("light", "dark")
TITLE = "Run \ud800 " + HOSTILE


def trials(tasks: int, strategies: dict[str, int], repeats: int = 1) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Outcomes and calls in which more tokens succeed more often, task by task the same."""
    keys = [(t, s, n, r) for t in range(tasks) for s, n in strategies.items() for r in range(repeats)]
    outcomes = pl.DataFrame(
        {
            "task_id": [f"{'<b>' if t == 0 else 't'}{t}" for t, *_ in keys],
            "strategy": [s for _, s, _, _ in keys],
            "repeat": [r for *_, r in keys],
            "category": [LONG if t == 1 else ("read", HOSTILE)[t % 2] for t, *_ in keys],
            "confirmed_success": [(t * 7 + n * 5 + r * 3) % 20 < 6 + n for t, _, n, r in keys],
            "output": [LONG if t == 1 else HOSTILE for t, *_ in keys],
        }
    )
    calls = outcomes.select("task_id", "strategy", "repeat").with_columns(
        input_tokens=pl.Series([100 * n + t for t, _, n, _ in keys]),
        output_tokens=pl.Series([10 * n for _, _, n, _ in keys]),
        cost_usd=pl.Series([1e-4 * n * (1 + t % 5) for t, _, n, _ in keys]),
    )
    return outcomes, calls


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    outcomes, calls = trials(30, STRATEGIES, repeats=2)
    judges = pl.DataFrame([(HOSTILE, 20, 40, 20, 3, 1, 0, 0.31, 0.6)], schema=QUALITY, orient="row")
    write_report(
        out,
        outcomes=outcomes,
        calls=calls,
        judges=judges,
        options=Options(bootstrap=100),
        wanted=Wanted(title=TITLE, provenance={"Models": HOSTILE, "Code": "x"}, parquet=True, simulated=True),
    )
    return out


def opened(browser: Browser, file: Path, width: int, theme: Theme) -> Tab:
    """The report in a tab, its charts drawn."""
    shown = open_tab(browser, width=width, theme=theme)
    shown.page.on("dialog", lambda dialog: shown.errors.append(f"a dialog: {dialog.message}"))
    shown.page.goto(file.as_uri())
    shown.page.wait_for_selector("html[data-drawn]", state="attached")
    return shown


# Two tabs for all tests, since drawing takes a second: in `phone` nothing is clicked, which would move the keyboard's
# place.


@pytest.fixture(scope="module")
def phone(browser: Browser, report: Path) -> Tab:
    return opened(browser, report / "report.html", 390, "light")


@pytest.fixture(scope="module")
def desk(browser: Browser, report: Path) -> Tab:
    return opened(browser, report / "report.html", 1440, "dark")


@pytest.mark.parametrize(("device", "width"), [("phone", 390), ("desk", 1440)])
def test_phone_and_desk_light_and_dark(
    request: pytest.FixtureRequest, report: Path, device: str, width: int
) -> None:
    shown: Tab = request.getfixturevalue(device)
    shown.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for theme in THEMES:
        shown.page.emulate_media(color_scheme=theme)
        assert shown.errors == []
        assert shown.requests == [(report / "report.html").as_uri()]
        assert shown.overhang() == 0
        assert shown.clipped() == []
        drawn = shown.page.evaluate("[...document.querySelectorAll('.chart svg')].map(s => s.clientWidth)")
        assert len(drawn) == 10
        assert max(drawn) < width
        background = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") == (theme == "light")
        for title in shown.page.locator(".chart svg .role-axis-title text").all_text_contents():
            assert title.strip()


def test_the_numbers_are_those_of_the_csv_files(desk: Tab, report: Path) -> None:
    tables = desk.page.evaluate(
        """() => [...document.querySelectorAll("table[data-csv]")].map(table => ({
             name: table.dataset.csv,
             columns: [...table.querySelectorAll("[data-column]")].map(e => e.dataset.column),
             rows: [...table.querySelectorAll("tbody tr")].map(row => [...row.children].map(e => e.textContent)),
           }))"""
    )
    assert len({table["name"] for table in tables}) == 16
    for table in tables:
        rows = stored(report, table["name"])
        if table["name"] == "cost_split":
            rows = [row for row in rows if row["split"] == table["rows"][0][1]]
        assert len(table["rows"]) == len(rows)
        for cells, row in zip(table["rows"], rows, strict=True):
            for column, cell in zip(table["columns"], cells, strict=True):
                assert agrees(cell, row[column]), (table["name"], column, cell, row[column])


def stored(report: Path, name: str) -> list[dict[str, str]]:
    with (report / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        csv.field_size_limit(2**24)
        return list(csv.DictReader(file))


def agrees(shown: str, cell: str) -> bool:
    """Whether a cell of the page is a cell of the CSV file, rounded to the places that are shown."""
    if shown in ("–", "open", "yes", "no"):
        return cell in {"–": ("",), "open": ("inf", "-inf"), "yes": ("true",), "no": ("false",)}[shown]
    percent = shown.endswith(" %")
    plain = shown.removesuffix(" %").replace(",", "")
    if not re.fullmatch(r"[+-]?[\d.]+(e[+-]\d+)?", plain):
        text = re.sub("[\x00-\x1f\u202e]", lambda found: f"\\u{ord(found.group()):04x}", csv_value(cell))
        return shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))
    number = Decimal(plain)
    half = Decimal(5).scaleb(int(number.as_tuple().exponent) - 1)
    return abs(number - Decimal(cell) * (100 if percent else 1)) <= half + Decimal("1e-9")


def test_the_charts_are_drawn_from_the_csv_files(report: Path) -> None:
    text = (report / "report.html").read_text(encoding="utf-8")
    specs = dict(re.findall(r'<script type="application/json" data-spec="(\w+)">(.*?)</script>', text))
    keys = {
        "elo_tokens": ("elo_per_token", ("strategy",), ("elo", "avg_total_tokens")),
        "cost_success": ("pareto", ("strategy",), ("cost_usd", "success_rate")),
        "win_shares": ("win_shares", ("strategy", "opponent"), ("win_share",)),
        "tokens_by_use": ("cost_split", ("strategy", "split", "part"), ("tokens", "share_of_tokens")),
    }
    for chart, (table, key, values) in keys.items():
        rows = {
            tuple(row[k] for k in key): row for row in stored(report, table) if "HYPERLINK" not in str(row)
        }
        drawn = [row for row in values_of(json.loads(specs[chart])) if all(k in row for k in (*key, *values))]
        found = [row for row in drawn if "HYPERLINK" not in str(row)]
        assert found
        for row in found:
            expected = rows[tuple(row[k] for k in key)]
            assert [row[v] for v in values] == pytest.approx([float(expected[v]) for v in values])


def values_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """All rows of inline data in a specification."""
    sets = [*spec.get("datasets", {}).values(), spec.get("data", {}).get("values", [])]
    return [row for rows in sets for row in rows]


def test_it_can_be_read_by_ear_and_by_keyboard(phone: Tab) -> None:
    page = phone.page
    assert (
        page.locator("html[lang=en]").count()
        == page.locator("h1").count()
        == page.locator("main").count()
        == 1
    )
    assert page.locator("th:not([scope])").count() == 0
    assert page.locator("table:not(:has(caption))").count() == 0
    assert page.locator("figure:not(:has(figcaption))").count() == 0
    assert page.locator(".box:not([aria-label])").count() == 0
    # Each chart has its words, and its section a table.
    assert all(text.strip() for text in page.locator("figure p.spoken").all_text_contents())
    assert page.locator("section:has(figure):not(:has(table[data-csv]))").count() == 0
    page.keyboard.press("Tab")
    focused = page.locator(":focus")
    assert focused.text_content() == "Skip to the answer"
    box = focused.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    targets = page.eval_on_selector_all("nav a", "links => links.map(a => a.getAttribute('href'))")
    assert all(page.locator(target).count() == 1 for target in targets)


def test_charts_can_be_saved_and_hovered(desk: Tab, tmp_path: Path) -> None:
    figure = desk.page.locator("[data-figure=cost_success]")
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG")):
        with desk.page.expect_download() as download:
            figure.locator(f"[data-save={kind}]").click()
        assert download.value.suggested_filename == f"cost_success.{kind}"
        download.value.save_as(tmp_path / kind)
        assert (tmp_path / kind).read_bytes().startswith(start)
    figure.locator(".mark-symbol path").first.hover()
    assert "baseline" in (desk.page.locator(".tip").text_content() or "")
    assert desk.errors == []
    assert len(desk.requests) == 1


def test_every_chart_is_a_file(report: Path) -> None:
    names = {path.stem for path in (report / "charts").iterdir()}
    assert len(names) == 10
    for name in names:
        assert (report / "charts" / f"{name}.svg").read_text().startswith("<svg")
        assert (report / "charts" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<script" not in (report / "charts" / f"{name}.svg").read_text()


def test_hostile_text_is_harmless_and_can_be_read_back(report: Path) -> None:
    text = (report / "report.html").read_text(encoding="utf-8")
    markup = re.sub("<script>.*?</script>", "", text, flags=re.DOTALL)
    # Only the page's own elements: two scripts that run, and the data of ten charts.
    assert len(re.findall("<script>", text)) == 2
    assert len(re.findall("<script type=", text)) == 10
    assert "<img" not in markup
    assert "\0" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "Run \\ud800" in text
    assert "0 of 300 trials without an answer; of the others 0 of unknown tokens" in text
    for name in ("elo_table", "categories", "dearest", "judges"):
        for row in stored(report, name):
            assert not any(cell.startswith(("=", "+", "@")) for cell in row.values())
    assert {csv_value(row["strategy"]) for row in stored(report, "elo_table")} == set(STRATEGIES)
    assert {csv_value(row["category"]) for row in stored(report, "categories")} == {"read", LONG, HOSTILE}
    assert set(pl.read_parquet(report / "elo_table.parquet")["strategy"]) == set(STRATEGIES)
    results = json.loads((report / "arena_results.json").read_text(encoding="utf-8"))
    assert {row["output"] for row in results} == {LONG, HOSTILE}
    for name in ("scaling_table.md", "arena_table.md"):
        markdown = (report / name).read_text(encoding="utf-8")
        assert not re.search(r"(?<!\\)<|\x1b|\0|\u202e", markdown)


SMALL = {"no trial": (0, {}), "one strategy": (3, {"a": 1}), "one task": (1, {"a": 1, "b": 2})}


@pytest.mark.parametrize("case", SMALL)
def test_the_least_that_can_be_analysed_still_has_a_page(case: str) -> None:
    tasks, strategies = SMALL[case]
    outcomes, calls = trials(tasks, strategies)
    outcomes = outcomes.with_columns(pl.col("task_id", "strategy").cast(pl.String))
    found = study(outcomes=outcomes, calls=calls, options=Options(bootstrap=10))
    text = page.page(
        found,
        charts(found),
        rows=scaling_rows(found),
        notes=(),
        warnings=(),
        title=case,
        provenance={},
        simulated=False,
    )
    shown = re.sub("<(script|style)[^>]*>.*?</\\1>", "", text, flags=re.DOTALL)
    assert "recommended" in shown or "Use a" in shown
    assert not re.search(r"\b(nan|None|inf)\b", shown)


@pytest.fixture(scope="module")
def large() -> Study:
    outcomes, calls = trials(10_000, {"a": 1, "b": 3, "c": 9})
    return study(outcomes=outcomes, calls=calls, options=Options(bootstrap=20))


def test_ten_thousand_tasks_stay_below_ten_megabytes(large: Study) -> None:
    drawn = charts(large)
    text = page.page(
        large, drawn, rows=(), notes=(), warnings=(), title="Large", provenance={}, simulated=False
    )
    assert len(text.encode()) < 2_000_000
    assert max(len(json.dumps(chart.spec)) for chart in drawn) < 100_000
