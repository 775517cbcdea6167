"""Capabilities of clients and of the gateway."""

import msgspec
import pytest
from msgspec import Raw

from anyport.protocol.capabilities import (
    NO_CAPABILITIES,
    SERVER_CAPABILITIES,
    SUBSCRIBE,
    ClientCapabilities,
    client_capabilities,
    find_missing_capabilities,
    gateway_capabilities,
    translated_capabilities,
)
from anyport.protocol.extensions import APPS, TASKS
from anyport.protocol.revisions import REVISIONS
from anyport.wire import raw_json


def declared(raw: bytes) -> ClientCapabilities:
    found = client_capabilities(raw)
    assert found is not None
    return found


def test_a_client_that_says_nothing_can_be_asked_nothing() -> None:
    assert client_capabilities(None) is NO_CAPABILITIES
    assert not NO_CAPABILITIES.interactive
    assert not declared(b"{}").interactive


def test_the_questions_a_client_answers_are_those_it_declares_as_objects() -> None:
    found = declared(b'{"sampling":{},"elicitation":null,"roots":{"listChanged":true},"x":{}}')

    assert found.questions == {"sampling", "roots"}
    assert found.interactive


@pytest.mark.parametrize(
    ("raw", "url"),
    [
        (b'{"elicitation":{}}', False),
        (b'{"elicitation":{"form":{}}}', False),
        (b'{"elicitation":{"url":{}}}', True),
        (b'{"elicitation":{"url":null}}', False),
        (b'{"elicitation":7}', False),
        (b"{}", False),
    ],
)
def test_elicitation_by_url_must_be_declared_by_itself(raw: bytes, url: bool) -> None:
    assert declared(raw).elicitation_url is url


def test_unknown_members_are_kept_as_they_came() -> None:
    raw = b'{ "extensions": {"io.modelcontextprotocol/ui": {"n": 1.0}} }'

    assert declared(raw).raw == raw


def test_unknown_extensions_are_listed_apart() -> None:
    raw = b'{"extensions":{"io.modelcontextprotocol/ui":{},"com.example/x":{"n":1},"odd":1}}'

    assert declared(raw).unknown == {"com.example/x"}
    assert declared(b'{"extensions":[]}').unknown == declared(b"{}").unknown == frozenset()


@pytest.mark.parametrize("raw", [b"null", b"[]", b"true", b'"all"', b"1"])
def test_a_declaration_that_is_no_object_is_none(raw: bytes) -> None:
    assert client_capabilities(raw) is None


def declaration(
    revision: str, offered: frozenset[str] = SERVER_CAPABILITIES, **extensions: bytes
) -> object:
    return gateway_capabilities(REVISIONS[revision], offered, extensions)


def test_the_gateway_declares_what_its_servers_offer() -> None:
    assert declaration("2025-11-25", frozenset()) == {}
    assert declaration("2025-11-25", frozenset({"tools", "logging"})) == {
        "logging": {},
        "tools": {"listChanged": True},
    }
    readable = {"resources": {"listChanged": True}}
    assert declaration("2025-11-25", frozenset({"resources"})) == readable
    followed = {"resources": {"subscribe": True, "listChanged": True}}
    assert declaration("2025-11-25", frozenset({"resources", SUBSCRIBE})) == followed


def test_of_servers_that_may_offer_anything_it_declares_everything() -> None:
    assert declaration("2026-07-28") == {
        "logging": {},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "tools": {"listChanged": True},
        "completions": {},
    }


def test_extensions_are_declared_if_there_are_any_in_the_eras_that_have_them() -> None:
    offered = {APPS: b'{"n":1.0}', TASKS: b"{}"}
    own = {"com.example/x": b"{}"}

    nothing = frozenset[str]()
    modern = gateway_capabilities(REVISIONS["2026-07-28"], nothing, offered)["extensions"]
    legacy = gateway_capabilities(REVISIONS["2024-11-05"], nothing, offered)["extensions"]

    assert modern == {APPS: msgspec.Raw(b'{"n":1.0}'), TASKS: msgspec.Raw(b"{}")}
    assert legacy == {APPS: msgspec.Raw(b'{"n":1.0}')}
    assert declaration("2024-11-05", nothing, **{TASKS: b"{}"}) == {}
    for revision in ("2024-11-05", "2026-07-28"):
        events = gateway_capabilities(REVISIONS[revision], nothing, own)["extensions"]
        assert events == {"com.example/x": msgspec.Raw(b"{}")}


