"""A conversation over one pipe, both eras: requests, batches, cancellation, notifications."""

import json
from random import Random
from typing import Any

import pytest

from anyport.protocol import memory_budget
from anyport.protocol.conversation import BATCH_MAX
from anyport.protocol.errors import invalid_params
from anyport.protocol.exchange import Answered, ErrorAnswered, Failed, NeedInput, Progress
from anyport.protocol.memory_budget import LARGE_BYTES, OPEN_REQUESTS_MAX
from anyport.protocol.scheduler import HEAVY_BYTES, cost_of
from anyport.protocol.session import SessionState
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Notification, Result
from anyport.wire.lines import Overlong
from tests.protocol.fakes import IDENTITY, META, FakeClient, FakeQuestion, FakeReplyWriter, request

CALL = {"name": "a", "arguments": {}}


def test_a_session_opens_and_its_requests_are_its_own() -> None:
    client = FakeClient()

    result = client.handshake("2025-06-18", {"roots": {}})
    client.ask("tools/call", CALL)

    assert result["protocolVersion"] == "2025-06-18"
    caller = client.handler.last.caller
    assert caller.session is client.conversation.session
    assert (caller.profile, caller.revision.name) == ("default", "2025-06-18")
    assert caller.capabilities.questions == {"roots"}
    assert client.handler.sessions == [("opened", client.conversation.session)]


def test_the_level_a_session_has_set_goes_with_its_next_requests() -> None:
    client = FakeClient()
    client.handshake()
    assert client.conversation.session is not None

    client.ask("tools/call", CALL, 1)
    client.conversation.session.log_level = "error"
    client.ask("tools/call", CALL, 2)
    client.ask("tools/call", CALL, 3)

    callers = [exchange.caller for exchange in client.handler.exchanges]
    assert [caller.log_level for caller in callers] == [None, "error", "error"]
    assert callers[1] is callers[2]


def test_a_client_that_skips_the_handshake_is_answered() -> None:
    client = FakeClient()
    client.handler.on_begin = lambda exchange: exchange.end(Answered(b'{"tools":[]}'))

    assert client.ask("tools/list", id="x") == [
        {"jsonrpc": "2.0", "id": "x", "result": {"tools": []}}
    ]
    assert client.handler.last.caller.session is None
    assert client.handler.last.caller.revision.name == "2025-03-26"


def test_both_eras_share_one_pipe() -> None:
    client = FakeClient()
    client.handler.on_begin = lambda exchange: exchange.end(Answered(b"{}"))

    (discovered,) = client.ask_modern("server/discover", id=1)
    client.handshake()
    (legacy,) = client.ask("tools/list", id=2)
    (modern,) = client.ask_modern("tools/list", id=3)

    assert discovered["result"]["_meta"]["io.modelcontextprotocol/serverInfo"] == json.loads(
        IDENTITY
    )
    assert legacy["result"] == {}
    assert (modern["result"]["resultType"], modern["result"]["ttlMs"]) == ("complete", 0)
    eras = [exchange.caller.revision.era.value for exchange in client.handler.exchanges]
    assert eras == ["modern", "legacy", "modern"]


def test_a_modern_request_brings_all_it_needs_and_no_session() -> None:
    client = FakeClient()
    client.handshake()
    meta = {**META, "io.modelcontextprotocol/logLevel": "info", "progressToken": "p"}

    client.send(request("tools/call", {**CALL, "_meta": meta}))

    exchange = client.handler.last
    assert exchange.caller.session is None
    assert exchange.caller.log_level == "info"
    assert exchange.progress_token == b'"p"'


def test_a_second_handshake_replaces_the_first() -> None:
    client = FakeClient()
    client.handshake("2024-11-05", {"roots": {}})
    first = client.conversation.session
    assert first is not None
    asked = FakeQuestion("roots/list")
    first.ask(asked.question)
    client.writer.take()

    assert client.handshake("2025-06-18")["protocolVersion"] == "2025-06-18"

    second = client.conversation.session
    assert second is not first
    assert first.state is SessionState.CLOSED
    assert client.handler.sessions == [("opened", first), ("closed", first), ("opened", second)]
    assert asked.error["message"] == "The client has disconnected"


def test_a_refused_handshake_changes_nothing() -> None:
    client = FakeClient()
    client.handshake("2025-06-18")
    session = client.conversation.session

    (answer,) = client.ask("initialize", {"protocolVersion": 1})

    assert answer["error"]["code"] == -32602
    assert client.conversation.session is session


