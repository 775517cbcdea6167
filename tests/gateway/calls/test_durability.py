import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anyport.config.model import OnFailure, RecordConfig, Sync
from anyport.gateway.calls.durability import (
    DISK_HANG_SECONDS,
    OPERATOR_MESSAGE_SECONDS,
    DurabilityGate,
)
from anyport.protocol.exchange import Exchange
from anyport.protocol.revisions import REVISIONS, Revision
from anyport.record.journal.journal import DISTRUSTED_MESSAGE
from anyport.record.journal.writer import RETRY_SECONDS, SLOW_SECONDS
from tests.record.story import ManualClock, note, numbers_in, opened

LEGACY, MODERN = REVISIONS["2025-11-25"], REVISIONS["2026-07-28"]
FULL = "The event journal cannot be written: No space left on device"


class FakeLoop:
    """What is to happen waits for the test."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], object]] = []
        self.later: list[tuple[float, Callable[[], object]]] = []

    def call_soon(self, act: Callable[[], object], /) -> object:
        self.soon.append(act)
        return None

    def call_soon_threadsafe(self, act: Callable[[], object], /) -> object:
        return self.call_soon(act)

    def call_later(self, seconds: float, act: Callable[[], object], /) -> object:
        self.later.append((seconds, act))
        return None

    def turn(self) -> None:
        acts, self.soon = self.soon, []
        for act in acts:
            act()

    def pass_time(self, seconds: float) -> None:
        """Let those happen that were to after so long."""
        due = [act for after, act in self.later if after <= seconds]
        self.later = [each for each in self.later if each[0] > seconds]
        for act in due:
            act()


class FakeTeller:
    reply_only = False

    def __init__(self) -> None:
        self.told: list[tuple[Any, int | None]] = []

    def send_frames(self, *frames: bytes) -> None:
        raise AssertionError("only answers are told here")

    def end(self, frame: bytes, code: int | None = None, pause: object = None) -> None:
        self.told.append((json.loads(frame), code))


class Stage:
    """A sluice before a disk that does as it is told."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.clock = ManualClock()
        self.seconds = 0.0
        self.error: int | None = None
        self.now = 0.0
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)
        self.sync_error: int | None = None
        monkeypatch.setattr(os, "fdatasync", self.sync)
        self.journal = opened(path, self.clock, monotonic=lambda: self.now)
        self.loop = FakeLoop()
        self.said: list[str] = []
        self.teller = FakeTeller()
        self.sluice = DurabilityGate(self.journal, lambda: self.now)

    def begin(self, policy: OnFailure, sync: Sync = "batch") -> None:
        config = RecordConfig(on_failure=policy, sync=sync)
        self.sluice.begin(config, self.loop, self.said.append)

    def write(self, fd: int, block: bytes) -> int:
        self.now += self.seconds
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))
        return self._write(fd, block)

    def sync(self, fd: int) -> None:
        if self.sync_error is not None:
            raise OSError(self.sync_error, os.strerror(self.sync_error))

    def answer(self, number: int, revision: Revision = LEGACY, *, own: bool = False) -> None:
        """A call ends: it is told, and noted in the same turn; maybe of the gateway's own tools."""
        caller = SimpleNamespace(revision=revision)
        asked = SimpleNamespace(id=b"%d" % number, caller=caller, writer=self.teller)
        frame = b'{"jsonrpc":"2.0","id":%d,"result":{}}' % number
        hold = self.sluice.hold_if_recordable if own else self.sluice.hold
        hold(cast(Exchange, asked), frame, None)
        note(self.journal, n=number)

    def fail(self) -> None:
        """The disk is full from now on, and that was noticed."""
        self.error = errno.ENOSPC
        note(self.journal, n=-1)
        self.journal.flush()

    def recover(self) -> None:
        self.error = None
        self.clock.seconds += RETRY_SECONDS
        self.loop.pass_time(RETRY_SECONDS)

    def told(self) -> list[int]:
        return [frame["id"] for frame, _ in self.teller.told]

    def become_slow(self) -> None:
        self.seconds = SLOW_SECONDS
        note(self.journal, n=0)
        self.journal.flush()

    def wait_for_disk(self) -> None:
        away = self.journal.file_writer.worker
        assert away is not None
        assert away.wait(60)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


