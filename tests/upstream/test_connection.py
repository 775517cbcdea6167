"""One conversation with a server: ids, queues, endings."""

import asyncio
import json
from typing import Any

import pytest

from anyport.protocol.errors import Situation
from anyport.protocol.result import RESULT_MEMBERS_MAX
from anyport.upstream.connection import Connection, bounds_for, call_and_wait, read_progress
from anyport.upstream.pending_call import Answer, NoAnswer, PendingCall
from anyport.upstream.pool import count_uses
from anyport.wire.jsonrpc import Failure, Notification, Request, Result
from anyport.wire.lines import Overlong
from anyport.wire.raw_json import MEMBERS_MAX
from tests.upstream.fakes import (
    LEGACY,
    FakeChannel,
    FakeClock,
    RecordingListener,
    connected,
    peer_of,
    run,
    say,
    until,
)


def test_each_request_has_an_id_of_its_own_and_gets_its_own_answer() -> None:
    connection, channel, _ = connected()
    answers: dict[str, Answer] = {}
    connection.call("a", None, lambda answer: answers.update(a=answer))
    connection.call("b", b'{"x":1}', lambda answer: answers.update(b=answer))
    assert channel.sent == [
        {"jsonrpc": "2.0", "id": 1, "method": "a"},
        {"jsonrpc": "2.0", "id": 2, "method": "b", "params": {"x": 1}},
    ]

    say(connection, id=2, result={"of": "b"})
    say(connection, id=1, error={"code": -1, "message": "no"})

    assert isinstance(answers["b"], Result)
    assert json.loads(answers["b"].result) == {"of": "b"}
    assert isinstance(answers["a"], Failure)
    assert connection.open_calls == 0


@pytest.mark.parametrize("id", [2, 0, -1, "1", 10**30, 1.5, None])
def test_an_answer_to_nothing_reaches_nobody(id: object) -> None:
    connection, _, _ = connected()
    answers: list[Answer] = []
    connection.call("a", None, answers.append)

    say(connection, id=id, result={})

    assert answers == []
    assert connection.unsolicited_count + connection.noise_count == 1


def test_a_second_answer_to_one_request_is_dropped() -> None:
    connection, _, _ = connected()
    answers: list[Answer] = []
    connection.call("a", None, answers.append)

    say(connection, id=1, result={"n": 1})
    say(connection, id=1, result={"n": 2})

    assert len(answers) == 1
    assert connection.unsolicited_count == 1


def test_a_server_that_takes_nothing_more_gets_no_more_calls() -> None:
    connection, channel, _ = connected()
    channel.full = True

    refused = connection.call("a", None, lambda _: None)

    assert isinstance(refused, NoAnswer)
    assert refused.situation is Situation.BUSY
    assert channel.sent == []


def test_cancelling_tells_the_server_and_drops_a_late_answer() -> None:
    connection, channel, _ = connected()
    answers: list[Answer] = []
    call = connection.call("a", None, answers.append)
    assert isinstance(call, PendingCall)

    connection.cancel(call, b'"changed my mind"')
    connection.cancel(call, None)
    say(connection, id=1, result={})

    assert answers == []
    assert channel.sent[1:] == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 1, "reason": "changed my mind"},
        }
    ]


def test_what_is_sent_again_has_another_id_and_an_answer_to_the_first_comes_too_late() -> None:
    connection, _, listener = connected()
    answers: list[Answer] = []
    frame = b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"id":1}}'
    call = connection.call("a", b'{"id":1}', answers.append)
    assert isinstance(call, PendingCall)

    again = json.loads(connection.renumber(call, frame))

    assert again == {"jsonrpc": "2.0", "id": 2, "method": "a", "params": {"id": 1}}
    assert connection.waits_for(call)
    assert count_uses(connection) == 1, "nobody has asked twice"
    say(connection, id=1, result={"n": 1})
    assert (answers, listener.noise) == ([], [])
    say(connection, id=2, result={"n": 2})
    assert len(answers) == 1
    assert connection.open_calls == 0


def test_progress_reaches_the_call_it_belongs_to() -> None:
    connection, channel, _ = connected()
    heard: list[bytes] = []
    params = b'{"_meta":{"progressToken":"theirs","k":1}}'
    connection.call("a", params, lambda _: None, heard.extend)
    connection.call("b", None, lambda _: None)
    assert channel.sent[0]["params"]["_meta"] == {"progressToken": 1, "k": 1}

    say(connection, method="notifications/progress", params={"progressToken": 1, "progress": 5})
    for token in (2, 3, "1", None):
        told = {"progressToken": token, "progress": 6}
        say(connection, method="notifications/progress", params=told)
    say(connection, method="notifications/progress")

    assert [json.loads(params)["progress"] for params in heard] == [5]
    assert connection.unsolicited_count == 5


