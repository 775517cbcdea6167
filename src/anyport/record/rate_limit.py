"""Rate limit per key, in fixed windows of one second."""


class RateLimiter:
    """Grants each key a number of events per second."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._used: dict[str, tuple[int, int]] = {}

    def acquire(self, key: str, count: int, now: float) -> int:
        """How many of `count` events are granted. Refused events count towards the window, too."""
        second = int(now)
        used_second, used = self._used.get(key, (second, 0))
        used = 0 if used_second != second else used
        self._used[key] = (second, used + count)
        return max(0, min(count, self._per_second - used))
