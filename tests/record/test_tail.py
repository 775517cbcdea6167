"""Lines at the end of a file, and a disk that takes a part of them."""

import errno
import os

import pytest

from anyport.record.tail import NoRoom, Tail

Block = list[bytes]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> tuple[Block, list[int]]:
    """What was written, and how much of each block is taken; the rest of them whole."""
    taken: Block = []
    room: list[int] = []

    def write(_fd: int, block: bytes) -> int:
        part = block[: room.pop(0)] if room else block
        taken.append(part)
        return len(part)

    monkeypatch.setattr(os, "write", write)
    return taken, room


def test_lines_are_written_with_one_call(disk: tuple[Block, list[int]]) -> None:
    assert Tail().write(3, [b"one\n", b"two\n"]) == 2
    assert disk[0] == [b"one\ntwo\n"]


def test_a_line_of_which_a_part_was_taken_is_written_again_on_a_line_of_its_own(
    disk: tuple[Block, list[int]],
) -> None:
    taken, room = disk
    tail = Tail()
    room.append(len(b"one\ntw"))
    assert tail.write(3, [b"one\n", b"two\n"]) == 1
    assert tail.write(3, [b"two\n"]) == 1
    assert b"".join(taken).split(b"\n") == [b"one", b"tw", b"two", b""]
    assert not tail.torn


def test_the_line_that_closes_a_torn_one_does_not_count(disk: tuple[Block, list[int]]) -> None:
    _taken, room = disk
    tail = Tail()
    room += [2, 1, 0]
    for _ in range(3):
        with pytest.raises(NoRoom) as full:
            tail.write(3, [b"one\n"])
        assert full.value.errno == errno.ENOSPC
    assert not tail.torn
    assert tail.write(3, [b"one\n"]) == 1


def test_a_full_disk_that_takes_nothing_leaves_the_end_as_it_was(
    disk: tuple[Block, list[int]],
) -> None:
    _taken, room = disk
    tail = Tail()
    tail.torn = True
    room.append(0)
    with pytest.raises(NoRoom):
        tail.write(3, [b"one\n"])
    assert tail.torn


def test_a_disk_that_fails_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_fd: int, _block: bytes) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="nput/output") as told:
        Tail().write(3, [b"one\n"])
    assert not isinstance(told.value, NoRoom)