def test_of_a_call_that_was_answered_progress_is_heard_as_long_as_somebody_wants_to() -> None:
    connection, _, _ = connected(LEGACY)
    heard: list[bytes] = []
    call = connection.call("tools/call", b"{}", lambda _: None, heard.extend)
    assert isinstance(call, PendingCall)

    def report() -> None:
        say(connection, method="notifications/progress", params={"progressToken": 1})

    stop = connection.listen_for_progress(call)
    say(connection, id=1, result={})
    report()
    assert len(heard) == 1
    stop()
    stop()
    report()
    assert (len(heard), connection.unsolicited_count) == (1, 1)


def test_requests_and_notifications_of_the_server_are_heard() -> None:
    connection, channel, listener = connected()
    say(connection, id="q", method="roots/list")
    say(connection, method="notifications/message", params={"level": "info"})

    connection.answer(b'"q"', Result(b'"q"', b'{"roots":[]}'))
    connection.answer(b'"q"', Failure(None, b'{"code":1,"message":"no"}'))

    assert [request.method for request in listener.requests] == ["roots/list"]
    assert [told.method for told in listener.notifications] == ["notifications/message"]
    assert channel.sent == [
        {"jsonrpc": "2.0", "id": "q", "result": {"roots": []}},
        {"jsonrpc": "2.0", "id": "q", "error": {"code": 1, "message": "no"}},
    ]


def test_noise_is_counted_and_harms_nobody() -> None:
    connection, _, _ = connected()
    answers: list[Answer] = []
    connection.call("a", None, answers.append)

    for line in (b"Server started", b"\xff\xfe", b"[1,2]", b'{"jsonrpc":"2.0"}', b'{"a":'):
        connection.receive(line)
    say(connection, id=1, result={})

    assert connection.noise_count == 5
    assert connection.first_noise == b"Server started"
    assert len(answers) == 1


def test_an_answer_that_cannot_be_read_is_told_to_the_one_who_waits_for_it() -> None:
    connection, _, _ = connected()
    answers: list[Answer] = []
    connection.call("a", None, answers.append)
    connection.call("b", None, answers.append)

    connection.receive(Overlong(20_000_000, b'{"jsonrpc":"2.0","id":1,"result":{'))
    connection.receive(b'{"jsonrpc":"2.0","id":2,"result":{"a":nonsense}}')

    too_large, unreadable = answers
    assert isinstance(too_large, NoAnswer)
    assert too_large.reason == "answered with 20000000 bytes; the limit is 16777216"
    assert isinstance(unreadable, NoAnswer)
    assert unreadable.situation is Situation.MISBEHAVED


def wide(count: int) -> dict[str, int]:
    return {f"k{number}": number for number in range(count)}


@pytest.mark.parametrize(
    "answer",
    [
        {"result": wide(RESULT_MEMBERS_MAX + 1)},
        {"result": {"_meta": wide(MEMBERS_MAX + 1)}},
        {"error": {"code": 1, "message": "no", **wide(MEMBERS_MAX)}},
    ],
    ids=["result", "meta", "error"],
)
def test_an_answer_of_too_many_members_fails_its_own_call(answer: Any) -> None:
    connection, _, _ = connected()
    answers: list[Answer] = []
    connection.call("a", None, answers.append)

    say(connection, id=1, **answer)

    (told,) = answers
    assert isinstance(told, NoAnswer)
    assert told.situation is Situation.MISBEHAVED
    assert "members" in told.reason
    assert connection.open_calls == 0


def test_a_result_that_is_a_map_of_many_passes() -> None:
    connection, _, _ = connected()
    answers: list[Answer] = []
    connection.call("a", None, answers.append)

    say(connection, id=1, result=wide(RESULT_MEMBERS_MAX))

    (told,) = answers
    assert isinstance(told, Result)


@pytest.mark.parametrize("method", ["notifications/message", "notifications/progress", "odd"])
def test_a_notification_of_too_many_members_is_noise(method: str) -> None:
    connection, _, ear = connected()
    connection.call("a", None, lambda _: None)

    say(connection, method=method, params={"progressToken": 1, "level": "info", **wide(1_024)})

    assert (ear.notifications, connection.noise_count) == ([], 1)


def test_a_peer_offers_what_it_declared() -> None:
    peer = peer_of(LEGACY, tools={"listChanged": True}, resources={}, prompts=[])

    assert peer.offers("tools")
    assert peer.offers("tools", "listChanged")
    assert not peer.offers("resources", "subscribe")
    assert not peer.offers("prompts", "listChanged")
    assert not peer.offers("logging")


def test_the_size_of_messages_can_be_set_for_a_server() -> None:
    assert bounds_for(123).bytes_max == 123


