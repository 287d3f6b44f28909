"""The gateway key: read from the environment where it is used, and never kept, logged or sent anywhere else."""

import hashlib
import os
from dataclasses import dataclass, field

from workers.errors import KeyUnusable


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
