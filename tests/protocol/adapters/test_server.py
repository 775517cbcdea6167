"""Server adapters: requests in the era of the server, results in the era of the caller."""

import json
from typing import Any

import msgspec
import pytest

from anyport.protocol.adapters.server import (
    InputRequiredResult,
    LegacyServerAdapter,
    ModernServerAdapter,
    ServerAdapter,
    is_input_required,
    server_adapter_for,
    server_capabilities,
)
from anyport.protocol.capabilities import ClientCapabilities, client_capabilities
from anyport.protocol.exchange import Answered, Caller, Ending, Failed
from anyport.protocol.extensions import APPS, SKILLS, TASKS
from anyport.protocol.result import read_shape
from anyport.protocol.revisions import REVISIONS
from anyport.wire import raw_json
from tests.protocol.fakes import META, FakeClient, caller

VENDOR = {"example.com/key": 1.0}
CLIENT = b'{"name":"anyport"}'
MODERN = ModernServerAdapter(REVISIONS["2026-07-28"], CLIENT)
PREFIX = "io.modelcontextprotocol/"


def declared(raw: bytes) -> ClientCapabilities:
    found = client_capabilities(raw)
    assert found is not None
    return found


def in_session(raw: bytes) -> Caller:
    """A caller with a real session and these capabilities."""
    client = FakeClient()
    client.handshake(capabilities=json.loads(raw))
    return caller(session=client.conversation.session, capabilities=declared(raw))


def sent(back: ServerAdapter, params: bytes, by: Caller) -> bytes:
    """The params that a server gets."""
    return back.request_params(params, raw_json.members(params).get("_meta"), by)


def ended(back: ServerAdapter, result: bytes, by: Caller) -> Ending | InputRequiredResult:
    """The ending that a caller gets for a result."""
    return back.convert_result(result, read_shape(result), by, "s")


def answered(back: ServerAdapter, result: bytes, by: Caller) -> bytes:
    ending = ended(back, result, by)
    assert isinstance(ending, Answered)
    return ending.result


def envelope(back: ModernServerAdapter, by: Caller) -> Any:
    return json.loads(sent(back, b'{"name":"a"}', by))["_meta"]


@pytest.mark.parametrize("name", REVISIONS)
def test_a_server_has_the_adapter_of_its_era(name: str) -> None:
    expected = ModernServerAdapter if name == "2026-07-28" else LegacyServerAdapter

    assert type(server_adapter_for(REVISIONS[name], CLIENT)) is expected


def test_a_legacy_server_gets_a_legacy_clients_params_untouched() -> None:
    params = b'{ "name": "a", "_meta": {"progressToken": 1} }'

    assert sent(LegacyServerAdapter(), params, caller()) == params
    assert LegacyServerAdapter().gateway_params(params) == params


def test_a_legacy_server_does_not_see_what_a_modern_client_says_of_itself() -> None:
    params = json.dumps({"name": "a", "_meta": {**META, **VENDOR}}).encode()

    converted = sent(LegacyServerAdapter(), params, caller("2026-07-28"))

    assert json.loads(converted) == {"name": "a", "_meta": VENDOR}


def test_a_legacy_servers_result_is_every_clients_result() -> None:
    assert answered(LegacyServerAdapter(), b'{"a":1}', caller()) == b'{"a":1}'


@pytest.mark.parametrize("member", [b'"resultType":"x"', b'"ttlMs":5', b'"cacheScope":"public"'])
def test_modern_members_of_results_are_removed_for_legacy_clients(
    member: bytes,
) -> None:
    result = b'{"a":1,%b}' % member

    assert answered(LegacyServerAdapter(), result, caller()) == b'{"a":1}'
    assert answered(LegacyServerAdapter(), result, caller("2026-07-28")) == result


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_legacy_server_that_answers_with_questions_has_not_answered(revision: str) -> None:
    result = b'{"resultType":"input_required","inputRequests":{},"requestState":"s"}'

    assert isinstance(ended(LegacyServerAdapter(), result, caller(revision)), Failed)