class RelatedCallListener(RecordingListener):
    """Records which call each message of the server belongs to."""

    def __init__(self) -> None:
        super().__init__()
        self.related_calls: list[PendingCall | None] = []

    def on_request(self, connection: Connection, request: Request) -> None:
        self.related_calls.append(connection.related_call)

    def on_notification(self, connection: Connection, notification: Notification) -> None:
        self.related_calls.append(connection.related_call)


def test_a_message_of_the_server_can_be_related_to_the_call_it_came_with() -> None:
    listener = RelatedCallListener()
    connection = Connection(FakeChannel(), listener, bounds_for(1000), FakeClock())
    call = connection.call("a", None, lambda _: None)
    assert isinstance(call, PendingCall)

    connection.receive(b'{"jsonrpc":"2.0","method":"notifications/message"}', call)
    connection.receive(b'{"jsonrpc":"2.0","id":7,"method":"roots/list"}', call)
    connection.receive(b'{"jsonrpc":"2.0","method":"notifications/message"}')

    assert listener.related_calls == [call, call, None]
    assert connection.related_call is None


@pytest.mark.parametrize(
    ("id", "found"), [(b"1", True), (b"2", False), (b'"1"', False), (b"null", False)]
)
def test_where_the_channel_does_not_know_it_a_notification_may_say_itself(
    id: bytes, found: bool
) -> None:
    listener = RelatedCallListener()
    connection = Connection(FakeChannel(), listener, bounds_for(1000), FakeClock())
    call = connection.call("subscriptions/listen", None, lambda _: None)
    named = b'"io.modelcontextprotocol/subscriptionId":%b' % id
    told = b'{"jsonrpc":"2.0","method":"vendor/x","params":{%b}}'

    connection.receive(told % (b'"_meta":{%b}' % named))
    connection.receive(told % named)
    connection.receive(told % (b'"_meta":[],%b' % named))

    assert listener.related_calls == [call if found else None, None, None]


def test_what_nobody_had_asked_for_is_told_once_each_and_late_answers_are_not() -> None:
    connection, _, listener = connected(LEGACY)
    call = connection.call("a", None, lambda _: None)
    assert isinstance(call, PendingCall)
    connection.cancel(call, None)
    say(connection, id=call.number, result={"late": True})
    say(connection, id=99, result={"stray": True})
    say(connection, id="text", result={"stray": True})
    say(connection, method="notifications/progress", params={"progressToken": 7, "progress": 1})

    assert [type(said).__name__ for said in listener.noise] == ["Result", "Result", "Notification"]
    assert connection.unsolicited_count == 4


def test_whoever_waits_gets_what_the_server_says() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(call_and_wait(connection, "tools/list", b"{}"))
            await until(lambda: bool(channel.sent))
            say(connection, id=1, result={"tools": []})

        answer = waiting.result()
        assert isinstance(answer, Result)
        assert answer.result == b'{"tools": []}'

    run(scene)


def test_what_nobody_waits_for_any_more_is_cancelled() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(call_and_wait(connection, "tools/list", b"{}"))
            await until(lambda: bool(channel.sent))
            waiting.cancel()

        assert waiting.cancelled()
        assert channel.sent[-1]["method"] == "notifications/cancelled"

    run(scene)


def test_a_connection_that_is_gone_answers_at_once() -> None:
    async def scene() -> None:
        connection, _, _ = connected(LEGACY)
        connection.end("exit code 1")

        assert isinstance(await call_and_wait(connection, "tools/list", b"{}"), NoAnswer)

    run(scene)


NOTE = b'{"jsonrpc":"2.0","method":"notifications/progress","params":%b}'


@pytest.mark.parametrize(
    "params",
    [
        b'{"progressToken":7,"progress":1.50,"total":2,"message":"half \\u00e9"}',
        b'{"progress":1,"progressToken":7}',
        b'{ "progressToken" : 7 }',
    ],
)
def test_a_report_is_read_with_its_params_as_they_are(params: bytes) -> None:
    assert read_progress(NOTE % params) == (7, params)


@pytest.mark.parametrize(
    "raw",
    [
        NOTE % b'{"progressToken":"7"}',
        NOTE % b'{"progress":1}',
        NOTE % b"[7]",
        NOTE % b'{"progressToken":7',
        NOTE % b'{"progressToken":7}' + b" ",
        (NOTE % b'{"progressToken":7}')[:-1] + b"]",
        NOTE % b'{"progressToken":7},"x":{}',
        NOTE % (b'{"progressToken":7,"x":%b}' % (b'{"a":' * 130 + b"1" + b"}" * 130)),
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"progressToken":7}}',
    ],
)
def test_what_is_written_in_another_way_is_left_to_others(raw: bytes) -> None:
    assert read_progress(raw) is None
