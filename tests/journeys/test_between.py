"""Between the eras: statements that gateways break, for every pair of transports."""

import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.harness import DEMO, MODERN_META, LineClient, Message
from tests.journeys.clients import (
    KINDS,
    META,
    MODERN,
    ModernClient,
    SessionClient,
    SseClient,
    names,
)
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripted_http_server import ReceivedRequest, Reply, ScriptedHttpServer
from tests.journeys.scripted_http_server import modern as modern_web
from tests.journeys.scripts import (
    Scripted,
    eventually,
    gateway,
    note,
    question,
    result,
    rule,
    said,
    text,
    tools,
)
from tests.peers.http_driver import HttpDemo

CAPABILITIES = f"{META}clientCapabilities"
ABLE: Message = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
OLD = ("stdio-old", "http-old", "older")
NEW = ("stdio-new", "http-new")
FRONTS = ("http", "stdio")
BAD_STATE = -32602
DECLINED: Message = {"action": "decline"}

Ask = Callable[..., Message]


@pytest.fixture(scope="module")
def line(site: HttpGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LineClient]:
    """A gateway on a pipe, with the servers of the one over HTTP."""
    config: Message = json.loads((site.state.parent / "anyport.json").read_text())
    with gateway(tmp_path_factory.mktemp("line"), config["mcpServers"]) as client:
        client.request("tools/list", {"_meta": MODERN_META})
        yield client


@pytest.fixture(params=FRONTS)
def ask(request: pytest.FixtureRequest, site: HttpGateway, line: LineClient) -> Ask:
    """Makes a modern request over one of the transports; the answer."""

    def ask(method: str, params: Message, capabilities: Message = ABLE) -> Message:
        declared = {CAPABILITIES: capabilities}
        if request.param == "stdio":
            return line.modern(method, params, **declared)
        return ModernClient(site).request(method, params, **declared)

    return ask


# What a modern client comes back with.


@pytest.mark.parametrize("server", KINDS)
def test_a_state_is_good_for_the_same_call_and_as_it_was_given(ask: Ask, server: str) -> None:
    call: Message = {"name": f"{server}__elicit", "arguments": {"kind": "form"}}
    asked = ask("tools/call", call)["result"]
    (key,) = asked["inputRequests"]
    state = asked["requestState"]
    back = {**call, "inputResponses": {key: DECLINED}, "requestState": state}
    wrong: list[Message] = [
        {**back, "requestState": state[:-1] + ("A" if state[-1] != "A" else "B")},
        {**back, "requestState": state + "x"},
        {**back, "requestState": "s"},
        {**back, "arguments": {}},
        {**back, "arguments": {"kind": "form", "more": 1}},
        {**back, "name": f"{'http-new' if server in OLD else 'http-old'}__elicit"},
    ]
    refused = [ask("tools/call", params)["error"] for params in wrong]
    assert {error["code"] for error in refused} == {BAD_STATE}
    assert len({error["message"] for error in refused}) == 1
    assert json.loads(said(ask("tools/call", back))) == DECLINED
    if server in OLD:  # The server's own question has been answered: there is no other.
        assert ask("tools/call", back)["error"]["code"] == BAD_STATE


# What a modern client is asked.


@pytest.mark.parametrize("server", KINDS)
@pytest.mark.parametrize("tool", ["elicit", "sample", "roots"])
def test_a_client_is_asked_only_what_this_very_request_declares(
    ask: Ask, server: str, tool: str
) -> None:
    needs = {"elicit": "elicitation", "sample": "sampling", "roots": "roots"}[tool]
    arguments = {"prompt": "?"} if tool == "sample" else {}
    call = {"name": f"{server}__{tool}", "arguments": arguments}
    asked = ask("tools/call", call)["result"]
    assert asked["resultType"] == "input_required", "it was declared"
    lacking: list[Message] = [
        {},
        {name: value for name, value in ABLE.items() if name != needs},
    ]
    for capabilities in lacking:
        answer = ask("tools/call", call, capabilities)
        if server in NEW:
            assert answer["error"]["code"] == -32021
            assert list(answer["error"]["data"]["requiredCapabilities"]) == [needs]
        else:  # A legacy server has its own words for that.
            assert answer["result"]["isError"] is True
            assert answer["result"]["resultType"] == "complete"


