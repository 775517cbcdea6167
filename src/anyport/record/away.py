"""Work that may take long, done in a thread of its own, one piece after the other.

For writes to a disk that hangs: the thread may never come back, and nobody has to wait for it, not
even the end of the process. What the work is, is not known here.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Away(Generic[_T]):
    """One thread, begun when it is first needed."""

    def __init__(self, back: Callable[[Callable[[], None]], object]) -> None:
        """`back` has something called where the work is given out, from any thread."""
        self._back = back
        self._given: SimpleQueue[Callable[[], _T]] = SimpleQueue()
        self._brought: SimpleQueue[_T] = SimpleQueue()
        self._over = threading.Semaphore(0)
        self._done: Callable[[_T], None] | None = None
        self._begun = False

    @property
    def busy(self) -> bool:
        """Whether a piece of work was given out, and its end was not told yet."""
        return self._done is not None

    def begin(self, work: Callable[[], _T], done: Callable[[_T], None]) -> None:
        """Have work done that raises nothing, then `done` called with what has come of it."""
        if self._done is not None:
            raise RuntimeError("one piece of work after the other")
        self._done = done
        if not self._begun:
            self._begun = True
            threading.Thread(target=self._run, name="record", daemon=True).start()
        self._given.put(work)

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the work, if there is any; False if it does not come."""
        if self._done is None:
            return True
        if not self._over.acquire(timeout=seconds):
            return False
        self._tell()
        return True

    def _run(self) -> None:
        while True:
            self._brought.put(self._given.get()())
            self._over.release()
            with suppress(RuntimeError):  # The loop has ended; `wait` may still be called.
                self._back(self._arrived)

    def _arrived(self) -> None:
        if self._over.acquire(blocking=False):  # Else somebody has waited for it.
            self._tell()

    def _tell(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(self._brought.get())
