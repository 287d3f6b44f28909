"""Budgets are reserved before a call is sent: concurrent workers never overshoot."""

from dataclasses import replace
from pathlib import Path

from db import dispatch
from db.connection import Connection
from db.runs import resume_run
from paretoken.live import watch
from paretoken.processes import Crew
from paretoken.simulator import SimulatedGateway
from tests.runs import ledger, start

SC_K5 = '[[strategies]]\nname = "sc_k5"\nkind = "self_consistency"\nk = 5\ntemperature = 0.7\n'


def test_a_run_stops_before_its_budget(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    budget_usd = 0.002
    planned = start(
        connection,
        tmp_path,
        gateway,
        tasks=100,
        strategies=SC_K5,
        more=f"[budget]\nrun_cost_usd = {budget_usd}\n",
    )
    crew.start(workers=4, concurrency=8)
    seen = watch(connection, "test", alive=crew.require_alive)
    spent = sum(row["cost_usd"] or 0 for row in ledger(connection, planned))
    reserved = connection.execute("SELECT max(reserve_cost_usd) AS bound FROM job").fetchone()
    assert reserved is not None
    assert seen.state == "paused"
    assert "[budget]" in (seen.reason or "")
    assert budget_usd - reserved["bound"] <= spent <= budget_usd


def test_a_run_that_is_given_more_goes_on_and_repeats_nothing(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    start(connection, tmp_path, gateway, tasks=10, more="[budget]\nrun_tokens = 400\n")
    crew.start(workers=1, concurrency=8)
    seen = watch(connection, "test", alive=crew.require_alive)
    assert seen.state == "paused"
    assert 0 < seen.calls < 10
    again = start(connection, tmp_path, gateway, tasks=10, more="[budget]\nrun_tokens = 300_000\n")
    assert again.continued
    resume_run(connection, run=again.run)
    seen = watch(connection, "test", alive=crew.require_alive)
    assert (seen.state, dict(seen.trials)) == ("finished", {"ok": 10})
    assert [row["attempt"] for row in ledger(connection, again)] == [1] * 10


def test_a_trial_over_its_budget_ends_with_what_it_spent(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway, crew: Crew
) -> None:
    both = SC_K5 + '[[strategies]]\nname = "baseline"\nkind = "single"\n'
    planned = start(
        connection, tmp_path, gateway, tasks=10, strategies=both, more="[budget]\ntrial_tokens = 1000\n"
    )
    crew.start(workers=2, concurrency=8)
    seen = watch(connection, "test", alive=crew.require_alive)
    spent: dict[str, int] = {}
    for row in ledger(connection, planned):
        if row["strategy"] == "sc_k5":
            spent[row["task_id"]] = spent.get(row["task_id"], 0) + row["total_tokens"]
    assert (seen.state, dict(seen.trials)) == ("finished", {"ok": 10, "over_budget": 10})
    assert all(0 < tokens <= 1000 for tokens in spent.values())
    states = {row["state"] for row in connection.execute("SELECT DISTINCT state FROM job").fetchall()}
    assert states == {"ok", "cancelled"}
    assert not seen.jobs  # of a run that has ended none is open


TWO_MODELS = """
[prices."sim-large"]
input_usd_per_1m = 3.0
output_usd_per_1m = 15.0

[[strategies]]
name = "small"
kind = "single"

[[strategies]]
name = "large"
kind = "single"
model = "sim-large"
"""


def test_a_lane_that_has_nothing_left_does_not_pause_the_others(
    connection: Connection, tmp_path: Path, gateway: SimulatedGateway
) -> None:
    planned = start(
        connection, tmp_path, gateway, tasks=3, strategies=TWO_MODELS, more="[budget]\nrun_tokens = 100_000\n"
    )
    idle, other = dispatch.open_lanes(connection)
    connection.execute("UPDATE job SET state = 'ok' WHERE lane = %s", [idle.lane])
    assert not dispatch.stuck_on_budget(connection, lane=idle)
    # Nothing fits any more, in any lane: then it is the budget.
    assert dispatch.stuck_on_budget(connection, lane=replace(idle, tokens_left=10))
    # A lane that the gateway has asked to wait may still have what fits, later.
    connection.execute("UPDATE lane SET hold_until = now() + interval '1 hour' WHERE id = %s", [other.lane])
    assert not dispatch.stuck_on_budget(connection, lane=replace(idle, tokens_left=10))
    connection.execute("UPDATE job SET state = 'ok' WHERE run = %s", [planned.run])
    assert not dispatch.stuck_on_budget(connection, lane=idle)
