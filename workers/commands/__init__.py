"""External agents: programs that are started for a trial and make calls to the gateway themselves.

A client (`base.Client`) knows how one of them is started and how its report is read; it is pure. `running` starts a
program in a folder of its own and gives the `Outcome` of the call; `process` and `guardian` see to it that it ends.

    ReportInvalid    what the program printed is no report of its client
"""

from collections.abc import Mapping
from types import MappingProxyType

from workers.commands.base import Client, Report, ReportInvalid, Turn
from workers.commands.claude_code import ClaudeCode
from workers.commands.codex import Codex
from workers.commands.generic import Generic

__all__ = ["CLIENTS", "Client", "Report", "ReportInvalid", "Turn"]

CLIENTS: Mapping[str, Client] = MappingProxyType(
    {client.name: client for client in (ClaudeCode(), Codex(), Generic())}
)