def test_a_modern_server_gets_the_envelope_of_this_hop_and_the_vendors_keys() -> None:
    by = caller("2026-07-28", capabilities=declared(b'{"sampling":{}}'), log_level="info")
    theirs = {**META, PREFIX + "clientInfo": {"name": "theirs"}, **VENDOR}

    converted = json.loads(sent(MODERN, json.dumps({"_meta": theirs}).encode(), by))

    assert converted["_meta"] == {
        PREFIX + "protocolVersion": "2026-07-28",
        PREFIX + "clientCapabilities": {"sampling": {}},
        PREFIX + "clientInfo": {"name": "anyport"},
        PREFIX + "logLevel": "info",
        **VENDOR,
    }


def test_a_client_that_wants_no_logs_asks_for_none() -> None:
    assert PREFIX + "logLevel" not in envelope(MODERN, caller("2026-07-28"))


def test_extensions_are_not_declared_by_a_gateway_that_does_not_know_them() -> None:
    by = caller("2026-07-28", capabilities=declared(b'{"extensions":{"a/b":{}},"roots":{}}'))

    assert envelope(MODERN, by)[PREFIX + "clientCapabilities"] == {"roots": {}}


@pytest.mark.parametrize("session", [True, False])
def test_extensions_of_both_sides_are_declared_to_a_server(session: bool) -> None:
    raw = b'{"extensions":{"%b":{"n":1},"%b":{},"a/b":{}},"roots":{}}' % (
        APPS.encode(),
        SKILLS.encode(),
    )
    by = in_session(raw) if session else caller("2026-07-28", capabilities=declared(raw))
    skilled = server_adapter_for(REVISIONS["2026-07-28"], CLIENT, [SKILLS])
    assert isinstance(skilled, ModernServerAdapter)

    for back, extensions in ((MODERN, {APPS: {"n": 1}}), (skilled, {APPS: {"n": 1}, SKILLS: {}})):
        converted = envelope(back, by)[PREFIX + "clientCapabilities"]
        assert converted == {"extensions": extensions, "roots": {}}


@pytest.mark.parametrize("session", [True, False])
def test_unknown_extensions_are_declared_where_they_pass(
    session: bool,
) -> None:
    raw = b'{"extensions":{"a/b":{"n":1},"c/d":{}}}'
    by = in_session(raw) if session else caller("2026-07-28", capabilities=declared(raw))
    revision = REVISIONS["2026-07-28"]

    for passes, extensions in ((True, {"extensions": {"a/b": {"n": 1}}}), (False, {})):
        offered = ["a/b", "e/f"]
        passing = {"default": passes}.__getitem__
        back = server_adapter_for(revision, CLIENT, offered, passes_unknown=passing)
        assert isinstance(back, ModernServerAdapter)
        assert envelope(back, by)[PREFIX + "clientCapabilities"] == extensions


def test_what_an_agreed_extension_makes_of_a_result_is_its_own_affair() -> None:
    result = b'{"resultType":"receipt","n":1}'
    agreeing = caller("2026-07-28", capabilities=declared(b'{"extensions":{"a/b":{}}}'))
    revision = REVISIONS["2026-07-28"]
    back = server_adapter_for(revision, CLIENT, ["a/b"], passes_unknown=lambda _: True)

    assert answered(back, result, agreeing) == result
    assert isinstance(ended(back, result, caller("2026-07-28")), Failed)
    assert isinstance(
        ended(server_adapter_for(revision, CLIENT, ["a/b"]), result, agreeing), Failed
    )


def test_a_session_cannot_declare_tasks_as_an_extension() -> None:
    back = server_adapter_for(REVISIONS["2026-07-28"], CLIENT, [TASKS])
    assert isinstance(back, ModernServerAdapter)

    converted = envelope(back, in_session(b'{"extensions":{"%b":{}}}' % TASKS.encode()))

    assert converted[PREFIX + "clientCapabilities"] == {}


