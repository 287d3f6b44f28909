"""Base URLs, keys and proxies that can or cannot work, and what messages may show."""

import pytest

from workers.gateway.address import checked_base_url, proxy_for
from workers.gateway.client import Gateway
from workers.gateway.errors import GatewayConfigError
from workers.gateway.explanation import Explainer

KEY = "sk-proj-0123456789abcdef"


@pytest.mark.parametrize(
    ("base_url", "complaint"),
    [
        ("", "has to start with"),
        ("taotoken.net/api", "has to start with"),
        ("ftp://host/api", "has to start with"),
        ("https:///api", "has to start with"),
        ("https://u:p@host/api", "user name or password"),
        ("https://host/api?utm_source=x", "must end before"),
        ("https://host/api#top", "must end before"),
        ("https://host:port/api", "cannot be read"),
    ],
)
def test_base_url_that_cannot_work(base_url: str, complaint: str) -> None:
    with pytest.raises(GatewayConfigError, match=complaint):
        Gateway(base_url=base_url, api_key=KEY, max_connections=1)


@pytest.mark.parametrize("api_key", ["", "sk a", "sk\n", "Bearer sk-1", "sk-\u00e9", "sk\t1"])
def test_key_that_cannot_work_is_not_shown(api_key: str) -> None:
    with pytest.raises(GatewayConfigError) as caught:
        Gateway(base_url="https://host/api", api_key=api_key, max_connections=1)
    assert not api_key or api_key not in str(caught.value)


@pytest.mark.parametrize(
    ("variables", "base_url", "expected"),
    [
        ({}, "https://gateway.example/api", None),
        ({"HTTPS_PROXY": "http://proxy:3128"}, "https://gateway.example/api", "http://proxy:3128"),
        ({"HTTPS_PROXY": "http://proxy:3128"}, "http://gateway.example/api", None),
        ({"ALL_PROXY": "http://proxy:3128"}, "http://gateway.example/api", "http://proxy:3128"),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": ".example"}, "https://gateway.example/api", None),
        ({"HTTP_PROXY": "http://proxy:3128"}, "http://127.0.0.1:8000/api", None),
        ({"HTTP_PROXY": "http://proxy:3128"}, "http://[::1]:8000/api", None),
        ({"HTTP_PROXY": "http://proxy:3128"}, "http://localhost:8000/api", None),
    ],
)
def test_proxy(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], base_url: str, expected: str | None
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(checked_base_url(base_url)) == expected


def test_socks_proxy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://proxy:1080")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(GatewayConfigError, match="no HTTP proxy"):
        proxy_for(checked_base_url("https://gateway.example/api"))


@pytest.mark.parametrize(
    "detail",
    [f"Incorrect API key provided: {KEY}", "Incorrect API key provided: sk-proj-****cdef", f"x{KEY}y"],
)
def test_message_hides_the_key_in_every_form(detail: str) -> None:
    message = Explainer(KEY).explain("unauthorized", detail)
    assert KEY[:6] not in message and "cdef" not in message
    assert "[key]" in message and "`paretoken doctor`" in message


def test_message_is_one_line_of_at_most_500_characters_with_its_advice() -> None:
    message = Explainer(KEY).explain("not_found", "a\x1b[31m\r\nb\0" + "c" * 5000)
    assert len(message) <= 500 and message.isprintable()
    assert message.startswith("a\\u001b[31m b\\u0000ccc") and message.endswith("then resume the run.")
