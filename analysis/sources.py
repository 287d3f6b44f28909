"""Tables from other people's files: CSV, JSON Lines or Parquet, with their own column names."""

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from analysis.errors import FrameError, OptionError
from analysis.safetext import csv_value

_ALIASES = {"success": "confirmed_success"}
_KEYS = ("task_id", "strategy", "winner", "loser", "model_a", "model_b")
_LEFT = ("model_a", "left", "a", "1")
_RIGHT = ("model_b", "right", "b", "2")
_TIES = ("draw", "both_bad")


def read_table(path: Path) -> pl.DataFrame:
    """Read `.csv`, `.jsonl` (`.ndjson`) or `.parquet`, the first two also with `.gz`.

    Raises:
        FrameError: the file is missing, unreadable, or of another kind.
    """
    if not path.exists():
        raise FrameError(f"{path}: there is no such file.")
    if path.is_dir():
        raise FrameError(f"{path}: is a directory. Name a file in it.")
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if kind not in ("csv", "jsonl", "ndjson", "parquet"):
        raise FrameError(
            f"{path}: not a kind of file that can be read; use .csv, .jsonl or .parquet (or .gz)."
        )
    try:
        if kind == "parquet":
            return pl.read_parquet(path)
        content = (
            gzip.decompress(path.read_bytes()) if path.name.lower().endswith(".gz") else path.read_bytes()
        )
        if kind == "csv":
            return _unescaped(pl.read_csv(content, infer_schema_length=None))
        return pl.read_ndjson(content, infer_schema_length=None) if content.strip() else pl.DataFrame()
    except (OSError, EOFError, pl.exceptions.PolarsError) as error:
        raise FrameError(f"{path}: cannot be read: {str(error).splitlines()[0][:200]}") from None


def column_map(text: str) -> Mapping[str, Sequence[str]]:
    """`task_id=a,strategy=b+c` -> the wanted name and the columns it is joined from.

    Raises:
        OptionError: a part is not of the form `name=column`.
    """
    found: dict[str, Sequence[str]] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, columns = part.partition("=")
        if not equals or not name or not columns:
            raise OptionError(f"columns: {part!r} is not of the form name=column or name=column+column.")
        found[_ALIASES.get(name, name)] = columns.split("+")
    return found


