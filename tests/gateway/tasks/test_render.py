"""A task in the words of the client that asks: its era, its names, what it may be asked."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from anyport.gateway.tasks.handles import TaskHandle
from anyport.gateway.tasks.render import (
    NOT_FOUND,
    declares_tasks,
    ending_for_failure,
    missing_result_error,
    render_for_modern,
    render_for_session,
    render_result,
    task_not_found,
)
from anyport.protocol.errors import Situation
from anyport.protocol.exchange import ErrorAnswered, Failed, Question
from anyport.protocol.extensions import TASKS
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import Era
from anyport.upstream.pending_call import NoAnswer
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Failure
from tests.gateway.fakes import LEGACY, MODERN, FakeServer, caller, declared, profile_of
from tests.gateway.task_rig import (
    ENTRY,
    ERAS,
    FORM,
    RELATED,
    TaskServer,
    in_session,
    task_of,
    without_session,
)
from tests.upstream.fakes import Message

ABLE = without_session(elicitation={})
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
RESULT: Message = {"content": [], "_meta": {RELATED: {"taskId": "native"}, "own": 1}}


def handle_of(era: Era, status: str = "working", by: Any = ABLE, **more: Any) -> TaskHandle:
    return TaskHandle(
        "ours", "native", TaskServer(ERAS[era]), era, by, task_of(era, status, **more)
    )


def shown(handle: TaskHandle, by: Any = ABLE, **config: Any) -> Any:
    profile = profile_of(TaskServer(ERAS[handle.era]), **config)
    words = render_for_modern(handle.task, handle, by, profile)
    return json.loads(words) if isinstance(words, bytes) else words


@pytest.mark.parametrize("era", list(Era))
def test_a_task_is_told_under_our_id_and_nothing_says_the_servers(era: Era) -> None:
    handle = handle_of(era)
    handle.task = replace(handle.task, status="completed", result=json.dumps(RESULT).encode())

    modern, legacy = shown(handle), json.loads(raw_json.encode_object(render_for_session(handle)))

    assert modern["taskId"] == legacy["taskId"] == "ours"
    assert modern["result"]["_meta"] == {"own": 1}
    assert "native" not in json.dumps([modern, legacy])
    result = json.loads(render_result(handle.task.result or b"", handle, ABLE, profile_of()))
    assert result["_meta"] == {RELATED: {"taskId": "ours"}, "own": 1}


def test_a_sessions_result_is_made_whole_for_a_modern_client() -> None:
    handle = handle_of(Era.LEGACY)
    handle.task = replace(handle.task, status="completed", result=b'{"content":[]}')

    assert shown(handle)["result"] == {"content": [], "resultType": "complete"}


def test_a_modern_result_is_told_a_session_without_what_it_says_of_itself() -> None:
    handle = handle_of(Era.MODERN)
    by, _ = in_session()
    odd = {"type": "odd"}
    said = {"resultType": "complete", "ttlMs": 1, "content": [odd], "_meta": {SERVER_INFO: {}}}

    result = json.loads(render_result(json.dumps(said).encode(), handle, by, profile_of()))

    assert result.keys() == {"content", "_meta"}
    assert result["content"][0]["type"] == "text"
    assert result["_meta"] == {RELATED: {"taskId": "ours"}}


def test_the_uris_in_a_result_are_public() -> None:
    servers = [FakeServer("s", MODERN), FakeServer("t", MODERN)]
    for server in servers:
        server.offer(OfferKind.RESOURCES, "x:1")
    profile = profile_of(*servers)
    link = {"type": "resource_link", "name": "x", "uri": "x:1"}
    raw = json.dumps({"content": [link]}).encode()
    handle = handle_of(Era.MODERN, "completed", result={"content": [link]})

    words = render_for_modern(handle.task, handle, ABLE, profile)
    assert isinstance(words, bytes)
    assert json.loads(words)["result"]["content"][0]["uri"] == "s+x:1"
    assert b"s+x:1" in render_result(raw, handle, ABLE, profile)
    # What came at once has been made public with the call.
    minted = TaskHandle("ours", "", servers[0], Era.MODERN, ABLE, handle.task)
    assert b"s+x:1" not in render_result(raw, minted, ABLE, profile)


@pytest.mark.parametrize(("errors", "data"), [("context", True), ("verbatim", False)])
def test_errors_of_servers_have_a_context_where_the_profile_says_so(
    errors: Any, data: bool
) -> None:
    error = {"code": 5, "message": "m"}
    handle = handle_of(Era.MODERN, "failed", error=error)
    told = shown(handle, errors=errors)["error"]
    assert (told["code"], told["message"], "data" in told) == (5, "m", data)

    profile = profile_of(FakeServer("s"), errors=errors)
    refused = ending_for_failure(Failure(None, json.dumps(error).encode()), profile, handle)
    assert isinstance(refused, ErrorAnswered)
    assert json.loads(refused.error) == told


def test_what_a_server_did_not_answer_is_our_fault_to_tell() -> None:
    handle, profile = handle_of(Era.MODERN), profile_of()
    own = task_not_found()

    lost = ending_for_failure(NoAnswer("1s", Situation.TIMED_OUT), profile, handle)
    assert isinstance(lost, Failed)
    assert lost.fault.situation is Situation.TIMED_OUT
    assert ending_for_failure(own, profile, handle) is own
    assert own.fault.message == NOT_FOUND


def test_a_task_that_is_over_without_a_result_ends_its_request_with_an_error() -> None:
    cancelled = handle_of(Era.MODERN, "cancelled")
    broken = handle_of(Era.MODERN, "failed", error={"code": 5, "message": "m"})
    odd = handle_of(Era.MODERN, "completed")

    assert b"was cancelled at server 's'" in missing_result_error(cancelled.task, cancelled).error
    assert json.loads(missing_result_error(broken.task, broken).error)["code"] == 5
    assert b"ended without a result at server 's'" in missing_result_error(odd.task, odd).error


# What a modern client is shown of what a task waits for.


def test_what_a_session_asks_is_what_the_task_waits_for() -> None:
    handle = handle_of(Era.LEGACY, "input_required")
    assert shown(handle)["status"] == "working"

    handle.add_question(Question("elicitation/create", json.dumps(FORM).encode(), lambda _: None))
    told = shown(handle)
    assert (told["status"], told["inputRequests"]) == ("input_required", {"q1": ENTRY})

    refused = shown(handle, without_session())
    assert isinstance(refused, Failed)
    assert refused.fault.situation is Situation.MISSING_CAPABILITY


def test_but_not_if_it_is_a_session_that_is_asked() -> None:
    handle = handle_of(Era.LEGACY, by=in_session(elicitation={})[0])
    handle.add_question(Question("elicitation/create", json.dumps(FORM).encode(), lambda _: None))

    assert shown(handle)["status"] == "working"


def test_what_a_modern_task_waits_for_is_shown_to_those_who_can_be_asked_it() -> None:
    handle = handle_of(Era.MODERN, "input_required", inputRequests={"k": ENTRY})

    assert shown(handle)["inputRequests"] == {"k": ENTRY}
    assert isinstance(shown(handle, without_session()), Failed)


@pytest.mark.parametrize(
    ("capabilities", "declares"),
    [
        ({"extensions": {TASKS: {}}}, True),
        ({"extensions": {TASKS: 5}}, False),
        ({"experimental": {TASKS: {}}}, False),
        ({}, False),
    ],
)
def test_a_client_says_with_each_request_whether_it_takes_tasks(
    capabilities: Message, declares: bool
) -> None:
    by = caller(None, LEGACY)
    object.__setattr__(by, "capabilities", declared(capabilities))

    assert declares_tasks(by) is declares
