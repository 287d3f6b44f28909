"""Where the database, the broker and the data folder are, as the environment says.

| variable                 | meaning                                                                     |
|--------------------------|-----------------------------------------------------------------------------|
| `PARETOKEN_DATABASE_URL` | `postgresql://user:password@host/database`; needs the broker's URL as well   |
| `PARETOKEN_BROKER_URL`   | `redis://:password@host/0`; needs the database's URL as well                 |
| `PARETOKEN_HOME`         | data folder; default `$XDG_DATA_HOME/paretoken` or `~/.local/share/paretoken` |

Without the two URLs the embedded servers are used.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from paretoken.errors import InputError

DATABASE_URL = "PARETOKEN_DATABASE_URL"
BROKER_URL = "PARETOKEN_BROKER_URL"
HOME = "PARETOKEN_HOME"
WORKER_PASSWORD = "PARETOKEN_WORKER_PASSWORD"  # noqa: S105 - the name of a variable
"""Read by `paretoken db upgrade` alone: the password of the role `paretoken_worker`, which it makes then."""

_DATABASE_SCHEMES = ("postgresql", "postgres")
_BROKER_SCHEMES = ("redis", "rediss")
_BROKER_EXAMPLE = "redis://:password@host:6379/0"
_TLS_PARAMETERS: Mapping[str, Sequence[str]] = {
    "ssl_cert_reqs": ("none", "optional", "required"),
    "ssl_ca_certs": (),
    "ssl_certfile": (),
    "ssl_keyfile": (),
    "ssl_check_hostname": ("true", "false"),
}
"""Name -> values, or nothing for any."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The environment's settings. The URLs hold passwords, so they are kept out of the repr."""

    home: Path
    """Data folder, absolute; it need not exist yet."""
    database_url: str | None = field(default=None, repr=False)
    """`postgresql://…` as psycopg takes it; None: use the embedded servers."""
    broker_url: str | None = field(default=None, repr=False)
    """`redis://…` or `rediss://…`; None exactly when `database_url` is None."""


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from `environment` (default: the process's own).

    Raises `InputError` for one URL without the other and for a URL of another kind.
    """
    environment = os.environ if environment is None else environment
    database_url = environment.get(DATABASE_URL, "").strip()
    broker_url = environment.get(BROKER_URL, "").strip()
    if bool(database_url) != bool(broker_url):
        given, missing = (DATABASE_URL, BROKER_URL) if database_url else (BROKER_URL, DATABASE_URL)
        raise InputError(
            f"{given} is set but {missing} is not: set both to use your own servers, "
            "or unset both to use the embedded ones."
        )
    home = _home(environment)
    if not database_url:
        return Settings(home=home)
    rest = _after_scheme(
        DATABASE_URL, database_url, _DATABASE_SCHEMES, "postgresql://user:password@host/database"
    )
    if "replication" in parse_qs(rest.partition("?")[2], keep_blank_values=True):
        raise InputError(
            f"{DATABASE_URL}: leave out the parameter replication, with which no table can be read"
        )
    _after_scheme(BROKER_URL, broker_url, _BROKER_SCHEMES, _BROKER_EXAMPLE)
    _check_broker(broker_url)
    return Settings(home=home, database_url=f"postgresql://{rest}", broker_url=broker_url)


def _after_scheme(variable: str, url: str, allowed: tuple[str, ...], example: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in allowed:
        # The URL itself stays out of the message: it may hold a password.
        kinds = " or ".join(f"{name}://" for name in allowed)
        raise InputError(f"{variable} must begin with {kinds}, for example {example}")
    if not url.isprintable():
        raise InputError(f"{variable} holds a character that no URL has: write it as %XX")
    try:
        unquote(url, errors="strict")
    except UnicodeDecodeError:
        raise InputError(f"{variable}: what is written as %XX must be UTF-8") from None
    userinfo = rest.partition("?")[0].rpartition("@")[0]
    if "@" in userinfo or "/" in userinfo:
        # What comes behind it would be taken for a host, and be named in messages.
        raise InputError(f"{variable}: in user and password write @ as %40, / as %2F and % as %25")
    try:
        urlsplit(url).port  # noqa: B018 - looked at, because only that checks it
    except ValueError:
        raise InputError(f"{variable} has a host or port that is none: it looks like {example}") from None
    return rest


def _check_broker(url: str) -> None:
    """That what stands behind the host is what redis-py and Celery both know; each knows more, and they differ."""
    parts = urlsplit(url)
    try:
        (parts.hostname or "").encode("idna")
    except UnicodeError:
        raise InputError(f"{BROKER_URL} has a host that is none: it looks like {_BROKER_EXAMPLE}") from None
    if not re.fullmatch(r"/?[0-9]*", parts.path):
        raise InputError(f"{BROKER_URL}: behind the host comes the number of a database: {_BROKER_EXAMPLE}")
    known = _TLS_PARAMETERS if parts.scheme == "rediss" else {}
    for name, values in parse_qs(parts.query, keep_blank_values=True).items():
        if name not in known:
            # Not named: behind the question mark may stand the rest of a password.
            raise InputError(
                f"{BROKER_URL}: leave out what stands behind the question mark; supported are, with rediss:// alone, "
                f"{', '.join(_TLS_PARAMETERS)}. In a password write ? as %3F"
            )
        if (allowed := known[name]) and values[-1] not in allowed:
            raise InputError(f"{BROKER_URL}: {name} must be one of {', '.join(allowed)}")


def _home(environment: Mapping[str, str]) -> Path:
    if given := environment.get(HOME, ""):
        return _absolute(given)
    data_home = environment.get("XDG_DATA_HOME", "")
    # The XDG specification says that a relative path is to be ignored.
    if data_home.startswith("/"):
        return Path(data_home) / "paretoken"
    return _absolute(environment.get("HOME", "") or "~") / ".local" / "share" / "paretoken"


def _absolute(path: str) -> Path:
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise InputError(
            f"No home folder is known for this user: set {HOME} to a folder for the data."
        ) from error
