"""The Pareto frontier: strategies that no other beats on price and result at once."""

import numpy as np

from analysis.arrays import Bools, Floats


def on_frontier(price: Floats, result: Floats) -> Bools:
    """(…, S) which points are not dominated; ties are kept, unknown points (NaN) are never on it.

    A point is dominated where another costs no more and achieves no less, and is better in one of the two.
    """
    cheaper = price[..., :, None] <= price[..., None, :]
    better = result[..., :, None] >= result[..., None, :]
    strictly = (price[..., :, None] < price[..., None, :]) | (result[..., :, None] > result[..., None, :])
    dominated = (cheaper & better & strictly).any(axis=-2)
    return np.asarray(~dominated & np.isfinite(price) & np.isfinite(result))


def on_hull(price: Floats, result: Floats) -> Bools:
    """(S,) the frontier points on its upper convex hull: what mixing two strategies at random cannot beat."""
    hull: list[int] = []
    candidates = np.flatnonzero(on_frontier(price, result))
    for index in candidates[np.lexsort((result[candidates], price[candidates]))].tolist():
        while len(hull) > 1 and _below(price, result, hull[-2], hull[-1], index):
            hull.pop()
        hull.append(index)
    chosen = np.zeros(len(price), dtype=np.bool_)
    chosen[hull] = True
    return chosen


def p_on_frontier(price: Floats, result: Floats) -> Floats:
    """(S,) share of the (B, S) resampled results in which each strategy is on the frontier."""
    return np.asarray(on_frontier(price, result).mean(axis=0))


def _below(price: Floats, result: Floats, left: int, middle: int, right: int) -> bool:
    """Whether the middle point lies strictly below the line from left to right."""
    run, rise = price[right] - price[left], result[right] - result[left]
    return bool((result[middle] - result[left]) * run < rise * (price[middle] - price[left]))
