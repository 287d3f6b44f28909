"""What pages say of tokens and cost where calls have told little or nothing."""

from pathlib import Path

import pytest

from db import browse
from db.connection import Connection
from paretoken.web.rendering import page
from tests.store import planned

# Number in the order of planning -> status, HTTP status, tokens, cost. Each trial has seven jobs.
CALLS = [
    (1, "ok", 200, 150, 0.25),
    (2, "ok", 200, None, None),
    (3, "error", 429, None, None),
    # Answered, so it was billed.
    (4, "error", 200, None, None),
    (5, "unknown", None, None, None),
    # A model without a price.
    (6, "ok", 200, 150, None),
    (7, "started", None, None, None),
    (8, "ok", 200, None, None),
    (15, "error", 429, None, None),
]
CALL = """
INSERT INTO call (job, attempt, run, model, status, purpose, reserve_tokens, http_status, input_tokens, output_tokens,
                  total_tokens, cost_usd, worker, key_fingerprint)
SELECT id, 1, run, 'sim-small', %(status)s, 'first', 1000, %(http)s, %(tokens)s::int - 50, %(tokens)s::int - 100,
       %(tokens)s, %(usd)s, 'host:1:a', 'simulated'
FROM job ORDER BY id OFFSET %(number)s - 1 LIMIT 1
"""


def test_what_trials_have_spent(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(connection, tmp_path, samples=7, tasks=3).run
    for number, status, http, tokens, usd in CALLS:
        at = {"number": number, "status": status, "http": http, "tokens": tokens, "usd": usd}
        connection.execute(CALL, at)
    trials = browse.trials(connection, run=run, filters=browse.Filters(), after=0, most=10)
    columns = ("calls", "tokens", "cost_usd", "unknown_usage", "unknown_cost")
    assert [tuple(trial["spent"][column] for column in columns) for trial in trials] == [
        # 2, 4 and 5 told no tokens; these and 6 have no cost. The one in flight has no outcome.
        (6, 300, 0.25, 3, 4),
        (1, None, None, 1, 1),
        # Refused: that costs nothing.
        (1, 0, 0.0, 0, 0),
    ]
    # The sums are of all calls, also of those that a page does not hold.
    first = trials[0]["id"]
    for most, value, calls in (("MOST_CALLS", 6, 6), ("MOST_JOBS", 2, 2), ("MOST_CALLS", 7, 7)):
        with monkeypatch.context() as patch:
            patch.setattr(browse, most, value)
            view = browse.trial(connection, run_id="test", trial=first, cut=10, cut_of_many=10)
        assert view is not None
        assert sum(len(job["calls"]) for job in view.jobs) == calls
        assert (view.cut, view.trial["spent"]) == (calls < 7, trials[0]["spent"])


def test_what_runs_have_spent(connection: Connection, tmp_path: Path) -> None:
    planned(connection, tmp_path)
    connection.execute("INSERT INTO tally (run, owner, ok_calls) SELECT id, 'host:1:a', 3 FROM run")
    seen: list[list[str]] = []
    for change in (
        "UPDATE tally SET input_tokens = 0",
        "UPDATE tally SET unknown_usage_calls = 2, unknown_calls = 1",
        "UPDATE tally SET input_tokens = 100, output_tokens = 50, cost_usd = 0.25",
        "UPDATE run SET experiment = experiment #- '{prices,sim-small}'",
        "UPDATE tally SET cost_usd = 0",
    ):
        connection.execute(change)
        [run] = rows = browse.runs(connection, before=None, most=10)
        html = bytes(page("runs.html", runs=rows, more=None).body).decode()
        cells = [part.partition("</td>")[0] for part in html.split('<td class="number">')[1:3]]
        assert (run["unknown_usage"], run["unpriced_models"]) == (3 if seen else 0, int(len(seen) > 2))
        seen.append([cell.replace('<span class="quiet">', "").replace("</span>", "") for cell in cells])
    assert seen == [
        ["$0.0000", "0"],
        # No call has told anything.
        ["unknown", "unknown"],
        ["$0.2500 and 3 unknown", "150 and 3 unknown"],
        ["$0.2500 and 3 unknown and 1 without a price", "150 and 3 unknown"],
        ["unknown", "150 and 3 unknown"],
    ]
