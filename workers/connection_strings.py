"""Connection strings of databases, as they stand in texts."""

import re

DATABASE_URL = re.compile(
    r"\b(?:jdbc:[a-z0-9]+|(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|valkey|amqps?|mssql|sqlserver|oracle|"
    r"clickhouse|cockroachdb|snowflake|redshift|sqlite|duckdb|cassandra|neo4j|bolt)(?:\+[a-z0-9_]+)?)://",
    re.IGNORECASE,
)

_PAIR = r"[\"']?\s*=\s*[^\s;,]{1,200}"
_HOST = re.compile(rf"\b(?:host|server|data source|addr(?:ess)?){_PAIR}", re.IGNORECASE)
_SECRET = re.compile(
    rf"\b(?:password|pwd|passwd|user id|uid|user|dbname|initial catalog|database){_PAIR}", re.IGNORECASE
)
_JDBC = re.compile(r"\bjdbc:[a-z0-9]+:", re.IGNORECASE)


def connection_string_in(text: str) -> str | None:
    """The beginning of the first connection string, or `None`: a URL, or a line of pairs that name a host and more."""
    for pattern in (DATABASE_URL, _JDBC):
        if found := pattern.search(text):
            return found[0]
    for line in text.splitlines():
        host = _HOST.search(line)
        if host and _SECRET.search(line):
            return host[0].partition("=")[0].strip() + "=…"
    return None
