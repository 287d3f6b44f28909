"""The gateway key: read from the environment where it is used, and never kept, logged or sent anywhere else."""

import hashlib
import os
import re
from dataclasses import dataclass, field

from workers.errors import KeyUnusable

_KEY = re.compile(r"\b((sk|pk|tok)[-_](?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,})")
_UUID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE)
_LONG_WORD = re.compile(r"(?=[A-Z]*\d)[A-Z0-9]{16,}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,39}")


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key and the fingerprint that stands for it everywhere."""

    secret: str = field(repr=False)
    fingerprint: str


# What the simulated gateway is given: it asks for no key.
SIMULATED_KEY = Key(secret="simulated", fingerprint="simulated")  # noqa: S106


def read_key(variable: str) -> Key:
    """The key in this environment variable.

    Raises:
        KeyUnusable: it is missing, or has a prefix, blanks or quotes that no gateway takes.
    """
    secret = os.environ.get(variable, "")
    if not secret and not is_variable(variable):
        raise KeyUnusable(
            "No key: api_key_env names no variable that is set. Put the variable's name there, not the key."
        )
    if not secret:
        raise KeyUnusable(f"No key in {variable}. Set it: export {variable}=…")
    if secret.lower().startswith("bearer "):
        raise KeyUnusable(f"The key in {variable} starts with 'Bearer '. Give the key alone.")
    if secret != secret.strip() or any(character.isspace() for character in secret):
        raise KeyUnusable(f"The key in {variable} holds blanks or line ends. Remove them.")
    if secret[0] in "'\"" or secret[-1] in "'\"":
        raise KeyUnusable(f"The key in {variable} has quotes around it. Remove them.")
    if not secret.isascii() or not secret.isprintable():
        raise KeyUnusable(f"The key in {variable} holds characters that no HTTP header takes. Copy it again.")
    # One-way and short: it tells keys apart in the ledger and gives nothing of them away.
    digest = hashlib.blake2b(secret.encode(), digest_size=6, person=b"paretoken").hexdigest()
    return Key(secret=secret, fingerprint=digest)


def has_key(text: str) -> bool:
    """Whether something of the form of some provider's keys stands in it."""
    return bool(_KEY.search(text))


def looks_like_key(text: str) -> bool:
    """Whether what should be a name may be a key that was pasted in its place."""
    return has_key(text) or bool(_UUID.search(text) or _LONG_WORD.search(text.upper()))


def is_variable(text: str) -> bool:
    """Whether it looks like the name of an environment variable, so that it may be shown."""
    fits = _VARIABLE.fullmatch(text.upper()) and text in (text.upper(), text.lower())
    return bool(fits) and not looks_like_key(text)
