"""How long answers may be used again: what servers say, what clients are told, what is kept."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Message, read_events
from tests.journeys.clients import META, MODERN, ModernClient, SessionClient, names
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripted_http_server import ReceivedRequest, Reply, ScriptedHttpServer, tool
from tests.journeys.scripts import Scripted, eventually, gateway, result, rule, tools

HOUR_MS = 3_600_000
HINTS = {"ttlMs", "cacheScope"}
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
UPDATED = "notifications/resources/updated"
CHANGED = "notifications/resources/list_changed"


class Library(ScriptedHttpServer):
    """A modern server over HTTP whose answers say how long they keep."""

    def __init__(self, ttl: int = HOUR_MS, scope: str = "public", *, tells: bool = False) -> None:
        super().__init__(self._answer)
        self.ttl, self.scope, self.tells = ttl, scope, tells
        self.tools = ["a"]
        self.listener: Reply | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> "Library":
        super().__enter__()
        return self

    @property
    def hints(self) -> Message:
        return {"resultType": "complete", "ttlMs": self.ttl, "cacheScope": self.scope}

    @property
    def entry(self) -> Message:
        return {"url": self.url}

    def tell(self, method: str, **params: Any) -> None:
        """Say something on the stream of whoever listens."""
        eventually(lambda: self.listener is not None, "somebody who listens")
        assert self.listener is not None
        with self._lock:
            self.listener.event({"method": method, "params": params})

    def _answer(self, heard: ReceivedRequest, back: Reply) -> None:
        match heard.method:
            case "server/discover":
                flag = {"listChanged": self.tells}
                told = {"tools": flag, "resources": {"subscribe": True, **flag}, "prompts": flag}
                versions = {"supportedVersions": [MODERN], "capabilities": told}
                back.result(heard, {**self.hints, **versions})
            case "subscriptions/listen":
                back.stream()
                wishes = heard.message["params"]["notifications"] if self.tells else {}
                told = {"notifications": wishes, "_meta": {f"{META}subscriptionId": heard.id}}
                self.listener = back
                self.tell("notifications/subscriptions/acknowledged", **told)
                back.wait_gone()
            case "tools/list":
                back.result(heard, {**self.hints, "tools": [tool(name) for name in self.tools]})
            case "resources/list":
                resources = [{"uri": "x://1", "name": "one"}, {"uri": "x://2", "name": "two"}]
                back.result(heard, {**self.hints, "resources": resources})
            case "prompts/list":
                back.result(heard, {**self.hints, "prompts": []})
            case "resources/templates/list":
                back.result(heard, {**self.hints, "resourceTemplates": []})
            case "resources/read":
                self._read(heard, back)
            case "initialize":
                back.error(heard, -32601, "Method not found", 404)

    def _read(self, heard: ReceivedRequest, back: Reply) -> None:
        params = heard.message["params"]
        if params["uri"] == "x://2" and "inputResponses" not in params:
            ask = {"r": {"method": "roots/list"}}
            back.result(heard, {"resultType": "input_required", "inputRequests": ask})
            return
        words = f"reading {len(self.of('resources/read'))}"
        contents = [{"uri": params["uri"], "text": words}]
        back.result(heard, {**self.hints, "contents": contents})


@contextmanager
def library(path: Path, *args: Any, **kwargs: Any) -> Iterator[tuple[Library, HttpGateway]]:
    """A gateway with one library behind it."""
    with Library(*args, **kwargs) as web, serving(path, {"lib": web.entry}) as site:
        yield web, site


def read(client: ModernClient | SessionClient, uri: str = "x://1", **more: Any) -> Message:
    answer: Message = client.request("resources/read", {"uri": uri, **more})["result"]
    return answer


def text(answer: Message) -> str:
    words: str = answer["contents"][0]["text"]
    return words


def hints(answer: Message) -> tuple[int, str]:
    return answer["ttlMs"], answer["cacheScope"]


# Lists


@pytest.mark.parametrize("method", LISTS)
def test_a_list_says_what_is_left_of_the_time_its_server_gave_it(
    tmp_path: Path, method: str
) -> None:
    with library(tmp_path) as (web, site):
        client = ModernClient(site)
        told = [hints(client.request(method)["result"]) for _ in range(3)]

        assert [scope for _, scope in told] == ["public"] * 3
        left = [ttl for ttl, _ in told]
        assert HOUR_MS >= left[0] >= left[1] >= left[2] > HOUR_MS - 60_000
        assert len(web.of(method)) == 1


def test_a_merged_list_keeps_no_longer_than_any_of_its_parts(tmp_path: Path) -> None:
    with (
        Library(HOUR_MS) as long,
        Library(HOUR_MS // 2, "private") as short,
        serving(
            tmp_path,
            {
                "long": long.entry,
                "short": short.entry,
                "old": Scripted(tmp_path, tools("x")).command,
            },
            profiles={
                "one": {"servers": ["long"]},
                "two": {"servers": ["long", "short"]},
                "three": {"servers": ["long", "old"]},
            },
        ) as site,
    ):

        def told(profile: str, method: str = "tools/list") -> tuple[int, str]:
            at = ModernClient(site.at(f"/mcp/{profile}"))
            return hints(at.request(method)["result"])

        ttl, scope = told("one")
        assert (HOUR_MS // 2 < ttl <= HOUR_MS, scope) == (True, "public")
        ttl, scope = told("two")
        assert (0 < ttl <= HOUR_MS // 2, scope) == (True, "private")
        assert told("three") == (0, "private"), "nobody knows how long a legacy list keeps"


def test_discovery_is_not_to_be_kept(tmp_path: Path) -> None:
    with library(tmp_path) as (_, site):
        assert hints(ModernClient(site).request("server/discover")["result"]) == (0, "private")


def test_a_list_whose_time_is_over_is_read_again_when_somebody_asks(tmp_path: Path) -> None:
    with library(tmp_path, 1) as (web, site):
        modern, session = ModernClient(site), SessionClient(site)
        assert names(modern)[-1] == names(session)[-1] == "lib__a"
        web.tools = ["b"]

        seen: list[tuple[str, int]] = []

        def again() -> bool:
            seen.append((names(modern)[-1], len(web.of("tools/list"))))
            return seen[-1][1] > 1

        eventually(again, "another reading")
        # Whoever asked got what was read for them, and nobody was shown it before.
        assert seen[-1] == ("lib__b", 2)
        assert {name for name, _ in seen[:-1]} <= {"lib__a"}
        assert len(web.of("prompts/list")) == 1


def test_a_server_that_cannot_be_read_again_is_shown_as_it_was(tmp_path: Path) -> None:
    with library(tmp_path, 1) as (web, site):
        client = ModernClient(site)
        assert names(client)[-1] == "lib__a"
        answer = web.script

        def refuse(heard: ReceivedRequest, back: Reply) -> None:
            if heard.method == "tools/list":
                back.error(heard, -32603, "out of order")
            else:
                answer(heard, back)

        web.script = refuse

        def again() -> bool:
            assert names(client)[-1] == "lib__a"
            return len(web.of("tools/list")) > 2

        eventually(again, "two readings in vain")


def test_a_list_whose_changes_are_told_is_read_when_they_are(tmp_path: Path) -> None:
    with library(tmp_path, tells=True) as (web, site):
        client = ModernClient(site)
        names(client)
        stream = client.listen(toolsListChanged=True)
        stream.next()
        web.tools = ["b"]
        web.tell("notifications/tools/list_changed")

        stream.wait_method("notifications/tools/list_changed")
        stream.close()

        answer = client.request("tools/list")["result"]
        assert answer["tools"][-1]["name"] == "lib__b"
        assert len(web.of("tools/list")) == 2


# Resources


def test_a_read_is_answered_again_without_asking_for_clients_of_each_era(tmp_path: Path) -> None:
    with library(tmp_path) as (web, site):
        client = ModernClient(site)
        names(client)
        first = read(client)
        second = client.request("resources/read", {"uri": "x://1"}, progressToken=1)["result"]
        legacy = read(SessionClient(site))

        assert text(first) == text(second) == text(legacy) == "reading 1"
        assert first["ttlMs"] == HOUR_MS >= second["ttlMs"] > HOUR_MS - 60_000
        assert second["cacheScope"] == "public"
        assert not HINTS & legacy.keys()
        assert len(web.of("resources/read")) == 1
        events = [e for e in read_events(site.state) if e["event_type"] == "gateway.resource_read"]
        assert [event["metadata"].get("cached") for event in events] == [None, True, True]
        assert {event["metadata"]["uri"] for event in events} == {"x://1"}


def test_a_read_that_may_not_be_kept_is_asked_for_each_time(tmp_path: Path) -> None:
    with library(tmp_path, 0) as (_, site):
        client = ModernClient(site)
        names(client)

        assert [text(read(client)) for _ in range(3)] == [f"reading {n}" for n in (1, 2, 3)]


def test_two_urls_of_one_server_are_one_to_its_profiles_and_uris_are_theirs(tmp_path: Path) -> None:
    with (
        Library() as web,
        Library() as other,
        serving(
            tmp_path,
            {"lib": web.entry, "other": other.entry},
            profiles={"one": {"servers": ["lib"]}, "two": {"servers": ["lib", "other"]}},
        ) as site,
    ):
        one, two = ModernClient(site.at("/mcp/one")), ModernClient(site.at("/mcp/two"))
        names(one), names(two)
        mine, theirs = read(one), read(two, "lib+x://1")

        assert (mine["contents"][0]["uri"], text(mine)) == ("x://1", "reading 1")
        assert (theirs["contents"][0]["uri"], text(theirs)) == ("lib+x://1", "reading 1")
        assert text(read(two, "other+x://1")) == "reading 1"
        assert (len(web.of("resources/read")), len(other.of("resources/read"))) == (1, 1)


@pytest.mark.parametrize("told", [(UPDATED, {"uri": "x://1"}), (CHANGED, {})])
def test_what_a_server_tells_of_its_resources_ends_what_was_kept(
    tmp_path: Path, told: tuple[str, Message]
) -> None:
    with library(tmp_path, tells=True) as (web, site):
        client = ModernClient(site)
        names(client)
        stream = client.listen(resourceSubscriptions=["x://1"])
        stream.next()
        web.wait_of("subscriptions/listen", 2)
        assert text(read(client)) == text(read(client)) == "reading 1"

        web.tell(told[0], **told[1])

        eventually(lambda: text(read(client)) == "reading 2", "another reading")
        assert text(read(client)) == "reading 2"
        stream.close()


def test_what_depended_on_answers_is_not_given_again(tmp_path: Path) -> None:
    with library(tmp_path) as (_, site):
        client = ModernClient(site, **{f"{META}clientCapabilities": {"roots": {}}})
        names(client)
        for round_ in (1, 2):
            asked = read(client, "x://2")
            assert asked["resultType"] == "input_required"
            assert not HINTS & asked.keys()
            state = {"requestState": asked["requestState"]} if "requestState" in asked else {}
            answers = {"inputResponses": {"r": {"roots": []}}, **state}
            done = read(client, "x://2", **answers)
            assert text(done) == f"reading {2 * round_}"


def test_after_a_restart_nothing_is_known_any_more(tmp_path: Path) -> None:
    kept = {"resultType": "complete", "ttlMs": HOUR_MS, "cacheScope": "public"}
    offers = {"resources": [{"uri": "x://1", "name": "one"}]}
    declared: Message = {"tools": {}, "resources": {}}
    contents = {"contents": [{"uri": "x://1", "text": "as it was"}]}
    discovered = {"supportedVersions": [MODERN], "capabilities": declared}
    server = Scripted(
        tmp_path,
        rule("server/discover", result({**kept, **discovered})),
        rule("resources/list", result({**kept, **offers})),
        rule("resources/read", result({**kept, **contents}), run=1),
        rule("resources/read", result(json.dumps({**kept, **contents}).replace("was", "is"))),
        tools("die"),
        rule("tools/call", exit=3, run=1),
    )
    with gateway(tmp_path, {"s": server.command}) as client:

        def look() -> str:
            answer = client.modern("resources/read", {"uri": "x://1"})
            return text(answer["result"]) if "result" in answer else ""

        client.modern("tools/list")
        assert [look(), look()] == ["as it was"] * 2
        assert len(server.heard("resources/read")) == 1
        client.modern("tools/call", {"name": "s__die"})
        eventually(lambda: look() == "as it is", "an answer of the second run")
