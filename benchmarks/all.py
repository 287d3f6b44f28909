"""Every benchmark of docs/performance.md at full size, one after another: about three quarters of an hour.

    python -m benchmarks.all --out results.json
    python -m benchmarks.all --out results.json --only reading start

Prints the tables as Markdown. What was measured so far is in the file after each of them, so that an interrupted one
loses little; `--only` replaces results in a file that is there.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.results import markdown
from benchmarks.stage import write_json

MILLION = "--tasks 10000 --strategies 10 --samples 10"
FULL = {
    "start": "benchmarks.start --rounds 5 --runs 3",
    "overhead": "benchmarks.overhead --calls 5000 --rounds 3",
    "overhead_log_normal": "benchmarks.overhead --calls 5000 --rounds 3 --sigma 0.8 --workers 1 --loops plain fast",
    "in_flight": "benchmarks.in_flight --calls 1000 --latency-s 10",
    "planning": f"benchmarks.planning {MILLION} --through 200000",
    "reading": f"benchmarks.reading {MILLION}",
    "growth": "benchmarks.growth --calls 2000 --workers 1 2 4 --planned 1000 10000 100000 1000000",
    "alternatives": "benchmarks.alternatives --calls 2000 --rounds 3 --install",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON file of all results")
    parser.add_argument("--only", nargs="+", choices=FULL, default=list(FULL))
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    failed = []
    for name in options.only:
        began = time.monotonic()
        print(f"{name} …", end=" ", file=sys.stderr, flush=True)
        done = subprocess.run(
            [sys.executable, "-m", *FULL[name].split(), "--json"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        if done.returncode:
            failed.append(name)
            continue
        results[name] = json.loads(done.stdout)
        write_json(options.out, results)
    for name, found in results.items():
        print(f"## {name.replace('_', ' ')}\n\n{markdown(found)}\n")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
