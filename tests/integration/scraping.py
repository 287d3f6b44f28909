"""What a process of a crew serves as its metrics."""

import re
import time
from urllib.request import urlopen

from paretoken.processes import Crew


def scrape(crew: Crew, name: str) -> str:
    """The text; the port is the one that its log names."""
    while not (found := re.search(r"http://\S+/metrics", (crew.logs / f"{name}.log").read_text())):
        crew.require_alive()
        time.sleep(0.05)
    with urlopen(found.group()) as answer:
        return str(answer.read().decode())