@pytest.mark.parametrize("method", ["initialized", "notifications/initialized"])
def test_either_confirmation_makes_the_session_ready(method: str) -> None:
    client = FakeClient()
    assert client.notify(method) == []
    client.ask("initialize", {"protocolVersion": "2025-06-18"})
    session = client.conversation.session
    assert session is not None
    before = session.state

    assert client.notify(method) == []

    assert (before, session.state) == (SessionState.OPENING, SessionState.READY)


@pytest.mark.parametrize("method", ["nonsense", "", "server/initialize", "notifications/cancelled"])
def test_an_unknown_method_does_not_exist_in_either_era(method: str) -> None:
    client = FakeClient()

    (legacy,) = client.ask(method)
    (modern,) = client.ask_modern(method)

    error = {"code": -32601, "message": f"Method not found: {method}"}
    assert legacy["error"] == modern["error"] == error
    assert client.handler.exchanges == []


@pytest.mark.parametrize(
    "method", ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
)
def test_what_the_modern_era_removed_does_not_exist_there(method: str) -> None:
    client = FakeClient()

    (answer,) = client.ask_modern(method)
    assert answer["error"]["code"] == -32601

    assert client.ask(method) == []
    assert client.handler.last.method.name == method


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
    client = FakeClient()
    if with_session:
        client.handshake()

    (answer,) = client.send(request("tools/list", params, "x"))

    assert (answer["id"], answer["error"]["code"]) == ("x", code)


def test_discovery_without_an_envelope_says_what_is_missing() -> None:
    (answer,) = FakeClient().ask("server/discover")

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
    client = FakeClient()

    (answer,) = client.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params)

    assert answer["error"]["code"] == -32602
    assert answer["error"]["message"].startswith("Invalid params")
    assert client.handler.exchanges == []


def test_a_request_keeps_its_bytes() -> None:
    client = FakeClient()
    params = b'{ "name": "a", "arguments": {"n": 1.0, "big": 10000000000000000000000} }'

    client.send(b'{"jsonrpc":"2.0","id":"\\u0041","method":"tools/call","params":%b}' % params)
    assert client.handler.last.params == params
    client.handler.last.end(Answered(b'{"n":1.0}'))

    assert client.writer.frames == [b'{"jsonrpc":"2.0","id":"\\u0041","result":{"n":1.0}}']


def test_the_same_digits_as_number_and_as_text_are_two_ids() -> None:
    client = FakeClient()
    client.ask("tools/call", CALL, 1)
    client.ask("tools/call", CALL, "1")
    number, text = client.handler.exchanges

    text.end(Answered(b'{"of":"text"}'))
    number.end(Answered(b'{"of":"number"}'))

    assert [(frame["id"], frame["result"]["of"]) for frame in client.writer.take()] == [
        ("1", "text"),
        (1, "number"),
    ]


@pytest.mark.parametrize("second", [b'"a"', b'"\\u0061"'])
def test_an_id_in_use_is_refused_and_the_first_is_unharmed(second: bytes) -> None:
    client = FakeClient()
    client.ask("tools/call", CALL, "a")

    (answer,) = client.send(b'{"jsonrpc":"2.0","id":%b,"method":"tools/list"}' % second)
    assert answer["error"]["code"] == -32600
    assert len(client.handler.exchanges) == 1

    client.handler.last.end(Answered(b"{}"))
    assert client.writer.take_one()["id"] == "a"
    assert client.ask("tools/call", CALL, "a") == []
    assert len(client.handler.exchanges) == 2


def test_a_client_that_never_reads_is_stopped_at_a_limit() -> None:
    client = FakeClient()
    for number in range(OPEN_REQUESTS_MAX):
        client.conversation.receive(b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}' % number)
    assert client.conversation.open_requests == OPEN_REQUESTS_MAX

    (answer,) = client.ask("tools/list", id="one more")

    assert answer["error"]["code"] == -32000
    assert len(client.handler.exchanges) == OPEN_REQUESTS_MAX


def test_large_requests_are_bounded_by_what_they_hold_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = FakeClient()
    monkeypatch.setattr(memory_budget, "OPEN_BYTES_MAX", 5 * LARGE_BYTES)
    large = {"name": "a", "arguments": {"text": "x" * 2 * LARGE_BYTES}}

    assert client.ask("tools/call", large, 1) == []
    assert client.ask("tools/call", large, 2) == []
    (answer,) = client.ask("tools/call", large, 3)
    assert client.ask("tools/call", CALL, 4) == []

    assert answer["error"]["code"] == -32000
    client.handler.exchanges[0].end(Answered(b"{}"))
    client.writer.take()
    assert client.ask("tools/call", large, 5) == []


