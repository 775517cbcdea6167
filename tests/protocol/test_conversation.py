"""One pipe, both eras, message by message: what begins, what is refused, and what is answered."""

import json
from typing import Any

import pytest

from anyport.protocol import room
from anyport.protocol.errors import invalid_params
from anyport.protocol.exchange import Answered, Failed, Refused
from anyport.protocol.room import LARGE_BYTES, OPEN_REQUESTS_MAX
from anyport.protocol.session import State
from anyport.wire.framing import Overlong
from tests.protocol.fakes import IDENTITY, META, Asked, Talk, Wire, request

CALL = {"name": "a", "arguments": {}}


def test_a_session_opens_and_its_requests_are_its_own() -> None:
    talk = Talk()

    result = talk.shake_hands("2025-06-18", {"roots": {}})
    talk.ask("tools/call", CALL)

    assert result["protocolVersion"] == "2025-06-18"
    caller = talk.relay.last.caller
    assert caller.session is talk.conversation.session
    assert (caller.profile, caller.revision.name) == ("default", "2025-06-18")
    assert caller.capabilities.questions == {"roots"}
    assert talk.relay.sessions == [("opened", talk.conversation.session)]


def test_the_level_a_session_has_set_goes_with_its_next_requests() -> None:
    talk = Talk()
    talk.shake_hands()
    assert talk.conversation.session is not None

    talk.ask("tools/call", CALL, 1)
    talk.conversation.session.log_level = "error"
    talk.ask("tools/call", CALL, 2)
    talk.ask("tools/call", CALL, 3)

    callers = [exchange.caller for exchange in talk.relay.exchanges]
    assert [caller.log_level for caller in callers] == [None, "error", "error"]
    assert callers[1] is callers[2]


def test_a_client_that_skips_the_handshake_is_answered() -> None:
    talk = Talk()
    talk.relay.on_begin = lambda exchange: exchange.end(Answered(b'{"tools":[]}'))

    assert talk.ask("tools/list", id="x") == [
        {"jsonrpc": "2.0", "id": "x", "result": {"tools": []}}
    ]
    assert talk.relay.last.caller.session is None
    assert talk.relay.last.caller.revision.name == "2025-03-26"


def test_both_eras_share_one_pipe() -> None:
    talk = Talk()
    talk.relay.on_begin = lambda exchange: exchange.end(Answered(b"{}"))

    (discovered,) = talk.ask_modern("server/discover", id=1)
    talk.shake_hands()
    (legacy,) = talk.ask("tools/list", id=2)
    (modern,) = talk.ask_modern("tools/list", id=3)

    assert discovered["result"]["_meta"]["io.modelcontextprotocol/serverInfo"] == json.loads(
        IDENTITY
    )
    assert legacy["result"] == {}
    assert (modern["result"]["resultType"], modern["result"]["ttlMs"]) == ("complete", 0)
    eras = [exchange.caller.revision.era.value for exchange in talk.relay.exchanges]
    assert eras == ["modern", "legacy", "modern"]


def test_a_modern_request_brings_all_it_needs_and_no_session() -> None:
    talk = Talk()
    talk.shake_hands()
    meta = {**META, "io.modelcontextprotocol/logLevel": "info", "progressToken": "p"}

    talk.say(request("tools/call", {**CALL, "_meta": meta}))

    exchange = talk.relay.last
    assert exchange.caller.session is None
    assert exchange.caller.log_level == "info"
    assert exchange.progress_token == b'"p"'


def test_a_second_handshake_replaces_the_first() -> None:
    talk = Talk()
    talk.shake_hands("2024-11-05", {"roots": {}})
    first = talk.conversation.session
    assert first is not None
    asked = Asked("roots/list")
    first.ask(asked.question)
    talk.wire.take()

    assert talk.shake_hands("2025-06-18")["protocolVersion"] == "2025-06-18"

    second = talk.conversation.session
    assert second is not first
    assert first.state is State.CLOSED
    assert talk.relay.sessions == [("opened", first), ("closed", first), ("opened", second)]
    assert asked.error["message"] == "The client has disconnected"


def test_a_refused_handshake_changes_nothing() -> None:
    talk = Talk()
    talk.shake_hands("2025-06-18")
    session = talk.conversation.session

    (answer,) = talk.ask("initialize", {"protocolVersion": 1})

    assert answer["error"]["code"] == -32602
    assert talk.conversation.session is session