@pytest.mark.parametrize("server", OLD)
def test_a_client_of_forms_is_not_asked_to_open_an_address(ask: Ask, server: str) -> None:
    call = {"name": f"{server}__elicit", "arguments": {"kind": "url"}}
    assert ask("tools/call", call)["result"]["resultType"] == "input_required"
    answer = ask("tools/call", call, {"elicitation": {"form": {}}})
    assert answer["result"]["isError"] is True


# Where input may be asked for.

NEEDS: Message = {
    "resultType": "input_required",
    "inputRequests": {"k": {"method": "roots/list"}},
    "requestState": "s",
}
OFFERS: Message = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}
LISTS: Message = {
    "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
    "prompts/list": {"prompts": [{"name": "p"}]},
    "resources/list": {"resources": [{"uri": "x:r", "name": "r"}]},
    "resources/templates/list": {"resourceTemplates": []},
}
ENDINGS: Message = {
    "tools/call": text("done"),
    "prompts/get": {"messages": []},
    "resources/read": {"contents": [{"uri": "x:r", "text": "done"}]},
}
ROOM: list[tuple[str, Message]] = [
    ("tools/call", {"name": "only__t", "arguments": {}}),
    ("prompts/get", {"name": "only__p"}),
    ("resources/read", {"uri": "x:r"}),
]
COMPLETION: Message = {
    "ref": {"type": "ref/prompt", "name": "only__p"},
    "argument": {"name": "a", "value": "b"},
}


def needy(heard: ReceivedRequest, back: Reply) -> None:
    """A modern server over HTTP that needs to know more, whatever it is asked."""
    method, params = heard.method or "", heard.message.get("params", {})
    if method == "initialize":
        back.error(heard, -32601, "Method not found")
    elif method in LISTS:
        back.result(heard, {"resultType": "complete", **LISTS[method]})
    elif "inputResponses" in params:
        back.result(heard, {"resultType": "complete", **ENDINGS[method]})
    else:
        back.result(heard, NEEDS)


def needy_on_a_pipe(path: Path) -> Scripted:
    """The same on a pipe, though it never has enough."""
    found = {"supportedVersions": [MODERN], "capabilities": OFFERS}
    complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    return Scripted(
        path,
        rule("server/discover", result({**complete, **found})),
        *(rule(method, result({**complete, **LISTS[method]})) for method in LISTS),
        *(rule(method, result(NEEDS)) for method in (*ENDINGS, "completion/complete")),
    )


@pytest.mark.parametrize("behind", ["http", "stdio"])
def test_input_is_asked_for_only_where_there_is_room_for_it(tmp_path: Path, behind: str) -> None:
    with ScriptedHttpServer(modern_web(needy, "t", capabilities=OFFERS)) as web:
        pipe = needy_on_a_pipe(tmp_path).command
        servers = {"only": {"url": web.url} if behind == "http" else pipe}
        with serving(tmp_path, servers) as site:
            client = ModernClient(site, **{CAPABILITIES: ABLE})
            names(client)
            for method, params in ROOM:
                asked = client.request(method, params)["result"]
                assert asked["resultType"] == "input_required"
                assert not {"ttlMs", "cacheScope"} & asked.keys()
            for other in (client, SessionClient(site, capabilities=ABLE), SseClient(site)):
                refused = other.request("completion/complete", COMPLETION)
                assert "only" in refused["error"]["message"]
                assert "input_required" not in json.dumps(refused)


