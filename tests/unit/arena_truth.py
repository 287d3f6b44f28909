"""The right values of the arena's tasks, computed from the CSV files alone.

`truth()` gives for each task what its checks have to ask for: for every check, in order, the parameters
that carry a right value. A check without such parameters (a schema of the answer's form) is an empty dict.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

ARENA = Path(__file__).parents[2] / "examples" / "arena"
MEASURED = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
RANGES = {
    "bill_length_mm": (25, 65),
    "bill_depth_mm": (10, 25),
    "flipper_length_mm": (150, 250),
    "body_mass_g": (2000, 7000),
}
FORM: dict[str, Any] = {}

birds = pl.read_csv(ARENA / "penguins_2009.csv", null_values="NA").with_row_index("row", offset=1)
columns = [name for name in birds.columns if name != "row"]
missing = {name: birds[name].null_count() for name in columns}
species = birds["species"].unique().sort().to_list()
incomplete = birds.filter(pl.any_horizontal(pl.all().is_null()))


def truth() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Task -> the right values of each of its checks."""
    return {**_read(), **_structured(), **_planning(), **_exceptions()}


def _counts(frame: pl.DataFrame, by: str) -> dict[str, int]:
    return dict(frame.group_by(by).len().sort(by).rows())


def _mean_mass(digits: int) -> pl.DataFrame:
    return birds.group_by("species").agg(pl.len(), pl.col("body_mass_g").mean().round(digits)).sort("species")


def _read() -> dict[str, Any]:
    heaviest = birds.filter(pl.col("body_mass_g") == birds["body_mass_g"].max())
    islands = _counts(birds, "island")
    longest = birds.sort("bill_length_mm", descending=True, nulls_last=True).head(3)
    filtered = birds.filter(
        pl.col("species") == "Gentoo",
        pl.col("sex") == "male",
        pl.col("flipper_length_mm") >= 222,
        pl.col("body_mass_g") < 5600,
    )
    return {
        "read-rows": [{"value": birds.height}, {"pattern": rf"\W*{birds.height}\W*"}],
        "read-columns": [{"text": "\n".join(columns)}],
        "read-heaviest": [{"pattern": r"{},\s*{}".format(*heaviest.select("row", "body_mass_g").row(0))}],
        "read-islands": [
            *({"value": count, "label": f"{island}:"} for island, count in islands.items()),
            {"text": "\n".join(f"{island}: {count}" for island, count in islands.items())},
        ],
        "read-longest-bills": [
            {"text": "\n".join(f"{row}, {bill}" for row, bill in longest.select("row", "bill_length_mm").rows())}
        ],
        "read-mean-mass": [{"value": dict(_mean_mass(1).select("species", "body_mass_g").rows())["Chinstrap"]}],
        "read-filter": [
            {"value": filtered.height, "label": "count:"},
            {"text": "rows: " + ", ".join(map(str, filtered["row"]))},
        ],
    }  # fmt: skip


def _structured() -> dict[str, Any]:
    profile = {
        "rows": birds.height,
        "columns": len(columns),
        "duplicate_rows": birds.height - birds.select(columns).unique().height,
        "rows_with_missing": incomplete.height,
        "column_names": columns,
    }
    sexes = birds.with_columns(pl.col("sex").fill_null("unknown"))
    by_species = {
        name: {sex: sexes.filter(species=name, sex=sex).height for sex in ("female", "male", "unknown")}
        for name in species
    }
    heaviest = birds.filter(pl.col("body_mass_g") == pl.col("body_mass_g").max().over("species")).sort(
        "species"
    )
    shown = heaviest.select("species", "row", "body_mass_g", "island").to_dicts()
    lines = [
        "species,count,mean_body_mass_g",
        *(f"{s},{n},{mean:.1f}" for s, n, mean in _mean_mass(1).rows()),
    ]
    return {
        "structured-missing-rates": [
            FORM,
            {"fields": {c: round(n / birds.height, 4) for c, n in missing.items()}},
        ],
        "structured-dictionary": [
            {"pattern": r"(?m)^\| *column *\| *type *\| *missing *\| *description *\|$"},
            *(
                {"pattern": rf"(?m)^\| *`?{c}`? *\| *{_type(c)} *\| *{missing[c]} *\| *\w[^|]*\|$"}
                for c in columns
            ),
        ],
        "structured-profile": [FORM, FORM, {"fields": profile}],
        "structured-csv": [{"text": "\n".join(lines)}],
        "structured-sexes": [FORM, {"fields": by_species}],
        "structured-schema": [{"fields": _row_schema()}, FORM],
        "structured-heaviest": [FORM, FORM, {"fields": {str(i): row for i, row in enumerate(shown)}}],
    }


def _type(column: str) -> str:
    dtype = birds[column].dtype
    return "text" if dtype == pl.String else "integer" if dtype.is_integer() else "number"


def _row_schema() -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for name in columns:
        plain = _type(name).replace("text", "string")
        entries[name] = {"type": [plain, "null"] if missing[name] else plain}
        if plain == "string":
            values = birds[name].drop_nulls().unique().sort().to_list()
            entries[name]["enum"] = values + [None] * bool(missing[name])
    return {"type": "object", "required": columns} | {f"properties.{name}": e for name, e in entries.items()}


