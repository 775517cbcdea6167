"""What all places share where requests are sent again."""

import asyncio

import msgspec

from anyport.cli.replaying.case import Opening, Said
from anyport.cli.replaying.stand import Answer, Script, prepared, tools_of
from anyport.protocol import meta
from anyport.protocol.revision import NEWEST_LEGACY, NEWEST_MODERN
from anyport.wire import codec
from anyport.wire.frame import Failure, Request, Result


class Paged:
    """A server whose list has two pages."""

    greeting = None
    is_gateway = False

    async def request(self, method: str, params: bytes | None, script: Script) -> Answer:
        if params == b"{}":
            return Result(b"1", b'{"tools":[{"name":"a"}],"nextCursor":""}')
        assert params == b'{"cursor":""}'
        return Result(b"1", b'{"tools":[{"name":"b"}]}')

    def notify(self, method: str, params: bytes | None) -> None:
        raise AssertionError


class Refusing(Paged):
    async def request(self, method: str, params: bytes | None, script: Script) -> Answer:
        return Failure(b"1", codec.error(-32601, "No"))


def test_all_pages_of_the_tools_are_read() -> None:
    assert list(asyncio.run(tools_of(Paged()))) == ["a", "b"]
    assert asyncio.run(tools_of(Refusing())) == {}


def test_a_question_is_answered_as_before_and_each_answer_is_given_once() -> None:
    script = Script(
        [
            Said(method="roots/list", answer=b'{"roots":[]}'),
            Said(method="sampling/createMessage", answer=b'{"code":1,"message":"No"}', failed=True),
        ]
    )
    assert script.answer(Request(b"1", "ping")) == Result(b"1", b"{}")
    refused = script.answer(Request(b"2", "sampling/createMessage"))
    assert refused == Failure(b"2", b'{"code":1,"message":"No"}')
    assert script.answer(Request(b"3", "roots/list")) == Result(b"3", b'{"roots":[]}')
    last = script.answer(Request(b"4", "roots/list"))
    assert isinstance(last, Failure)
    assert b"Nobody answered roots/list when this was recorded" in last.error


def test_stamps_of_the_recording_become_those_of_this_conversation() -> None:
    about = {
        meta.PROTOCOL_VERSION: "2025-01-01",
        meta.CLIENT_CAPABILITIES: {"roots": {}},
        meta.TRACEPARENT: "00-1-1-00",
        meta.PROGRESS_TOKEN: "[redacted]",
        "vendor/own": 1,
    }
    params = msgspec.json.encode({"name": "a", "_meta": about})
    opening = Opening(client_info=b'{"name":"x"}')

    modern = prepared(params, NEWEST_MODERN, opening, b"7")
    assert modern is not None
    assert msgspec.json.decode(modern)["_meta"] == {
        meta.PROTOCOL_VERSION: NEWEST_MODERN.name,
        meta.CLIENT_CAPABILITIES: {"roots": {}},
        meta.CLIENT_INFO: {"name": "x"},
        meta.PROGRESS_TOKEN: 7,
        "vendor/own": 1,
    }
    legacy = prepared(params, NEWEST_LEGACY, opening, b"7")
    assert legacy is not None
    assert msgspec.json.decode(legacy)["_meta"] == {meta.PROGRESS_TOKEN: 7, "vendor/own": 1}


def test_params_that_need_no_stamps_stay_as_they_are() -> None:
    assert prepared(None, NEWEST_LEGACY, Opening(), b"1") is None
    assert prepared(b'{ "a": 1e100 }', NEWEST_LEGACY, Opening(), b"1") == b'{ "a": 1e100 }'
