"""One hook's queue: in order, one at a time, bounded, and with a memory on the disk."""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from anyport.gateway.hooks import queue
from anyport.gateway.hooks.actions import (
    ActionDone,
    ActionFailed,
    ActionOutcome,
    ActionRetry,
    HookEvent,
)
from anyport.gateway.hooks.queue import (
    ATTEMPTS_MAX,
    DROPS_NOTED_SECONDS,
    QUEUE_BYTES_MAX,
    SPOOLED_SECONDS_MAX,
    HookQueue,
    HookRecorder,
    Spool,
    SpoolPosition,
    clear_old,
    event_key,
)
from tests.gateway.fakes import GroupClock
from tests.gateway.receiver import until

AGAIN = ActionRetry(reason="busy")
AWAY = ActionRetry(reason="away", is_answer=False)


def line(number: int) -> bytes:
    return json.dumps({"trace_id": "a" * 32, "n": number}).encode()


class FakeAction:
    """Comes to what it is told to, then to good ends."""

    kind = "post"

    def __init__(self, *outcomes: ActionOutcome) -> None:
        self.outcomes = list(outcomes)
        self.seen: list[HookEvent] = []
        self.permits = asyncio.Semaphore(10_000)
        """How many attempts come to their end."""
        self.most_at_once = self._now = 0
        self.closed = False

    @property
    def numbers(self) -> list[int]:
        return [json.loads(hook_event.line)["n"] for hook_event in self.seen]

    async def act(self, hook_event: HookEvent) -> ActionOutcome:
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        self.seen.append(hook_event)
        try:
            await self.permits.acquire()
        finally:
            self._now -= 1
        return self.outcomes.pop(0) if self.outcomes else ActionDone()

    def close(self) -> None:
        self.closed = True


