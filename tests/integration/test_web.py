"""The pages of `paretoken serve` on real sockets: what they show, and to whom."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
import uvicorn
from psycopg_pool import ConnectionPool
from starlette.types import ASGIApp

from db import browse
from db.browse import AUDITOR, become_auditor, reading_pool
from db.connection import Connection, connect
from db.reader import Row
from db.text import to_database
from paretoken.errors import InputError
from paretoken.servers import Servers
from paretoken.web import pages
from paretoken.web.app import build
from paretoken.web.cli import _listening
from tests import looked_into
from tests.browser import Tab, Theme
from tests.conftest import named
from tests.looked_into import HOSTILE, LONG, SHOWN, LookedInto

TOKEN = "a-token-for-tests-0123456789"
ALL = 3 * looked_into.TASKS
RUN = "/runs/test"


@pytest.fixture(scope="module")
def web_database_url(embedded: Servers, template: str) -> Iterator[str]:
    """One database for these pages: they change nothing."""
    with psycopg.connect(embedded.database_url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS test_web WITH (FORCE)")
        connection.execute(f"CREATE DATABASE test_web TEMPLATE {template}")
        yield named(embedded.database_url, "test_web")
        connection.execute("DROP DATABASE test_web WITH (FORCE)")


@pytest.fixture(scope="module")
def made(web_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> LookedInto:
    with connect(web_database_url) as connection:
        return looked_into.make(connection, tmp_path_factory.mktemp("experiment"))


@pytest.fixture(scope="module")
def pool(web_database_url: str, made: LookedInto) -> Iterator[ConnectionPool[Connection]]:
    with reading_pool(web_database_url, size=4, statement_s=10) as opened:
        yield opened


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    (folder / "test").mkdir()
    (folder / "secret.csv").write_text("not,of,a,run")
    (folder / "test" / "report.html").write_text("<!doctype html><title>The report</title><script>1</script>")
    (folder / "test" / "elo_table.csv").write_text("strategy,elo\n'=cmd()<b>,1012.5\n")
    (folder / "test" / "link.csv").symlink_to(folder / "secret.csv")
    return folder


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """The application on a socket of its own, which takes connections before the server itself is up."""
    with _listening("127.0.0.1", 0) as listening:
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def site(pool: ConnectionPool[Connection], reports: Path) -> Iterator[httpx2.Client]:
    """A visitor on the same machine."""
    app = build(pool=pool, reports=reports, hosts=["127.0.0.1"], token=None)
    with served(app) as address, httpx2.Client(base_url=address) as client:
        yield client


@pytest.fixture(scope="module")
def guarded(pool: ConnectionPool[Connection], reports: Path) -> Iterator[str]:
    """The same pages behind a token."""
    with served(build(pool=pool, reports=reports, hosts=None, token=TOKEN)) as address:
        yield address


def links(html: str, pattern: str) -> list[str]:
    return [found.replace("&amp;", "&") for found in re.findall(f'href="({pattern})"', html)]


def test_a_run_with_its_progress_strategies_and_files(
    site: httpx2.Client, pool: ConnectionPool[Connection]
) -> None:
    assert links(site.get("/").text, "/runs/.*?") == [RUN]
    html = site.get(RUN).text
    assert f"{ALL} of {ALL} trials have ended (100.0 %)" in html
    with pool.connection() as connection:
        row = connection.execute("SELECT count(*) AS calls, sum(cost_usd) AS usd FROM call").fetchone()
        failed = connection.execute("SELECT count(*) AS calls FROM call WHERE status = 'error'").fetchone()
    assert row is not None and failed is not None
    assert f"{row['calls']} done" in html
    assert f"${row['usd']:.4f}" in html
    assert f"{failed['calls']} rate_limit" in html
    assert links(html, rf"{RUN}/trials\?state=.*?") == [
        f"{RUN}/trials?state={state}" for state in ("failed", "ok", "review")
    ]
    assert links(html, f"{RUN}/tables/.*?") == [f"{RUN}/tables/elo_table.csv"]
    assert f'href="{RUN}/report"' in html


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, "true"),
        ({"state": "failed"}, "trial.state = 'failed'"),
        ({"strategy": "sc_k3"}, "strategy.name = 'sc_k3'"),
        ({"category": "odd", "state": "ok"}, "category = 'odd' AND trial.state = 'ok'"),
        ({"task": "t0001"}, "task_id LIKE 't0001%%'"),
        ({"task": "t00002", "strategy": "baseline"}, "task_id = 't00002' AND strategy.name = 'baseline'"),
        ({"category": "%", "task": "_"}, "false"),
    ],
)
def test_trials_are_selected_and_paged(
    site: httpx2.Client,
    pool: ConnectionPool[Connection],
    monkeypatch: pytest.MonkeyPatch,
    query: dict[str, str],
    wanted: str,
) -> None:
    monkeypatch.setattr(pages, "PAGE", 20)
    with pool.connection() as connection:
        rows = connection.execute(
            "SELECT trial.id FROM trial JOIN task ON task.id = trial.task "
            f"JOIN strategy ON strategy.id = trial.strategy WHERE {wanted} ORDER BY trial.id"
        ).fetchall()
    html = site.get(f"{RUN}/trials", params=query).text
    found = links(html, rf"{RUN}/trials/\d+")
    while more := links(html, rf"{RUN}/trials\?[^\"]*after=[^\"]*"):
        assert len(found) % 20 == 0
        html = site.get(more[-1]).text
        found += links(html, rf"{RUN}/trials/\d+")
    assert found == [f"{RUN}/trials/{row['id']}" for row in rows]


def test_one_trial_with_all_that_belongs_to_it(site: httpx2.Client, made: LookedInto) -> None:
    html = site.get(f"{RUN}/trials/{made.hostile}").text
    for said in (
        "Round 1",
        "Round 2",
        "as it should be",
        "rate_limit",
        "Winner: A",
        "referee",
        "won",
        "$0.0002",
    ):
        assert said in html
    # The opening is made again; what came after it stands with the call.
    assert "Think step by step" in html
    assert "Criticise: " in html
    assert {"baseline", "sc_k3"} <= set(re.findall(r'trials/\d+">(\w+)</a>', html))
    judged = site.get(f"{RUN}/prompts/{made.judge_job}.txt").text
    assert "[user]" in judged
    # Both answers, in the order that the judge's draw gives them.
    assert HOSTILE.replace("\ud800", "\\ud800") in judged


def test_hostile_text_is_shown_and_does_nothing(site: httpx2.Client, made: LookedInto) -> None:
    addresses = [
        f"{RUN}/trials/{made.hostile}",
        f"{RUN}/trials?task=t00001",
        f"{RUN}/search?q=document.title",
        f"{RUN}/search?q=%3Cscript%3E%22%3E%00%1b",
    ]
    for address in addresses:
        html = site.get(address).text
        assert "<script" not in html
        assert "<img" not in html
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)
    html = site.get(addresses[0]).text
    assert "&lt;script&gt;document.title=" in html
    assert "{{ 7 * 7 }}" in html
    for shown in SHOWN:
        assert shown in html
    assert site.get(f"{RUN}/tables/elo_table.csv").text.count("=cmd()&lt;b&gt;") == 1


def test_long_texts_are_cut_and_whole_as_files(site: httpx2.Client, made: LookedInto) -> None:
    html = site.get(f"{RUN}/trials/{made.long}").text
    assert len(html) < 150_000
    assert f"it has {len(LONG):,} characters" in html
    [raw] = links(html, f"{RUN}/calls/{made.long_job}/.*?")
    assert site.get(raw).text == LONG
    for address in (
        f"{RUN}/calls/{made.hostile_job}/1/1.txt",
        f"{RUN}/calls/{made.hostile_job}/2/1.txt",
        f"{RUN}/trials/{made.hostile}/answer.txt",
    ):
        answer = site.get(address)
        if answer.status_code == 404:
            # The attempt that failed, or one that never was.
            continue
        assert answer.content.decode() == HOSTILE.replace("\ud800", "\\ud800")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["content-disposition"].startswith("attachment")
    [written] = links(site.get(f"{RUN}/trials/{made.hostile}").text, f"{RUN}/trials/{made.hostile}/files/.*?")
    assert "script" in written
    assert site.get(f"{RUN}/files/elo_table.csv").headers["content-type"] == "application/octet-stream"


def test_search_says_how_much_it_looked_through(
    site: httpx2.Client, made: LookedInto, monkeypatch: pytest.MonkeyPatch
) -> None:
    html = site.get(f"{RUN}/search", params={"q": "DOCUMENT.title"}).text
    # 25 x (1 + 3 + 2) outputs
    assert re.search(rf"1 match in 150 outputs of {ALL} trials", html)
    assert "No trial is left" in html
    assert links(html, rf"{RUN}/trials/\d+#job-\d+") == [
        f"{RUN}/trials/{made.hostile}#job-{made.hostile_job}"
    ]
    assert "<mark>document.title</mark>" in html
    monkeypatch.setattr(pages, "WINDOWS", (80, 20, 10))
    monkeypatch.setattr(pages, "PAGE", 7)
    tried: list[int] = []

    def slow(connection: Connection, *, window: int, **at: Any) -> Row:
        tried.append(window)
        if window > 10:
            raise psycopg.errors.QueryCanceled
        return search(connection, window=window, **at)

    search = browse.search
    monkeypatch.setattr(browse, "search", slow)
    found: list[str] = []
    address = f"{RUN}/search?q=i+think"
    while True:
        html = site.get(address).text
        found += links(html, rf"{RUN}/trials/\d+#job-\d+")
        more = links(html, rf"{RUN}/search\?[^\"]*after=[^\"]*")
        if not more:
            break
        [address] = more
    # All but the hostile and the long one, each once.
    assert sorted(set(found)) == sorted(found)
    assert len(found) == 148
    # Fewer and fewer until it is no longer too much; what follows does not begin anew.
    assert (tried[:3], set(tried[3:])) == ([80, 20, 10], {10})
    monkeypatch.setattr(pages, "WINDOWS", (80, 20))
    answer = site.get(f"{RUN}/search?q=i+think")
    assert (answer.status_code, "was stopped" in answer.text) == (503, True)


def test_a_file_of_a_trial_is_given_as_it_was_written(
    site: httpx2.Client, made: LookedInto, web_database_url: str
) -> None:
    address = f"{RUN}/trials/{made.hostile}/files/2/src/a%20%00b.py"
    with psycopg.connect(web_database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO trial_file (trial, try, name, content) VALUES (%s, 2, %s, %s)",
            [made.hostile, to_database("src/a \x00b.py"), b"<b>\x00\xff"],
        )
        try:
            answer = site.get(address)
        finally:
            connection.execute("DELETE FROM trial_file WHERE trial = %s AND try = 2", [made.hostile])
    assert (answer.status_code, answer.content) == (200, b"<b>\x00\xff")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f'attachment; filename="file-{made.hostile}.bin"'
    assert site.get(address).status_code == 404


def test_a_table_with_a_long_cell(site: httpx2.Client, reports: Path) -> None:
    path = reports / "test" / "long.csv"
    # More than the csv module takes by itself.
    path.write_text(f"id,output\n1,{'x' * 200_000}\n")
    try:
        html = site.get(f"{RUN}/tables/long.csv").text
    finally:
        path.unlink()
    assert f">{'x' * 1_000}…</td>" in html


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("/nothing", 404, "There is no such page"),
        ("/runs/nosuch", 404, "No run is named &#39;nosuch&#39;"),
        ("/runs/%00%ff", 404, "No run is named"),
        (f"{RUN}/trials/0", 404, "no such trial"),
        (f"{RUN}/trials/{'9' * 18}", 404, "no such trial"),
        (f"{RUN}/trials/{'9' * 19}", 404, "There is no such page"),
        (f"{RUN}/trials/{'9' * 5000}", 404, "There is no such page"),
        (f"{RUN}/trials/{'9' * 5000}/answer.txt", 404, "There is no such page"),
        (f"{RUN}/calls/{'9' * 18}/{'9' * 18}/{'9' * 18}.txt", 404, "no such text"),
        (f"{RUN}/calls/1/{'9' * 5000}/1.txt", 404, "There is no such page"),
        (f"{RUN}/prompts/{'9' * 5000}.txt", 404, "There is no such page"),
        (f"{RUN}/trials/1/files/1/nosuch.txt", 404, "This trial wrote no such file"),
        (f"{RUN}/trials/1/files/1/%00", 404, "This trial wrote no such file"),
        (f"{RUN}/trials/1/files/99999999999/a.txt", 404, "This trial wrote no such file"),
        (f"{RUN}/trials/{'9' * 18}/files/{'9' * 18}/a/b.txt", 404, "This trial wrote no such file"),
        ("/runs/other/trials/1", 404, "no such trial"),
        (f"{RUN}/trials?state=lost", 400, "state is one of"),
        (f"{RUN}/trials?after=-1", 400, "whole number"),
        (f"{RUN}/trials?after=99999999999999999999", 400, "whole number"),
        (f"{RUN}/search?q={'x' * 201}", 400, "at most 200"),
        (f"{RUN}/calls/0/1/1.txt", 404, "no such text"),
        (f"{RUN}/prompts/0.txt", 404, "not known"),
        (f"{RUN}/files/nosuch.csv", 404, "no such file"),
        (f"{RUN}/files/..%2fsecret.csv", 404, "no such"),
        (f"{RUN}/tables/link.csv", 404, "no such file"),
        ("/static/../app.py", 404, "no such"),
        ("/static/%2e%2e/app.py", 404, "no such"),
    ],
)
def test_what_is_not_there_is_said_in_plain_words(
    site: httpx2.Client, address: str, status: int, said: str
) -> None:
    answer = site.get(address)
    assert (answer.status_code, said in answer.text) == (status, True), answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_an_error_of_our_own_says_no_more_than_that_there_is_one(
    site: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE", "secret of the program")
    # A connection of its own: the server ends it.
    answer = httpx2.get(site.base_url)
    assert (answer.status_code, "could not be made" in answer.text) == (500, True)
    assert "secret" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_stored_value_that_cannot_be_read_is_not_blamed_on_the_address(
    site: httpx2.Client, web_database_url: str
) -> None:
    with psycopg.connect(web_database_url, autocommit=True) as connection:
        connection.execute("UPDATE run SET created_at = created_at - interval '3000 years'")
        try:
            answer = httpx2.get(site.base_url)
        finally:
            connection.execute("UPDATE run SET created_at = created_at + interval '3000 years'")
    assert (answer.status_code, "could not be made" in answer.text) == (500, True)
    assert "address" not in answer.text
    assert site.get("/").status_code == 200


def test_every_answer_has_its_headers_and_nothing_can_be_sent(site: httpx2.Client) -> None:
    for address in ("/", RUN, "/healthz", "/static/style.css", f"{RUN}/report", f"{RUN}/files/elo_table.csv"):
        answer = site.get(address)
        assert answer.status_code == 200, address
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        # Only the report brings scripts, and these are of no site.
        assert ("script-src" in policy) == policy.startswith("sandbox") == address.endswith("report")
        assert site.head(address).content == b""
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            assert site.request(method, address).status_code == 405
    # A site whose name was pointed to this address.
    assert site.get("/", headers={"Host": "evil.example"}).status_code == 400


def test_a_token_is_needed_where_there_is_one(guarded: str) -> None:
    with httpx2.Client(base_url=guarded) as client:
        assert client.get("/healthz").text == "ok\n"
        assert client.get("/static/style.css").status_code == 200
        for refused in (
            client.get("/"),
            client.get(RUN),
            client.get("/?token=wrong"),
            client.get("/?token="),
            client.get("/", headers={"Authorization": "Bearer wrong"}),
            client.get("/", headers={"Cookie": f"paretoken={TOKEN}"}),
        ):
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
            assert "set-cookie" not in refused.headers
            assert TOKEN not in refused.text
        assert client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        first = client.get(f"{RUN}/trials?state=ok&token={TOKEN}&task=t")
        assert (first.status_code, first.headers["location"]) == (303, f"{RUN}/trials?state=ok&task=t")
        cookie = first.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert TOKEN not in cookie
        # The client keeps the cookie.
        assert client.get(RUN).status_code == 200
    # Where a path looks like another server it leads nowhere else.
    plain = HTTPConnection(guarded.removeprefix("http://"))
    plain.request("GET", f"//evil.example/?token={TOKEN}")
    assert plain.getresponse().headers["location"] == "/evil.example/"
    plain.close()


def test_sessions_read_as_the_auditor_and_change_nothing(
    pool: ConnectionPool[Connection], web_database_url: str
) -> None:
    with pool.connection() as connection:
        row = connection.execute("SELECT current_user AS name").fetchone()
        assert row is not None and row["name"] == AUDITOR
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("DELETE FROM verdict")
    with connect(web_database_url) as connection:
        assert become_auditor(connection)
        # Without the setting the role alone refuses.
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM verdict")
        connection.execute("RESET ROLE")
        connection.execute("CREATE ROLE test_web_guest")
        try:
            connection.execute("SET SESSION AUTHORIZATION test_web_guest")
            assert not become_auditor(connection)
        finally:
            connection.execute("RESET SESSION AUTHORIZATION")
            connection.execute("DROP ROLE test_web_guest")


def test_a_port_that_is_taken_is_said_once() -> None:
    with _listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError) as refused:
            _listening("127.0.0.1", port)
    assert str(refused.value) == (
        f"Nothing can listen on 127.0.0.1, port {port} (Address already in use). Choose others with --host and --port."
    )


def test_without_a_database_it_says_so(reports: Path) -> None:
    with _listening("127.0.0.1", 0) as closed:
        url = f"postgresql://nobody@127.0.0.1:{closed.getsockname()[1]}/none"
    pool = reading_pool(url, size=1, statement_s=1)
    pool.timeout = 0.2
    pool.open(wait=False)
    app = build(pool=pool, reports=reports, hosts=None, token=None)
    with pool, served(app) as address, httpx2.Client(base_url=address) as client:
        assert client.get("/healthz").status_code == 503
        answer = client.get("/")
        assert (answer.status_code, "The database does not answer" in answer.text) == (503, True)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_pages_in_a_browser(
    tab: Callable[..., Tab], site: httpx2.Client, made: LookedInto, tmp_path: Path, width: int, theme: Theme
) -> None:
    """No error, no request elsewhere, nothing wider than the window; the pictures are there to be looked at."""
    trial = f"{RUN}/trials/{made.hostile}"
    addresses = {
        "runs": "/",
        "run": RUN,
        "trials": f"{RUN}/trials?state=ok",
        "trial": trial,
        "search": f"{RUN}/search?q=document",
        "table": f"{RUN}/tables/elo_table.csv",
        "missing": f"{RUN}/trials?state=lost",
    }
    if theme == "dark":
        # The same pages in other colours.
        addresses = {name: addresses[name] for name in ("run", "trial", "search")}
    seen = tab(width=width, theme=theme)
    for name, address in addresses.items():
        seen.page.goto(f"{site.base_url}{address}")
        seen.page.screenshot(
            path=tmp_path / f"{name}-{width}-{theme}.png", full_page=name in ("run", "trial")
        )
        assert seen.overhang() <= 0, name
        assert seen.clipped() == [], name
        assert "owned" not in seen.page.title()
    # A page that says what is wrong with its address is an error to the browser, and the only one.
    assert all("400 (Bad Request)" in error for error in seen.errors), seen.errors
    assert all(asked.startswith(str(site.base_url)) for asked in seen.requests), seen.requests
    # By the keyboard alone: the first stop leads to the content.
    seen.page.goto(f"{site.base_url}{trial}")
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    unlabelled = "[...document.querySelectorAll('input, select')].filter(e => !e.labels.length).length"
    assert seen.page.evaluate(unlabelled) == 0
