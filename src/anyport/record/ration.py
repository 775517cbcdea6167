"""So many of something in a second for each, and no more. Pure: the time is an argument."""


class Ration:
    """What each may have in one second."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._taken: dict[str, tuple[int, int]] = {}

    def take(self, whom: str, count: int, now: float) -> int:
        """How many of `count` they get; what they do not get is counted all the same."""
        second = int(now)
        counted_in, taken = self._taken.get(whom, (second, 0))
        taken = 0 if counted_in != second else taken
        self._taken[whom] = (second, taken + count)
        return max(0, min(count, self._per_second - taken))