def test_a_session_is_asked_wherever_a_modern_server_may_ask(tmp_path: Path) -> None:
    with (
        ScriptedHttpServer(modern_web(needy, "t", capabilities=OFFERS)) as web,
        serving(tmp_path, {"only": {"url": web.url}}) as site,
    ):
        session = SessionClient(site, "2025-06-18", ABLE)
        names(session)
        for method, params in ROOM:
            call = session.start(method, params)
            session.reply(call.wait_method("roots/list"), {"roots": []})
            ending = call.ending()
            assert "error" not in ending, ending
            assert "resultType" not in ending["result"]
            (first, again) = web.of(method)[-2:]
            sent = {**again.message["params"]}
            assert sent.pop("requestState") == "s"
            assert sent.pop("inputResponses") == {"k": {"roots": []}}
            assert sent == first.message["params"]


# Two people, one legacy server.

TOKENS = {"ann": "token-of-ann-1f6d2b", "bob": "token-of-bob-9a8e7c"}


class Person(HttpGateway):
    """The gateway as one of them sees it."""

    def __init__(self, site: HttpGateway, token: str) -> None:
        super().__init__(site.there, site.state, site.path)
        self.token = token

    def send(self, verb: str, body: bytes | None = None, fields: Any = (), path: str = "") -> Any:
        return super().send(verb, body, [*fields, ("Authorization", f"Bearer {self.token}")], path)


class Asked(Protocol):
    """A call that waits for an answer to its question."""

    def question(self) -> str: ...
    def reply(self, answer: Message) -> Message: ...


class AskedModern:
    def __init__(self, person: Person, params: Message) -> None:
        self.client, self.params = ModernClient(person, **{CAPABILITIES: ABLE}), params
        self.asked = self.client.request("tools/call", params)["result"]

    def question(self) -> str:
        return json.dumps(self.asked["inputRequests"])

    def reply(self, answer: Message) -> Message:
        (key,) = self.asked["inputRequests"]
        back = {"inputResponses": {key: answer}, "requestState": self.asked["requestState"]}
        return self.client.request("tools/call", {**self.params, **back})


class AskedSession:
    def __init__(self, person: Person, params: Message) -> None:
        self.client = SessionClient(person, capabilities=ABLE)
        self.call = self.client.start("tools/call", params)
        self.asked = self.call.wait_method("elicitation/create")

    def question(self) -> str:
        return json.dumps(self.asked)

    def reply(self, answer: Message) -> Message:
        self.client.reply(self.asked, answer)
        return self.call.ending()


class AskedOlder:
    def __init__(self, person: Person, params: Message) -> None:
        self.client = SseClient(person, "2025-06-18", ABLE)
        self.call = self.client.start("tools/call", params)
        self.asked = self.client.stream.wait_method("elicitation/create")

    def question(self) -> str:
        return json.dumps(self.asked)

    def reply(self, answer: Message) -> Message:
        self.client.reply(self.asked, answer)
        return self.client.answer(self.call)


CLIENTS: tuple[Callable[[Person, Message], Asked], ...] = (AskedModern, AskedSession, AskedOlder)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    """A gateway for two people, with legacy servers that both use."""
    with (
        HttpDemo("--legacy-only", "--transport", "streamable") as streamable,
        HttpDemo("--legacy-only", "--transport", "sse") as older,
    ):
        servers: Message = {
            "stdio-old": [*DEMO, "--legacy-only"],
            "http-old": {"url": f"http://127.0.0.1:{streamable.port}/mcp"},
            "older": {"url": f"http://127.0.0.1:{older.port}/sse"},
        }
        settings = {"tokens": TOKENS, "listSeconds": 30}
        with serving(tmp_path_factory.mktemp("shared"), servers, gateway=settings) as site:
            yield site


@pytest.mark.parametrize("server", OLD)
@pytest.mark.parametrize(("first", "second"), list(product(CLIENTS, CLIENTS)))
def test_two_people_never_get_each_others_questions(
    shared: HttpGateway,
    server: str,
    first: Callable[[Person, Message], Asked],
    second: Callable[[Person, Message], Asked],
) -> None:
    people = {"ann": first, "bob": second}
    open_calls: dict[str, Asked] = {}
    for name, kind in people.items():
        arguments = {"text": f"Is it {name}?", "whom": "user"}
        params = {"name": f"{server}__consult", "arguments": arguments}
        open_calls[name] = kind(Person(shared, TOKENS[name]), params)
    for name, call in reversed(open_calls.items()):
        assert f"Is it {name}?" in call.question()
        answer = {"action": "accept", "content": {"answer": f"It is {name}."}}
        ending = json.loads(said(call.reply(answer)))
        assert ending == {"about": f"Is it {name}?", "answer": answer}