@pytest.mark.parametrize("method", ["initialized", "notifications/initialized"])
def test_either_confirmation_makes_the_session_ready(method: str) -> None:
    talk = Talk()
    assert talk.tell(method) == []
    talk.ask("initialize", {"protocolVersion": "2025-06-18"})
    session = talk.conversation.session
    assert session is not None
    before = session.state

    assert talk.tell(method) == []

    assert (before, session.state) == (State.OPENING, State.READY)


@pytest.mark.parametrize("method", ["nonsense", "", "server/initialize", "notifications/cancelled"])
def test_an_unknown_method_does_not_exist_in_either_era(method: str) -> None:
    talk = Talk()

    (legacy,) = talk.ask(method)
    (modern,) = talk.ask_modern(method)

    error = {"code": -32601, "message": f"Method not found: {method}"}
    assert legacy["error"] == modern["error"] == error
    assert talk.relay.exchanges == []


@pytest.mark.parametrize(
    "method", ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
)
def test_what_the_modern_era_removed_does_not_exist_there(method: str) -> None:
    talk = Talk()

    (answer,) = talk.ask_modern(method)
    assert answer["error"]["code"] == -32601

    assert talk.ask(method) == []
    assert talk.relay.last.method.name == method


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"_meta": {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}}, -32022),
        ({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}, -32602),
    ],
)
@pytest.mark.parametrize("with_session", [False, True])
def test_a_modern_request_that_falls_from_the_ladder_gets_the_modern_code(
    params: dict[str, Any], code: int, with_session: bool
) -> None:
    talk = Talk()
    if with_session:
        talk.shake_hands()

    (answer,) = talk.say(request("tools/list", params, "x"))

    assert (answer["id"], answer["error"]["code"]) == ("x", code)


def test_discovery_without_an_envelope_says_what_is_missing() -> None:
    (answer,) = Talk().ask("server/discover")

    assert answer["error"]["code"] == -32602
    assert "protocolVersion" in answer["error"]["message"]


@pytest.mark.parametrize(
    "params",
    [
        b"[1]",
        b'{"name":"a","name":"b"}',
        b'{"name":"a","Name":"b"}',
        b'{"NAME":"a"}',
        b'{"name\\u0000":"a"}',
        b'{"argument\\u017f":{}}',
        b'{"_META":{}}',
        b'{"_meta":{"progressToken":1,"progressToken":2}}',
        b'{"_meta":[]}',
        b'{"_meta":null}',
    ],
)
def test_params_that_can_be_read_in_two_ways_are_refused(params: bytes) -> None:
    talk = Talk()

    (answer,) = talk.say(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params)

    assert answer["error"]["code"] == -32602
    assert answer["error"]["message"].startswith("Invalid params")
    assert talk.relay.exchanges == []


def test_a_request_is_relayed_with_the_bytes_it_came_with() -> None:
    talk = Talk()
    params = b'{ "name": "a", "arguments": {"n": 1.0, "big": 10000000000000000000000} }'

    talk.say(b'{"jsonrpc":"2.0","id":"\\u0041","method":"tools/call","params":%b}' % params)
    assert talk.relay.last.params == params
    talk.relay.last.end(Answered(b'{"n":1.0}'))

    assert talk.wire.frames == [b'{"jsonrpc":"2.0","id":"\\u0041","result":{"n":1.0}}']


def test_the_same_digits_as_number_and_as_text_are_two_ids() -> None:
    talk = Talk()
    talk.ask("tools/call", CALL, 1)
    talk.ask("tools/call", CALL, "1")
    number, text = talk.relay.exchanges

    text.end(Answered(b'{"of":"text"}'))
    number.end(Answered(b'{"of":"number"}'))

    assert [(frame["id"], frame["result"]["of"]) for frame in talk.wire.take()] == [
        ("1", "text"),
        (1, "number"),
    ]


@pytest.mark.parametrize("second", [b'"a"', b'"\\u0061"'])
def test_an_id_in_use_is_refused_and_the_first_is_unharmed(second: bytes) -> None:
    talk = Talk()
    talk.ask("tools/call", CALL, "a")

    (answer,) = talk.say(b'{"jsonrpc":"2.0","id":%b,"method":"tools/list"}' % second)
    assert answer["error"]["code"] == -32600
    assert len(talk.relay.exchanges) == 1

    talk.relay.last.end(Answered(b"{}"))
    assert talk.wire.take_one()["id"] == "a"
    assert talk.ask("tools/call", CALL, "a") == []
    assert len(talk.relay.exchanges) == 2


