"""Slots of the limiter that nobody holds any more.

A worker that was killed leaves them behind, a broker that lost its last second shows them again, and a worker whose
broker was away could not give them back: they would block their lane until the calls' time-out. Postgres knows who is
at work.
"""

import logging

from db import dispatch
from db.connection import Connection
from scheduler.lanes import Slot, free_slots

log = logging.getLogger(__name__)


class Slots:
    """Frees what two looks in a row found without a holder: a call is settled a moment before the limiter is told."""

    def __init__(self, connection: Connection, *, broker_url: str) -> None:
        self._connection = connection
        self._broker_url = broker_url
        self._suspected: set[Slot] = set()

    def look(self) -> int:
        """How many were freed; 0 also while the broker is away."""
        freed: set[Slot] = set()

        def given_up(held: set[Slot]) -> set[Slot]:
            abandoned = self._of_nobody(held)
            freed.update(abandoned & self._suspected)
            self._suspected = abandoned - freed
            return freed

        lanes = dispatch.lane_names(self._connection)
        if not lanes or not free_slots(self._broker_url, lanes, given_up):
            return 0
        if freed:
            log.warning("Freed %d slots of the limiter that nobody held any more.", len(freed))
        return len(freed)

    def _of_nobody(self, held: set[Slot]) -> set[Slot]:
        tickets = {}
        for _, ticket in held:
            job, _, dispatch_no = ticket.partition(":")
            if job.isdigit() and dispatch_no.isdigit():  # else it is not one of our workers'
                tickets[ticket] = (int(job), int(dispatch_no))
        abandoned = dispatch.tickets_of_nobody(self._connection, tickets) if tickets else set()
        return {slot for slot in held if slot[1] in abandoned}
