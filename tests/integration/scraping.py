"""What a process of a crew serves as its metrics."""

import re
import time
from urllib.request import urlopen

from paretoken.processes import Crew


def address(crew: Crew, name: str) -> str:
    """The URL that its log names, as soon as it does."""
    while not (found := re.search(r"http://\S+/metrics", (crew.logs / f"{name}.log").read_text())):
        crew.require_alive()
        time.sleep(0.05)
    return found.group()


def scrape(crew: Crew, name: str) -> str:
    """The text."""
    with urlopen(address(crew, name)) as answer:
        return str(answer.read().decode())
