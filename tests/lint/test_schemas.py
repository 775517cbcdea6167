"""Messages held against the schema of their revision."""

from typing import Any

import msgspec
import pytest

from anyport.lint.frame_files import legs_of_frames
from anyport.lint.model import Depth, Frame, Leg, NotRecorded
from anyport.lint.schemas import errors_of, schema_of
from anyport.protocol.methods import METHODS, find_method
from anyport.protocol.revisions import NEWEST_MODERN, REVISIONS
from tests.lint.conversations import afresh, ask, call, give, hello, listed, note, tool


def errors(*lines: Any) -> list[tuple[str, str]]:
    legs = legs_of_frames(msgspec.json.encode(line) for line in lines)
    return [(error.location, error.message) for leg in legs for error in errors_of(leg)]


def test_an_error_is_located_by_method_and_path() -> None:
    assert errors(*call({"content": [{"type": "text"}]})) == [
        ("tools/call result.content[0].text:required", "result.content[0].text is missing")
    ]


def test_an_error_in_a_list_names_the_entry() -> None:
    assert errors(*listed(tool("a"), {"name": "b"})) == [
        (
            "tools/list result.tools[1].inputSchema:required",
            "result.tools[1].inputSchema of b is missing",
        )
    ]


def test_a_message_is_held_against_the_schema_of_its_revision() -> None:
    asked = afresh("tools/call", {"content": []}, {"name": "a"})
    assert errors(*asked) == [
        ("tools/call result.resultType:required", "result.resultType is missing")
    ]
    assert not errors(*call({"content": []}))


def test_content_that_came_later_is_for_another_rule() -> None:
    audio = {"content": [{"type": "audio", "data": "", "mimeType": "audio/wav"}]}
    assert not errors(*call(audio, "2024-11-05"))


@pytest.mark.parametrize(
    "result",
    [
        {"resultType": "input_required", "requestState": "s"},
        {"resultType": "task", "taskId": "t"},
        {"resultType": "of.an/extension"},
    ],
)
def test_a_result_of_another_type_is_no_result_of_a_call(result: dict[str, Any]) -> None:
    assert not errors(*afresh("tools/call", result, {"name": "a"}))


def test_a_method_of_an_extension_says_its_revision_too() -> None:
    assert errors(*hello(), ask("weather/get", {}), give({})) == []
    [asked, told] = afresh("weather/get", {"resultType": "complete"})
    assert isinstance(asked, dict)
    del asked["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert [location for location, _ in errors(asked, told)] == [
        'weather/get params._meta["io.modelcontextprotocol/clientCapabilities"]:required'
    ]


def test_params_that_are_missing() -> None:
    lines = [*hello(), note("notifications/progress")]
    assert errors(*lines) == [("notifications/progress params:required", "params is missing")]


def outlined(shape: str | None) -> Leg:
    return Leg(
        id="a",
        side="server",
        depth=Depth.SHAPE,
        method="tools/list",
        revision=NEWEST_MODERN,
        answer=Frame(kind="response", shape=shape),
    )


def test_an_outline_is_judged_as_far_as_it_tells() -> None:
    shape = '{"tools":{},"ttlMs":s,"resultType":n}'
    assert [error.message for error in errors_of(outlined(shape))] == [
        "result.cacheScope is missing",
        "result.tools must be an array, not an object",
        "result.ttlMs must be an integer, not a string",
        "result.resultType must be a string, not a number",
    ]


@pytest.mark.parametrize("shape", [None, '{"tools":[],...'])
def test_what_was_not_outlined_cannot_be_told(shape: str | None) -> None:
    with pytest.raises(NotRecorded):
        errors_of(outlined(shape))


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_gateway_knows_the_requests_of_the_schema(revision: str) -> None:
    known = schema_of(revision).messages["client", "request"]
    assert all(find_method(method, REVISIONS[revision]) for method in known)
    assert known.keys() <= METHODS.keys()