class QueueClock(GroupClock):
    """Passes over every pause at once, and remembers it."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        super().__init__(group)
        self.seconds = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.seconds

    def random(self) -> float:
        return 0.0

    def later(self, seconds: float, act: Callable[[], object]) -> asyncio.TimerHandle:
        self.pauses.append(seconds)
        return super().later(0, act)


class Stage(HookRecorder):
    """A queue, its clock, and what it records."""

    def __init__(self, group: asyncio.TaskGroup, action: FakeAction, spool: Spool | None) -> None:
        self.failures: list[tuple[int, str]] = []
        self.drops: list[int] = []
        self.clock = QueueClock(group)
        self.action = action
        self.queue = HookQueue("h", action, self.clock, self, spool)

    def record_failure(self, queue: HookQueue, hook_event: HookEvent, reason: str) -> None:
        self.failures.append((json.loads(hook_event.line)["n"], reason))

    def record_drops(self, queue: HookQueue, count: int) -> None:
        self.drops.append(count)

    async def idle(self) -> None:
        await until(lambda: not len(self.queue) and not self.queue.is_busy)


Scene = Callable[[Stage], Coroutine[Any, Any, None]]


@pytest.fixture
def play() -> Callable[..., Stage]:
    """Plays a scene with a queue; gives the stage as it was left."""

    def run(scene: Scene, *outcomes: ActionOutcome, spool: Spool | None = None) -> Stage:
        async def whole() -> Stage:
            async with asyncio.timeout(20), asyncio.TaskGroup() as group:
                stage = Stage(group, FakeAction(*outcomes), spool)
                await scene(stage)
                stage.queue.close()
            return stage

        return asyncio.run(whole())

    return run


Play = Callable[..., Any]


def test_events_are_acted_on_in_their_order_one_at_a_time(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.add([line(number) for number in range(5)])
        stage.queue.add([line(5)])
        await stage.idle()

    stage = play(scene)

    assert stage.action.numbers == [0, 1, 2, 3, 4, 5]
    assert stage.action.most_at_once == 1
    assert stage.queue.delivered == 6
    assert stage.action.closed


def test_what_is_not_final_is_tried_again_and_others_wait_behind_it(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.add([line(0), line(1)])
        await stage.idle()

    stage = play(scene, AGAIN, AGAIN)

    assert stage.action.numbers == [0, 0, 0, 1]
    assert stage.clock.pauses == [0.5, 1.0]
    assert (stage.queue.delivered, stage.queue.failed) == (2, 0)


def test_a_receiver_is_left_alone_as_long_as_it_wants(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.add([line(0)])
        await stage.idle()

    stage = play(
        scene,
        ActionRetry(reason="busy", after_seconds=17.0),
        ActionRetry(reason="x", after_seconds=0.1),
    )

    assert stage.clock.pauses == [17.0, 1.0]


def test_an_event_that_is_refused_too_often_is_given_up_and_noted(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.add([line(0), line(1)])
        await stage.idle()

    stage = play(scene, *[AGAIN] * ATTEMPTS_MAX)

    assert stage.action.numbers == [0] * ATTEMPTS_MAX + [1]
    assert stage.failures == [(0, "busy, 10 times")]
    assert (stage.queue.delivered, stage.queue.failed) == (1, 1)
    assert stage.queue.report()["last_error"] == "busy, 10 times"


def test_a_receiver_that_is_away_costs_no_event(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.add([line(0)])
        await stage.idle()

    stage = play(scene, *[AWAY] * (3 * ATTEMPTS_MAX))

    assert (stage.queue.delivered, stage.queue.failed) == (1, 0)


def test_what_is_final_is_given_up_at_once(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.add([line(0), line(1)])
        await stage.idle()

    stage = play(scene, ActionFailed(reason="no"))

    assert stage.action.numbers == [0, 1]
    assert stage.failures == [(0, "no")]


def test_every_attempt_has_the_same_key_and_every_event_its_own(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.add([line(0), line(1)])
        await stage.idle()

    first, again, other = play(scene, AGAIN).action.seen

    assert first.key == again.key == event_key("h", line(0))
    assert other.key != first.key
    assert event_key("another", line(0)) != first.key


def test_more_than_there_is_room_for_is_dropped_and_counted(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "QUEUE_EVENTS_MAX", 3)

    async def scene(stage: Stage) -> None:
        stage.queue.add([line(number) for number in range(5)])
        stage.queue.add([line(9)])
        assert stage.queue.report()["waiting"] == 3
        await stage.idle()
        stage.queue.add([line(10)])
        await stage.idle()

    stage = play(scene)

    assert stage.action.numbers == [0, 1, 2, 10]
    assert stage.queue.dropped == 3


def test_the_bytes_that_wait_are_bounded_too(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        large = b'{"n":0,"x":"' + b"x" * (QUEUE_BYTES_MAX // 2) + b'"}'
        stage.queue.add([large, large, line(1)])
        await stage.idle()

    stage = play(scene)

    assert stage.action.numbers == [0, 1]
    assert stage.queue.dropped == 1


def test_drops_are_noted_together(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "QUEUE_EVENTS_MAX", 0)

    async def scene(stage: Stage) -> None:
        stage.queue.add([line(0)])
        stage.queue.add([line(1), line(2)])
        stage.clock.seconds = DROPS_NOTED_SECONDS
        stage.queue.add([line(3)])
        stage.queue.add([line(4)])

    assert play(scene).drops == [1, 3, 1]


def test_what_the_last_event_lacked_is_told(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.add([line(0)])
        await stage.idle()

    assert play(scene, ActionDone(missing=("metadata.tool",))).queue.report() == {
        "action": "post",
        "delivered": 1,
        "failed": 0,
        "dropped": 0,
        "waiting": 0,
        "last_error": None,
        "missing": ["metadata.tool"],
    }


def test_what_waits_when_it_ends_is_for_the_next_process(play: Play, tmp_path: Path) -> None:
    async def first(stage: Stage) -> None:
        stage.action.permits = asyncio.Semaphore(1)
        stage.queue.add([line(0), line(1), line(2)])
        await until(lambda: stage.action.numbers == [0, 1])
        stage.queue.stop()
        stage.queue.add([line(3)])

    async def second(stage: Stage) -> None:
        stage.queue.adopt_spooled(0.0)
        await stage.idle()

    stage = play(first, spool=Spool(tmp_path, "a"))
    assert stage.queue.dropped == 0
    later = play(second, spool=Spool(tmp_path, "b"))

    assert later.action.numbers == [1, 2, 3]
    assert list(tmp_path.iterdir()) == []


def test_without_a_spool_what_waits_is_dropped_in_the_end(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.action.permits = asyncio.Semaphore(0)
        stage.queue.add([line(0), line(1)])
        await until(lambda: stage.action.numbers == [0])

    stage = play(scene)

    assert stage.queue.dropped == 2
    assert sum(stage.drops) == 2


def test_a_spool_that_cannot_be_written_shows_and_the_event_is_delivered_all_the_same(
    play: Play, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    async def scene(stage: Stage) -> None:
        stage.queue.add([line(0)])
        await stage.idle()
        assert "the spool cannot be written" in stage.queue.report()["last_error"]

    assert play(scene, spool=Spool(tmp_path / "file", "a")).queue.delivered == 1


def test_a_spool_holds_more_than_memory_and_nothing_of_it_is_lost(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "QUEUE_EVENTS_MAX", 10)

    async def scene(stage: Stage) -> None:
        stage.action.permits = asyncio.Semaphore(0)
        for start in range(0, 16_000, 100):
            stage.queue.add([line(number) for number in range(start, start + 100)])
        assert stage.queue.report()["waiting"] == 16_000
        for _ in range(16_000):
            stage.action.permits.release()
        await until(lambda: stage.queue.delivered == 16_000)

    stage = play(scene, spool=Spool(tmp_path, "a"))
    assert stage.action.numbers == list(range(16_000))
    assert stage.queue.dropped == 0


def test_a_spool_is_bounded_and_what_does_not_fit_is_counted_with_the_limit(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "SPOOL_BYTES_MAX", 1000)

    async def scene(stage: Stage) -> None:
        stage.action.permits = asyncio.Semaphore(0)
        for number in range(100):
            stage.queue.add([line(number)])
        assert 0 < len(stage.queue) < 20
        assert stage.queue.dropped == 100 - len(stage.queue)
        assert stage.drops
        assert stage.queue.limit == "0 MiB", "that is where 1000 bytes are cut off to"

    play(scene, spool=Spool(tmp_path, "a"))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 1000


def test_a_spool_that_cannot_be_read_costs_its_events_and_says_so(
    play: Play, tmp_path: Path
) -> None:
    async def scene(stage: Stage) -> None:
        stage.action.permits = asyncio.Semaphore(0)
        stage.queue.add([line(0)])
        stage.queue.add([line(1), line(2)])
        [file] = tmp_path.iterdir()
        os.truncate(file, 10)
        stage.action.permits.release()
        await until(lambda: len(stage.queue) == 0)
        assert stage.queue.dropped == 2
        assert stage.queue.report()["last_error"] == "the spool cannot be read: it was cut short"

    play(scene, spool=Spool(tmp_path, "a"))


def test_what_a_spool_could_not_read_for_a_moment_is_counted_once(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(stage: Stage) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(os, "pread", lambda *_: b"")
            stage.queue.add([line(0), line(1)])
        stage.action.permits = asyncio.Semaphore(0)
        stage.queue.add([line(2)])
        await until(lambda: bool(stage.action.seen))
        assert stage.queue.report()["waiting"] == 1
        stage.action.permits.release()
        await stage.idle()

    stage = play(scene, spool=Spool(tmp_path, "a"))

    assert stage.action.numbers == [2]
    assert stage.queue.report() | {"dropped": 2, "delivered": 1} == stage.queue.report()


# The spool: what was accepted outlives the process, and is nobody else's meanwhile.


def left(folder: Path, name: str = "next", now: float = 0.0) -> list[bytes]:
    """What another process finds there."""
    spool = Spool(folder, name)
    count = spool.adopt_orphans(now)
    found = [line for _, line in everything(spool)]
    spool.close()
    assert len(found) == count
    return found


def everything(spool: Spool) -> list[tuple[SpoolPosition, bytes]]:
    """All that is handed out."""
    found: list[tuple[SpoolPosition, bytes]] = []
    while some := spool.read_next():
        found += some
    return found


def kept(spool: Spool, *lines: bytes) -> list[SpoolPosition]:
    assert spool.append(list(lines))
    found = everything(spool)
    assert [line for _, line in found] == list(lines)
    return [position for position, _ in found]


def test_what_was_kept_and_not_done_is_there_for_the_next_process(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a")
    kept(spool, b"1", b"2")
    kept(spool, b"3")
    spool.close()

    assert left(tmp_path) == [b"1", b"2", b"3"]


def test_what_is_done_is_not_there_any_more(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a")
    first, second, _ = kept(spool, b"1", b"2", b"3")
    spool.mark_done(first)
    spool.mark_done(second)
    spool.close()

    assert left(tmp_path) == [b"3"]


def test_when_all_is_done_nothing_is_left_on_the_disk(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a")
    for position in kept(spool, b"1", b"2"):
        spool.mark_done(position)
    for position in kept(spool, b"3"):
        spool.mark_done(position)
    spool.close()

    assert list(tmp_path.iterdir()) == []


def test_a_spool_that_is_worked_off_does_not_grow(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a")
    for _ in range(100):
        for position in kept(spool, b"x" * 1000):
            spool.mark_done(position)

    [file] = tmp_path.iterdir()
    assert file.stat().st_size < 100


def test_what_a_living_process_has_is_not_taken_from_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a")
    kept(spool, b"1")

    assert left(tmp_path) == []
    spool.close()
    assert left(tmp_path) == [b"1"]


def test_what_was_taken_over_can_be_done_or_left_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a")
    kept(spool, b"1", b"2")
    spool.close()

    second = Spool(tmp_path, "b")
    assert second.adopt_orphans(0.0) == 2
    (position, _), _ = everything(second)
    second.mark_done(position)
    second.close()

    assert left(tmp_path) == [b"2"]


def test_a_torn_last_line_is_no_event(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a")
    kept(spool, b"1", b"2")
    spool.close()
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1])

    assert left(tmp_path) == [b"1"]


@pytest.mark.parametrize("raw", [b"", b"rubbish", b"9" * 20 + b"\n{}\n", b"x" * 20 + b"\n"])
def test_a_damaged_file_holds_nothing_and_is_removed(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(raw)

    assert left(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_large_amounts_lie_in_several_files_that_go_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "SEGMENT_BYTES_MAX", 100)
    spool = Spool(tmp_path, "a")
    positions = [position for number in range(6) for position in kept(spool, b"%050d" % number)]

    assert len(list(tmp_path.iterdir())) == 3
    for position in positions[:3]:
        spool.mark_done(position)
    assert len(list(tmp_path.iterdir())) == 2
    spool.close()
    assert [int(line) for line in left(tmp_path)] == [3, 4, 5]


def test_no_more_is_taken_over_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        spool = Spool(tmp_path, name)
        kept(spool, b"x" * 100)
        spool.close()

    spool = Spool(tmp_path, "next")
    with monkeypatch.context() as small:
        small.setattr(queue, "SPOOL_BYTES_MAX", 250)
        assert spool.adopt_orphans(0.0) == 2
    spool.close()
    assert len(left(tmp_path)) == 3


def test_events_are_handed_out_a_few_at_a_time_in_their_order_and_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "READ_BYTES", 100)
    monkeypatch.setattr(queue, "SEGMENT_BYTES_MAX", 1000)
    lines = [b"%040d" % number for number in range(50)] + [b"x" * 300, b"last"]
    spool = Spool(tmp_path, "a")
    for line in lines:
        spool.append([line])

    assert len(spool.read_next()) == 2
    assert [line for _, line in everything(spool)] == lines[2:]
    spool.close()
    assert left(tmp_path) == lines


def test_what_is_older_than_a_week_is_removed(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "hook", "a")
    kept(spool, b"1")
    spool.close()
    [file] = (tmp_path / "hook").iterdir()
    modified = file.stat().st_mtime

    clear_old(tmp_path, modified + SPOOLED_SECONDS_MAX - 1)
    assert file.exists()
    assert left(tmp_path / "hook", now=modified + SPOOLED_SECONDS_MAX + 1) == []
    assert not file.exists()


def test_what_hooks_that_are_gone_have_left_is_removed_after_a_week(tmp_path: Path) -> None:
    mine, gone = Spool(tmp_path / "mine", "a"), Spool(tmp_path / "gone", "a")
    kept(mine, b"1")
    kept(gone, b"1")
    gone.close()

    clear_old(tmp_path, os.stat(tmp_path).st_mtime + 10 * SPOOLED_SECONDS_MAX)

    assert [folder.name for folder in tmp_path.iterdir()] == ["mine"]
    mine.close()


def test_a_disk_that_cannot_be_written_is_told_and_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file where the directory should be")
    spool = Spool(tmp_path / "spool", "a")

    assert not spool.append([b"1", b"2"])
    assert spool.last_error is not None
    assert spool.last_error.startswith("the spool cannot be written: ")
    spool.close()


def test_the_files_are_private(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", "a")
    kept(spool, b"1")

    [file] = (tmp_path / "spool").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert (tmp_path / "spool").stat().st_mode & 0o077 == 0
    spool.close()
