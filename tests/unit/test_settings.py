"""What the environment says about servers and data folder."""

from pathlib import Path

import pytest

from db.connection import sqlalchemy_url
from paretoken.errors import InputError
from paretoken.settings import read_settings

BOTH = {"HOME": "/home/ada", "PARETOKEN_BROKER_URL": "redis://:pw@host/0"}


@pytest.mark.parametrize(
    ("given", "for_psycopg", "for_sqlalchemy"),
    [
        ("postgresql://u:pw@h:5/d", "postgresql://u:pw@h:5/d", "postgresql+psycopg://u:pw@h:5/d"),
        ("postgres://u:pw@h:5/d", "postgresql://u:pw@h:5/d", "postgresql+psycopg://u:pw@h:5/d"),
        (
            " postgres://h/d?sslmode=require\n",
            "postgresql://h/d?sslmode=require",
            "postgresql+psycopg://h/d?sslmode=require",
        ),
    ],
)
def test_database_url_forms(given: str, for_psycopg: str, for_sqlalchemy: str) -> None:
    settings = read_settings({**BOTH, "PARETOKEN_DATABASE_URL": given})
    assert settings.database_url == for_psycopg
    assert sqlalchemy_url(for_psycopg) == for_sqlalchemy
    assert settings.broker_url == "redis://:pw@host/0"


@pytest.mark.parametrize("empty", [{}, {"PARETOKEN_DATABASE_URL": "", "PARETOKEN_BROKER_URL": " "}])
def test_neither_url_means_embedded_servers(empty: dict[str, str]) -> None:
    settings = read_settings({"HOME": "/home/ada", **empty})
    assert (settings.database_url, settings.broker_url) == (None, None)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"PARETOKEN_DATABASE_URL": "postgresql://h/d"},
            "PARETOKEN_DATABASE_URL is set but PARETOKEN_BROKER_URL is not",
        ),
        (
            {"PARETOKEN_BROKER_URL": "redis://h/0"},
            "PARETOKEN_BROKER_URL is set but PARETOKEN_DATABASE_URL is not",
        ),
        (
            {**BOTH, "PARETOKEN_DATABASE_URL": "mysql://u:secret@h/d"},
            "PARETOKEN_DATABASE_URL must begin with postgresql://",
        ),
        (
            {**BOTH, "PARETOKEN_DATABASE_URL": "host=h password=secret"},
            "PARETOKEN_DATABASE_URL must begin with",
        ),
        (
            {"PARETOKEN_DATABASE_URL": "postgresql://h/d", "PARETOKEN_BROKER_URL": "amqp://u:secret@h"},
            "PARETOKEN_BROKER_URL must begin with redis:// or rediss://",
        ),
        # A password in another encoding, as the interpreter gives it.
        (
            {**BOTH, "PARETOKEN_DATABASE_URL": "postgresql://u:secret\udce9@h/d"},
            "PARETOKEN_DATABASE_URL holds a character that no URL has: write it as %XX",
        ),
        (
            {**BOTH, "PARETOKEN_DATABASE_URL": "postgresql://u:secret%FF@h/d"},
            "PARETOKEN_DATABASE_URL: what is written as %XX must be UTF-8",
        ),
        (
            {**BOTH, "PARETOKEN_DATABASE_URL": "postgresql://u:secret@h/d?replication="},
            "PARETOKEN_DATABASE_URL: leave out the parameter replication",
        ),
        *(
            (
                {"PARETOKEN_DATABASE_URL": "postgresql://h/d", "PARETOKEN_BROKER_URL": url},
                f"PARETOKEN_BROKER_URL{said}",
            )
            for url, said in {
                "redis://:secret@a..b:6379/0": " has a host that is none",
                f"redis://:secret@{'a' * 70}:6379/0": " has a host that is none",
                "redis://:secret@h/abc": ": behind the host comes the number of a database",
                "redis://:secret@h/0/1": ": behind the host comes the number of a database",
                "redis://h/0?bogus=secret": ": leave out what stands behind the question mark",
                # Celery knows none of what redis-py knows.
                "redis://h/0?socket_timeout=5": ": leave out what stands behind the question mark",
                "redis://h?secret@h/0": ": leave out what stands behind the question mark",
                "redis://h/0?ssl_cert_reqs=none": ": leave out what stands behind the question mark",
                "rediss://h/0?ssl_cert_reqs=secret": ": ssl_cert_reqs must be one of none, optional, required",
                "rediss://h/0?db=5": ": leave out what stands behind the question mark",
            }.items()
        ),
    ],
)
def test_unusable_urls(environment: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_settings({"HOME": "/home/ada", **environment})
    assert caught.value.exit_code == 2
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "home"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.local/share/paretoken"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": "/data"}, "/data/paretoken"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": "relative"}, "/home/ada/.local/share/paretoken"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": "/data", "PARETOKEN_HOME": "/mine"}, "/mine"),
    ],
)
def test_data_folder(environment: dict[str, str], home: str) -> None:
    assert read_settings(environment).home == Path(home)


def test_relative_data_folder_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_settings({"PARETOKEN_HOME": "mine"}).home == tmp_path / "mine"


def test_repr_shows_no_password() -> None:
    settings = read_settings({**BOTH, "PARETOKEN_DATABASE_URL": "postgresql://u:secret@h/d"})
    assert "secret" not in repr(settings)
    assert ":pw@" not in repr(settings)