def test_a_client_that_never_reads_is_stopped_at_a_limit() -> None:
    talk = Talk()
    for number in range(OPEN_REQUESTS_MAX):
        talk.conversation.receive(b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}' % number)
    assert talk.conversation.open_requests == OPEN_REQUESTS_MAX

    (answer,) = talk.ask("tools/list", id="one more")

    assert answer["error"]["code"] == -32000
    assert len(talk.relay.exchanges) == OPEN_REQUESTS_MAX


def test_large_requests_are_bounded_by_what_they_hold_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk = Talk()
    monkeypatch.setattr(room, "OPEN_BYTES_MAX", 5 * LARGE_BYTES)
    large = {"name": "a", "arguments": {"text": "x" * 2 * LARGE_BYTES}}

    assert talk.ask("tools/call", large, 1) == []
    assert talk.ask("tools/call", large, 2) == []
    (answer,) = talk.ask("tools/call", large, 3)
    assert talk.ask("tools/call", CALL, 4) == []

    assert answer["error"]["code"] == -32000
    talk.relay.exchanges[0].end(Answered(b"{}"))
    talk.wire.take()
    assert talk.ask("tools/call", large, 5) == []


def test_empty_results_of_a_session_are_exactly_empty() -> None:
    talk = Talk()
    talk.shake_hands()
    talk.relay.on_begin = lambda exchange: exchange.end(Answered(b"{}"))

    talk.conversation.receive(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    talk.conversation.receive(
        b'{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}'
    )

    assert talk.wire.frames == [b'{"jsonrpc":"2.0","id":%d,"result":{}}' % id for id in (1, 2)]


def test_every_kind_of_ending_closes_the_request_and_tells_when_none_is_left() -> None:
    talk = Talk()
    for number in (1, 2, 3):
        talk.ask("tools/call", CALL, number)
    first, second, third = talk.relay.exchanges

    first.end(Answered(b"{}"))
    second.end(Refused(b'{"code":5,"message":"m"}'))
    assert (talk.conversation.open_requests, talk.idle) == (1, 0)
    third.end(Failed(invalid_params("no")))

    assert (talk.conversation.open_requests, talk.idle) == (0, 1)
    assert [frame.get("error", {}).get("code") for frame in talk.wire.take()] == [None, 5, -32602]


def test_a_conversation_nobody_watches_rests_too() -> None:
    talk = Talk()
    talk.conversation.on_idle = None
    talk.ask("tools/call", CALL)

    talk.relay.last.end(Answered(b"{}"))

    assert talk.conversation.open_requests == 0


def test_a_result_that_names_a_member_twice_is_an_error_for_a_modern_client() -> None:
    talk = Talk()
    talk.ask_modern("tools/call", CALL)

    talk.relay.last.end(Answered(b'{"content":[],"content":[1]}'))

    assert talk.wire.take_one()["error"]["code"] == -32603
    assert talk.conversation.open_requests == 0


def test_a_closed_conversation_has_no_session_any_more() -> None:
    talk = Talk()
    talk.conversation.finish()
    talk.conversation.leave()
    talk.shake_hands()
    session = talk.conversation.session

    talk.conversation.leave()

    assert talk.relay.sessions == [("opened", session), ("closed", session)]
    talk.ask("tools/list")
    assert talk.relay.last.caller.session is None


def test_an_overlong_line_is_answered_with_the_id_at_its_edge() -> None:
    talk = Talk()

    (answer,) = talk.say(Overlong(5_000_000, b'{"jsonrpc":"2.0","id":"far","method":"x"'))

    assert answer["id"] == "far"
    assert answer["error"]["code"] == -32600
    assert "5000000 bytes" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("revision", "null"),
    [(None, True), ("2024-11-05", True), ("2025-06-18", True), ("2025-11-25", False)],
)
def test_an_error_without_an_id_says_null_or_nothing_as_the_revision_has_it(
    revision: str | None, null: bool
) -> None:
    talk = Talk()
    if revision is not None:
        talk.shake_hands(revision)

    (answer,) = talk.say(b"{not json")

    assert answer["error"]["code"] == -32700
    assert ("id" in answer) is null
    assert answer.get("id") is None


def test_the_request_that_is_answered_over_a_way_is_known_while_it_is_open() -> None:
    talk = Talk()
    talk.shake_hands()
    talk.ask("tools/list", id="one")

    assert talk.conversation.asked_over(talk.wire) == b'"one"'
    assert talk.conversation.asked_over(Wire()) is None
    talk.relay.last.end(Answered(b"{}"))
    assert talk.conversation.asked_over(talk.wire) is None
