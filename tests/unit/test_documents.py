"""The documentation says what the code does."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from scheduler import experiment, sections
from scheduler.tasks import TaskLine
from tests.documents import CLI, cli_page

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "experiment.md").read_text()

TABLES: Mapping[str, type[BaseModel]] = {
    "[gateway]": sections.GatewaySection,
    "[model]": sections.ModelSection,
    '[prices."MODEL"]': sections.PriceSection,
    "[limits]": sections.LimitsSection,
    "[budget]": sections.BudgetSection,
    "[retries]": sections.RetriesSection,
    "[analysis]": sections.AnalysisSection,
    "[[strategies]]": sections.StrategySection,
    "[[judges]]": sections.JudgeSection,
    "[ranking]": sections.RankingSection,
    "The task file": TaskLine,
}
SECTIONS = {
    "gateway",
    "model",
    "prices",
    "limits",
    "budget",
    "retries",
    "analysis",
    "strategies",
    "judges",
    "ranking",
}


def documented(heading: str) -> dict[str, Any]:
    """Key -> default of the table under a heading; `required` and None (may be left out) as they are."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", section, re.MULTILINE)
    return {key: default(text) for key, text in rows}


def default(text: str) -> Any:
    if text == "–":
        return None
    return text if text == "required" else tomllib.loads(f"x = {text.strip('`')}")["x"]


def modelled(model: type[BaseModel]) -> dict[str, Any]:
    return {
        key: "required" if field.is_required() else field.default for key, field in model.model_fields.items()
    }


@pytest.mark.parametrize("heading", TABLES)
def test_every_key_of_a_table_is_documented_with_its_default(heading: str) -> None:
    assert documented(heading) == modelled(TABLES[heading])


def test_every_key_at_the_top_is_documented_and_every_table_has_its_heading() -> None:
    fields = modelled(sections.Experiment)
    assert documented("Top level") == {key: value for key, value in fields.items() if key not in SECTIONS}
    headings = {re.sub(r'[\[\]]|\."MODEL"', "", heading) for heading in TABLES} - {"The task file"}
    assert headings == SECTIONS == fields.keys() - documented("Top level").keys()


def test_what_may_change_in_a_run_is_documented() -> None:
    paragraph = PAGE.split("## What may change in a run that has begun")[1]
    named = set(re.findall(r"`\[?(\w+)\]?`", paragraph)) - {"run_id"}
    assert named == {*experiment.ADJUSTABLE, *experiment.ADJUSTABLE_GATEWAY}


def test_the_page_of_commands_is_what_help_says() -> None:
    assert CLI.read_text() == cli_page(), "Write it anew: python -m tests.documents"


@pytest.mark.parametrize(
    "page", sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]), ids=lambda p: p.name
)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert broken == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
