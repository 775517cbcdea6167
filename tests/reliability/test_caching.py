"""What is kept of one client's reads never reaches another, whoever asks and however often."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pytest

from tests.harness import Message, read_events
from tests.journeys.scripted_http_server import MODERN, ReceivedRequest, Reply, ScriptedHttpServer
from tests.reliability.conftest import Serve
from tests.rig.http_probe import HttpProbe
from tests.rig.raw_http_client import Fields, RawConnection, RawHttpClient, modern, request

READS: Final = 10_000
HOUR_MS: Final = 3_600_000
MOMENT_MS: Final = 200
PEOPLE: Final = tuple(f"reader-{number}" for number in range(8))
TOKENS: Final = {name: f"{name}-4f1b9c0d2e7a8653" for name in PEOPLE}
RESOURCES: Final = {
    "own://kept": ("private", HOUR_MS),
    "own://brief": ("private", MOMENT_MS),
    "own://unsaid": (None, HOUR_MS),
    "all://kept": ("public", HOUR_MS),
    "all://brief": ("public", MOMENT_MS),
    "all://never": ("public", 0),
    "ask://first": ("public", HOUR_MS),
}
"""Who may see each, and for how long; the last is told only to those who have answered."""


def answering(heard: ReceivedRequest, back: Reply) -> None:
    """A server that answers a read with whose it was: the trace says so, and nothing else does."""
    params = heard.message.get("params", {})
    whole: Message = {"resultType": "complete", "ttlMs": HOUR_MS, "cacheScope": "public"}
    match heard.method:
        case "server/discover":
            told = {"supportedVersions": [MODERN], "capabilities": {"resources": {}}}
            back.result(heard, {**whole, **told})
        case "resources/list":
            listed = [{"uri": uri, "name": uri} for uri in RESOURCES]
            back.result(heard, {**whole, "resources": listed})
        case "resources/read" if params["uri"] == "ask://first" and "inputResponses" not in params:
            wanted = {"who": {"method": "roots/list"}}
            back.result(heard, {"resultType": "input_required", "inputRequests": wanted})
        case "resources/read":
            scope, ttl = RESOURCES[params["uri"]]
            reader = params["_meta"]["traceparent"].split("-")[1]
            result: Message = {
                "resultType": "complete",
                "contents": [{"uri": params["uri"], "text": reader}],
                "ttlMs": ttl,
            }
            back.result(heard, result if scope is None else {**result, "cacheScope": scope})
        case _:
            back.error(heard, -32601, "Method not found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One principal, with a session, and connections that others use too."""

    name: str
    number: int
    session: RawHttpClient
    wires: list[RawConnection]

    @property
    def fields(self) -> Fields:
        return {"Authorization": f"Bearer {TOKENS[self.name]}"}

    @property
    def trace(self) -> str:
        return f"{self.number + 1:032x}"

    def read(self, uri: str, chance: Random) -> str:
        """Read a resource as a client of either era; whose answer it was."""
        span = f"{chance.getrandbits(64) | 1:016x}"
        meta: Message = {"traceparent": f"00-{self.trace}-{span}-01"}
        if chance.random() < 0.3:
            meta["progressToken"] = f"{chance.random()}"
        message = request("resources/read", {"uri": uri, "_meta": meta})
        if uri != "ask://first" and chance.random() < 0.3:
            return text(self.session.send(message).message)
        wire = chance.choice(self.wires)
        if uri == "ask://first":
            meta["io.modelcontextprotocol/clientCapabilities"] = {"roots": {}}
            asked = wire.ask(modern(message, self.fields)).message["result"]
            assert asked["resultType"] == "input_required", asked
            message["params"]["inputResponses"] = {"who": {"roots": []}}
            if "requestState" in asked:
                message["params"]["requestState"] = asked["requestState"]
        return text(wire.ask(modern(message, self.fields)).message)


def text(answer: Message) -> str:
    assert "result" in answer, answer
    words: str = answer["result"]["contents"][0]["text"]
    return words


@pytest.fixture
def web() -> Iterator[ScriptedHttpServer]:
    with ScriptedHttpServer(answering) as web:
        yield web


def readers(there: HttpProbe, stack: ExitStack) -> list[Reader]:
    """Everybody, on connections that they share: the next request may have another token."""
    wires = [stack.enter_context(RawConnection(there.port)) for _ in range(4)]
    found: list[Reader] = []
    for number, name in enumerate(PEOPLE):
        visitor = RawHttpClient(there.port, {"Authorization": f"Bearer {TOKENS[name]}"})
        session = stack.enter_context(closing(visitor))
        found.append(Reader(name=name, number=number, session=session, wires=wires))
    return found


@pytest.mark.slow
def test_nothing_private_is_given_to_another_principal_in_ten_thousand_reads(
    serve: Serve, web: ScriptedHttpServer
) -> None:
    chance = Random(14)
    others: Counter[str] = Counter()
    reads: Counter[str] = Counter()
    settings: Any = {"listSeconds": 30, "tokens": TOKENS}
    with serve({"lib": {"url": web.url}}, tokens=True, gateway=settings) as there:
        there.secrets += TOKENS.values()
        with ExitStack() as stack:
            everybody = readers(there, stack)
            everybody[0].session.send(request("resources/list"))
            for _ in range(READS):
                reader, uri = chance.choice(everybody), chance.choice(list(RESOURCES))
                reads[uri] += 1
                others[uri] += reader.read(uri, chance) != reader.trace
        asked = Counter(heard.message["params"]["uri"] for heard in web.of("resources/read"))
        events = [e for e in read_events(there.state) if e["event_type"] == "gateway.resource_read"]

    crossed = {uri: others[uri] for uri in RESOURCES if not uri.startswith("all:") and others[uri]}
    assert crossed == {}
    # The answers were kept all the same: each has been asked for once by each who may have it.
    assert asked["own://kept"] == asked["own://unsaid"] == len(PEOPLE) <= reads["own://kept"] // 9
    assert asked["all://kept"] == 1
    assert others["all://kept"] > reads["all://kept"] // 2
    assert others["all://brief"] > 0
    assert asked["all://brief"] > 1
    # What must not be kept never was.
    assert asked["all://never"] == reads["all://never"]
    assert asked["ask://first"] == 2 * reads["ask://first"]
    cached = Counter(event["metadata"]["uri"] for event in events if is_cached(event))
    expected = reads - asked
    del expected["ask://first"]
    assert cached == expected


def is_cached(event: Message) -> bool:
    """Whether a read was answered with what was kept."""
    return event["metadata"].get("cached") is True