def test_empty_results_of_a_session_are_exactly_empty() -> None:
    client = FakeClient()
    client.handshake()
    client.handler.on_begin = lambda exchange: exchange.end(Answered(b"{}"))

    client.conversation.receive(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    client.conversation.receive(
        b'{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}'
    )

    assert client.writer.frames == [b'{"jsonrpc":"2.0","id":%d,"result":{}}' % id for id in (1, 2)]


def test_every_kind_of_ending_closes_the_request_and_the_last_makes_it_idle() -> None:
    client = FakeClient()
    for number in (1, 2, 3):
        client.ask("tools/call", CALL, number)
    first, second, third = client.handler.exchanges

    first.end(Answered(b"{}"))
    second.end(ErrorAnswered(b'{"code":5,"message":"m"}'))
    assert (client.conversation.open_requests, client.idle) == (1, 0)
    third.end(Failed(invalid_params("no")))

    assert (client.conversation.open_requests, client.idle) == (0, 1)
    assert [frame.get("error", {}).get("code") for frame in client.writer.take()] == [
        None,
        5,
        -32602,
    ]


def test_a_conversation_without_an_idle_callback_works() -> None:
    client = FakeClient()
    client.conversation.on_idle = None
    client.ask("tools/call", CALL)

    client.handler.last.end(Answered(b"{}"))

    assert client.conversation.open_requests == 0


def test_a_result_that_names_a_member_twice_is_an_error_for_a_modern_client() -> None:
    client = FakeClient()
    client.ask_modern("tools/call", CALL)

    client.handler.last.end(Answered(b'{"content":[],"content":[1]}'))

    assert client.writer.take_one()["error"]["code"] == -32603
    assert client.conversation.open_requests == 0


def test_a_closed_conversation_has_no_session_any_more() -> None:
    client = FakeClient()
    client.conversation.end_input()
    client.conversation.close_session()
    client.handshake()
    session = client.conversation.session

    client.conversation.close_session()

    assert client.handler.sessions == [("opened", session), ("closed", session)]
    client.ask("tools/list")
    assert client.handler.last.caller.session is None


def test_an_overlong_line_is_answered_with_the_id_at_its_edge() -> None:
    client = FakeClient()

    (answer,) = client.send(Overlong(5_000_000, b'{"jsonrpc":"2.0","id":"far","method":"x"'))

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
    client = FakeClient()
    if revision is not None:
        client.handshake(revision)

    (answer,) = client.send(b"{not json")

    assert answer["error"]["code"] == -32700
    assert ("id" in answer) is null
    assert answer.get("id") is None


def test_the_request_that_is_answered_over_a_way_is_known_while_it_is_open() -> None:
    client = FakeClient()
    client.handshake()
    client.ask("tools/list", id="one")

    assert client.conversation.request_id_of(client.writer) == b'"one"'
    assert client.conversation.request_id_of(FakeReplyWriter()) is None
    client.handler.last.end(Answered(b"{}"))
    assert client.conversation.request_id_of(client.writer) is None


# Batches.


def batching() -> FakeClient:
    client = FakeClient()
    client.handshake("2025-03-26")
    return client


def cancelled(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_a_revision_without_batches_refuses_them_once(revision: str) -> None:
    client = FakeClient()
    client.handshake(revision)

    (answer,) = client.send([request("ping", id=1), request("ping", id=2)])

    assert answer["error"]["code"] == -32600
    assert revision in answer["error"]["message"]
    assert client.handler.exchanges == []


@pytest.mark.parametrize("client", [FakeClient(), batching()], ids=["no session", "2025-03-26"])
def test_the_answers_of_a_batch_come_together_when_the_last_is_there(client: FakeClient) -> None:
    client.send([request("ping", id=1), request("ping", id="b"), request("nonsense", id=3)])
    first, second = client.handler.exchanges

    second.end(Answered(b"{}"))
    assert client.writer.take() == []
    first.end(Answered(b"{}"))

    answers = client.writer.take_one()
    assert {answer["id"]: "error" in answer for answer in answers} == {
        3: True,
        "b": False,
        1: False,
    }


def test_answers_that_are_there_at_once_wait_for_the_whole_batch_to_be_read() -> None:
    client = batching()
    client.handler.on_begin = lambda exchange: exchange.end(Answered(b"{}"))

    (answers,) = client.send([request("ping", id=1), request("ping", id=2)])

    assert [answer["id"] for answer in answers] == [1, 2]


def test_a_batch_of_notifications_has_no_answer() -> None:
    client = batching()

    assert client.send([{"jsonrpc": "2.0", "method": "notifications/x"}] * 3) == []
    assert len(client.handler.notifications) == 3


def test_what_is_wrong_in_a_batch_is_answered_in_its_place() -> None:
    client = batching()
    client.handler.on_begin = lambda exchange: exchange.end(Answered(b"{}"))

    (answers,) = client.send(
        [
            1,
            [],
            {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/x", "params": 7},
            {"jsonrpc": "2.0", "id": 9, "result": {}},
            request("ping", id="fine"),
        ]
    )

    assert [answer["id"] for answer in answers] == [None, None, None, "fine"]
    assert [answer["error"]["code"] for answer in answers[:3]] == [-32600] * 3


def test_a_handshake_inside_a_batch_is_refused() -> None:
    client = FakeClient()

    (answers,) = client.send([request("initialize", {"protocolVersion": "2025-03-26"})])

    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(1, -32600)]
    assert client.conversation.session is None


def test_a_modern_request_inside_a_batch_is_refused() -> None:
    client = batching()

    (answers,) = client.send([request("tools/list", {"_meta": META}, 1)])

    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(1, -32600)]
    assert client.handler.exchanges == []


@pytest.mark.parametrize("raw", [b"[]", b"[ ]", b"[1", b"[" * 200])
def test_what_is_no_batch_at_all_is_answered_by_one_object(raw: bytes) -> None:
    (answer,) = batching().send(raw)

    assert isinstance(answer, dict)
    assert answer["error"]["code"] in (-32600, -32700)


def test_a_hundred_messages_are_a_batch_and_one_more_are_not() -> None:
    client = batching()
    client.handler.on_begin = lambda exchange: exchange.end(Answered(b"{}"))

    (answers,) = client.send([request("ping", id=number) for number in range(BATCH_MAX)])
    (refusal,) = client.send([request("ping", id=number) for number in range(BATCH_MAX + 1)])

    assert len(answers) == BATCH_MAX == 100
    assert refusal["error"]["code"] == -32600
    assert len(client.handler.exchanges) == BATCH_MAX


def test_a_batch_does_not_wait_for_what_was_cancelled() -> None:
    client = batching()
    client.send([request("ping", id=1), request("ping", id=2)])
    client.handler.exchanges[0].end(Answered(b"{}"))

    (answers,) = client.send(cancelled(2))

    assert [answer["id"] for answer in answers] == [1]
    client.handler.exchanges[1].end(Answered(b"{}"))
    assert client.writer.take() == []


def test_a_batch_of_which_all_was_cancelled_has_no_answer() -> None:
    client = batching()
    client.send([request("ping", id=1), request("ping", id=2)])

    assert client.send(cancelled(1), cancelled(2)) == []
    assert client.conversation.open_requests == 0


def test_a_request_may_be_cancelled_by_its_own_batch() -> None:
    client = batching()
    client.send([request("ping", id=1), cancelled(1), request("ping", id=2)])

    client.handler.exchanges[1].end(Answered(b"{}"))

    assert [answer["id"] for answer in client.writer.take_one()] == [2]


def test_a_duplicate_id_in_a_batch_is_answered_twice_and_runs_once() -> None:
    client = batching()

    client.send([request("ping", id=1), request("ping", id=1)])
    client.handler.last.end(Answered(b"{}"))

    answers = client.writer.take_one()
    assert [("error" in answer, answer["id"]) for answer in answers] == [(True, 1), (False, 1)]
    assert len(client.handler.exchanges) == 1


def test_the_messages_of_a_batch_are_taken_one_by_one() -> None:
    client = batching()
    raw = json.dumps([request("ping", id=number) for number in range(3)]).encode()
    work = client.conversation.receive(raw)
    assert work is not None
    assert client.handler.exchanges == []

    for taken in (1, 2, 3):
        assert next(work) > 0
        assert len(client.handler.exchanges) == taken
    assert list(work) == []


def test_a_large_message_of_a_batch_is_paid_for_first() -> None:
    client = batching()
    large = request("ping", {"x": "y" * 2 * HEAVY_BYTES}, id=1)
    work = client.conversation.receive(json.dumps([large]).encode())
    assert work is not None

    assert next(work) >= cost_of(2 * HEAVY_BYTES)
    assert client.handler.exchanges == []
    assert len(list(work)) == 1
    assert len(client.handler.exchanges) == 1


# Cancellation.


def open_call(id: Any = 1) -> tuple[FakeClient, list[bytes | None]]:
    """A client with one open call, and the reasons of its cancellation."""
    client, reasons = FakeClient(), list[bytes | None]()
    client.handshake()
    client.ask("tools/call", CALL, id)
    client.handler.last.on_cancel = reasons.append
    return client, reasons


@pytest.mark.parametrize("id", [1, "1", 0, "", 10**40, "é"])
def test_a_cancelled_request_stops_and_is_never_answered(id: Any) -> None:
    client, reasons = open_call(id)

    assert client.notify("notifications/cancelled", {"requestId": id, "reason": "enough"}) == []

    assert reasons == [b'"enough"']
    assert (client.conversation.open_requests, client.idle) == (0, 1)
    client.handler.last.end(Answered(b"{}"))
    assert client.writer.take() == []


def test_a_reason_is_not_needed() -> None:
    client, reasons = open_call()

    client.notify("notifications/cancelled", {"requestId": 1})

    assert reasons == [None]


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        [],
        [1],
        {"requestId": None},
        {"requestId": 2},
        {"requestId": "1"},
        {"requestId": 1.0},
        {"requestId": 1.5},
        {"requestId": True},
        {"requestId": [1]},
        {"requestId": {"id": 1}},
        {"RequestId": 1},
        {"request_id": 1},
        {"requestId": -1, "reason": 7},
    ],
)
def test_cancelling_what_is_unknown_or_malformed_has_no_effect_and_no_answer(params: Any) -> None:
    client, reasons = open_call()

    assert client.notify("notifications/cancelled", params) == []

    assert reasons == []
    assert client.conversation.open_requests == 1
    assert client.handler.notifications == []