def _planning() -> dict[str, Any]:
    minutes = pl.when(pl.col("species") == "Gentoo").then(6).otherwise(4)
    days = (
        birds.group_by((pl.col("row") - 1) // 25, maintain_order=True).agg(minutes.sum())["literal"].to_list()
    )
    sexed = birds.drop_nulls("sex")
    complete = birds.drop_nulls()
    quartiles, outliers = _tukey("bill_length_mm")
    dimorphism = _dimorphism()
    return {
        "plan-sql-table": [
            {"rows": [list(row) for row in _mean_mass(2).rows()]},
            {"rows": [[len(species)]], "result": 1, "columns": ["row_count"]},
            {"rows": [[birds.height]], "result": 2, "columns": ["total"]},
            {"rows": [[0]], "result": 3, "columns": ["differing"]},
        ],
        "plan-outliers": [FORM, {"fields": {"outliers": outliers}}, {"fields": quartiles}],
        "plan-field-days": [FORM, {"fields": {"days": days, "total_minutes": sum(days)}}],
        "plan-split": [
            FORM,
            {
                "fields": {
                    "test": _counts(sexed.filter(pl.col("row") % 5 == 0), "species"),
                    "train": _counts(sexed.filter(pl.col("row") % 5 != 0), "species"),
                    "left_out": birds.filter(pl.col("sex").is_null())["row"].to_list(),
                }
            },
        ],
        "plan-crates": [FORM, {"fields": {"crates": list(_crates("Torgersen", 15_000))}}],
        "plan-dimorphism": [FORM, {"fields": dimorphism}, {"fields": {"gap_g": dimorphism.pop("gap_g")}}],
        "plan-sql-view": [
            {"rows": [[complete.height, complete.height, complete["body_mass_g"].sum(), complete["year"].max()]]},
            {"rows": [list(row) for row in _counts(complete, "island").items()], "columns": ["island", "n"]},
        ],
    }  # fmt: skip


def _tukey(column: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Quartiles by species as check fields, and the rows outside the fences."""
    quartiles: dict[str, Any] = {}
    outliers: list[dict[str, Any]] = []
    for name in species:
        group = birds.filter(pl.col("species") == name).drop_nulls(column)
        q1, q3 = (float(group[column].quantile(p, "linear") or 0) for p in (0.25, 0.75))
        quartiles[f"quartiles.{name}"] = {"q1": round(q1, 3), "q3": round(q3, 3)}
        reach = 1.5 * (q3 - q1)
        outside = group.filter(~pl.col(column).is_between(q1 - reach, q3 + reach))
        outliers += outside.select("row", column).to_dicts()
    return quartiles, sorted(outliers, key=lambda outlier: outlier["row"])


def _crates(island: str, limit_g: int) -> Iterator[dict[str, int]]:
    count = load = 0
    for mass in birds.filter(pl.col("island") == island)["body_mass_g"]:
        if load + mass > limit_g:
            yield {"penguins": count, "load_g": load}
            count = load = 0
        count, load = count + 1, load + mass
    yield {"penguins": count, "load_g": load}


def _dimorphism() -> dict[str, Any]:
    means = birds.drop_nulls("sex").pivot(
        "sex", index="species", values="body_mass_g", aggregate_function="mean"
    )
    gaps = means.with_columns(gap=pl.col("male") - pl.col("female")).sort("gap")
    name, gap = gaps.select("species", "gap").row(-1)
    group = birds.filter(pl.col("species") == name)
    female = group.filter(pl.col("sex") == "female").sort("body_mass_g").select("row", "body_mass_g").row(-1)
    return {
        "species": name,
        "gap_g": round(gap, 1),
        "islands": group["island"].unique().sort().to_list(),
        "heaviest_female_row": female[0],
        "heaviest_female_g": female[1],
    }


def _exceptions() -> dict[str, Any]:
    on_biscoe = birds.filter(pl.col("species") == "Chinstrap", pl.col("island") == "Biscoe")
    heavy = birds.filter(pl.col("body_mass_g") > 5500)
    males, females = (heavy.filter(pl.col("sex") == sex).height for sex in ("male", "female"))
    gaps = {str(row["row"]): [name for name in columns if row[name] is None] for row in incomplete.to_dicts()}
    problems, good = _damage()
    mean = round(sum(good) / len(good), 1)
    column, file = "wing_span_mm", "penguins_2010.csv"
    assert column not in columns
    assert not (ARENA / file).exists()
    assert (on_biscoe.height, females) == (0, 0)
    return {
        "exception-column": [
            FORM,
            {"fields": {"error": "unknown_column", "column": column, "available": columns}},
        ],
        "exception-file": [FORM, {"fields": {"error": "missing_file", "file": file, "rows": birds.height}}],
        "exception-empty": [{"fields": {"count": 0, "mean_flipper_length_mm": None, "reason": "no_rows"}}],
        "exception-missing": [FORM, {"fields": gaps}],
        "exception-ratio": [
            {"fields": {"males": males, "females": females, "ratio": None, "error": "division_by_zero"}}
        ],
        "exception-damage": [FORM, {"fields": {"problems": problems}}],
        "exception-salvage": [
            {"fields": {"used": len(good), "left_out": len(problems)}},
            {"fields": {"mean_body_mass_g": mean}},
        ],
    }


def _damage() -> tuple[list[dict[str, Any]], list[int]]:
    """The bad lines of the damaged file, and the masses of its good ones."""
    header, *lines = (ARENA / "penguins_damaged.csv").read_text().splitlines()
    problems: list[dict[str, Any]] = []
    good: list[int] = []
    for number, line in enumerate(lines, start=2):
        values = dict(zip(header.split(","), line.split(","), strict=False))
        if line.count(",") != header.count(","):
            problem = "field_count"
        elif not all(values[name].lstrip("-").replace(".", "", 1).isdecimal() for name in MEASURED):
            problem = "not_a_number"
        elif not all(low <= float(values[name]) <= high for name, (low, high) in RANGES.items()):
            problem = "out_of_range"
        elif line in lines[: number - 2]:
            problem = "duplicate"
        else:
            good.append(int(values["body_mass_g"]))
            continue
        problems.append({"line": number, "problem": problem})
    return problems, good
