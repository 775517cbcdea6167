"""Secrets that stand in a file as they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from anyport.cli.doctoring.literals import Literal, literals
from anyport.config.document import Document, read

TOKEN = "ghp_" + "a1B2" * 8


def found(folder: Path, **entry: Any) -> list[Literal]:
    file = folder / "anyport.json"
    file.write_text(json.dumps({"mcpServers": {"git hub": entry}}, indent=1))
    document = read(file)
    assert isinstance(document, Document)
    return list(literals(document))


@pytest.mark.parametrize(
    ("entry", "name", "reference"),
    [
        ({"env": {"API_KEY": "sesame"}}, "env.API_KEY", "${env:API_KEY}"),
        ({"env": {"HARMLESS": TOKEN}}, "env.HARMLESS", "${env:HARMLESS}"),
        (
            {"headers": {"Authorization": "Bearer sesame"}},
            "headers.Authorization",
            "Bearer ${env:GIT_HUB_TOKEN}",
        ),
        ({"http_headers": {"X-Api-Key": "sesame"}}, "http_headers.X-Api-Key", "${env:X_API_KEY}"),
        ({"args": ["--api-key", "sesame"]}, "args[1]", "${env:API_KEY}"),
        ({"args": ["--verbose", TOKEN]}, "args[1]", "${env:VERBOSE}"),
        ({"url": f"https://example.com/mcp?key={TOKEN}"}, "url", "${env:GIT_HUB_TOKEN}"),
    ],
)
def test_a_secret_is_told_by_its_name_or_its_looks(
    tmp_path: Path, entry: dict[str, Any], name: str, reference: str
) -> None:
    (literal,) = found(tmp_path, **entry)

    assert literal.name == f"mcpServers.'git hub'.{name}"
    assert literal.reference == reference
    assert literal.place.startswith(f"{tmp_path}/anyport.json:")
    assert "sesame" not in repr(literal)
    assert TOKEN not in repr(literal)


@pytest.mark.parametrize(
    "entry",
    [
        {"env": {"API_KEY": "${env:API_KEY}", "LOG_LEVEL": "debug", "PASSWORD": ""}},
        {"headers": {"Authorization": "Bearer ${TOKEN}", "Accept": "text/plain"}},
        {"args": ["--token", "--verbose", "server", "--port", "8080"]},
        {"url": "https://example.com/mcp"},
        {"env": "no table", "args": "no list", "url": 5, "headers": {"Authorization": None}},
    ],
)
def test_references_and_what_is_no_secret_are_left_alone(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    assert found(tmp_path, **entry) == []


def test_a_file_that_is_no_configuration_has_none(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"mcpServers": {"a": 1}, "servers": [], "other": {"env": {"KEY": "sesame"}}}')
    document = read(file)
    assert isinstance(document, Document)

    assert list(literals(document)) == []
