"""What signals ask for."""

import asyncio
import os
import signal

import pytest

from anyport.cli.serve.signals import StopSignals

INT, TERM = signal.SIGINT, signal.SIGTERM


@pytest.mark.parametrize(("number", "code"), [(TERM, 0), (INT, 130)])
def test_the_first_signal_decides_the_exit_code(number: signal.Signals, code: int) -> None:
    async def stop() -> int:
        stopping = StopSignals(lambda _: None)
        stopping.on_signal(number)
        return await stopping.wait_stop_requested()

    assert asyncio.run(stop()) == code


@pytest.mark.parametrize(
    ("signals", "code"),
    [((TERM, TERM), 1), ((INT, INT), 130), ((TERM, INT), 130), ((INT, TERM), 1)],
)
def test_the_second_signal_stops_at_once(signals: tuple[signal.Signals, ...], code: int) -> None:
    codes: list[int] = []

    async def stop() -> None:
        stopping = StopSignals(codes.append)
        for number in signals:
            assert codes == []
            stopping.on_signal(number)

    asyncio.run(stop())
    assert codes == [code]


def test_who_is_asked_otherwise_has_heard_no_signal_yet() -> None:
    codes: list[int] = []
    acts: list[str] = []

    async def stop() -> int:
        stopping = StopSignals(codes.append)
        stopping.add_stop_callback(lambda: acts.append("asked"))
        assert acts == []
        stopping.request_stop()
        stopping.request_stop()
        return await stopping.wait_stop_requested()

    assert asyncio.run(stop()) == 0
    assert (codes, acts) == ([], ["asked"])


def test_waiting_can_be_given_up_without_losing_count() -> None:
    codes: list[int] = []

    async def stop() -> int:
        stopping = StopSignals(codes.append)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await stopping.wait_stop_requested()
        stopping.on_signal(TERM)
        return await stopping.wait_stop_requested()

    assert asyncio.run(stop()) == 0
    assert codes == []


def test_real_signals_are_heard_but_not_those_that_are_to_be_ignored() -> None:
    before = signal.signal(INT, signal.SIG_IGN)

    async def stop() -> int:
        stopping = StopSignals(lambda _: None)
        stopping.listen()
        os.kill(os.getpid(), INT)
        os.kill(os.getpid(), TERM)
        async with asyncio.timeout(30):
            return await stopping.wait_stop_requested()

    try:
        assert asyncio.run(stop()) == 0
    finally:
        signal.signal(INT, before)
