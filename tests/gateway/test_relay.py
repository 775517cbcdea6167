"""The way of a message, from its request to its one ending."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anyport.gateway.deadlines import Deadlines
from anyport.gateway.leases import Leases
from anyport.gateway.ledger import Ledger
from anyport.gateway.profile import Profile
from anyport.gateway.relay import BROKE, Errand, Relay, World
from anyport.protocol.errors import invalid_params
from anyport.protocol.exchange import Answered, Exchange, Failed, Progress
from anyport.protocol.method import Kind
from anyport.record.journal import Journal
from anyport.routing.route import Route
from anyport.upstream.server import Server
from anyport.upstream.tender import Ready
from tests.gateway.fakes import LEGACY, MODERN, Asked, FakeServer, FakeSession, caller, profile_of
from tests.upstream.fakes import say


class FakeDesk:
    """Writes down what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.waiting: list[Callable[[], None]] = []

    def answer(self, exchange: Exchange, profile: Profile) -> None:
        self.asked.append(exchange.method.name)

    def use_tool(self, exchange: Exchange, profile: Profile, tool: str) -> None:
        self.asked.append(tool)

    def subscribe(self, exchange: Exchange, server: Server, route: Route) -> None:
        self.asked.append(route.native)

    def wait_for_lists(self, profile: Profile, then: Callable[[], None]) -> None:
        self.waiting.append(then)


class Scene:
    """A relay, a server with one tool, and the record of it all."""

    def __init__(self, path: Path, **config: Any) -> None:
        self.server = FakeServer("s", config.pop("revision", LEGACY))
        self.server.offer(Kind.TOOLS, "echo")
        self.server.offer(Kind.RESOURCES, "x:1")
        self.profile = profile_of(self.server, **config)
        self.events: list[dict[str, Any]] = []
        self.broken: list[Exception] = []
        self.now = 0.0
        journal = Journal(path, source="test", clock=lambda: 0.0, redact=str)
        journal.subscribe(lambda line: self.events.append(json.loads(line)))
        self.deadlines = Deadlines()
        self.ledger = Ledger(journal, lambda: self.now, lambda size: bytes([1]) * size)
        world = World(clock=lambda: self.now, report=self.broken.append)
        leases = Leases(sole=True)
        self.relay = Relay({"default": self.profile}, self.ledger, self.deadlines, leases, world)
        self.desk = self.relay.desk = FakeDesk()

    def begin(self, method: str = "tools/call", params: Any = None, by: Any = None) -> Asked:
        asked = Asked(method, {"name": "s__echo"} if params is None else params, by)
        self.relay.begin(asked.exchange)
        return asked

    def answer(self, **outcome: Any) -> None:
        say(self.server.connection, id=self.server.channel.sent[0]["id"], **outcome)

    @property
    def statuses(self) -> list[str]:
        return [event["status"] for event in self.events]

    def at_rest(self) -> bool:
        return not self.relay.open and not len(self.deadlines)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_call_reaches_its_server_under_the_native_name_and_comes_back(scene: Scene) -> None:
    asked = scene.begin(params={"name": "s__echo", "arguments": {"n": 1.50}})
    (sent,) = scene.server.channel.sent
    assert (sent["method"], sent["params"]) == (
        "tools/call",
        {"name": "echo", "arguments": {"n": 1.5}},
    )
    assert scene.statuses == ["pending"]

    scene.answer(result={"content": []})

    assert asked.ending == {"content": []}
    assert scene.statuses == ["pending", "success"]
    assert scene.at_rest()


def test_what_is_noted_is_noted_before_the_caller_is_told(scene: Scene) -> None:
    asked = scene.begin()
    noted_first: list[list[str]] = []
    asked.exchange.tell = lambda *_: noted_first.append(scene.statuses)

    scene.answer(result={"content": []})

    assert noted_first == [["pending", "success"]]


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
    assert scene.statuses == ["pending", "failure"]


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
    assert scene.statuses == ["pending", "failure"]


def test_a_server_that_is_lost_is_told_by_name_and_reason(scene: Scene) -> None:
    asked = [scene.begin() for _ in range(3)]

    scene.server.connection.end("killed by SIGKILL")

    for call in asked:
        assert call.ending == "Server 's' is not running: killed by SIGKILL"
    assert scene.statuses == ["pending"] * 3 + ["failure"] * 3
    assert scene.at_rest()


def test_a_server_that_is_down_is_told_at_once(scene: Scene) -> None:
    scene.server.down = "exit code 1"

    assert scene.begin().ending == "Server 's' is not running: exit code 1"
    assert scene.statuses == ["pending", "failure"]
    assert scene.at_rest()


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
def test_an_unknown_tool_is_refused_and_noted(scene: Scene, revision: Any) -> None:
    asked = scene.begin(params={"name": "nobody"}, by=caller(revision=revision))

    assert asked.ending == "Unknown tool: nobody"
    assert scene.statuses == ["pending", "failure"]


def test_an_unknown_name_waits_for_servers_that_have_not_told_yet(scene: Scene) -> None:
    scene.server.listed = False
    asked = scene.begin(params={"name": "s__late"})
    assert asked.ending is None

    scene.server.offer(Kind.TOOLS, "late")
    scene.profile.refresh()
    scene.desk.waiting[0]()

    assert scene.server.channel.sent[0]["params"] == {"name": "late"}


