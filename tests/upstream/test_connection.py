"""One conversation with a server: ids, queues, endings."""

import json

import pytest

from anyport.protocol.errors import Situation
from anyport.upstream.call import Answer, Call, Lost
from anyport.upstream.connection import Connection, bounds_for
from anyport.upstream.hearer import Hearer
from anyport.wire.frame import Failure, Result
from anyport.wire.framing import Overlong
from tests.upstream.fakes import LEGACY, FakeChannel, connected, peer_of, say


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
    assert connection.stray_count + connection.noise_count == 1


def test_a_second_answer_to_one_request_is_dropped() -> None:
    connection, _, _ = connected()
    answers: list[Answer] = []
    connection.call("a", None, answers.append)

    say(connection, id=1, result={"n": 1})
    say(connection, id=1, result={"n": 2})

    assert len(answers) == 1
    assert connection.stray_count == 1


def test_a_server_that_takes_nothing_more_gets_no_more_calls() -> None:
    connection, channel, _ = connected()
    channel.full = True

    refused = connection.call("a", None, lambda _: None)

    assert isinstance(refused, Lost)
    assert refused.situation is Situation.BUSY
    assert channel.sent == []


def test_cancelling_tells_the_server_and_drops_a_late_answer() -> None:
    connection, channel, _ = connected()
    answers: list[Answer] = []
    call = connection.call("a", None, answers.append)
    assert isinstance(call, Call)

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
    assert connection.stray_count == 5


def test_of_a_call_that_was_answered_progress_is_heard_as_long_as_somebody_wants_to() -> None:
    connection, _, _ = connected(LEGACY)
    heard: list[bytes] = []
    call = connection.call("tools/call", b"{}", lambda _: None, heard.extend)
    assert isinstance(call, Call)

    def report() -> None:
        say(connection, method="notifications/progress", params={"progressToken": 1})

    stop = connection.hear(call)
    say(connection, id=1, result={})
    report()
    assert len(heard) == 1
    stop()
    stop()
    report()
    assert (len(heard), connection.stray_count) == (1, 1)


def test_requests_and_notifications_of_the_server_are_heard() -> None:
    connection, channel, ear = connected()
    say(connection, id="q", method="roots/list")
    say(connection, method="notifications/message", params={"level": "info"})

    connection.answer(b'"q"', Result(b'"q"', b'{"roots":[]}'))
    connection.answer(b'"q"', Failure(None, b'{"code":1,"message":"no"}'))

    assert [request.method for request in ear.requests] == ["roots/list"]
    assert [told.method for told in ear.notifications] == ["notifications/message"]
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
    assert isinstance(too_large, Lost)
    assert too_large.reason == "answered with 20000000 bytes; the limit is 16777216"
    assert isinstance(unreadable, Lost)
    assert unreadable.situation is Situation.MISBEHAVED


def test_a_peer_offers_what_it_declared() -> None:
    peer = peer_of(LEGACY, tools={"listChanged": True}, resources={}, prompts=[])

    assert peer.offers("tools")
    assert peer.offers("tools", "listChanged")
    assert not peer.offers("resources", "subscribe")
    assert not peer.offers("prompts", "listChanged")
    assert not peer.offers("logging")


def test_the_size_of_messages_can_be_set_for_a_server() -> None:
    assert bounds_for(123).bytes_max == 123


def test_whoever_hears_of_something_can_tell_with_which_call_it_came() -> None:
    about: list[Call | None] = []
    hearer = Hearer(
        on_request=lambda _: about.append(connection.about),
        on_notification=lambda _: about.append(connection.about),
        on_noise=lambda raw, words: None,
        on_end=lambda: None,
    )
    connection = Connection(FakeChannel(), hearer, bounds_for(1000))
    call = connection.call("a", None, lambda _: None)
    assert isinstance(call, Call)

    connection.receive(b'{"jsonrpc":"2.0","method":"notifications/message"}', call)
    connection.receive(b'{"jsonrpc":"2.0","id":7,"method":"roots/list"}', call)
    connection.receive(b'{"jsonrpc":"2.0","method":"notifications/message"}')

    assert about == [call, call, None]
    assert connection.about is None


def test_what_nobody_had_asked_for_is_told_once_each_and_late_answers_are_not() -> None:
    connection, _, ear = connected(LEGACY)
    call = connection.call("a", None, lambda _: None)
    assert isinstance(call, Call)
    connection.cancel(call, None)
    say(connection, id=call.number, result={"late": True})
    say(connection, id=99, result={"stray": True})
    say(connection, id="text", result={"stray": True})
    say(connection, method="notifications/progress", params={"progressToken": 7, "progress": 1})

    assert [type(said).__name__ for said in ear.noise] == ["Result", "Result", "Notification"]
    assert connection.stray_count == 4
