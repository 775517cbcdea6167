"""The register of sessions: small private files, true or not there."""

import os
import random
import stat
from pathlib import Path

import msgspec
import pytest

from anyport.ingress.http.register import (
    ENTRY_BYTES_MAX,
    FOLDER,
    LOOKS_MAX,
    NOBODY,
    Entry,
    Register,
)

IDLE = 600.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def register(tmp_path: Path, clock: Clock) -> Register:
    return Register(tmp_path / "state", clock)


def entry(**members: object) -> Entry:
    known = {"word": "w", "revision": "2025-11-25", "capabilities": msgspec.Raw(b'{"roots":{}}')}
    return Entry(**{**known, **members})  # type: ignore[arg-type]


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "state" / FOLDER).iterdir())


def test_what_was_written_is_read_again(register: Register) -> None:
    whole = entry(
        client=msgspec.Raw(b'{"name":"c"}'), level="debug", subscriptions=("a:1", "b:\u2028")
    )
    register.write("id", whole)
    register.write("other", entry())

    assert register.read("id", IDLE) == whole
    assert register.read("other", IDLE) == entry(client=NOBODY)
    assert register.read("nobody's", IDLE) is None


def test_the_newest_words_count(register: Register, tmp_path: Path) -> None:
    register.write("id", entry())
    register.write("id", entry(level="error"))

    assert register.read("id", IDLE) == entry(level="error")
    assert len(files(tmp_path)) == 1


def test_files_are_private_and_their_names_open_nothing(register: Register, tmp_path: Path) -> None:
    register.write("secret-id", entry())

    (file,) = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "secret-id" not in file.name
    assert b"secret-id" not in file.read_bytes()


def test_a_session_that_ended_is_not_known_any_more(register: Register, tmp_path: Path) -> None:
    register.write("id", entry())
    register.strike("id")
    register.strike("id")

    assert register.read("id", IDLE) is None
    assert files(tmp_path) == []


def test_a_session_that_nobody_used_for_long_is_over(
    register: Register, clock: Clock, tmp_path: Path
) -> None:
    register.write("id", entry())
    clock.now += IDLE
    assert register.read("id", IDLE) is not None
    clock.now += 1

    assert register.read("id", IDLE) is None
    assert files(tmp_path) == []


def test_a_session_that_is_used_stays(register: Register, clock: Clock) -> None:
    register.write("id", entry())
    clock.now += IDLE
    register.touch("id")
    register.touch("nobody's")
    clock.now += IDLE

    assert register.read("id", IDLE) is not None


def test_a_session_that_another_process_uses_does_not_lapse(
    register: Register, clock: Clock, tmp_path: Path
) -> None:
    register.write("id", entry())
    clock.now += 2 * IDLE
    Register(tmp_path / "state", clock).touch("id")
    register.lapse("id", IDLE)
    assert register.read("id", IDLE) is not None

    clock.now += 2 * IDLE
    register.lapse("id", IDLE)

    assert files(tmp_path) == []


def test_what_is_too_much_is_not_remembered_and_neither_is_what_it_was(register: Register) -> None:
    register.write("id", entry())
    register.write("id", entry(subscriptions=("x" * ENTRY_BYTES_MAX,)))

    assert register.read("id", IDLE) is None


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"word":1}', b"\xff"])
def test_a_damaged_file_is_no_session(register: Register, tmp_path: Path, raw: bytes) -> None:
    register.write("id", entry())
    (file,) = files(tmp_path)
    held = file.stat().st_mtime
    file.write_bytes(raw)
    os.utime(file, (held, held))

    assert register.read("id", IDLE) is None


def test_a_place_that_cannot_be_written_fails_nobody(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "state").write_text("a file")
    register = Register(tmp_path / "state", clock)

    register.write("id", entry())
    register.touch("id")
    register.strike("id")
    register.sweep(IDLE)

    assert register.read("id", IDLE) is None


def test_a_sweep_removes_what_nobody_uses_some_at_a_time(
    register: Register, clock: Clock, tmp_path: Path
) -> None:
    for number in range(LOOKS_MAX + 10):
        register.write(f"old-{number}", entry())
    clock.now += IDLE + 1
    register.write("new", entry())

    register.sweep(IDLE)  # It has to find the folder first.
    register.sweep(IDLE)
    left = len(files(tmp_path))
    for _ in range(3):
        register.sweep(IDLE)

    assert left in (11, 12)
    assert register.read("new", IDLE) is not None
    assert len(files(tmp_path)) == 1


def test_nobody_reads_a_file_who_does_not_have_the_id(register: Register, tmp_path: Path) -> None:
    told = entry(client=msgspec.Raw(b'{"name":"a-name-of-its-own"}'))
    register.write("one", told)
    register.write("two", told)
    raws = [file.read_bytes() for file in files(tmp_path)]
    assert all(b"a-name-of-its-own" not in raw and b"revision" not in raw for raw in raws)
    assert raws[0][:64] != raws[1][:64]
    assert register.read("one", IDLE) == told


@pytest.mark.parametrize("size", [0, 1, 16, 17, 500])
def test_any_bytes_at_all_are_no_session(register: Register, tmp_path: Path, size: int) -> None:
    register.write("one", entry())
    [file] = files(tmp_path)
    for seed in range(20):
        file.write_bytes(random.Random(seed).randbytes(size))
        assert register.read("one", IDLE) is None
