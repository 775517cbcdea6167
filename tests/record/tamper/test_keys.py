"""The key file: made once, private, the same for all, and never a reason to fail."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from anyport.protocol.sealing import KEY_BYTES, Seal
from anyport.record.tamper.keys import KEYS_MAX, LoadedKeys, load_keys

OLD, NEW = b"\x01" * KEY_BYTES, b"\x02" * KEY_BYTES


def drawn(key: bytes) -> Callable[[int], bytes]:
    def draw(count: int) -> bytes:
        assert count == len(key)
        return key

    return draw


def put(folder: Path, raw: bytes, mode: int = 0o600) -> Path:
    file = folder / "keys"
    file.write_bytes(raw)
    file.chmod(mode)
    return file


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_first_start_makes_a_key_that_the_next_one_finds(tmp_path: Path) -> None:
    state_dir = tmp_path / "deep" / "state"
    assert load_keys(state_dir, drawn(OLD)) == LoadedKeys((OLD,))
    assert load_keys(state_dir, drawn(NEW)) == LoadedKeys((OLD,))


def test_the_file_and_its_directory_are_the_users_alone(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    before = os.umask(0)
    try:
        load_keys(state_dir, drawn(OLD))
    finally:
        os.umask(before)
    assert mode_of(state_dir) == 0o700
    assert {mode_of(file) for file in state_dir.iterdir()} == {0o600}
    assert not (state_dir / "keys.tmp").exists()


def test_the_keys_make_a_seal(tmp_path: Path) -> None:
    sealed = Seal(load_keys(tmp_path, os.urandom).keys).seal("session", b"x")
    assert Seal(load_keys(tmp_path, os.urandom).keys).open("session", sealed) == b"x"


def test_a_new_key_above_the_old_one_is_the_current_one(tmp_path: Path) -> None:
    put(tmp_path, f"{NEW.hex()}\n{OLD.hex()}\n".encode())
    assert load_keys(tmp_path, os.urandom) == LoadedKeys((NEW, OLD))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        OLD.hex().encode(),
        OLD.hex()[:-1].encode() + b"\n",
        OLD.hex().encode() + b"\n\n",
        OLD.hex().encode() + b"\nx",
        OLD.hex().upper().replace("1", "A").encode() + b"\n",
        OLD,
        b"\xff\xfe" * 40,
        b"not keys at all\n",
        (OLD.hex().encode() + b"\n") * (KEYS_MAX + 1),
        b"\0" * 1_000_000,
    ],
    ids=range(12),
)
def test_a_damaged_file_is_replaced_with_a_warning(tmp_path: Path, raw: bytes) -> None:
    file = put(tmp_path, raw)
    found = load_keys(tmp_path, drawn(NEW))
    assert found.keys == (NEW,)
    assert found.warning == (
        f"the key file {file} was replaced, because it does not contain keys: "
        "earlier sessions are invalid"
    )
    assert load_keys(tmp_path, os.urandom) == LoadedKeys((NEW,))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_may_know_is_replaced(tmp_path: Path, mode: int) -> None:
    file = put(tmp_path, f"{OLD.hex()}\n".encode(), mode)
    found = load_keys(tmp_path, drawn(NEW))
    assert found.keys == (NEW,)
    assert "users other than its owner" in (found.warning or "")
    assert mode_of(file) == 0o600


def test_a_pipe_in_the_place_of_the_file_does_not_hold_us_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "keys", 0o600)
    found = load_keys(tmp_path, drawn(NEW))
    assert found.keys == (NEW,)
    assert found.warning
    assert (tmp_path / "keys").is_file()


def test_what_a_crash_left_behind_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "keys.tmp").write_bytes(b"half")
    (tmp_path / "keys.lock").touch()
    assert load_keys(tmp_path, drawn(NEW)) == LoadedKeys((NEW,))


def unusable_folder(tmp_path: Path) -> Path:
    (tmp_path / "state").write_text("a file where the directory should be")
    return tmp_path / "state"


def unusable_file(tmp_path: Path) -> Path:
    (tmp_path / "keys").mkdir()
    return tmp_path


@pytest.mark.parametrize("spoil", [unusable_folder, unusable_file])
def test_where_no_file_can_be_kept_the_keys_last_for_this_life(
    tmp_path: Path, spoil: Callable[[Path], Path]
) -> None:
    state_dir = spoil(tmp_path)
    for key in (OLD, NEW):
        found = load_keys(state_dir, drawn(key))
        assert found.keys == (key,)
        assert found.warning is not None
        assert found.warning.startswith(f"the key file {state_dir}/keys cannot be used (")
        assert found.warning.endswith("): sessions end with this process")


@pytest.mark.parametrize("refused", ["open", "fsync", "replace"])
def test_a_disk_that_refuses_leaves_keys_for_this_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    def refuse(*_args: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path if refused == "replace" else os, refused, refuse)
    found = load_keys(tmp_path, drawn(NEW))
    monkeypatch.undo()
    assert found.keys == (NEW,)
    assert "No space left on device" in (found.warning or "")
    assert not (tmp_path / "keys").exists()


def test_no_warning_shows_a_key(tmp_path: Path) -> None:
    put(tmp_path, f"{OLD.hex()}\nx".encode())
    found = load_keys(tmp_path, drawn(NEW))
    assert found.warning
    assert OLD.hex() not in found.warning
    assert NEW.hex() not in found.warning


@pytest.mark.parametrize("damaged", [False, True])
def test_those_who_start_at_once_have_the_same_keys(tmp_path: Path, damaged: bool) -> None:
    together = 8
    for round_ in range(20):
        folder = tmp_path / str(round_)
        if damaged:
            folder.mkdir()
            put(folder, b"damaged")
        barrier = Barrier(together)

        def start(folder: Path = folder, barrier: Barrier = barrier) -> tuple[bytes, ...]:
            barrier.wait(timeout=60)
            return load_keys(folder, os.urandom).keys

        with ThreadPoolExecutor(together) as pool:
            found = {future.result() for future in [pool.submit(start) for _ in range(together)]}
        assert found == {load_keys(folder, os.urandom).keys}


@pytest.mark.slow
def test_processes_that_start_at_once_have_the_same_keys(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from anyport.record.tamper.keys import load_keys; "
        "sys.stdin.read(); "
        "print(load_keys(pathlib.Path(sys.argv[1]), os.urandom).keys[0].hex())"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "state")]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.close()
    found = set()
    for child in children:
        assert child.stdout is not None
        found.add(child.stdout.read())
        child.stdout.close()
        assert child.wait(timeout=60) == 0
    assert len(found) == 1