def test_while_all_is_well_an_answer_does_not_wait(stage: Stage) -> None:
    stage.begin("degrade")
    assert not stage.sluice.is_holding
    stage.answer(1)
    assert stage.told() == [1]
    assert stage.said == []


def test_a_sluice_that_nobody_has_begun_holds_nothing(stage: Stage) -> None:
    stage.answer(1)
    assert stage.told() == [1]


# A disk that fails


def test_with_degrade_calls_are_served_and_the_operator_is_told_once(stage: Stage) -> None:
    stage.begin("degrade")
    stage.fail()
    stage.answer(1)
    assert stage.told() == [1]
    assert stage.sluice.refusal is None
    stage.fail()
    (words,) = stage.said
    assert words.startswith(f"{FULL}. Until it can, calls are served, and not recorded. ")
    assert "df -h" in words

    stage.recover()
    assert stage.said[1:] == ["the event journal can be written again; 0 lost"]
    assert numbers_in(stage.path) == [-1, 1, -1]


def test_with_block_an_answer_waits_for_its_record(stage: Stage) -> None:
    stage.begin("block")
    stage.answer(1)
    stage.answer(2)
    assert stage.told() == []
    assert stage.sluice.waiting_count == 2
    stage.loop.turn()
    assert stage.told() == [1, 2]
    assert numbers_in(stage.path) == [1, 2]
    assert stage.sluice.waiting_count == 0


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
def test_with_block_an_answer_without_a_record_is_withheld(
    stage: Stage, revision: Revision
) -> None:
    stage.begin("block")
    stage.answer(1, revision)
    stage.error = errno.ENOSPC
    stage.loop.turn()
    ((frame, code),) = stage.teller.told
    assert code == -32603
    assert frame == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {
            "code": -32603,
            "message": "The call was made, but its answer is withheld, for lack of a record: "
            + FULL,
            "data": {"reason": "record"},
        },
    }
    stage.recover()
    assert numbers_in(stage.path) == [1]  # That it was made is on record, at last.


def test_with_block_calls_are_refused_until_the_disk_is_back(stage: Stage) -> None:
    stage.begin("block")
    assert stage.sluice.refusal is None
    stage.fail()
    assert stage.sluice.refusal is not None
    assert stage.sluice.refusal.message == f"{FULL}; calls are refused until it can"
    assert stage.journal.is_blocking
    assert "calls are refused" in stage.said[0]

    stage.clock.seconds += RETRY_SECONDS
    stage.loop.pass_time(RETRY_SECONDS)
    assert stage.sluice.refusal is not None
    stage.recover()  # Nobody has called since.
    assert stage.sluice.refusal is None
    assert not stage.journal.is_blocking


def test_what_becomes_of_calls_can_be_changed_while_the_disk_fails(stage: Stage) -> None:
    stage.begin("degrade")
    stage.fail()
    stage.sluice.apply_config(RecordConfig(on_failure="block"))
    assert stage.sluice.is_holding
    assert stage.sluice.refusal is not None
    stage.sluice.apply_config(RecordConfig())
    assert not stage.sluice.is_holding
    assert stage.sluice.refusal is None


def test_a_disk_that_comes_and_goes_is_not_told_of_all_the_time(stage: Stage) -> None:
    stage.begin("degrade")
    for _ in range(5):
        stage.fail()
        stage.recover()
    assert len(stage.said) == 2
    stage.now += OPERATOR_MESSAGE_SECONDS
    stage.fail()
    stage.recover()
    assert len(stage.said) == 4


def test_there_is_one_timer_however_many_calls_fail(stage: Stage) -> None:
    stage.begin("degrade")
    for _ in range(10):
        stage.fail()
        stage.clock.seconds += RETRY_SECONDS
    assert len(stage.loop.later) == 1


# A disk that is slow


def test_on_a_slow_disk_answers_wait_for_their_own_record_in_order(stage: Stage) -> None:
    stage.begin("degrade")
    stage.become_slow()
    assert stage.sluice.is_holding
    stage.answer(1)
    stage.loop.turn()
    stage.answer(2)
    stage.loop.turn()
    assert stage.told() == []
    stage.wait_for_disk()
    assert stage.told() == [1]
    stage.wait_for_disk()
    assert stage.told() == [1, 2]
    assert numbers_in(stage.path) == [0, 1, 2]


