"""The stdio transport."""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from anyport.ingress import stdio as module
from anyport.ingress.stdio import StdioIngress
from anyport.protocol.adapters.client import UnroutedMessage
from anyport.protocol.adapters.legacy_client import GatewayDescription
from anyport.protocol.exchange import Answered, Caller, Exchange, Session
from anyport.protocol.memory_budget import MemoryBudget
from anyport.protocol.scheduler import HEAVY_BYTES, FairScheduler, WorkSteps, cost_of
from anyport.wire.jsonrpc import Failure, Notification, Result

DEADLINE_SECONDS = 60.0
PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'


class FakeRequestHandler:
    """Answers a ping with as many bytes as it asks for, at once or on command."""

    def __init__(self) -> None:
        self.story: list[str] = []
        self.open: list[Exchange] = []
        self.hold = False
        self.result = b"{}"

    def begin(self, exchange: Exchange) -> None:
        self.story.append(f"begin {exchange.id.decode()}")
        self.open.append(exchange)
        if not self.hold:
            self.answer()

    def answer(self) -> None:
        for exchange in self.open:
            exchange.end(Answered(self.result))
        self.open.clear()

    def prepare_fast_call(self, *_: object) -> None:
        return None

    def server_info(self, profile: str) -> bytes:
        return b"{}"

    def find_unknown_method(self, caller: Caller, method: str) -> None: ...

    def describe(self, profile: str) -> GatewayDescription:
        return GatewayDescription(b"{}", None)

    def on_session_opened(self, session: Session) -> None:
        self.story.append("opened")

    def on_session_closed(self, session: Session) -> None:
        self.story.append("closed")

    def on_notification(self, caller: Caller, notification: Notification) -> None:
        self.story.append(notification.method)

    def record_message(
        self, caller: Caller, message: UnroutedMessage, answer: Result | Failure | None = None
    ) -> None: ...


class Scene:
    """An ingress between two pipes, and the client at their other ends."""

    def __init__(self, stdin: int | None = None) -> None:
        self.handler = FakeRequestHandler()
        self.flushed = 0
        self.held = 0
        theirs, self.to = os.pipe()
        self.from_, ours = os.pipe()
        self.stdin, self.stdout = theirs if stdin is None else stdin, ours
        self._spare = [] if stdin is None else [theirs]
        self.ingress = StdioIngress(
            self.handler,
            profile="default",
            before_write=self._flush,
            unrecorded_answers=lambda: self.held,
            stdin=self.stdin,
            stdout=self.stdout,
        )
        os.set_blocking(self.from_, False)
        self.read = b""

    def _flush(self) -> None:
        self.flushed += 1

    def say(self, raw: bytes) -> None:
        os.write(self.to, raw)

    def hear(self) -> bytes:
        try:
            while portion := os.read(self.from_, 1 << 20):
                self.read += portion
        except BlockingIOError:
            pass
        return self.read

    @property
    def ids(self) -> list[Any]:
        whole = self.hear().split(b"\n")[:-1]
        return [json.loads(line)["id"] for line in whole]

    def hang_up(self) -> None:
        os.close(self.to)
        self.to = -1

    def close(self) -> None:
        for fd in {self.to, self.from_, self.stdin, self.stdout, *self._spare} - {-1}:
            os.close(fd)


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def play(
    request: pytest.FixtureRequest,
) -> Callable[[Callable[[], Coroutine[Any, Any, None]]], None]:
    """Run a scene on each kind of event loop."""

    async def bounded(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await scene()

    return lambda scene: request.param(bounded(scene))


Play = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.001)


def test_requests_are_answered_in_lines_until_the_input_ends(play: Play) -> None:
    async def story() -> None:
        scene = Scene()
        async with asyncio.TaskGroup() as group:
            served = group.create_task(scene.ingress.run())
            scene.say(PING % 1 + PING % 2)
            await until(lambda: scene.ids == [1, 2])
            scene.say((PING % 3)[:10])
            await asyncio.sleep(0)
            assert not served.done()
            scene.say((PING % 3)[10:])
            await until(lambda: scene.ids == [1, 2, 3])
            scene.hang_up()
        scene.close()

    play(story)


