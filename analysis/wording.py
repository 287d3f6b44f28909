"""Numbers in sentences."""


def counted(number: int, noun: str) -> str:
    """`1 task`, `0 tasks`, `1,200 tasks`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