def test_a_cancellation_that_names_two_requests_cancels_neither() -> None:
    client, reasons = open_call()

    client.send(
        b'{"jsonrpc":"2.0","method":"notifications/cancelled",'
        b'"params":{"requestId":2,"requestId":1}}'
    )

    assert reasons == []


def test_cancelling_what_is_finished_has_no_effect_and_no_answer() -> None:
    client, reasons = open_call()
    client.handler.last.end(Answered(b"{}"))
    client.writer.take()

    assert client.notify("notifications/cancelled", {"requestId": 1}) == []

    assert reasons == []


def test_one_client_cannot_cancel_anothers_request() -> None:
    mine, reasons = open_call("shared name")
    other = FakeClient()
    other.handshake()

    assert other.notify("notifications/cancelled", {"requestId": "shared name"}) == []

    assert reasons == []
    assert mine.conversation.open_requests == 1


def test_thousands_of_stray_cancellations_leave_every_open_request_alone() -> None:
    client, reasons = open_call("kept")
    random = Random(7)
    strays = [b'"Kept"', b"null", b"-1", b"1e3", b'"kept "', b"[]", b"{}", b"true", b'"\\u006b"']

    for _ in range(2000):
        stray = random.choice(strays)
        client.conversation.receive(
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}'
            % stray
        )

    assert client.writer.take() == []
    assert reasons == []
    client.handler.last.end(Answered(b"{}"))
    assert client.writer.take_one()["id"] == "kept"


