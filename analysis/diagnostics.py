"""How healthy a ranking is, in numbers: what `diagnostics.json` holds."""

from typing import Any

import numpy as np

from analysis.arrays import Bools, Floats
from analysis.bradley_terry import ELO_PER_THETA, win_matrix
from analysis.ranking import Ranking
from analysis.ranks import Standing


def diagnostics(ranking: Ranking, standing: Standing | None) -> dict[str, Any]:
    """JSON types only; None is unknown. `docs/outputs.md` says what each key means."""
    fitted = ranking.fitted
    return {
        "tasks": ranking.n_tasks,
        "decisive_tasks": ranking.weighed.n_decisive_tasks,
        "effective_tasks": effective_tasks(ranking),
        "comparisons": float(ranking.cells.total.sum()),
        "tie_share": ranking.cells.tie_share,
        "tie_strength": fitted.tie_strength,
        "cycle_share": cycle_share(win_matrix(ranking.weighed)),
        "never_lost": _named(ranking, ranking.open_above),
        "never_won": _named(ranking, ranking.open_below),
        "left_out": list(ranking.left_out),
        "se_ratio": se_ratio(ranking),
        "standard_errors": "plain" if ranking.options.standard_errors == "plain" else _method(ranking),
        "most_influential_task": most_influential_task(ranking),
        "tiers": None if standing is None else [list(tier) for tier in standing.tiers],
        "converged": fitted.converged,
        "newton_steps": fitted.steps,
        "largest_gradient": fitted.largest_gradient,
    }


def effective_tasks(ranking: Ranking) -> float | None:
    """Kish's number: as many tasks of equal influence would give the same variance of the estimates."""
    if ranking.influence is None:
        return None
    squared = (ranking.influence**2).sum(axis=1)
    return float(squared.sum() ** 2 / (squared**2).sum()) if squared.any() else None


def cycle_share(wins: Floats) -> float | None:
    """Share of the pairwise differences that no order explains (Jiang, Lim, Yao & Ye 2011, Math. Prog.
    127:203).

    The win shares' distances from one half are split into differences of one number per strategy (weighted
    least squares) and the rest, which goes round in circles: 0 for a perfect order, 1 for a perfect cycle.
    Noise adds to it, so a small share means nothing.
    """
    games = wins + wins.T
    first, second = np.nonzero(np.triu(games, 1))
    weight = games[first, second]
    flow = wins[first, second] / weight - 0.5
    total = float((weight * flow**2).sum())
    if total == 0:
        return None
    incidence = np.zeros((len(first), len(wins)))
    incidence[np.arange(len(first)), first] = 1
    incidence[np.arange(len(first)), second] = -1
    root = np.sqrt(weight)
    potential = np.linalg.lstsq(incidence * root[:, None], flow * root, rcond=None)[0]
    rest = flow - incidence @ potential
    return float((weight * rest**2).sum() / total)


def se_ratio(ranking: Ranking) -> float | None:
    """How much larger the standard errors are than if every weighed comparison were independent."""
    if ranking.influence is None:
        return None
    size = len(ranking.strategies)
    centre = np.eye(size) - 1 / size
    plain = np.trace(centre @ ranking.fitted.bread[:size, :size] @ centre) * ELO_PER_THETA**2
    clustered = (
        ranking.n_tasks
        / (ranking.n_tasks - 1)
        * np.trace(centre @ ranking.influence.T @ ranking.influence @ centre)
    )
    return float(np.sqrt(clustered / plain)) if plain > 0 else None


def most_influential_task(ranking: Ranking) -> dict[str, Any] | None:
    """The task without which most pairs of strategies change their order; of several, the one that moves Elo
    most.

    The estimates without a task are approximated by the estimates minus its influence.
    """
    if ranking.influence is None:
        return None
    elo = ranking.elo
    changed = np.zeros(len(ranking.influence), dtype=np.int64)
    for i in range(len(elo)):
        gap = elo[i] - elo
        without = gap - (ranking.influence[:, [i]] - ranking.influence)
        changed += ((gap > 1e-9) & (without < -1e-9)).sum(axis=1)
    moved = np.abs(ranking.influence).max(axis=1)
    task = int(np.lexsort((moved, changed))[-1])
    return {
        "task_id": ranking.cells.tasks[task],
        "pairs_reordered": int(changed[task]),
        "largest_elo_change": float(moved[task]),
    }


def _method(ranking: Ranking) -> str | None:
    if ranking.influence is None:
        return None
    return "jackknife" if ranking.jackknifed else "clustered"


def _named(ranking: Ranking, marked: Bools) -> list[str]:
    return [name for name, yes in zip(ranking.strategies, marked, strict=True) if yes]
