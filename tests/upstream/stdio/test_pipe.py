"""Bytes to and from a server, on real pipes."""

import asyncio
import os
from typing import cast

import pytest

from anyport.protocol.memory_budget import LARGE_BYTES, MemoryBudget
from anyport.protocol.scheduler import HEAVY_BYTES, FairScheduler, WorkSteps, cost_of
from anyport.upstream.stdio import pipe as module
from anyport.upstream.stdio.pipe import UNREAD_BYTES_MAX, UNSENT_BYTES_MAX, StdioPipe
from anyport.upstream.stdio.process import ChildProcess
from anyport.upstream.stdio.transport import StdioTransport
from anyport.wire.lines import Overlong
from tests.upstream.fakes import FakeServer, run, silent, until


class Scene:
    """A pipe, the server at its far end, and what was heard."""

    def __init__(
        self,
        bytes_max: int = 1 << 20,
        room: MemoryBudget | None = None,
        scheduler: FairScheduler | None = None,
    ) -> None:
        self.lines: list[bytes | Overlong] = []
        self.stderr = b""
        self.ends: list[str] = []
        self.server = FakeServer(silent)
        self.pipe = StdioPipe(
            cast(ChildProcess, self.server.child),
            cast(StdioTransport, self),
            bytes_max,
            room,
            scheduler,
        )

    # As a transport.

    def on_line(self, pipe: StdioPipe, line: bytes | Overlong) -> None:
        self.take(line)

    def on_stderr(self, chunk: bytes) -> None:
        self.stderr += chunk

    def on_end(self, pipe: StdioPipe, reason: str) -> None:
        self.ends.append(reason)

    def take(self, line: bytes | Overlong) -> None:
        self.lines.append(line)

    def close(self) -> None:
        self.pipe.end("over")
        self.server.die(0)
        self.server.child.close()


def test_frames_of_one_turn_go_out_together_and_in_order() -> None:
    async def play() -> None:
        scene = Scene()
        scene.pipe.send(b'{"a":\n1}')
        scene.pipe.send(b'{"a":2}')
        await until(lambda: len(scene.server.heard) == 2)

        assert scene.server.heard == [{"a": 1}, {"a": 2}]
        scene.close()

    run(play)


def test_lines_and_stderr_are_handed_over_as_they_come() -> None:
    async def play() -> None:
        scene = Scene()
        scene.server.write(b'{"a":1}\n{"a"')
        os.write(scene.server.stderr, b"words")
        await until(lambda: scene.stderr == b"words" and len(scene.lines) == 1)
        scene.server.write(b":2}\n")
        await until(lambda: len(scene.lines) == 2)

        assert scene.lines == [b'{"a":1}', b'{"a":2}']
        scene.close()

    run(play)


def test_what_a_server_does_not_read_waits_and_goes_out_when_it_reads() -> None:
    async def play() -> None:
        scene = Scene()
        loop = asyncio.get_running_loop()
        loop.remove_reader(scene.server.stdin)
        frame = b'"%b"' % (b"x" * (1 << 20))
        frames = UNSENT_BYTES_MAX // len(frame) + 2
        for _ in range(frames):
            scene.pipe.send(frame)
        await asyncio.sleep(0)
        assert scene.pipe.full

        loop.add_reader(scene.server.stdin, scene.server._read)
        await until(lambda: len(scene.server.heard) == frames)

        assert not scene.pipe.full
        scene.close()

    run(play)


def test_the_end_is_told_once_and_nothing_is_said_after_it() -> None:
    async def play() -> None:
        scene = Scene()
        scene.pipe.send(b"{}")
        scene.pipe.end("first")
        scene.pipe.end("second")
        scene.pipe.send(b"{}")
        scene.server.write(b"{}\n")
        scene.pipe.drain(lambda: None)
        await asyncio.sleep(0.01)

        assert (scene.ends, scene.lines, scene.server.heard) == (["first"], [], [])
        scene.close()

    run(play)


def test_what_an_exited_server_had_written_is_read_to_the_end() -> None:
    async def play() -> None:
        scene = Scene()
        scene.server.write(b'{"a":1}\n{"a":2}')
        os.write(scene.server.stderr, b"last words")
        scene.server.die()
        scene.pipe.drain(lambda: None)

        assert scene.lines == [b'{"a":1}', b'{"a":2}']
        assert scene.stderr == b"last words"
        scene.close()

    run(play)


def test_draining_does_not_wait_for_who_still_holds_the_pipes() -> None:
    async def play() -> None:
        scene = Scene()
        scene.server.write(b"{}\n")
        scene.pipe.drain(lambda: None)  # The far ends are open, and nobody will ever write again.

        assert scene.lines == [b"{}"]
        scene.close()

    run(play)


def test_a_line_that_breaks_its_listener_does_not_cost_the_lines_after_it() -> None:
    async def play() -> None:
        scene = Scene()
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: told.append(context["exception"])
        )
        broken = ValueError("broken")

        def take(line: bytes | Overlong) -> None:
            if line == b"1":
                raise broken
            scene.lines.append(line)

        scene.take = take  # type: ignore[method-assign]
        scene.server.write(b"1\n2\n3\n")
        await until(lambda: len(scene.lines) == 2)

        assert scene.lines == [b"2", b"3"]
        assert told == [broken]
        scene.close()

    run(play)


