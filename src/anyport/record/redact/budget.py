"""Redaction budget: how much work the search for secrets may take, per exchange and per loop turn.

Work is counted in steps of about a microsecond, not timed: so the same payload is always recorded
in the same way, also on a busy machine.
"""

from collections.abc import Callable
from typing import Final

LOOP_STEPS_MAX: Final = 5_000
"""Of one turn of the event loop. Each exchange may take half of the rest, so that every one gets
some."""

TEXT_STEPS_MAX: Final = 5_000
"""For texts outside exchanges, such as a line of a log."""

NESTED_MAX: Final = 8
"""JSON within strings of JSON. Each level is parsed again, and has twice the backslashes."""


class BudgetExceeded(Exception):
    """There is more to search than the budget allows."""


class RedactionBudget:
    """The budget of one exchange."""

    __slots__ = ("_steps", "depth", "steps_left")

    def __init__(self, steps: int = TEXT_STEPS_MAX) -> None:
        self._steps = self.steps_left = steps
        self.depth = 0
        """Levels of JSON within strings, while they are parsed."""

    @property
    def spent_steps(self) -> int:
        """Steps spent; a last step beyond the budget does not count."""
        return self._steps - max(0, self.steps_left)

    def spend(self, steps: int) -> None:
        """Take steps from the budget.

        Raises:
            BudgetExceeded: too few are left.
        """
        self.steps_left -= steps
        if self.steps_left < 0:
            raise BudgetExceeded

    def enter_nested(self) -> None:
        """Count one more level of JSON within a string.

        Raises:
            BudgetExceeded: there are too many.
        """
        self.depth += 1
        if self.depth > NESTED_MAX:
            raise BudgetExceeded


class LoopBudget:
    """The budget of one turn of the event loop."""

    __slots__ = ("_call_soon", "_steps_left")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object] | None = None) -> None:
        """`call_soon` schedules a callback for the next turn; without it the budget is never
        renewed."""
        self._steps_left = LOOP_STEPS_MAX
        self._call_soon = call_soon

    def allot(self) -> RedactionBudget:
        """The budget of the next exchange."""
        return RedactionBudget(self._steps_left // 2)

    def charge(self, budget: RedactionBudget) -> None:
        """Subtract what an exchange has spent."""
        if (
            self._steps_left == LOOP_STEPS_MAX
            and budget.spent_steps
            and self._call_soon is not None
        ):
            self._call_soon(self.reset)
        self._steps_left -= budget.spent_steps

    def reset(self) -> None:
        self._steps_left = LOOP_STEPS_MAX
