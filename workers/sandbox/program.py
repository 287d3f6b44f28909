"""The program of the sandbox: one JSON request a line in, one JSON reply a line out.

It imports little, so that it is small and quick to start. A reply is `{"result": …}` or `{"refused": "why"}`; past a
limit of time the process ends without one.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from workers.sandbox.documents import FAULT_CHARS, json_schema, regex
from workers.sandbox.errors import Refused
from workers.sandbox.limits import limit_all, limit_cpu
from workers.sandbox.tables import describe, query, sql

ACTIONS: dict[str, Callable[..., Any]] = {
    "regex": regex,
    "json_schema": json_schema,
    "sql": sql,
    "query": query,
    "describe": describe,
}


def _reply(request: dict[str, Any]) -> dict[str, Any]:
    limit_cpu(request["cpu_s"])
    try:
        return {"result": ACTIONS[request["action"]](**request["arguments"])}
    except Refused as refused:
        return {"refused": str(refused)}
    except MemoryError:
        return {"refused": "it needs too much memory"}
    except Exception as error:  # noqa: BLE001
        # Whatever a hostile text wrings out of a library is its own refusal, and never the worker's end.
        return {"refused": f"{type(error).__name__}: {error}"[:FAULT_CHARS]}


def main() -> None:
    """Serve until the worker closes the pipe."""
    limit_all()
    for line in sys.stdin:
        print(json.dumps(_reply(json.loads(line))), flush=True)  # noqa: T201  the reply