@pytest.mark.parametrize(
    ("raw", "converted"),
    [
        (b"{}", {}),
        (b'{"roots":{"listChanged":true},"tasks":{}}', {"roots": {}}),
        (b'{"elicitation":{}}', {"elicitation": {}}),
        (
            b'{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}',
            {"sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}},
        ),
    ],
)
def test_a_legacy_client_is_declared_with_the_questions_its_session_answers(
    raw: bytes, converted: dict[str, Any]
) -> None:
    assert envelope(MODERN, in_session(raw))[PREFIX + "clientCapabilities"] == converted


def test_a_client_without_a_session_can_be_asked_nothing() -> None:
    by = caller(capabilities=declared(b'{"sampling":{}}'))

    assert envelope(MODERN, by)[PREFIX + "clientCapabilities"] == {}


def test_the_gateway_itself_can_be_asked_nothing() -> None:
    converted = json.loads(MODERN.gateway_params(b'{"cursor":"x"}'))

    assert converted["cursor"] == "x"
    assert converted["_meta"][PREFIX + "clientCapabilities"] == {}


def test_a_modern_client_gets_a_modern_result_as_it_is() -> None:
    result = b'{"resultType":"input_required","requestState":"s"}'

    assert answered(MODERN, result, caller("2026-07-28")) == result


def test_a_modern_client_is_asked_only_what_its_request_declared() -> None:
    asked = {"a": {"method": "roots/list"}, "b": {"method": "sampling/createMessage"}}
    result = json.dumps({"resultType": "input_required", "inputRequests": asked}).encode()

    able = caller("2026-07-28", capabilities=declared(b'{"roots":{},"sampling":{}}'))
    assert answered(MODERN, result, able) == result
    ending = ended(MODERN, result, caller("2026-07-28", capabilities=declared(b'{"roots":{}}')))
    assert isinstance(ending, Failed)
    error = json.loads(ending.fault.render(REVISIONS["2026-07-28"]))
    assert error["code"] == -32021
    assert error["data"]["requiredCapabilities"] == {"sampling": {}}


@pytest.mark.parametrize(
    "asked", [b'"inputRequests":{"a":{"method":"tools/call"}}', b'"inputRequests":7', b'"x":1']
)
def test_a_modern_client_is_not_asked_what_is_no_question(asked: bytes) -> None:
    ending = ended(MODERN, b'{"resultType":"input_required",%b}' % asked, caller("2026-07-28"))

    assert isinstance(ending, Failed)
    assert ending.fault.message == "Server 's' asked for input in a form unknown to us"


def test_a_legacy_client_does_not_see_the_members_of_the_era() -> None:
    result = (
        b'{"content":[],"resultType":"complete","ttlMs":1,"cacheScope":"public",'
        b'"_meta":{"io.modelcontextprotocol/serverInfo":{}},"n":1.0}'
    )

    assert answered(MODERN, result, caller()) == b'{"content":[],"n":1.0}'
    assert answered(MODERN, b"{}", caller()) == b"{}"


def test_what_a_modern_server_needs_to_know_is_put_to_a_legacy_client() -> None:
    result = {
        "resultType": "input_required",
        "inputRequests": {
            "a": {"method": "roots/list"},
            "b": {"method": "elicitation/create", "params": {"message": "m"}},
        },
        "requestState": "opaque",
    }

    inquiry = ended(MODERN, json.dumps(result).encode(), caller())

    assert inquiry == InputRequiredResult(
        requests={"a": ("roots/list", None), "b": ("elicitation/create", b'{"message": "m"}')},
        state=b'"opaque"',
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (b'"requestState":"s"', InputRequiredResult(requests={}, state=b'"s"')),
        (
            b'"inputRequests":{"a":{"method":"m"}}',
            InputRequiredResult(requests={"a": ("m", None)}, state=None),
        ),
    ],
)
def test_a_state_alone_and_questions_alone_are_inquiries(
    asked: bytes, expected: InputRequiredResult
) -> None:
    result = b'{"resultType":"input_required",%b}' % asked

    assert ended(MODERN, result, caller()) == expected


