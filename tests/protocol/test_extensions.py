"""Declared extensions; unknown ones only where they pass."""

import json
from typing import Any

import pytest

from anyport.protocol.extensions import (
    APPS,
    EXTENSIONS,
    SKILLS,
    TASKS,
    bridged_capabilities,
    bridged_extensions,
    declared_extensions,
    extension_of,
    merged_extensions,
)
from anyport.protocol.revisions import Era

UI = {"mimeTypes": ["text/html;profile=mcp-app"]}
ALL: dict[str, Any] = {APPS: UI, SKILLS: {}, TASKS: {}, "com.example/own": {"x": 1}}


def raw(declared: Any) -> bytes:
    return json.dumps(declared, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("era", "known"), [(Era.MODERN, {APPS, SKILLS, TASKS}), (Era.LEGACY, {APPS, SKILLS})]
)
def test_of_what_is_declared_the_known_ones_count_with_their_settings(
    era: Era, known: set[str]
) -> None:
    found = declared_extensions(raw(ALL), era)

    assert found.keys() == known
    assert found[APPS] == raw(UI)


@pytest.mark.parametrize("declared", [None, b"[]", b"7", b"null", b"{}", raw({APPS: None})])
def test_what_is_no_declaration_declares_nothing(declared: bytes | None) -> None:
    assert declared_extensions(declared, Era.MODERN) == {}


@pytest.mark.parametrize(
    ("offered", "converted"),
    [
        ([], {APPS: UI}),
        ([SKILLS], {APPS: UI, SKILLS: {}}),
        (["com.example/own"], {APPS: UI}),
        ([TASKS], {APPS: UI, TASKS: {}}),
    ],
)
def test_a_server_gets_the_extensions_it_offers_and_apps_in_any_case(
    offered: list[str], converted: dict[str, Any]
) -> None:
    declared = raw({"roots": {}, "extensions": ALL, "experimental": {"n": 1.0}})

    bridged = json.loads(bridged_capabilities(declared, Era.MODERN, offered))

    assert bridged == {"roots": {}, "extensions": converted, "experimental": {"n": 1.0}}


@pytest.mark.parametrize("era", Era)
def test_unknown_ones_count_where_they_are_wanted(era: Era) -> None:
    declared = {**ALL, "odd": 1}

    found = declared_extensions(raw(declared), era, unknown=True)

    assert found["com.example/own"] == b'{"x":1}'
    assert "odd" not in found
    assert (TASKS in found) is (era is Era.MODERN), "the older era has another word for it"


def test_unknown_extensions_that_pass_are_declared_to_a_server() -> None:
    extensions = {"com.example/own": {"x": 1}, "com.example/other": {}, SKILLS: {}}
    declared = raw({"extensions": extensions})

    bridged = bridged_capabilities(declared, Era.MODERN, [], ["com.example/own", TASKS])

    assert json.loads(bridged) == {"extensions": {"com.example/own": {"x": 1}}}


def test_tasks_are_no_extension_of_a_handshake_and_their_own_word_is_not_passed_on() -> None:
    declared = raw({"tasks": {"list": {}}, "extensions": {TASKS: {}}})

    assert bridged_capabilities(declared, Era.LEGACY, EXTENSIONS) == b"{}"
    assert bridged_extensions(declared, Era.LEGACY, EXTENSIONS) is None


@pytest.mark.parametrize("declared", [b"{}", b'{ "roots": {"n": 1.0} }'])
def test_a_declaration_without_any_keeps_its_bytes(declared: bytes) -> None:
    assert bridged_capabilities(declared, Era.MODERN, EXTENSIONS) is declared
    assert bridged_extensions(declared, Era.MODERN, EXTENSIONS) is None


def test_of_settings_those_hold_for_all_that_all_have() -> None:
    reads, more = b'{"directoryRead":true}', b'{"directoryRead":true,"x":1.0}'

    assert merged_extensions([{SKILLS: reads}, {}, {SKILLS: more}]) == {SKILLS: reads}
    assert merged_extensions([{SKILLS: more}, {APPS: b"{}"}]) == {SKILLS: more, APPS: b"{}"}
    assert merged_extensions([{SKILLS: reads}, {SKILLS: b"{}"}]) == {SKILLS: b"{}"}
    assert merged_extensions([{SKILLS: reads}, {SKILLS: b'{"directoryRead":false}'}]) == {
        SKILLS: b"{}"
    }
    assert merged_extensions([]) == {}


@pytest.mark.parametrize(
    ("uri", "extension"),
    [
        ("ui://a/b", APPS),
        ("skill://a/SKILL.md", SKILLS),
        ("ui:a", None),
        ("uix://a", None),
        ("file:///ui://", None),
        ("", None),
    ],
)
def test_a_uri_belongs_to_the_extension_of_its_scheme(uri: str, extension: str | None) -> None:
    assert extension_of(uri) == extension


def test_a_row_is_found_under_its_own_id() -> None:
    assert all(row.id == id for id, row in EXTENSIONS.items())
