"""Running the asynchronous part of a command."""

import asyncio
import os
import signal

import pytest
import uvloop

from anyport.cli.loop import run


def test_the_result_comes_back_from_the_fast_loop() -> None:
    async def work() -> type[object]:
        return type(asyncio.get_running_loop())

    assert run(work()) is uvloop.Loop


def test_an_interrupt_lets_the_work_put_things_in_order_first() -> None:
    order: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            order.append("in order")

    with pytest.raises(KeyboardInterrupt):
        run(work())
    assert order == ["in order"]
