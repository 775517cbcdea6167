"""One exchange on its way to a server and back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anyport.gateway.calls.call import BUFFERED_PROGRESS_MAX, Call, CallState
from anyport.gateway.calls.leases import EXCLUSIVE_CONNECTIONS_MAX
from anyport.protocol.capabilities import client_capabilities
from anyport.protocol.exchange import Answered, Caller, NeedInput, Progress, Question
from anyport.protocol.extensions import SKILLS
from anyport.protocol.principal import Principal
from anyport.protocol.revisions import Revision
from anyport.upstream.lease_key import SHARED
from anyport.upstream.supervisor import LeaseCallback
from anyport.wire.jsonrpc import Failure, Result
from tests.gateway.fakes import LEGACY, MODERN, Asked, FakeSession, caller
from tests.gateway.scene import Scene
from tests.upstream.fakes import say


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize("errors", ["context", "verbatim"])
def test_an_error_of_the_server_keeps_its_code_and_message(tmp_path: Path, errors: str) -> None:
    scene = Scene(tmp_path, errors=errors)
    asked = scene.begin()
    error = {"code": -7, "message": "no", "data": {"a": 1}}

    scene.answer(error=error)

    ending = asked.ending
    assert (ending["code"], ending["message"]) == (-7, "no")
    if errors == "context":
        assert ending["data"] == {"a": 1, "server": "s", "originalError": error}
    else:
        assert ending == error
    assert scene.statuses == ["failure"]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":[1]}', "Server 's' answered with a result that is"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":1}', "Server 's' answered with something that"),
    ],
)
def test_an_answer_that_makes_no_sense_is_the_servers_fault(
    scene: Scene, raw: bytes, words: str
) -> None:
    asked = scene.begin()

    scene.server.connection.receive(raw)

    assert asked.ending.startswith(words)
    assert scene.statuses == ["failure"]


def test_a_server_that_is_lost_is_told_by_name_and_reason(scene: Scene) -> None:
    asked = [scene.begin() for _ in range(3)]

    scene.server.connection.end("killed by SIGKILL")

    for call in asked:
        assert call.ending == "Server 's' is not running: killed by SIGKILL"
    assert scene.statuses == ["failure"] * 3
    assert scene.at_rest()


def test_a_server_that_is_down_is_told_at_once(scene: Scene) -> None:
    scene.server.down = "exit code 1"

    assert scene.begin().ending == "Server 's' is not running: exit code 1"
    assert scene.statuses == ["failure"]
    assert scene.at_rest()


def test_cancelling_tells_the_server_and_the_record_and_nobody_else(scene: Scene) -> None:
    asked = scene.begin()

    asked.exchange.cancel(b'"enough"')
    asked.exchange.cancel()
    scene.answer(result={"content": []})

    assert asked.told == []
    assert scene.statuses == ["cancelled"]
    assert scene.server.channel.sent[1]["params"] == {"requestId": 1, "reason": "enough"}
    assert scene.at_rest()


def test_cancelling_a_call_that_waits_for_its_server_is_enough(scene: Scene) -> None:
    waiting: list[LeaseCallback] = []
    scene.server.waiting = waiting
    asked = scene.begin()
    asked.exchange.cancel()

    waiting[0](scene.server.connection)

    assert scene.server.channel.sent == []
    assert scene.statuses == ["cancelled"]
    assert scene.at_rest()


@pytest.mark.parametrize("starting", [True, False])
def test_a_call_that_takes_too_long_is_ended_and_the_server_told(
    scene: Scene, starting: bool
) -> None:
    scene.server.waiting = [] if starting else None
    asked = scene.begin()

    scene.calls.sweep(60.0)
    if scene.server.waiting:
        scene.server.waiting[0](scene.server.connection)

    assert asked.ending == "Tool execution timeout (60s)"
    assert scene.statuses == ["pending", "timeout"]
    assert scene.at_rest()
    if starting:
        assert scene.server.channel.sent == []
    else:
        cancelled = scene.server.channel.sent[1]
        assert cancelled["params"]["reason"] == "Tool execution timeout (60s)"
        scene.answer(result={"content": []})
        assert len(asked.told) == 1


def test_progress_reaches_the_caller_and_extends_the_time(scene: Scene) -> None:
    asked = Asked(params={"name": "s__echo", "_meta": {"progressToken": "t"}})
    asked.exchange.progress_token = b'"t"'
    scene.relay.begin(asked.exchange)
    scene.now = 59.0

    say(
        scene.server.connection,
        method="notifications/progress",
        params={"progressToken": 1, "progress": 1},
    )
    scene.calls.sweep(61.0)

    (progress,) = asked.told
    assert isinstance(progress, Progress)
    scene.answer(result={})
    assert asked.ending == {}


def test_the_trace_of_a_client_goes_on_to_the_server(scene: Scene) -> None:
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    scene.begin(params={"name": "s__echo", "_meta": {"traceparent": parent, "k": 1}})

    about = scene.server.channel.sent[0]["params"]["_meta"]
    assert about == {"traceparent": f"00-{'a' * 32}-{'01' * 8}-01", "k": 1}
    scene.answer(result={})
    assert {event["trace_id"] for event in scene.events} == {"a" * 32}


def test_what_a_modern_client_says_of_itself_stays_here(scene: Scene) -> None:
    about = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "k": 1}
    scene.begin(params={"name": "s__echo", "_meta": about}, by=caller(revision=MODERN))

    assert scene.server.channel.sent[0]["params"]["_meta"] == {"k": 1}


def test_a_call_uses_the_connection_of_its_session(scene: Scene) -> None:
    scene.begin(by=caller(FakeSession("mine")))
    scene.begin()

    assert [key.owner for key in scene.server.leased] == ["mine", ""]


# A client without a session that can be asked.


def askable() -> Caller:
    capabilities = client_capabilities(b'{"elicitation":{}}')
    assert capabilities is not None
    return replace(caller(None, MODERN), capabilities=capabilities)


def test_a_call_that_a_legacy_server_may_ask_about_has_a_connection_to_itself(
    scene: Scene,
) -> None:
    first, second = scene.begin(by=askable()), scene.begin(by=askable())

    shared, one, _, other = scene.server.leased
    assert shared == SHARED
    assert (one.interactive, one.capabilities) == (True, b'{"elicitation":{}}')
    assert one.owner != other.owner
    assert first.exchange.lease_owner == one.owner
    scene.answer(result={"content": []})
    third = scene.begin(by=askable())
    assert third.exchange.lease_owner == one.owner, "it is free for the next one"
    assert second.exchange.lease_owner == other.owner


def test_a_modern_server_needs_no_connection_for_a_call_alone(tmp_path: Path) -> None:
    scene = Scene(tmp_path, revision=MODERN)

    asked = scene.begin(by=askable())

    assert scene.server.leased == [SHARED]
    assert asked.exchange.lease_owner == ""


def test_too_many_calls_at_a_time_are_made_all_the_same(scene: Scene) -> None:
    by = askable()
    asked = [scene.begin(by=by) for _ in range(EXCLUSIVE_CONNECTIONS_MAX + 1)]

    assert [each.exchange.lease_owner != "" for each in asked] == [
        True
    ] * EXCLUSIVE_CONNECTIONS_MAX + [False]
    assert len(scene.server.channel.sent) == EXCLUSIVE_CONNECTIONS_MAX + 1


def test_a_parked_call_has_all_the_time_in_the_world_and_ends_for_whoever_comes_back(
    scene: Scene,
) -> None:
    by = askable()
    asked = scene.begin(params={"name": "s__echo", "arguments": {}}, by=by)
    answers: list[Result | Failure] = []
    question = Question("elicitation/create", b'{"message":"?"}', answers.append)
    scene.ask_client(asked, question)
    scene.clock.pass_by()
    shown = asked.ending
    assert shown["resultType"] == "input_required"
    call = scene.calls.find_by_owner(asked.exchange.lease_owner)
    assert call is not None
    assert call.exchange is asked.exchange
    scene.now = 10_000.0
    scene.calls.sweep(scene.now)
    assert scene.statuses == []

    responses = {"q1": {"action": "decline"}}
    params = {"name": "s__echo", "arguments": {}, "inputResponses": responses}
    back = scene.begin(params={**params, "requestState": shown["requestState"]}, by=by)
    scene.answer(result={"content": [{"type": "text", "text": "all right"}]})

    assert len(answers) == 1
    assert back.ending["content"][0]["text"] == "all right"
    assert scene.statuses == ["success"]
    assert len(scene.server.channel.sent) == 1, "the server was called once"


def test_what_a_server_tells_of_its_progress_meanwhile_is_told_to_whoever_comes_back(
    scene: Scene,
) -> None:
    by, params = askable(), {"name": "s__echo", "_meta": {"progressToken": 7}}
    asked = scene.begin(params=params, by=by)
    asked.exchange.progress_token = b"7"
    errand = scene.calls.open[asked.exchange]
    assert isinstance(errand, Call)
    scene.ask_client(asked, Question("roots/list", None, lambda _: None))
    scene.clock.pass_by()
    for number in range(BUFFERED_PROGRESS_MAX + 2):
        errand.on_progress((b'{"progressToken":1,"progress":%d}' % number,))

    state = asked.ending["requestState"]
    back = scene.begin(params={**params, "requestState": state}, by=by)

    told = [happening for happening in back.told if isinstance(happening, Progress)]
    assert len(told) == BUFFERED_PROGRESS_MAX
    assert told[-1].params.endswith(b'"progress":%d}' % (BUFFERED_PROGRESS_MAX + 1))


def test_a_client_that_hangs_up_after_it_came_back_cancels_the_call(scene: Scene) -> None:
    by = askable()
    asked = scene.begin(params={"name": "s__echo"}, by=by)
    scene.ask_client(asked, Question("roots/list", None, lambda _: None))
    scene.clock.pass_by()
    state = asked.ending["requestState"]
    responses: dict[str, object] = {"q1": {"roots": []}}
    params = {"name": "s__echo", "inputResponses": responses, "requestState": state}
    back = scene.begin(params=params, by=by)

    back.exchange.cancel()

    assert scene.server.channel.sent[-1]["method"] == "notifications/cancelled"
    assert scene.statuses == ["cancelled"]
    assert scene.calls.find_by_owner(asked.exchange.lease_owner) is None


def test_a_state_that_a_legacy_server_never_gave_is_refused(scene: Scene) -> None:
    asked = scene.begin(params={"name": "s__echo", "requestState": "made up"}, by=askable())

    assert asked.ending.startswith("Invalid or expired requestState")
    assert scene.server.channel.sent == []


READ = {"resultType": "complete", "contents": [{"uri": "x:1", "text": "one"}], "ttlMs": 9000}


class Reader:
    """Who reads one resource of a modern server, again and again."""

    def __init__(self, path: Path, revision: Revision = MODERN) -> None:
        self.scene = Scene(path, revision=revision)

    def read(self, by: Caller | None = None, **params: Any) -> Asked:
        by = by or caller(None, MODERN)
        return self.scene.begin("resources/read", {"uri": "x:1", **params}, by)

    def answer(self, **result: Any) -> None:
        sent = self.scene.server.channel.sent[-1]
        say(self.scene.server.connection, id=sent["id"], result={**READ, **result})

    @property
    def questions(self) -> int:
        return len(self.scene.server.channel.sent)

    @property
    def noted(self) -> list[Any]:
        return [event["metadata"].get("cached") for event in self.scene.events]


def test_a_read_is_answered_with_what_the_server_allows_to_be_said_again(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    first = reader.read()
    reader.answer()
    reader.scene.now += 2.0

    second, legacy = reader.read(_meta={"progressToken": 1}), reader.read(caller(FakeSession()))

    assert first.ending == READ
    assert second.ending == {**READ, "ttlMs": 7000}
    assert legacy.ending == {"contents": READ["contents"]}
    assert reader.questions == 1
    assert reader.noted == [None, True, True]
    assert reader.scene.statuses == ["success"] * 3
    assert reader.scene.at_rest()
    reader.scene.now += 7.0
    assert reader.read().ending is None


def test_what_is_private_is_read_anew_for_another_principal(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    reader.read()
    reader.answer()
    other = replace(caller(None, MODERN), principal=Principal("token", "other"))

    assert reader.read(other).ending is None
    reader.answer(contents=[], cacheScope="public")
    assert reader.questions == 2
    third = replace(other, principal=Principal("token", "third"))
    assert reader.read(third).ending["contents"] == []


def test_a_legacy_server_cannot_allow_anything(tmp_path: Path) -> None:
    reader = Reader(tmp_path, LEGACY)
    reader.read()
    reader.answer(cacheScope="public")

    assert reader.read().ending is None


def test_what_came_after_answers_of_a_client_is_not_said_again(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    session = FakeSession(capabilities={"roots": {}})
    reading = reader.read(caller(session))
    ask = {"r": {"method": "roots/list"}}
    sent = reader.scene.server.channel.sent[-1]
    wants = {"resultType": "input_required", "inputRequests": ask, "requestState": "s"}
    say(reader.scene.server.connection, id=sent["id"], result=wants)
    (need,) = reading.told
    assert isinstance(need, NeedInput)
    need.question.answer(Result(b"1", b'{"roots":[]}'))
    reader.answer(cacheScope="public")

    assert reader.questions == 2
    assert reader.read(caller(session)).ending is None


@pytest.mark.parametrize(("revision", "own"), [(MODERN, False), (LEGACY, True)])
def test_a_method_of_an_extension_is_for_the_connection_of_the_newest_era(
    tmp_path: Path, revision: Revision, own: bool
) -> None:
    scene = Scene(tmp_path, revision=revision)
    scene.server.extensions = {SKILLS: b"{}"}

    scene.begin("skills/get", {"uri": "skill://tea/SKILL.md"}, caller(FakeSession("mine")))

    (key,) = scene.server.leased
    assert (key.owner == "mine") is own


def test_a_call_goes_through_its_states_in_the_order_of_the_conversation(scene: Scene) -> None:
    scene.server.waiting = []
    asked = scene.begin(params={"name": "s__echo", "arguments": {}}, by=askable())
    call = scene.calls.find(asked.exchange)
    assert call is not None
    states = [call.state]

    for _ in range(2):  # The shared connection, and then one for this call alone.
        scene.server.waiting.pop()(scene.server.connection)
    states.append(call.state)
    scene.ask_client(asked, Question("roots/list", None, lambda _: None))
    scene.clock.pass_by()
    states.append(call.state)
    params = {"name": "s__echo", "arguments": {}, "inputResponses": {"q1": {"roots": []}}}
    state = asked.ending["requestState"]
    scene.begin(params={**params, "requestState": state}, by=askable())
    states.append(call.state)
    scene.answer(result={"content": []})
    states.append(call.state)

    assert [state.value for state in states] == ["leasing", "sent", "parked", "sent", "done"]


def test_a_call_that_has_ended_goes_no_further(scene: Scene) -> None:
    asked = scene.begin()
    call = scene.calls.find(asked.exchange)
    assert call is not None
    scene.answer(result={"content": []})

    call.finish(Answered(b"{}"))

    assert scene.statuses == ["success"], "it is recorded once"
    with pytest.raises(RuntimeError, match="a call cannot go from done to sent"):
        call.enter(CallState.SENT)