# Messages outside of requests.


@pytest.mark.parametrize("token", [b"7", b'"7"', b"0", b'""', b"10000000000000000000000"])
def test_progress_comes_back_with_the_token_in_type_and_text(token: bytes) -> None:
    for envelope in (b"", json.dumps(META)[1:-1].encode() + b","):
        client = FakeClient()
        client.send(
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
            b'{"name":"a","_meta":{%b"progressToken":%b}}}' % (envelope, token)
        )
        exchange = client.handler.last

        exchange.deliver(exchange, Progress(b'{"progressToken":1,"progress":5}'))

        assert client.writer.frames == [
            b'{"jsonrpc":"2.0","method":"notifications/progress",'
            b'"params":{"progressToken":%b,"progress":5}}' % token
        ]


@pytest.mark.parametrize("token", [b"null", b"1.5", b"true", b"{}", b"[]"])
def test_a_token_that_is_none_gets_no_progress(token: bytes) -> None:
    client = FakeClient()
    client.send(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
        b'{"name":"a","_meta":{"progressToken":%b}}}' % token
    )

    assert client.handler.last.progress_token is None


def test_a_question_reaches_a_session_and_its_answer_the_server() -> None:
    client = FakeClient()
    client.handshake(capabilities={"elicitation": {}})
    client.ask("tools/call", CALL, "call")
    asked = FakeQuestion("elicitation/create", b'{"message":"Sure?"}')

    client.handler.last.deliver(client.handler.last, NeedInput(asked.question))
    question = client.writer.take_one()
    assert question["method"] == "elicitation/create"
    client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})

    assert asked.answers == [Result(b"%d" % question["id"], b'{"action": "accept"}')]


