"""Parses points in time as people write them: `15m`, `24h`, `7d`, or an ISO time."""

import re
from datetime import UTC, datetime
from typing import Final

UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}

_AGO: Final = re.compile(r"([0-9]{1,9})([smhdwy])")


def parse_since(text: str, now: float) -> float:
    """Seconds since 1970. Spans count back from `now`; an ISO time without a zone is UTC.

    Raises:
        ValueError: the text is neither; the message is for its author.
    """
    text = text.strip()
    if ago := _AGO.fullmatch(text):
        return now - int(ago[1]) * UNIT_SECONDS[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"Not a time: {text[:40]!r}. Use a span such as 30s, 15m, 24h, 7d, 2w or 1y, "
            "or an ISO time such as 2026-07-28T12:00:00Z."
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