def test_a_known_name_does_not_wait_for_anyone(scene: Scene) -> None:
    scene.server.listed = False
    scene.begin()

    assert scene.desk.waiting == []
    assert len(scene.server.channel.sent) == 1


def test_a_call_that_was_cancelled_while_it_waited_goes_nowhere(scene: Scene) -> None:
    scene.server.listed = False
    asked = scene.begin(params={"name": "s__late"})
    asked.exchange.cancel()
    scene.server.offer(Kind.TOOLS, "late")
    scene.profile.refresh()

    scene.desk.waiting[0]()

    assert scene.server.channel.sent == []
    assert asked.told == []


def test_cancelling_tells_the_server_and_the_record_and_nobody_else(scene: Scene) -> None:
    asked = scene.begin()

    asked.exchange.cancel(b'"enough"')
    asked.exchange.cancel()
    scene.answer(result={"content": []})

    assert asked.told == []
    assert scene.statuses == ["pending", "cancelled"]
    assert scene.server.channel.sent[1]["params"] == {"requestId": 1, "reason": "enough"}
    assert scene.at_rest()


def test_cancelling_a_call_that_waits_for_its_server_is_enough(scene: Scene) -> None:
    waiting: list[Ready] = []
    scene.server.waiting = waiting
    asked = scene.begin()
    asked.exchange.cancel()

    waiting[0](scene.server.connection)

    assert scene.server.channel.sent == []
    assert scene.statuses == ["pending", "cancelled"]
    assert scene.at_rest()


@pytest.mark.parametrize("starting", [True, False])
def test_a_call_that_takes_too_long_is_ended_and_the_server_told(
    scene: Scene, starting: bool
) -> None:
    scene.server.waiting = [] if starting else None
    asked = scene.begin()

    scene.deadlines.sweep(60.0)
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
    scene.deadlines.sweep(61.0)

    (progress,) = asked.told
    assert isinstance(progress, Progress)
    scene.answer(result={})
    assert asked.ending == {}


def test_the_trace_of_a_client_goes_on_to_the_server(scene: Scene) -> None:
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    scene.begin(params={"name": "s__echo", "_meta": {"traceparent": parent, "k": 1}})

    about = scene.server.channel.sent[0]["params"]["_meta"]
    assert about == {"traceparent": f"00-{'a' * 32}-{'01' * 8}-01", "k": 1}
    assert {event["trace_id"] for event in scene.events} == {"a" * 32}


def test_what_a_modern_client_says_of_itself_stays_here(scene: Scene) -> None:
    about = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "k": 1}
    scene.begin(params={"name": "s__echo", "_meta": about}, by=caller(revision=MODERN))

    assert scene.server.channel.sent[0]["params"]["_meta"] == {"k": 1}


@pytest.mark.parametrize(
    ("method", "params", "asked"),
    [
        ("ping", {}, "ping"),
        ("tools/list", {}, "tools/list"),
        ("tools/call", {"name": "gateway_status"}, "gateway_status"),
        ("resources/subscribe", {"uri": "x:1"}, "x:1"),
    ],
)
def test_what_no_single_server_can_answer_goes_to_the_desk(
    scene: Scene, method: str, params: Any, asked: str
) -> None:
    scene.begin(method, params)

    assert scene.desk.asked == [asked]
    assert scene.server.channel.sent == []


def test_a_subscription_has_its_time_like_a_call(scene: Scene) -> None:
    asked = scene.begin("resources/subscribe", {"uri": "x:1"})

    scene.deadlines.sweep(60.0)

    assert asked.ending == "Tool execution timeout (60s)"


def test_a_call_uses_the_connection_of_its_session(scene: Scene) -> None:
    scene.begin(by=caller(FakeSession("mine")))
    scene.begin()

    assert [key.owner for key in scene.server.leased] == ["mine", ""]


def test_what_breaks_on_the_way_is_answered_noted_and_reported(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = RuntimeError("a bug")

    def breaks(*_: object) -> None:
        raise broken

    monkeypatch.setattr(scene.server.connection, "call", breaks)
    asked = scene.begin()

    assert asked.ending == BROKE
    assert scene.broken == [broken]
    assert scene.statuses == ["pending", "failure"]
    assert scene.at_rest()


def test_what_breaks_on_the_way_back_is_answered_too_and_harms_no_other_call(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = scene.begin(), scene.begin()
    monkeypatch.setattr(Errand, "_ending", lambda *_: 1 / 0)

    scene.server.connection.end("exit code 1")

    assert (first.ending, second.ending) == (BROKE, BROKE)
    assert len(scene.broken) == 2
    assert scene.at_rest()


def test_a_record_that_breaks_keeps_no_answer_back(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = scene.begin()
    monkeypatch.setattr(scene.ledger, "end", lambda *_: 1 / 0)

    scene.answer(result={"content": []})

    assert asked.ending == {"content": []}
    assert len(scene.broken) == 1


def test_only_the_first_ending_counts(scene: Scene) -> None:
    asked = scene.begin()
    scene.relay.finish(asked.exchange, "s", "echo", Answered(b"{}"))
    scene.relay.finish(asked.exchange, "s", "echo", Failed(invalid_params("no")))

    assert asked.ending == {}
    assert scene.statuses == ["pending", "success"]
