"""`paretoken status --watch` and `paretoken serve` as a script or a terminal meets them."""

import json
import signal
import urllib.request
from http import HTTPStatus

from db.connection import Connection
from db.runs import cancel_run
from tests.acceptance.conftest import TIMEOUT_S, CommandLine
from tests.store import planned


def test_watching_ends_with_the_run_and_its_outcome(paretoken: CommandLine, connection: Connection) -> None:
    run = planned(connection, paretoken.folder, tasks=2, more="[budget]\nrun_cost_usd = 5.0\n").run
    watching = paretoken.start("status", "test", "--watch", "--json")
    assert watching.stdout is not None
    first = json.loads(watching.stdout.readline())
    assert (first["state"], first["trials"], first["jobs"]) == ("running", {"pending": 2}, {"pending": 2})
    assert (first["budget"]["run_cost_usd"], first["calls_per_s"]) == (5.0, None)
    cancel_run(connection, run=run)
    said, _ = watching.communicate(timeout=TIMEOUT_S)
    assert json.loads(said.splitlines()[-1])["state"] == "cancelled"
    assert watching.returncode == 1

    # What is over is said once, in one plain line.
    connection.execute("UPDATE trial SET state = 'ok', answer = '1'")
    connection.execute("UPDATE run SET state = 'finished'")
    assert paretoken.must("status", "test", "--watch") == (
        "2/2 trials; calls: 0 done; tokens: 0 in, 0 out; cost $0.0000; "
        "budget: $0.0000 spent and $0.0000 reserved of $5.00\n"
    )
    connection.execute("UPDATE trial SET state = 'review', reason = 'Look \x1b[2J here.' WHERE id = 1")
    assert paretoken("status", "test", "--watch").returncode == 1


def test_pages_are_served_until_it_is_told_to_end(paretoken: CommandLine, connection: Connection) -> None:
    planned(connection, paretoken.folder)
    token = "a-token-of-the-user-0123456789"
    refused = paretoken("serve", PARETOKEN_SERVE_TOKEN="too short")
    assert (refused.returncode, "PARETOKEN_SERVE_TOKEN" in refused.stderr) == (2, True)
    serving = paretoken.start("serve", "--port", "0", "--host", "0.0.0.0", PARETOKEN_SERVE_TOKEN=token)
    assert serving.stdout is not None
    said = serving.stdout.readline()
    assert "/?token=$PARETOKEN_SERVE_TOKEN" in said
    port = said.partition("0.0.0.0:")[2].partition("/")[0]
    address = f"http://127.0.0.1:{port}"
    assert urllib.request.urlopen(f"{address}/healthz").status == HTTPStatus.OK
    asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    assert b">test</a>" in urllib.request.urlopen(asked).read()
    serving.send_signal(signal.SIGTERM)
    out, err = serving.communicate(timeout=TIMEOUT_S)
    assert token not in said + out + err
    assert "Traceback" not in err
    assert "not encrypted" in err
    assert serving.returncode in (0, -signal.SIGTERM)
