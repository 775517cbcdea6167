"""Runs a command's asynchronous part, on the fast loop where there is one."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

try:
    import uvloop
except ImportError:  # It does not exist for Windows.
    uvloop = None  # type: ignore[assignment, unused-ignore]

_T = TypeVar("_T")


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """The result of `work`.

    Raises:
        KeyboardInterrupt: SIGINT came; `work` was cancelled and has put things in order.
    """
    factory = None if uvloop is None else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)