def test_a_question_is_withdrawn_when_its_call_ends_or_is_cancelled() -> None:
    client = FakeClient()
    client.handshake(capabilities={"elicitation": {}})
    asked = []
    for id in ("one", "two"):
        client.ask("tools/call", CALL, id)
        client.handler.last.deliver(client.handler.last, NeedInput(FakeQuestion().question))
        asked.append(client.writer.take_one()["id"])

    client.handler.exchanges[0].end(Answered(b"{}"))
    withdrawn, ended = client.writer.take()
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"] == {"requestId": asked[0]}
    assert ended["id"] == "one"

    (withdrawn,) = client.notify("notifications/cancelled", {"requestId": "two"})
    assert withdrawn["params"] == {"requestId": asked[1]}


def test_nothing_with_a_method_and_an_id_is_ever_written_to_a_modern_client() -> None:
    client = FakeClient()
    client.handshake(capabilities={"sampling": {}})
    asked = FakeQuestion("sampling/createMessage")
    client.ask_modern("tools/call", CALL)

    client.handler.last.deliver(client.handler.last, NeedInput(asked.question))

    assert client.writer.take() == []
    assert asked.error["code"] == -32601


def test_a_clients_progress_and_answers_without_a_session_go_nowhere() -> None:
    client = FakeClient()

    assert client.notify("notifications/progress", {"progressToken": 1, "progress": 1}) == []
    assert client.send({"jsonrpc": "2.0", "id": 1, "result": {}}) == []
    assert client.handler.notifications == []


def test_a_clients_progress_reaches_the_question_it_belongs_to() -> None:
    client = FakeClient()
    client.handshake(capabilities={"sampling": {}})
    assert client.conversation.session is not None
    progress: list[bytes] = []
    client.conversation.session.ask(FakeQuestion(on_progress=progress.append).question)
    (question,) = client.writer.take()

    token = question["params"]["_meta"]["progressToken"]
    client.notify("notifications/progress", {"progressToken": token, "progress": 1})

    assert len(progress) == 1


def test_other_notifications_are_handed_on_with_the_session_they_came_in() -> None:
    client = FakeClient()
    client.notify("notifications/roots/list_changed")
    client.handshake()
    client.notify("notifications/roots/list_changed", [1])

    changed = Notification("notifications/roots/list_changed")
    assert client.handler.notifications == [
        (None, changed),
        (client.conversation.session, Notification(changed.method, b"[1]")),
    ]


def test_when_no_more_comes_listening_ends_and_other_calls_go_on() -> None:
    client = FakeClient()
    client.handshake(capabilities={"roots": {}})
    assert client.conversation.session is not None
    client.ask_modern("subscriptions/listen", {"notifications": {}}, "listen")
    client.ask("tools/call", CALL, "call")
    asked = FakeQuestion("roots/list")
    client.conversation.session.ask(asked.question)
    client.writer.take()

    client.conversation.end_input()

    (ended,) = client.writer.take()
    assert ended["id"] == "listen"
    assert asked.error["message"] == "The client has disconnected"
    client.handler.last.end(Answered(b"{}"))
    assert client.writer.take_one()["id"] == "call"


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"1.0","method":"notifications/initialized"}',
        b'{"method":"notifications/cancelled","params":{"requestId":1}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":1}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}',
    ],
)
def test_broken_notifications_and_answers_are_never_answered(raw: bytes) -> None:
    client = FakeClient()
    client.handshake()

    assert client.send(raw) == []


def test_an_answer_that_cannot_be_delivered_becomes_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = FakeClient()
    client.handshake()
    client.ask("tools/call", {"name": "a"}, id=5)

    def broken(*_: object) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(jsonrpc, "encode_result", broken)
    with pytest.raises(ZeroDivisionError):
        client.handler.last.end(Answered(b"{}"))

    (answer,) = client.writer.take()
    assert answer["id"] == 5
    assert answer["error"]["code"] == -32603
    assert client.conversation.open_requests == 0