# Roots that nobody was asked for.


@pytest.mark.parametrize("behind", ["stdio", "streamable", "sse"])
def test_roots_asked_for_right_after_the_handshake_are_answered_and_stall_nobody(
    tmp_path: Path, behind: str
) -> None:
    how = behind if behind != "stdio" else "streamable"
    with HttpDemo("--legacy-only", "--ask-roots", "--transport", how) as demo:
        address = {"streamable": "mcp", "sse": "sse"}[how]
        url = {"url": f"http://127.0.0.1:{demo.port}/{address}"}
        pipe = [*DEMO, "--legacy-only", "--ask-roots"]
        with serving(tmp_path, {"demo": pipe if behind == "stdio" else url}) as site:
            declarations: list[Message] = [{}, {"roots": {}}]
            for capabilities in declarations:
                client = ModernClient(site, **{CAPABILITIES: capabilities})
                answer = client.call("demo__echo", {"text": "hi"})
                assert said(answer) == "hi"
            session = SessionClient(site, capabilities={"roots": {}})
            stream = session.listen()
            # Its connection is opened by its first call.
            assert said(session.call("demo__echo", {"text": "first"})) == "first"
            asked = stream.wait_method("roots/list")
            # The server's question is open; its tools work all the same.
            assert said(session.call("demo__echo", {"text": "meanwhile"})) == "meanwhile"
            session.reply(asked, {"roots": [{"uri": "file:///here"}]})
            assert said(session.call("demo__echo", {"text": "after"})) == "after"
            stream.close()


# What is logged.


@pytest.mark.parametrize("server", ["http-old", "http-new"])
def test_a_log_that_comes_with_one_of_several_calls_is_told_with_that_one(
    site: HttpGateway, server: str
) -> None:
    client = ModernClient(site, **{f"{META}logLevel": "info"})
    calls = {}
    for name in ("one", "two", "three"):
        arguments = {"text": name, "whom": "nobody", "seconds": 0.3}
        params = {"name": f"{server}__consult", "arguments": arguments}
        calls[name] = client.start("tools/call", params)
    for name, call in calls.items():
        assert call.ending()["result"]["resultType"] == "complete"
        logs = [m["params"]["data"] for m in call.seen[:-1]]
        assert logs == [f"before: {name}", f"after: {name}"]


def test_what_a_server_logs_while_its_client_is_away_is_told_when_it_is_back(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    log = note("notifications/message", {"level": "info", "data": "meanwhile"})
    server = Scripted(
        tmp_path,
        tools("work"),
        rule("logging/setLevel", result({})),
        rule("tools/call", question("q", "roots/list"), question("first", "ping"), keep="call"),
        rule("answer", log, question("last", "ping"), where={"id": "first"}, until=str(gate)),
        rule("answer", result(text("done")).replace("$id", "$call"), where={"id": "q"}),
    )
    with serving(tmp_path, {"old": server.command}) as site:
        client = ModernClient(site, **{CAPABILITIES: ABLE, f"{META}logLevel": "info"})
        asked = client.call("old__work")["result"]
        assert asked["resultType"] == "input_required"
        gate.touch()
        eventually(lambda: "last" in [a["id"] for a in server.answers()], "the log is behind")
        (key,) = asked["inputRequests"]
        back = {"inputResponses": {key: {"roots": []}}, "requestState": asked["requestState"]}
        ending = client.request("tools/call", {"name": "old__work", "arguments": {}, **back})
        assert said(ending) == "done"
        assert [m["params"]["data"] for m in client.seen] == ["meanwhile"]