@pytest.mark.parametrize("closed", ["stdin", "stdout"])
def test_a_server_that_closes_its_pipes_and_stays_is_given_up(
    closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXIT_SECONDS_MAX", 0.0)

    async def play() -> None:
        scene = Scene()
        if closed == "stdin":
            asyncio.get_running_loop().remove_reader(scene.server.stdin)
        os.close(getattr(scene.server, closed))
        setattr(scene.server, closed, os.open(os.devnull, os.O_RDWR))
        scene.pipe.send(b"{}")
        await until(lambda: bool(scene.ends))

        assert scene.ends == [f"it closed its {closed}"]
        scene.close()

    run(play)


def test_a_line_that_never_ends_ends_the_pipe() -> None:
    async def play() -> None:
        scene = Scene(bytes_max=1000)
        scene.server.write(b"x" * 3000)
        await until(lambda: bool(scene.ends))

        assert scene.ends == ["it wrote a line of more than 3000 bytes without an end"]
        scene.close()

    run(play)


def test_a_line_over_the_limit_is_told_as_such_and_the_next_is_read() -> None:
    async def play() -> None:
        scene = Scene(bytes_max=1000)
        scene.server.write(b"x" * 1500 + b"\n{}\n")
        await until(lambda: len(scene.lines) == 2)

        overlong, whole = scene.lines
        assert isinstance(overlong, Overlong)
        assert (overlong.size, whole) == (1500, b"{}")
        scene.close()

    run(play)


async def pour(scene: Scene, raw: bytes) -> None:
    """Have the server write more than its pipe holds at once."""
    while raw:
        try:
            raw = raw[os.write(scene.server.stdout, raw) :]
        except BlockingIOError:
            await asyncio.sleep(0)


def test_a_large_line_takes_up_room_while_it_comes() -> None:
    async def play() -> None:
        room = MemoryBudget()
        scene = Scene(room=room)
        await pour(scene, b"x" * (3 * LARGE_BYTES))
        await until(lambda: room.used_bytes == 3 * LARGE_BYTES)

        scene.server.write(b"\n")
        await until(lambda: bool(scene.lines))
        assert room.used_bytes == 0
        await pour(scene, b"y" * (2 * LARGE_BYTES))
        await until(lambda: room.used_bytes > 0)
        scene.close()

        assert room.used_bytes == 0

    run(play)


def test_a_large_line_for_which_there_is_no_room_is_dropped_and_the_next_is_read() -> None:
    async def play() -> None:
        room = MemoryBudget(2 * LARGE_BYTES)
        scene = Scene(room=room)
        await pour(scene, b"x" * (5 * LARGE_BYTES) + b"\n{}\n")
        await until(lambda: len(scene.lines) == 2)

        dropped, following = scene.lines
        assert isinstance(dropped, Overlong)
        assert dropped.size == 5 * LARGE_BYTES
        assert following == b"{}"
        assert room.used_bytes == 0
        scene.close()

    run(play)


def test_a_server_that_asks_and_never_reads_is_given_up() -> None:
    async def play() -> None:
        scene = Scene()
        asyncio.get_running_loop().remove_reader(scene.server.stdin)
        answer = b"x" * (1 << 20)
        while not scene.ends:
            scene.pipe.send(answer)
            assert scene.pipe.full or not scene.ends
            await asyncio.sleep(0)

        assert str(UNREAD_BYTES_MAX) in scene.ends[0]
        scene.pipe.send(answer)
        assert len(scene.ends) == 1
        scene.server.die(0)
        scene.server.child.close()

    run(play)


def test_what_never_went_out_is_known_at_the_end() -> None:
    async def play() -> None:
        scene = Scene()
        asyncio.get_running_loop().remove_reader(scene.server.stdin)
        large = b'"%b"' % (b"x" * (1 << 20))
        scene.pipe.send(large)
        scene.pipe.send(b'"of the same turn"')
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # As much as the pipe takes has been written.
        scene.pipe.send(b'"of a later turn"')

        scene.pipe.end("over")

        left = [line for line in scene.pipe.unwritten if line]
        assert left == [b'"of the same turn"', b'"of a later turn"'], "the first has begun"
        scene.close()

    run(play)


def test_what_a_server_that_closed_its_input_did_not_read_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "EXIT_SECONDS_MAX", 0.0)

    async def play() -> None:
        scene = Scene()
        asyncio.get_running_loop().remove_reader(scene.server.stdin)
        os.close(scene.server.stdin)

        scene.pipe.send(b'"for nobody"')
        await until(lambda: bool(scene.ends))

        assert [line for line in scene.pipe.unwritten if line] == [b'"for nobody"']
        scene.server.stdin = os.open(os.devnull, os.O_RDONLY)
        scene.close()

    run(play)


class Counting(FairScheduler):
    """Does all work at once, and remembers what each step was said to cost."""

    def __init__(self, scene: "list[bytes | Overlong]") -> None:
        super().__init__()
        self.steps: list[tuple[int, int]] = []
        """How many lines had been handed over by then, and the cost."""
        self._lines = scene

    def run(self, peer: object, work: WorkSteps, on_done: object) -> bool:
        self.steps += [(len(self._lines), cost) for cost in work]
        return True


def test_what_a_large_line_costs_is_paid_before_it_is_handed_over() -> None:
    async def play() -> None:
        lines: list[bytes | Overlong] = []
        scheduler = Counting(lines)
        scene = Scene(scheduler=scheduler)
        scene.lines = lines
        scene.server.write(b"s\n" + b"l" * 2 * HEAVY_BYTES + b"\n")
        await until(lambda: len(lines) == 2)

        assert [step for step in scheduler.steps if step[0]] == [
            *((1, 1), (1, cost_of(2 * HEAVY_BYTES)), (2, 1))
        ]
        scene.close()

    run(play)
