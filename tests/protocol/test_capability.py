"""What a client declared is read and kept; what the gateway declares depends on nothing."""

import msgspec
import pytest

from anyport.protocol.capability import (
    NOTHING,
    ClientCapabilities,
    client_capabilities,
    gateway_capabilities,
    lacking,
)
from anyport.protocol.extension import APPS, TASKS
from anyport.protocol.revision import REVISIONS


def declared(raw: bytes) -> ClientCapabilities:
    found = client_capabilities(raw)
    assert found is not None
    return found


def test_a_client_that_says_nothing_can_be_asked_nothing() -> None:
    assert client_capabilities(None) is NOTHING
    assert not NOTHING.interactive
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


@pytest.mark.parametrize("raw", [b"null", b"[]", b"true", b'"all"', b"1"])
def test_a_declaration_that_is_no_object_is_none(raw: bytes) -> None:
    assert client_capabilities(raw) is None


def test_the_gateway_declares_all_that_it_can_serve() -> None:
    newest = gateway_capabilities(REVISIONS["2026-07-28"])

    assert newest == {
        "logging": {},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "tools": {"listChanged": True},
        "completions": {},
    }


def test_extensions_are_declared_if_there_are_any_in_the_eras_that_have_them() -> None:
    offered = {APPS: b'{"n":1.0}', TASKS: b"{}"}

    modern = gateway_capabilities(REVISIONS["2026-07-28"], offered)["extensions"]
    legacy = gateway_capabilities(REVISIONS["2024-11-05"], offered)["extensions"]

    assert modern == {APPS: msgspec.Raw(b'{"n":1.0}'), TASKS: msgspec.Raw(b"{}")}
    assert legacy == {APPS: msgspec.Raw(b'{"n":1.0}')}
    assert "extensions" not in gateway_capabilities(REVISIONS["2024-11-05"], {TASKS: b"{}"})


def test_the_first_revision_has_no_word_for_completions() -> None:
    assert "completions" not in gateway_capabilities(REVISIONS["2024-11-05"])


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
    assert lacking([(method, params)], declared(declaration)) == missing


def test_all_that_is_lacking_is_told_together_and_nothing_else() -> None:
    asked = [
        ("roots/list", None),
        ("sampling/createMessage", TOOLS),
        ("elicitation/create", URL),
        ("elicitation/create", b"{}"),
    ]

    assert lacking(asked, declared(b'{"roots":{}}')) == {
        "sampling": {"tools": {}},
        "elicitation": {"url": {}},
    }


def test_what_is_no_question_lacks_more_than_a_declaration() -> None:
    with pytest.raises(KeyError):
        lacking([("tools/call", None)], declared(ALL))
