"""Payload files, opened for many questions."""

from pathlib import Path

import pytest

from anyport.record.shelf import PAYLOAD_FILES_OPEN_MAX, Shelf
from tests.record.recorded import PAYLOAD_FILE, payload_line, write_payloads

A, B = "a" * 16, "b" * 16


def test_each_exchange_is_found_in_its_file(tmp_path: Path) -> None:
    write_payloads(tmp_path, payload_line(A), payload_line(B))
    with Shelf(tmp_path) as shelf:
        assert shelf.line(PAYLOAD_FILE, A) == payload_line(A)
        assert shelf.line(PAYLOAD_FILE, B) == payload_line(B)


def test_many_files_can_be_asked_in_turn(tmp_path: Path) -> None:
    files = [f"2026-07-28/{hour:02}-1f3a9c0e-0" for hour in range(2 * PAYLOAD_FILES_OPEN_MAX)]
    for file in files:
        write_payloads(tmp_path, payload_line(A, secret=file), file=file)
    with Shelf(tmp_path) as shelf:
        for file in [*files, *files]:
            assert shelf.line(file, A) == payload_line(A, secret=file)


def test_an_id_within_what_was_said_is_not_its_own(tmp_path: Path) -> None:
    write_payloads(
        tmp_path, payload_line(B).replace(b'{"progress":1}', b'{"span_id":"%b"}' % A.encode())
    )
    with Shelf(tmp_path) as shelf:
        assert shelf.line(PAYLOAD_FILE, A) == b""


@pytest.mark.parametrize("file", ["2026-07-28/13-1f3a9c0e-0", "../../secrets", "", "x"])
def test_what_is_not_there_is_nothing(tmp_path: Path, file: str) -> None:
    write_payloads(tmp_path, b" " * 40, payload_line(B)[:-20])
    with Shelf(tmp_path) as shelf:
        assert shelf.line(file, A) == b""
        assert shelf.line(PAYLOAD_FILE, A) == b""


def test_a_line_without_its_end_is_not_there_yet(tmp_path: Path) -> None:
    path = write_payloads(tmp_path)
    path.write_bytes(payload_line(A)[:-20])
    with Shelf(tmp_path) as shelf:
        assert shelf.line(PAYLOAD_FILE, A) == b""