def hang(stage: Stage, policy: OnFailure) -> None:
    stage.begin(policy)
    stage.become_slow()
    stage.journal.file_writer.worker = cast(
        Any, SimpleNamespace(is_busy=False, submit=lambda *_: None)
    )
    stage.answer(1)
    stage.loop.turn()
    cast(Any, stage.journal.file_writer.worker).is_busy = True
    assert stage.told() == []
    stage.loop.pass_time(DISK_HANG_SECONDS)


def test_a_disk_that_hangs_has_failed(stage: Stage) -> None:
    hang(stage, "degrade")
    assert stage.told() == [1]
    assert not stage.sluice.is_holding
    stage.answer(2)
    assert stage.told() == [1, 2]
    assert "the disk has not answered for 1 s" in stage.said[0]


def test_with_block_a_disk_that_hangs_withholds_answers_and_refuses_calls(stage: Stage) -> None:
    hang(stage, "block")
    ((frame, _),) = stage.teller.told
    assert "withheld" in frame["error"]["message"]
    assert stage.sluice.refusal is not None


# A disk that has to keep each record


def test_with_always_an_answer_waits_for_the_disk(stage: Stage) -> None:
    stage.begin("degrade", "always")
    assert stage.sluice.is_holding
    stage.answer(1)
    stage.loop.turn()
    assert stage.told() == []
    assert stage.sluice.waiting_count == 1
    stage.wait_for_disk()
    assert stage.told() == [1]
    assert stage.sluice.is_holding  # So will the next one.


@pytest.mark.parametrize("policy", ["degrade", "block"])
def test_the_gateways_own_tools_wait_too_but_always_tell_what_is_wrong(
    stage: Stage, policy: OnFailure
) -> None:
    stage.begin(policy, "always")
    stage.answer(1, own=True)
    stage.loop.turn()
    assert stage.told() == []
    stage.wait_for_disk()
    assert stage.told() == [1]

    stage.sync_error = errno.EIO
    for number in (2, 3):  # One that finds it out, and one that comes when it is known.
        stage.answer(number, own=True)
        stage.loop.turn()
        stage.wait_for_disk()
        frame, _ = stage.teller.told[-1]
        assert (frame["id"], "result" in frame) == (number, True)


@pytest.mark.parametrize("policy", ["degrade", "block"])
def test_what_the_disk_fails_to_keep_counts_as_not_written(stage: Stage, policy: OnFailure) -> None:
    stage.begin(policy, "always")
    stage.answer(1)
    stage.loop.turn()
    stage.wait_for_disk()
    stage.sync_error = errno.EIO
    stage.answer(2)
    stage.loop.turn()
    stage.wait_for_disk()
    (_, (frame, _)) = stage.teller.told
    assert ("result" in frame) is (policy == "degrade")
    assert (stage.sluice.refusal is not None) is (policy == "block")
    assert stage.said[0] == DISTRUSTED_MESSAGE
    assert "Input/output error" in stage.said[1]

    stage.recover()
    stage.wait_for_disk()
    assert (stage.sluice.refusal is not None) is (policy == "block")  # It fails yet.
    stage.sync_error = None
    stage.recover()  # Though there is nothing to write.
    stage.wait_for_disk()
    assert stage.sluice.refusal is None
    assert stage.sluice.is_holding


def test_whether_answers_wait_for_the_disk_can_be_changed_meanwhile(stage: Stage) -> None:
    stage.begin("degrade", "always")
    stage.answer(1)
    stage.loop.turn()
    stage.sluice.apply_config(RecordConfig(sync="batch"))
    assert stage.sluice.is_holding  # A record that comes now is behind the one under way.
    stage.answer(2)
    stage.loop.turn()
    stage.wait_for_disk()
    assert stage.told() == [1, 2]
    assert not stage.sluice.is_holding
    assert numbers_in(stage.path) == [1, 2]
    stage.sluice.apply_config(RecordConfig(sync="always"))
    assert stage.sluice.is_holding


def test_what_else_does_not_work_is_said_too(stage: Stage) -> None:
    stage.begin("degrade")
    stage.journal.set_trouble("index", "The index is damaged")
    stage.journal.set_trouble("index", "The index is damaged")
    assert stage.said == ["The index is damaged"]
