"""What is shown of keys and URLs, and what clocks and an old version are told."""

import pytest

from paretoken.doctor.servers import check_broker, check_clocks, check_postgres
from paretoken.findings import failure, shown_key, shown_url, without_secrets


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("sk-0123456789abcd", "…abcd"),
        ("12characters", "…ters"),
        ("elevenchars", "too short to show any of it"),
        ("", "too short to show any of it"),
    ],
)
def test_at_most_four_characters_of_a_key_are_shown(key: str, shown: str) -> None:
    assert shown_key(key) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@gw.example:8443/api?key=k#f", "https://gw.example:8443/api?…"),
        ("https://gw.example/api", "https://gw.example/api"),
        ("gw.example/api?key=k", "gw.example/api"),
        ("u:p@gw.example/api", "gw.example/api"),
        ("https://[::1/api", "(unreadable)"),
    ],
)
def test_no_user_password_or_query_of_a_url_is_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_whatever_a_server_echoes_no_secret_is_left() -> None:
    found = failure(
        "call", "HTTP 400: Bearer sk-0123456789 and sk-0123456789abc", "Not sk-0123456789, short one: k1"
    )
    [clean] = without_secrets([found], ["Bearer sk-0123456789", "sk-0123456789abc\n", "k1"])
    assert clean.seen == "HTTP 400: [key] and [key]"
    assert clean.do == "Not [key], short one: k1"


@pytest.mark.parametrize(
    ("ahead_s", "level", "says"),
    [
        ({"database": 0.4, "broker": -4.9}, "ok", "this machine, database and broker agree to 5 s"),
        (
            {"database": 7200.0, "broker": 0.0},
            "warning",
            "the database's clock is 7200 s ahead of this machine's",
        ),
        ({"broker": -61.0}, "warning", "the broker's clock is 61 s behind this machine's"),
    ],
)
def test_clocks(ahead_s: dict[str, float], level: str, says: str) -> None:
    found = check_clocks(ahead_s)
    assert (found.level, found.seen) == (level, says)


@pytest.mark.parametrize(
    ("number", "level"), [(90624, "failure"), (130011, "failure"), (140000, "ok"), (180006, "ok")]
)
def test_versions_of_postgres(number: int, level: str) -> None:
    assert check_postgres(number).level == level


def test_a_valkey_counts_as_the_redis_that_it_stands_in_for() -> None:
    [found] = check_broker(
        {"redis_version": "7.2.4", "valkey_version": "9.1.2", "maxmemory_policy": "noeviction"}
    )
    assert (found.level, found.seen) == ("ok", "Valkey 9.1.2 answers and drops no keys (noeviction)")