@pytest.mark.parametrize(
    "result",
    [
        b'{"resultType":"input_required"}',
        b'{"resultType":"input_required","inputRequests":[]}',
        b'{"resultType":"input_required","inputRequests":{"a":1}}',
        b'{"resultType":"input_required","inputRequests":{"a":{}}}',
        b'{"resultType":"input_required","inputRequests":{"a":{"method":1}}}',
        b'{"resultType":"input_required","inputRequests":{"a":{"method":"x","Method":"y"}}}',
        b'{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create",'
        b'"params":{"mode":"url","url":"https://a.example","URL":"http://127.0.0.1"}}}}',
        b'{"resultType":"task","taskId":"t"}',
        b'{"resultType":null}',
    ],
)
def test_a_result_of_an_unknown_type_or_form_is_the_servers_fault(result: bytes) -> None:
    ending = ended(MODERN, result, caller())

    assert isinstance(ending, Failed)
    assert ending.fault.message.startswith("Server 's' a")


@pytest.mark.parametrize(
    ("raw", "names"), [(b'{"tools":{}}', ["tools"]), (b"[]", []), (b"null", []), (None, [])]
)
def test_a_servers_declaration_is_an_object_or_nothing(raw: bytes | None, names: list[str]) -> None:
    assert list(server_capabilities(None if raw is None else msgspec.Raw(raw))) == names


@pytest.mark.parametrize(
    ("result", "asks"),
    [
        (b'{"resultType":"input_required"}', True),
        (b'{"resultType":"complete"}', False),
        (b'{"text":"resultType"}', False),
        (b"{}", False),
    ],
)
def test_an_input_required_result_is_recognized(result: bytes, asks: bool) -> None:
    assert is_input_required(read_shape(result)) is asks


@pytest.mark.parametrize(
    "params",
    [
        b'{"name":"a"}',
        b'{"name":"a" }',
        b"{}",
        b"{ }",
        b'{"name":"a","_meta":{}}',
        b'{"_meta":{"k":1},"name":"a"}',
        b'{"_meta": null, "name":"a"}',
        b'{"name":"a","_meta":7}',
        b'{"name":"a","x":{"_meta":{}}}',
    ],
)
def test_a_modern_server_gets_an_envelope_whatever_the_params_looked_like(params: bytes) -> None:
    by = caller()

    first, again = sent(MODERN, params, by), sent(MODERN, params, by)

    before, after = json.loads(params), json.loads(first)
    assert again == first
    assert after.pop("_meta").items() >= json.loads(MODERN.gateway_params(b"{}"))["_meta"].items()
    before.pop("_meta", None)
    assert after == before


def test_what_is_remembered_of_one_meta_is_not_sent_for_another() -> None:
    by = caller("2026-07-28")
    for back in (MODERN, LegacyServerAdapter()):
        for value in (1, 2, 1):
            params = json.dumps({"name": "a", "_meta": {**META, "k": value}}).encode()

            assert json.loads(sent(back, params, by))["_meta"]["k"] == value


@pytest.mark.parametrize(
    "result",
    [
        b'{"resultType":"complete","content":[]}',
        b'{"content":[],"resultType":"complete"}',
        b'{"content":[], "resultType" : "complete"}',
        b'{"resultType": "complete", "content":[]}',
    ],
)
def test_the_type_of_a_result_is_removed_at_any_position(result: bytes) -> None:
    assert answered(MODERN, result, caller()) == b'{"content":[]}'


def test_a_result_that_was_only_its_type_becomes_an_empty_one() -> None:
    assert answered(MODERN, b'{"resultType":"complete"}', caller()) == b"{}"
