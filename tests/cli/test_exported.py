"""Files that `anyport export` has written."""

import json
from pathlib import Path

import pytest

from anyport.cli.ending import CommandFailed
from anyport.cli.exported import is_export, is_har, names_missing_file, read_export

ROW = {"row": {"timestamp": "t", "trace_id": "1", "kind": "exchange", "status": "success"}}


def written(tmp_path: Path, *lines: str) -> Path:
    file = tmp_path / "some.jsonl"
    file.write_text("\n".join(lines))
    return file


def test_an_export_is_known_by_its_first_line(tmp_path: Path) -> None:
    assert is_export(written(tmp_path, "", json.dumps(ROW), "x"))
    for line in ("x", "[]", '{"jsonrpc":"2.0","method":"ping"}'):
        assert not is_export(written(tmp_path, line, json.dumps(ROW)))


def test_an_http_archive_is_known_by_its_entries(tmp_path: Path) -> None:
    assert is_har(written(tmp_path, "{", '"log": {"version": "1.2", "entries": []}', "}"))
    for line in ("x", "", '{"log": 1}', '{"jsonrpc":"2.0","method":"ping"}', "[" * 100_000):
        assert not is_har(written(tmp_path, line))


def test_its_rows_are_read_and_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, json.dumps(ROW), "", json.dumps(ROW))
    assert [each.row.kind for each in read_export(file)] == ["exchange"] * 2

    with pytest.raises(CommandFailed, match=r"some\.jsonl:2 is no line of an export"):
        list(read_export(written(tmp_path, json.dumps(ROW), "x")))


def test_a_word_that_is_meant_as_a_file_is_known(tmp_path: Path) -> None:
    assert names_missing_file("some.jsonl")
    assert names_missing_file(str(tmp_path / "nothing"))
    assert not names_missing_file(str(tmp_path))
    for word in ("server:github", "limit", "uri:file:///a/b", "00f067aa"):
        assert not names_missing_file(word)
