"""When a value that was seen is the one that was expected: numbers within a tolerance, all else exactly."""

from typing import Any

from pydantic import Field

from workers.checks.base import Check


class Tolerant(Check):
    """Base of the checks that compare numbers: off by at most max(absolute, relative · |expected|)."""

    abs_tolerance: float = Field(default=1e-9, ge=0, allow_inf_nan=False)
    rel_tolerance: float = Field(default=1e-9, ge=0, allow_inf_nan=False)

    def same(self, expected: Any, seen: Any) -> bool:
        """Equal JSON values. A number is no text and no truth value; 3 and 3.0 are equal."""
        if isinstance(expected, bool | str | None):
            return type(expected) is type(seen) and bool(expected == seen)
        if isinstance(expected, int | float):
            return isinstance(seen, int | float) and not isinstance(seen, bool) and self.close(expected, seen)
        if isinstance(expected, dict):
            return (
                isinstance(seen, dict)
                and expected.keys() == seen.keys()
                and all(self.same(value, seen[key]) for key, value in expected.items())
            )
        return (
            isinstance(seen, list)
            and len(expected) == len(seen)
            and all(self.same(one, other) for one, other in zip(expected, seen, strict=True))
        )

    def close(self, expected: float, seen: float) -> bool:
        """Whether two numbers are equal within the tolerance."""
        try:
            return abs(float(seen) - expected) <= max(self.abs_tolerance, self.rel_tolerance * abs(expected))
        except OverflowError:  # a whole number of more than 308 digits
            return False