def rename(frame: pl.DataFrame, columns: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """The frame with the mapped columns under their wanted names; parts are joined by ` | `.

    A mapping whose columns this frame does not have is meant for another file and does nothing here.
    """
    here = {name: parts for name, parts in columns.items() if set(parts) <= set(frame.columns)}
    aliases = {
        a: [b] for b, a in _ALIASES.items() if b in frame.columns and a not in frame.columns and a not in here
    }
    made = [
        pl.col(parts[0]).alias(name)
        if len(parts) == 1
        else pl.concat_str(list(parts), separator=" | ").alias(name)
        for name, parts in {**aliases, **here}.items()
    ]
    return frame.with_columns(made)


def refuse_unused(columns: Mapping[str, Sequence[str]], frames: Sequence[pl.DataFrame]) -> None:
    """Raises `OptionError` for a mapping that fits none of the files."""
    for name, parts in columns.items():
        if not any(set(parts) <= set(frame.columns) for frame in frames):
            raise OptionError(f"columns: no file has {' and '.join(parts)} (wanted for {name}).")


def number_repeats(frames: Sequence[pl.DataFrame | None]) -> list[pl.DataFrame | None]:
    """The frames with `repeat` as a number; labels such as `run1` are numbered alike in all of them."""
    labels: set[str] = set()
    for frame in frames:
        if frame is not None and "repeat" in frame.columns and frame["repeat"].dtype == pl.String:
            labels |= set(frame["repeat"].drop_nulls().unique())
    if not labels:
        return list(frames)
    number = {label: place for place, label in enumerate(sorted(labels, key=lambda x: (len(x), x)), start=1)}
    return [
        frame
        if frame is None or "repeat" not in frame.columns
        else frame.with_columns(
            pl.col("repeat").cast(pl.String).replace_strict(number, default=None, return_dtype=pl.Int64)
        )
        for frame in frames
    ]


def arena_comparisons(frame: pl.DataFrame) -> pl.DataFrame:
    """`model_a, model_b, winner` (the arena's format) as `winner, loser, tie`; other frames as they are.

    Raises:
        FrameError: `winner` holds something else than which side won, or a tie.
    """
    if not {"model_a", "model_b", "winner"} <= set(frame.columns):
        return frame
    side = pl.col("winner").cast(pl.String).str.to_lowercase()
    tie = side.str.starts_with("tie") | side.is_in(_TIES)
    wrong = frame.with_row_index("row", offset=1).filter(
        ~(tie | side.is_in(_LEFT + _RIGHT)).fill_null(value=False)
    )
    if wrong.height:
        raise FrameError(
            f"comparisons: row {wrong['row'][0]}: winner is {wrong['winner'][0]!r}; "
            "allowed are model_a, model_b and tie."
        )
    right = side.is_in(_RIGHT)
    return frame.with_columns(
        winner=pl.when(right).then("model_b").otherwise("model_a"),
        loser=pl.when(right).then("model_a").otherwise("model_b"),
        tie=tie,
    )


def is_arena_label(winner: str) -> bool:
    """Whether the arena's format knows this word for who has won."""
    label = winner.lower()
    return label.startswith("tie") or label in (*_LEFT, *_RIGHT, *_TIES)


def ranking_comparisons(rankings: pl.DataFrame) -> pl.DataFrame:
    """Rankings as comparisons of all their pairs, each with the number of items that were ranked.

    Args:
        rankings: `task_id, strategy`, and `rank` (1 is best) or `score` (high is good); `repeat` tells
            several rankings of one task apart.

    Raises:
        FrameError: a column is missing, or a ranking holds a strategy twice.
    """
    ranked = ranking_scores(rankings)
    key = ["task_id", "repeat"]
    sized = ranked.with_columns(items=pl.len().over(key).cast(pl.Float64))
    pairs = sized.join(sized, on=key, suffix="_right").filter(pl.col("strategy") < pl.col("strategy_right"))
    lower = pl.col("score") < pl.col("score_right")
    return pairs.select(
        "task_id",
        "repeat",
        winner=pl.when(lower).then("strategy_right").otherwise("strategy"),
        loser=pl.when(lower).then("strategy").otherwise("strategy_right"),
        tie=pl.col("score") == pl.col("score_right"),
        items="items",
    )


def ranking_scores(rankings: pl.DataFrame) -> pl.DataFrame:
    """`task_id, repeat, strategy, score` of rankings, where a higher score is better."""
    missing = [name for name in ("task_id", "strategy") if name not in rankings.columns]
    if missing or not {"rank", "score"} & set(rankings.columns):
        wanted = ", ".join(missing) or "rank"
        raise FrameError(f"rankings: no column {wanted} (there are: {', '.join(rankings.columns)}).")
    value = (
        -pl.col("rank").cast(pl.Float64) if "rank" in rankings.columns else pl.col("score").cast(pl.Float64)
    )
    repeat = pl.col("repeat") if "repeat" in rankings.columns else pl.lit(1)
    scores = rankings.select(pl.col("task_id", "strategy").cast(pl.String), repeat=repeat, score=value)
    if scores.select(pl.any_horizontal(pl.all().null_count() > 0)).item():
        raise FrameError("rankings: a cell of task_id, strategy or rank is empty.")
    twice = scores.filter(
        scores.select(pl.struct("task_id", "repeat", "strategy").is_duplicated()).to_series()
    )
    if twice.height:
        raise FrameError(
            f"rankings: {twice['strategy'][0]!r} stands twice in a ranking of {twice['task_id'][0]!r}."
        )
    return scores


def with_prices(calls: pl.DataFrame, prices: pl.DataFrame) -> pl.DataFrame:
    """Calls (see `frames.CALLS`) with `cost_usd` from prices per model; other models keep what they had.

    Args:
        calls: as `frames.calls_frame` gives it.
        prices: `model, input_usd_per_1m, output_usd_per_1m`, optionally `cached_input_usd_per_1m`; names may
            end in `_tokens`. The arithmetic is that of `prices.cost_usd`.
    """
    named = prices.rename({name: name.removesuffix("_tokens") for name in prices.columns})
    missing = [n for n in ("model", "input_usd_per_1m", "output_usd_per_1m") if n not in named.columns]
    if missing:
        raise FrameError(f"prices: no column {', '.join(missing)} (there are: {', '.join(prices.columns)}).")
    given = pl.col("input_usd_per_1m").cast(pl.Float64)
    cached_price = (
        pl.col("cached_input_usd_per_1m") if "cached_input_usd_per_1m" in named.columns else pl.lit(None)
    )
    table = named.select(
        pl.col("model").cast(pl.String),
        given=given,
        cached=cached_price.cast(pl.Float64).fill_null(given),
        taken=pl.col("output_usd_per_1m").cast(pl.Float64),
    )
    if table["model"].is_duplicated().any():
        raise FrameError("prices: a model stands there twice.")
    cached_tokens = pl.col("cached_input_tokens").fill_null(0)
    micro_usd = (
        (pl.col("input_tokens") - cached_tokens) * pl.col("given")
        + cached_tokens * pl.col("cached")
        + pl.col("output_tokens") * pl.col("taken")
    )
    joined = calls.join(table, on="model", how="left", maintain_order="left")
    return joined.with_columns(cost_usd=pl.coalesce(micro_usd / 1e6, "cost_usd")).select(calls.columns)


def _unescaped(frame: pl.DataFrame) -> pl.DataFrame:
    """What our own CSV files escaped, as it was."""
    changed = {}
    for name in _KEYS:
        if name in frame.columns and frame[name].dtype == pl.String:
            values = {
                text: csv_value(text)
                for text in frame[name].unique().drop_nulls()
                if text[:1] == "'" or "\\u" in text
            }
            if values:
                changed[name] = frame[name].replace(values)
    return frame.with_columns(**changed)