def test_the_answers_of_one_turn_go_out_together_after_the_record_of_them(play: Play) -> None:
    async def story() -> None:
        scene = Scene()
        scene.say(b"".join(PING % number for number in range(1, 51)))
        scene.hang_up()
        await scene.ingress.run()

        assert scene.ids == list(range(1, 51))
        assert scene.flushed == 1
        scene.close()

    play(story)


def test_what_is_open_when_the_input_ends_is_answered_first(play: Play) -> None:
    async def story() -> None:
        scene = Scene()
        scene.handler.hold = True
        async with asyncio.TaskGroup() as group:
            served = group.create_task(scene.ingress.run())
            scene.say(PING % 1)
            scene.say((PING % 2).rstrip(b"\n"))  # The last line may have no newline.
            scene.hang_up()
            await until(lambda: len(scene.handler.open) == 2)
            await asyncio.sleep(0.01)
            assert not served.done()
            scene.handler.answer()
        assert scene.ids == [1, 2]
        scene.close()

    play(story)


def test_a_session_is_closed_when_everything_is_answered(play: Play) -> None:
    async def story() -> None:
        scene = Scene()
        scene.handler.hold = True
        params = '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}'
        scene.say(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":%b}\n' % params.encode())
        scene.say(PING % 1)
        scene.hang_up()
        async with asyncio.TaskGroup() as group:
            group.create_task(scene.ingress.run())
            await until(lambda: bool(scene.handler.open))
            assert "closed" not in scene.handler.story
            scene.handler.answer()
        assert scene.handler.story == ["opened", "begin 1", "closed"]
        scene.close()

    play(story)


def test_input_may_be_a_file(play: Play, tmp_path: Path) -> None:
    (tmp_path / "requests").write_bytes(PING % 1 + PING % 2)

    async def story() -> None:
        scene = Scene(os.open(tmp_path / "requests", os.O_RDONLY))
        await scene.ingress.run()

        assert scene.ids == [1, 2]
        scene.close()

    play(story)


def test_output_may_be_a_file(play: Play, tmp_path: Path) -> None:
    async def story() -> None:
        scene = Scene()
        target = os.open(tmp_path / "answers", os.O_WRONLY | os.O_CREAT)
        ingress = StdioIngress(
            scene.handler,
            profile="default",
            before_write=lambda: None,
            stdin=scene.stdin,
            stdout=target,
        )
        scene.say(PING % 1)
        scene.hang_up()
        await ingress.run()

        assert json.loads((tmp_path / "answers").read_bytes())["id"] == 1
        os.close(target)
        scene.close()

    play(story)


def test_a_client_that_does_not_read_is_not_read_from_either(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "UNSENT_BYTES_PAUSE", 1 << 20)

    async def story() -> None:
        scene = Scene()
        scene.handler.result = b'"%b"' % (b"x" * (1 << 21))
        async with asyncio.TaskGroup() as group:
            group.create_task(scene.ingress.run())
            scene.say(PING % 1)
            await until(lambda: len(scene.handler.story) == 1)
            scene.say(PING % 2)
            await asyncio.sleep(0.01)
            assert scene.handler.story == ["begin 1"]

            await until(lambda: len(scene.ids) == 2)
            scene.hang_up()
        scene.close()

    play(story)


def test_a_client_that_has_gone_is_not_waited_for(play: Play) -> None:
    async def story() -> None:
        scene = Scene()
        scene.handler.hold = True
        async with asyncio.TaskGroup() as group:
            group.create_task(scene.ingress.run())
            scene.say(PING % 1 + PING % 2)
            await until(lambda: len(scene.handler.open) == 2)
            os.close(scene.from_)
            scene.from_ = -1
            scene.handler.open.pop().end(Answered(b"{}"))
        scene.close()

    play(story)


def test_a_client_that_never_reads_is_given_up(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNSENT_BYTES_MAX", 1 << 20)

    async def story() -> None:
        scene = Scene()
        scene.handler.result = b'"%b"' % (b"x" * (1 << 21))
        scene.say(PING % 1)
        await scene.ingress.run()
        scene.close()

    play(story)


def test_a_line_over_the_limit_is_refused_and_the_next_is_read(play: Play) -> None:
    async def story() -> None:
        scene = Scene()
        async with asyncio.TaskGroup() as group:
            group.create_task(scene.ingress.run())
            long = b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"%b"}}\n'
            os.set_blocking(scene.to, False)
            rest = long % (b"x" * (5 << 20)) + PING % 8
            while rest:
                try:
                    rest = rest[os.write(scene.to, rest) :]
                except BlockingIOError:
                    await asyncio.sleep(0)
            await until(lambda: len(scene.ids) == 2)
            scene.hang_up()
        assert scene.ids == [7, 8]
        assert b"the limit is 4194304" in scene.read
        scene.close()

    play(story)


