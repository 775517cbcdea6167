"""One hook's queue: in order, one at a time, bounded, and with a memory on the disk."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from anyport.gateway import hooks_queue
from anyport.gateway.hooks_action import Again, Done, GivenUp, Occasion, Outcome
from anyport.gateway.hooks_queue import (
    ATTEMPTS_MAX,
    DROPS_NOTED_SECONDS,
    QUEUE_BYTES_MAX,
    Queue,
    World,
    key_of,
)
from anyport.gateway.hooks_spool import Spool
from tests.gateway.receiver import until

AGAIN = Again(words="busy")
AWAY = Again(words="away", counts=False)


def line(number: int) -> bytes:
    return json.dumps({"trace_id": "a" * 32, "n": number}).encode()


class FakeAction:
    """Comes to what it is told to, then to good ends."""

    kind = "post"

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.seen: list[Occasion] = []
        self.permits = asyncio.Semaphore(10_000)
        """How many attempts come to their end."""
        self.most_at_once = self._now = 0
        self.closed = False

    @property
    def numbers(self) -> list[int]:
        return [json.loads(occasion.line)["n"] for occasion in self.seen]

    async def act(self, occasion: Occasion) -> Outcome:
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        self.seen.append(occasion)
        try:
            await self.permits.acquire()
        finally:
            self._now -= 1
        return self.outcomes.pop(0) if self.outcomes else Done()

    def close(self) -> None:
        self.closed = True


class Stage:
    """A queue, and all that surrounds it."""

    def __init__(self, group: asyncio.TaskGroup, action: FakeAction, spool: Spool | None) -> None:
        self.failures: list[tuple[int, str]] = []
        self.drops: list[int] = []
        self.pauses: list[float] = []
        self._group = group
        self.now = 0.0
        self.action = action
        world = World(
            spawn=self._spawn,
            chance=lambda: 0.0,
            clock=lambda: self.now,
            sleep=self._sleep,
            span_id=lambda: "b" * 16,
            note_failed=lambda _, occasion, words: self.failures.append(
                (json.loads(occasion.line)["n"], words)
            ),
            note_dropped=lambda _, count: self.drops.append(count),
        )
        self.queue = Queue("h", action, world, spool)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._group.create_task(work)

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def idle(self) -> None:
        await until(lambda: not len(self.queue) and not self.queue.busy)


Scene = Callable[[Stage], Coroutine[Any, Any, None]]


@pytest.fixture
def play() -> Callable[..., Stage]:
    """Plays a scene with a queue; gives the stage as it was left."""

    def run(scene: Scene, *outcomes: Outcome, spool: Spool | None = None) -> Stage:
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
        stage.queue.take([line(number) for number in range(5)])
        stage.queue.take([line(5)])
        await stage.idle()

    stage = play(scene)

    assert stage.action.numbers == [0, 1, 2, 3, 4, 5]
    assert stage.action.most_at_once == 1
    assert stage.queue.delivered == 6
    assert stage.action.closed


def test_what_is_not_final_is_tried_again_and_others_wait_behind_it(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.take([line(0), line(1)])
        await stage.idle()

    stage = play(scene, AGAIN, AGAIN)

    assert stage.action.numbers == [0, 0, 0, 1]
    assert stage.pauses == [0.5, 1.0]
    assert (stage.queue.delivered, stage.queue.failed) == (2, 0)


def test_a_receiver_is_left_alone_as_long_as_it_wants(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.take([line(0)])
        await stage.idle()

    stage = play(
        scene, Again(words="busy", after_seconds=17.0), Again(words="x", after_seconds=0.1)
    )

    assert stage.pauses == [17.0, 1.0]


def test_an_event_that_is_refused_too_often_is_given_up_and_noted(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.take([line(0), line(1)])
        await stage.idle()

    stage = play(scene, *[AGAIN] * ATTEMPTS_MAX)

    assert stage.action.numbers == [0] * ATTEMPTS_MAX + [1]
    assert stage.failures == [(0, "busy, 10 times")]
    assert (stage.queue.delivered, stage.queue.failed) == (1, 1)
    assert stage.queue.report()["last_error"] == "busy, 10 times"


def test_a_receiver_that_is_away_costs_no_event(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.take([line(0)])
        await stage.idle()

    stage = play(scene, *[AWAY] * (3 * ATTEMPTS_MAX))

    assert (stage.queue.delivered, stage.queue.failed) == (1, 0)


def test_what_is_final_is_given_up_at_once(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.take([line(0), line(1)])
        await stage.idle()

    stage = play(scene, GivenUp(words="no"))

    assert stage.action.numbers == [0, 1]
    assert stage.failures == [(0, "no")]


def test_every_attempt_has_the_same_key_and_every_event_its_own(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.take([line(0), line(1)])
        await stage.idle()

    first, again, other = play(scene, AGAIN).action.seen

    assert first.key == again.key == key_of("h", line(0))
    assert other.key != first.key
    assert key_of("another", line(0)) != first.key


def test_more_than_there_is_room_for_is_dropped_and_counted(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks_queue, "QUEUE_EVENTS_MAX", 3)

    async def scene(stage: Stage) -> None:
        stage.queue.take([line(number) for number in range(5)])
        stage.queue.take([line(9)])
        assert stage.queue.report()["waiting"] == 3
        await stage.idle()
        stage.queue.take([line(10)])
        await stage.idle()

    stage = play(scene)

    assert stage.action.numbers == [0, 1, 2, 10]
    assert stage.queue.dropped == 3


def test_the_bytes_that_wait_are_bounded_too(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        large = b'{"n":0,"x":"' + b"x" * (QUEUE_BYTES_MAX // 2) + b'"}'
        stage.queue.take([large, large, line(1)])
        await stage.idle()

    stage = play(scene)

    assert stage.action.numbers == [0, 1]
    assert stage.queue.dropped == 1


def test_drops_are_noted_together(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks_queue, "QUEUE_EVENTS_MAX", 0)

    async def scene(stage: Stage) -> None:
        stage.queue.take([line(0)])
        stage.queue.take([line(1), line(2)])
        stage.now = DROPS_NOTED_SECONDS
        stage.queue.take([line(3)])
        stage.queue.take([line(4)])

    assert play(scene).drops == [1, 3, 1]


def test_what_the_last_event_lacked_is_told(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.queue.take([line(0)])
        await stage.idle()

    assert play(scene, Done(missing=("metadata.tool",))).queue.report() == {
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
        stage.queue.take([line(0), line(1), line(2)])
        await until(lambda: stage.action.numbers == [0, 1])
        stage.queue.halt()
        stage.queue.take([line(3)])

    async def second(stage: Stage) -> None:
        stage.queue.recall(0.0)
        await stage.idle()

    stage = play(first, spool=Spool(tmp_path, "a"))
    assert stage.queue.dropped == 0
    later = play(second, spool=Spool(tmp_path, "b"))

    assert later.action.numbers == [1, 2, 3]
    assert list(tmp_path.iterdir()) == []


def test_without_a_spool_what_waits_is_dropped_in_the_end(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.action.permits = asyncio.Semaphore(0)
        stage.queue.take([line(0), line(1)])
        await until(lambda: stage.action.numbers == [0])

    stage = play(scene)

    assert stage.queue.dropped == 2
    assert sum(stage.drops) == 2


def test_a_spool_that_cannot_be_written_shows_and_the_event_is_delivered_all_the_same(
    play: Play, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    async def scene(stage: Stage) -> None:
        stage.queue.take([line(0)])
        await stage.idle()
        assert "the spool cannot be written" in stage.queue.report()["last_error"]

    assert play(scene, spool=Spool(tmp_path / "file", "a")).queue.delivered == 1
