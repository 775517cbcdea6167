"""The published time server, on a day that never ends.

Its answers name the date and the day of the week. Two sessions that are compared may have midnight
between them; here a second one is on the same day, at another time of it.
"""

from __future__ import annotations

from datetime import datetime, tzinfo

from mcp_server_time import main, server

YEAR, MONTH, DAY = 2026, 7, 28


class OneDay(datetime):
    """The time of day is the true one, the date is not."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> OneDay:
        return super().now(tz).replace(year=YEAR, month=MONTH, day=DAY)


server.datetime = OneDay
main()
