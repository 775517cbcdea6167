"""Several things that have to happen before one that follows, which happens once."""

from collections.abc import Callable


class Tally:
    """Counts what is still to come. Whoever opens one closes it, when all has been counted."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._left = 1

    def expect(self) -> Callable[[], None]:
        """One more; call what is returned when it has happened."""
        self._left += 1
        happened = False

        def happens() -> None:
            nonlocal happened
            if not happened:
                happened = True
                self.close()

        return happens

    def close(self) -> None:
        """Nothing more is going to be counted, or one of those that were has happened."""
        self._left -= 1
        if self._left == 0:
            self._then()

    def give_up(self) -> None:
        """Wait for the rest no longer."""
        if self._left > 0:
            self._left = 0
            self._then()