def test_the_first_revision_has_no_word_for_completions() -> None:
    assert declaration("2024-11-05", frozenset({"completions"})) == {}


ALL = b'{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"roots":{}}'
URL, TOOLS = b'{"mode":"url"}', b'{"tools":[]}'


@pytest.mark.parametrize(
    ("declaration", "method", "params", "missing"),
    [
        (b"{}", "sampling/createMessage", b"{}", {"sampling": {}}),
        (b"{}", "roots/list", None, {"roots": {}}),
        (b"{}", "elicitation/create", b'{"mode":"form"}', {"elicitation": {}}),
        (b"{}", "elicitation/create", URL, {"elicitation": {"url": {}}}),
        (b'{"elicitation":{}}', "elicitation/create", b"{}", {}),
        (b'{"elicitation":{}}', "elicitation/create", URL, {"elicitation": {"url": {}}}),
        (b'{"sampling":{}}', "sampling/createMessage", TOOLS, {"sampling": {"tools": {}}}),
        (ALL, "elicitation/create", URL, {}),
        (ALL, "sampling/createMessage", TOOLS, {}),
        (ALL, "roots/list", None, {}),
    ],
)
def test_what_a_question_needs_and_was_not_declared(
    declaration: bytes, method: str, params: bytes | None, missing: dict[str, object]
) -> None:
    assert find_missing_capabilities([(method, params)], declared(declaration)) == missing


def test_all_missing_capabilities_are_reported_together() -> None:
    asked = [
        ("roots/list", None),
        ("sampling/createMessage", TOOLS),
        ("elicitation/create", URL),
        ("elicitation/create", b"{}"),
    ]

    assert find_missing_capabilities(asked, declared(b'{"roots":{}}')) == {
        "sampling": {"tools": {}},
        "elicitation": {"url": {}},
    }


def test_what_is_no_question_lacks_more_than_a_declaration() -> None:
    with pytest.raises(KeyError):
        find_missing_capabilities([("tools/call", None)], declared(ALL))


def translated(raw: bytes, extensions: set[str], revision: str) -> bytes:
    declared = {name: Raw(value) for name, value in raw_json.members(raw).items()}
    found = translated_capabilities(declared, extensions, REVISIONS[revision])
    return raw_json.encode_object(found.items())


OF_SESSIONS = b'"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}'
EXTENSION = b'"io.modelcontextprotocol/tasks":{}'


@pytest.mark.parametrize(
    ("raw", "revision", "expected"),
    [
        (b'{"x":{},"extensions":{%b}}' % EXTENSION, "2025-11-25", b'{"x":{},%b}' % OF_SESSIONS),
        (
            b'{"extensions":{"y":{},%b}}' % EXTENSION,
            "2025-11-25",
            b'{%b,"extensions":{"y":{}}}' % OF_SESSIONS,
        ),
        (b'{"x":{},"extensions":{%b}}' % EXTENSION, "2025-06-18", b'{"x":{}}'),
        (b"{%b}" % OF_SESSIONS, "2026-07-28", b'{"extensions":{%b}}' % EXTENSION),
        (
            b'{%b,"extensions":{"y":{}}}' % OF_SESSIONS,
            "2026-07-28",
            b'{"extensions":{"y":{},%b}}' % EXTENSION,
        ),
    ],
)
def test_tasks_of_a_server_are_declared_as_the_other_era_has_them(
    raw: bytes, revision: str, expected: bytes
) -> None:
    assert translated(raw, {TASKS}, revision) == expected


def test_what_is_no_tasks_of_calls_is_not_declared_in_the_other_era() -> None:
    raw = b'{"tasks":{"list":{}},"extensions":{"y":{}}}'

    assert translated(raw, {"y"}, "2026-07-28") == b'{"extensions":{"y":{}}}'
