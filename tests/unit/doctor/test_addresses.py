"""Base URLs: what is wrong with them as they are written, and where else a gateway may be."""

import pytest

from paretoken.doctor.address import alternatives, check_base_url, with_v1, without_v1
from paretoken.doctor.variables import same_gateway

GOOD = "https://gw.example/api"


@pytest.mark.parametrize(
    ("given", "level", "mended", "says"),
    [
        (GOOD, "ok", GOOD, "/api/chat/completions"),
        (f"{GOOD}/", "ok", f"{GOOD}/", "/api/chat/completions"),
        ("http://127.0.0.1:8000/v1", "ok", "http://127.0.0.1:8000/v1", "exactly as given"),
        ("http://gw:8000/v1", "ok", "http://gw:8000/v1", "exactly as given"),
        ("http://gw.example/v1", "warning", "http://gw.example/v1", "unencrypted"),
        (f"{GOOD}?utm_source=x&utm_medium=y", "failure", GOOD, "after '?'"),
        (f"{GOOD}#top", "failure", GOOD, "'#'"),
        (f"{GOOD}/chat/completions/", "failure", GOOD, "ends in /chat/completions"),
        (f"{GOOD}/v1/messages", "failure", GOOD, "ends in /v1/messages"),
        (f"{GOOD}/v1/responses", "failure", f"{GOOD}/v1", "ends in /responses"),
        (f"{GOOD}/v1/v1", "failure", f"{GOOD}/v1", "names /v1 twice"),
        (f"{GOOD}/v1/v1/chat/completions?utm_source=x", "failure", f"{GOOD}/v1", "and names /v1 twice"),
        (f' "{GOOD}"', "failure", GOOD, "quotes around it"),
        ("https://me:secret@gw.example/api", "failure", GOOD, "user name or password"),
        ("gw.example/api", "failure", None, "no address"),
        ("ftp://gw.example/api", "failure", None, "no address"),
        ("https://", "failure", None, "no address"),
        ("https://gw.example:port/api", "failure", None, "no address"),
        ("https://[::1/api", "failure", None, "no address"),
        ("https://<your gateway>/api", "failure", None, "no address"),
        (None, "failure", None, "none is named"),
    ],
)
def test_base_url(given: str | None, level: str, mended: str | None, says: str) -> None:
    [found], went_on_with = check_base_url(given, variable="TAOTOKEN_BASE_URL")
    assert (found.level, went_on_with) == (level, mended)
    assert says in found.seen
    assert "secret" not in f"{found}"


@pytest.mark.parametrize(
    ("path", "others"),
    [
        ("", ["/v1", "/api", "/api/v1"]),
        ("/v1", ["", "/api", "/api/v1"]),
        ("/api", ["/api/v1", "", "/v1"]),
        ("/api/v1", ["/api", "", "/v1"]),
        ("/team/v1/", ["/team", "/team/api", "/team/api/v1"]),
    ],
)
def test_three_other_places_are_tried(path: str, others: list[str]) -> None:
    assert alternatives(f"https://gw.example{path}") == [f"https://gw.example{other}" for other in others]


@pytest.mark.parametrize("given", [GOOD, f"{GOOD}/", f"{GOOD}/v1", f"{GOOD}/v1/"])
def test_the_same_gateway_for_each_client(given: str) -> None:
    assert (without_v1(given), with_v1(given)) == (GOOD, f"{GOOD}/v1")
    assert same_gateway(given, GOOD.upper())
    assert not same_gateway(given, "https://gw.example")
