"""Files become documents, or faults; never exceptions."""

from pathlib import Path

import pytest

from anyport.config.document import FILE_BYTES_MAX, ConfigNode, Document, read_document
from anyport.config.faults import ConfigFault


def document(file: Path, text: str) -> Document:
    file.write_bytes(text.encode())
    found = read_document(file)
    assert isinstance(found, Document)
    return found


def member(spot: ConfigNode, *keys: str) -> ConfigNode:
    for key in keys:
        spot = dict(spot.items())[key]
    return spot


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", '[x]\ny = "z"\n'),
        ("a.TOML", '[x]\r\ny = "z"\r\n'),
        ("a.json", '{"x":\n{"y": "z"}}'),
        ("a.jsonc", '\ufeff{"x": // why\r\n{"y": "z",},}'),
        ("mcp", '{"x":\n{"y": "z"}}'),
    ],
)
def test_the_name_decides_the_syntax(tmp_path: Path, name: str, text: str) -> None:
    root = document(tmp_path / name, text).root
    assert root.value == {"x": {"y": "z"}}
    assert member(root, "x", "y").fault("m").line == 2


def test_a_fault_names_the_file_the_place_and_the_path(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    spot = member(document(file, '{"a b": {"c": [1, 2]}}').root, "a b", "c")
    second = list(spot.elements())[1]
    assert second.fault("wrong", "hint") == ConfigFault(
        file=str(file), line=1, column=19, path="'a b'.c[1]", message="wrong", hint="hint"
    )
    assert spot.key_fault("wrong").column == 10
    assert spot.fault("wrong").column == 15


def test_an_implied_table_of_toml_stands_where_it_is_first_named(tmp_path: Path) -> None:
    root = document(tmp_path / "a.toml", "\n[a.b.c]\nd = 1\n").root
    assert member(root, "a", "b").key_fault("m").line == 2


def test_null_means_not_set(tmp_path: Path) -> None:
    root = document(tmp_path / "a.json", '{"a": null, "b": 1}').root
    assert [key for key, _ in root.items()] == ["b"]


@pytest.mark.parametrize(
    ("raw", "line", "column", "message"),
    [
        (b"\xff\xfe{\x00}\x00", 1, 1, "the file is not UTF-8 text"),
        (b'{"a":\n "\xe4"}', 2, 3, "the file is not UTF-8 text"),
        (b"\x7fELF\x02\x01\x01\x00", 1, 1, "there must be a value here"),
        (b"[1, 2]", 1, 1, "the file must hold an object"),
        (b'{"a": 1', 1, 8, "the text ends too early"),
        (b"", 1, 1, "the file is empty"),
        (b"[" * 1_000_000, 1, 66, "values are nested deeper than 64 levels"),
        (b" " * (FILE_BYTES_MAX + 1), 1, 1, "the file is larger than 4 MiB"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_fault(
    tmp_path: Path, raw: bytes, line: int, column: int, message: str
) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(raw)
    fault = read_document(file)
    assert isinstance(fault, ConfigFault)
    assert (fault.line, fault.column, fault.message) == (line, column, message)


def test_a_missing_file_and_a_directory_are_faults(tmp_path: Path) -> None:
    missing, directory = read_document(tmp_path / "none.toml"), read_document(tmp_path)
    assert isinstance(missing, ConfigFault)
    assert missing.message == "the file cannot be read: No such file or directory"
    assert isinstance(directory, ConfigFault)
    assert directory.message == "this is a directory"