def test_a_line_that_breaks_us_does_not_cost_the_lines_after_it(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        scene = Scene()
        received: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: received.append(context["exception"])
        )
        begin, broken = scene.handler.begin, RuntimeError("a bug")

        def breaks(exchange: Exchange) -> None:
            if exchange.id == b"1":
                exchange.end(Answered(b"{}"))
                raise broken
            begin(exchange)

        monkeypatch.setattr(scene.handler, "begin", breaks)
        scene.say(PING % 1 + PING % 2)
        scene.hang_up()
        await scene.ingress.run()

        assert scene.ids == [1, 2]
        assert received == [broken]
        scene.close()

    play(story)


def test_descriptors_are_left_as_they_were_found(play: Play) -> None:
    async def story() -> None:
        scene = Scene()
        assert not os.get_blocking(scene.stdout)
        scene.hang_up()
        await scene.ingress.run()

        assert os.get_blocking(scene.stdout)
        scene.close()

    play(story)


def test_what_still_waits_for_its_record_is_waited_for(play: Play) -> None:
    async def story() -> None:
        scene = Scene()
        scene.held = 1
        async with asyncio.TaskGroup() as group:
            served = group.create_task(scene.ingress.run())
            scene.say(PING % 1)
            scene.hang_up()
            await until(lambda: scene.ids == [1])
            await asyncio.sleep(0.01)
            assert not served.done()
            scene.held = 0
            scene.ingress._writer.send_frames(b'{"jsonrpc":"2.0","id":2,"result":{}}')
        assert scene.ids == [1, 2]
        scene.close()

    play(story)


class Counting(FairScheduler):
    """A scheduler that handles everything at once and keeps the costs."""

    def __init__(self, handler: FakeRequestHandler) -> None:
        super().__init__()
        self.steps: list[tuple[int, int]] = []
        """Number of requests so far, and the cost of each step."""
        self._relay = handler

    def run(self, peer: object, work: WorkSteps, on_done: object) -> bool:
        self.steps += [(len(self._relay.story), cost) for cost in work]
        return True


def test_what_a_large_message_costs_is_paid_before_it_is_taken(play: Play) -> None:
    async def story() -> None:
        scene = Scene()
        scheduler = Counting(scene.handler)
        scene.ingress.share_limits(MemoryBudget(), scheduler)
        large = PING.replace(b"}", b',"params":{"x":"%b"}}' % (b"y" * 2 * HEAVY_BYTES)) % 1
        scene.say(large)
        scene.hang_up()
        await scene.ingress.run()

        assert scene.ids == [1]
        assert scheduler.steps == [(0, cost_of(len(large) - 1)), (1, 1)]
        scene.close()

    play(story)


def test_the_messages_of_a_batch_are_taken_one_by_one(play: Play) -> None:
    async def story() -> None:
        scene = Scene()
        scheduler = Counting(scene.handler)
        scene.ingress.share_limits(MemoryBudget(), scheduler)
        scene.say(b"[" + b",".join(PING.strip() % number for number in range(5)) + b"]\n")
        scene.hang_up()
        await scene.ingress.run()

        assert [taken for taken, _ in scheduler.steps] == [1, 2, 3, 4, 5, 5]
        assert [answer["id"] for answer in json.loads(scene.hear())] == [0, 1, 2, 3, 4]
        scene.close()

    play(story)
