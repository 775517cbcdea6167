"""A server's answer, as the caller of the exchange may get it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from anyport.gateway.calls.answers import ELICITATIONS_MAX, AnswerTranslator
from anyport.gateway.elicitation.request_state import RequestStates
from anyport.protocol.adapters.server import InputRequiredResult
from anyport.protocol.exchange import Answered, Caller, Ending, ErrorAnswered, Failed
from anyport.protocol.revisions import REVISIONS, Revision
from anyport.protocol.sealing import KEY_BYTES, Seal
from anyport.wire.jsonrpc import Failure, Result
from tests.gateway.fakes import (
    LEGACY,
    MODERN,
    Asked,
    FakeServer,
    FakeSession,
    caller,
    declared,
    profile_of,
)

OLDER = REVISIONS["2025-06-18"]
URL = {"mode": "url", "elicitationId": "e1", "url": "https://example.com/in", "message": "In?"}
FORM = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}


def modern(**capabilities: Any) -> Caller:
    return replace(caller(None, MODERN), capabilities=declared(capabilities))


def legacy(revision: Revision | None = None, **capabilities: Any) -> Caller:
    session = FakeSession("mine", capabilities)
    return replace(caller(session), revision=revision or session.revision)


def read(
    by: Caller,
    server: FakeServer,
    *,
    method: str = "tools/call",
    result: Any = None,
    error: Any = None,
    **config: Any,
) -> Ending | InputRequiredResult:
    endings = AnswerTranslator(RequestStates(Seal([bytes(KEY_BYTES)]), lambda: 0.0))
    exchange = Asked(method, {"name": "s__x", "uri": "x:1"}, by).exchange
    answer = (
        Result(b"1", json.dumps(result).encode())
        if error is None
        else Failure(b"1", json.dumps(error).encode())
    )
    return endings.translate(answer, server.peer, exchange, profile_of(server, **config), server)


def asked(**requests: Any) -> dict[str, Any]:
    return {"resultType": "input_required", "inputRequests": requests, "requestState": "s"}


def told(ending: Ending | InputRequiredResult) -> Any:
    assert isinstance(ending, Answered)
    return json.loads(ending.result)


def words(ending: Ending | InputRequiredResult) -> str:
    assert isinstance(ending, Failed), ending
    return ending.fault.message


def test_what_a_modern_client_is_asked_comes_under_a_state_of_ours() -> None:
    server = FakeServer("s", MODERN)
    shown = told(read(modern(elicitation={}), server, result=asked(k=FORM)))

    assert shown["inputRequests"] == {"k": FORM}
    assert shown["requestState"] != "s"


def test_a_modern_client_is_asked_to_open_no_address_that_is_none() -> None:
    server = FakeServer("s", MODERN)
    entry = {"method": "elicitation/create", "params": {**URL, "url": "javascript:alert(1)"}}
    by = modern(elicitation={"url": {}})

    assert "it is no web address" in words(read(by, server, result=asked(k=entry)))


def test_a_server_asks_for_input_only_where_there_is_room_for_it() -> None:
    server = FakeServer("s", MODERN)
    outcome = read(
        modern(elicitation={}), server, method="completion/complete", result=asked(k=FORM)
    )

    assert "has no room for" in words(outcome)


# Capabilities that a server needs.

LACKS = {"code": -32021, "message": "m", "data": {"requiredCapabilities": {"sampling": {}}}}


def test_in_a_transparent_profile_a_session_gets_every_result_as_its_server_wrote_it() -> None:
    odd = {"content": [{"type": "new"}], "structuredContent": [1], "resultType": "x", "ttlMs": 1}
    older = REVISIONS["2024-11-05"]

    kept = read(legacy(older), FakeServer("s"), result=odd, transparent=True)
    told_otherwise = read(legacy(older), FakeServer("s"), result=odd)

    assert isinstance(kept, Answered)
    assert isinstance(told_otherwise, Answered)
    assert (kept.verbatim, told(kept)) == (True, odd)
    assert (told_otherwise.verbatim, "ttlMs" in told(told_otherwise)) == (False, False)


def test_between_two_eras_it_does_not() -> None:
    plain = {"resultType": "complete", "content": []}
    across = read(legacy(), FakeServer("s", MODERN), result=plain, transparent=True)

    assert isinstance(across, Answered)
    assert (across.verbatim, told(across)) == (False, {"content": []})


def test_a_client_is_told_what_it_lacks_and_not_what_it_has() -> None:
    server = FakeServer("s", MODERN)
    needed: dict[str, Any] = {
        "requiredCapabilities": {"sampling": {}, "elicitation": {"url": {}}, "roots": {}}
    }
    ending = read(
        modern(sampling={}, elicitation={"form": {}}), server, error={**LACKS, "data": needed}
    )

    assert isinstance(ending, Failed)
    assert ending.fault.data is not None
    assert json.loads(ending.fault.data)["requiredCapabilities"] == {
        "elicitation": {"url": {}},
        "roots": {},
    }


def test_a_client_is_not_told_that_it_lacks_what_it_has() -> None:
    ending = read(modern(sampling={}), FakeServer("s", MODERN), error=LACKS)

    assert isinstance(ending, Failed)
    assert ending.fault.data is not None
    assert json.loads(ending.fault.data)["reason"] == "policy"


def test_the_model_behind_a_legacy_client_gets_to_know_what_is_missing() -> None:
    server = FakeServer("s", MODERN)

    result = told(read(legacy(), server, error=LACKS))
    assert result["isError"] is True
    assert "sampling" in result["content"][0]["text"]
    assert isinstance(read(legacy(), server, method="prompts/get", error=LACKS), Failed)


def test_an_error_that_only_looks_like_it_passes_as_it_is() -> None:
    server = FakeServer("s", MODERN)

    for error in ({"code": -32021, "message": "m"}, {**LACKS, "data": {"requiredCapabilities": 5}}):
        assert isinstance(read(modern(), server, error=error), ErrorAnswered)
    assert isinstance(read(modern(), FakeServer("s"), error=LACKS), ErrorAnswered), (
        "a legacy server's"
    )


# Addresses that have to be opened first.


def to_open(*elicitations: Any) -> dict[str, Any]:
    return {"code": -32042, "message": "m", "data": {"elicitations": list(elicitations)}}


def test_a_modern_client_is_asked_to_open_what_a_legacy_server_wants_opened() -> None:
    by = modern(elicitation={"url": {}})
    shown = told(read(by, FakeServer("s"), error=to_open(URL, {**URL, "message": "Too?"})))

    assert shown["resultType"] == "input_required"
    assert shown["requestState"]
    entries = shown["inputRequests"]
    assert list(entries) == ["u1", "u2"]
    assert entries["u2"] == {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": "Too?", "url": URL["url"]},
    }


def test_a_modern_client_that_opens_no_addresses_is_told_so() -> None:
    ending = read(modern(elicitation={}), FakeServer("s"), error=to_open(URL))

    assert isinstance(ending, Failed)
    assert ending.fault.data is not None
    assert json.loads(ending.fault.data)["requiredCapabilities"] == {"elicitation": {"url": {}}}


def test_a_session_of_the_revision_that_has_the_error_gets_it() -> None:
    assert isinstance(read(legacy(), FakeServer("s"), error=to_open(URL)), ErrorAnswered)


def test_a_session_that_gets_the_error_waits_for_the_end_of_each() -> None:
    by = legacy()
    read(by, FakeServer("s"), error=to_open(URL, {**URL, "elicitationId": 5}))
    assert by.session is not None
    assert by.session.elicitations == (("s", "e1"),)


def test_an_older_client_is_told_in_words() -> None:
    assert "cannot be asked" in words(read(legacy(OLDER), FakeServer("s"), error=to_open(URL)))


@pytest.mark.parametrize(
    "error",
    [
        to_open(),
        to_open(5),
        to_open({"url": 5, "message": "m"}),
        to_open({"url": "https://example.com/"}),
        to_open(*[URL] * (ELICITATIONS_MAX + 1)),
        {"code": -32042, "message": "m"},
        {"code": -32042, "message": "m", "data": {"elicitations": 5}},
    ],
)
def test_an_error_that_does_not_say_what_to_open_is_a_fault_of_the_server(error: Any) -> None:
    by = modern(elicitation={"url": {}})

    assert "does not say which" in words(read(by, FakeServer("s"), error=error))


@pytest.mark.parametrize("by", [modern(elicitation={"url": {}}), legacy(), legacy(OLDER)])
@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://10.0.0.1/", "file:///x"])
def test_no_address_is_passed_on_that_is_none_to_open(by: Caller, url: str) -> None:
    ending = read(by, FakeServer("s"), error=to_open(URL, {**URL, "url": url}))

    assert "not passed on" in words(ending)
    assert url not in words(ending)


# Resources that are not there.


@pytest.mark.parametrize(
    ("method", "by", "revision", "code"),
    [
        ("resources/read", legacy(), MODERN, -32002),
        ("tools/call", legacy(), MODERN, -32602),
        ("resources/read", modern(), MODERN, -32602),
        ("resources/read", legacy(), LEGACY, -32602),
    ],
    ids=["across", "no resource", "modern client", "in a session"],
)
def test_a_resource_that_a_modern_server_has_not_got_is_not_found_in_a_session(
    method: str, by: Caller, revision: Revision, code: int
) -> None:
    error = {"code": -32602, "message": "m", "data": {"uri": "x:1"}}

    ending = read(by, FakeServer("s", revision), method=method, error=error)

    assert isinstance(ending, ErrorAnswered)
    assert json.loads(ending.error)["code"] == code


@pytest.mark.parametrize(
    ("method", "by", "revision", "code"),
    [
        ("resources/read", modern(), LEGACY, -32602),
        ("tools/call", modern(), LEGACY, -32002),
        ("resources/read", modern(), MODERN, -32002),
        ("resources/read", legacy(), MODERN, -32002),
        ("resources/read", legacy(), LEGACY, -32002),
    ],
    ids=["across", "no resource", "both modern", "modern server", "both legacy"],
)
def test_a_resource_that_a_legacy_server_has_not_got_makes_a_modern_clients_params_invalid(
    method: str, by: Caller, revision: Revision, code: int
) -> None:
    error = {"code": -32002, "message": "m", "data": {"uri": "x:1"}}

    ending = read(by, FakeServer("s", revision), method=method, error=error)

    assert isinstance(ending, ErrorAnswered)
    assert json.loads(ending.error)["code"] == code
