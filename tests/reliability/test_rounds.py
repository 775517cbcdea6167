"""Servers that ask and ask, and states too large to carry: each ends soon, for its own call."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import pytest

from anyport.gateway.elicitation.request_state import INVALID_STATE, ROUNDS_MAX
from tests.harness import DEMO, Message
from tests.journeys.scripted_http_server import ReceivedRequest, Reply, ScriptedHttpServer, modern
from tests.reliability.conftest import Serve
from tests.rig.http_probe import HttpProbe
from tests.rig.probe import MIB
from tests.rig.raw_http_client import RawConnection, RawHttpClient, head, post, sending, tool_call
from tests.rig.raw_http_client import modern as modern_post
from tests.rig.scale import scaled

pytestmark = pytest.mark.slow

ROUNDS: Final = 1000
LARGE: Final = 10 * MIB
SECONDS_MAX: Final = scaled(60.0, full=5.0)
"""An error is there at once; the rest is for a busy machine."""
ABLE: Final[Message] = {"sampling": {}, "elicitation": {"form": {}}, "roots": {}}
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
FORM: Final[Message] = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "?", "requestedSchema": {"type": "object"}},
}
ACCEPT: Final[Message] = {"action": "accept", "content": {}}


def asking(heard: ReceivedRequest, back: Reply) -> None:
    """A modern server that never stops asking, and keeps what it knows with its client."""
    if heard.method != "tools/call":
        back.error(heard, -32601, "Method not found")
        return
    name = heard.message["params"]["name"]
    asks = {"inputRequests": {"k": FORM}}
    state = {"endless": "so far", "large": "x" * LARGE}
    back.result(heard, {"resultType": "input_required", **asks, "requestState": state[name]})


def ask(there: HttpProbe, message: Message, capabilities: Message = ABLE) -> Message:
    """Make a call as a client without a session; its answer, which comes soon."""
    params = message["params"]
    meta = {**params.get("_meta", {}), CAPABILITIES: capabilities}
    began = time.monotonic()
    with RawConnection(there.port) as wire:
        raw = modern_post({**message, "params": {**params, "_meta": meta}})
        answer = wire.ask(raw).message
    assert time.monotonic() - began < SECONDS_MAX
    there.calls_owed += "input_required" not in str(answer.get("result", {}).get("resultType"))
    return answer


def refusal_of(answer: Message) -> str:
    """Why a call failed: in an error, or in a result that the model can read."""
    if "error" in answer:
        return str(answer["error"]["message"])
    assert answer["result"]["isError"] is True, answer
    return text_in(answer)


def text_in(answer: Message) -> str:
    return str(answer["result"]["content"][0]["text"])


@contextmanager
def session(there: HttpProbe, **capabilities: Any) -> Iterator[RawHttpClient]:
    """A client with a session, which is ended."""
    with closing(RawHttpClient(there.port, **capabilities)) as visitor:
        yield visitor
        assert visitor.wire.ask(head("DELETE", "/mcp", visitor.fields)).status == 200


def test_a_client_is_not_asked_what_it_did_not_declare(serve: Serve) -> None:
    with (
        ScriptedHttpServer(modern(asking, "endless", "large")) as web,
        serve({"new": {"url": web.url}}) as there,
    ):
        lacking: list[Message] = [{}, {"sampling": {}}, {"roots": {}}]
        for declared in lacking:
            refused = ask(there, tool_call("new__endless"), declared)["error"]
            assert refused["code"] == -32021
            assert list(refused["data"]["requiredCapabilities"]) == ["elicitation"]
        with session(there, sampling={}) as visitor:
            assert "elicitation" in refusal_of(visitor.call("new__endless"))
        there.calls_owed += 1
        assert len(web.of("tools/call")) == 4


def test_a_server_that_never_stops_asking_is_stopped(serve: Serve) -> None:
    with (
        ScriptedHttpServer(modern(asking, "endless", "large")) as web,
        serve({"new": {"url": web.url}}) as there,
    ):
        message = tool_call("new__endless")
        answer, done = ask(there, message), 0
        while done < ROUNDS and "requestState" in answer.get("result", {}):
            state = answer["result"]["requestState"]
            back = {"inputResponses": {"k": ACCEPT}, "requestState": state}
            answer = ask(there, {**message, "params": {**message["params"], **back}})
            done += 1
        assert "more than 10 times" in refusal_of(answer)
        assert done == ROUNDS_MAX
        assert len(web.of("tools/call")) == ROUNDS_MAX + 1


def test_a_server_that_never_stops_asking_is_stopped_for_a_session_too(serve: Serve) -> None:
    with (
        ScriptedHttpServer(modern(asking, "endless", "large")) as web,
        serve({"new": {"url": web.url}}) as there,
    ):
        with session(there, elicitation={}) as visitor:
            visitor.wire.send(post(tool_call("new__endless"), visitor.fields))
            visitor.wire.head()
            questions, answer = 0, dict[str, Any]()
            for message in visitor.wire.events():
                if "method" in message:
                    questions += 1
                    visitor.tell({"jsonrpc": "2.0", "id": message["id"], "result": ACCEPT})
                else:
                    answer = message
        there.calls_owed += 1
        assert "more than 10 times" in refusal_of(answer)
        assert questions == ROUNDS_MAX
        assert len(web.of("tools/call")) == ROUNDS_MAX + 1


def test_a_server_cannot_have_its_clients_carry_ten_megabytes(serve: Serve) -> None:
    with (
        ScriptedHttpServer(modern(asking, "endless", "large")) as web,
        serve({"new": {"url": web.url}}) as there,
    ):
        there.growth_bytes_max = 64 * MIB  # What the allocator keeps of a large message.
        assert "64 KiB" in refusal_of(ask(there, tool_call("new__large")))
        with session(there, elicitation={}) as visitor:
            assert "64 KiB" in refusal_of(visitor.call("new__large"))
        there.calls_owed += 1
        assert len(web.of("tools/call")) == 2, "nobody was asked, and it was not called again"


def test_a_client_cannot_bring_any_state_of_its_own(serve: Serve) -> None:
    states: list[Any] = ["x" * (3 * MIB), "A" * 65, "", 7, None, {"a": 1}, ["x"]]
    with (
        ScriptedHttpServer(modern(asking, "endless", "large")) as web,
        # Of one era: for a client that can be asked, a legacy server gets a process for each call.
        serve({"new": {"url": web.url}, "plain": [*DEMO, "--modern-only"]}) as there,
    ):
        there.growth_bytes_max = 64 * MIB
        for tool in ("new__endless", "plain__echo"):
            message = tool_call(tool, {"text": "x"})
            for state in states:
                back = {"inputResponses": {"k": ACCEPT}, "requestState": state}
                refused = ask(there, {**message, "params": {**message["params"], **back}})
                error = refused["error"]
                assert (error["code"], error["message"]) == (-32602, INVALID_STATE), (tool, state)
        assert not web.of("tools/call")
        huge = modern_post(tool_call("new__endless") | {"requestState": "x" * LARGE})
        with RawConnection(there.port) as wire, sending(wire, huge):
            assert wire.reply().status == 413, "no message is that large"
