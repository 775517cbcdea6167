"""Secrets of every kind, said wherever a client or a server can say something, at every level of
capture: afterwards none is in a file, an answer about the traffic, a stream or the gateway's talk.

What a tool answers reaches its client untouched; only the record of it is looked at here. `make
test` leaves out the level that records least.
"""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.harness import WAIT_SECONDS, Message
from tests.journeys.clients import ModernClient, SessionClient, calling, hello, mirrored, request
from tests.journeys.http_gateway import JSON, HttpGateway, serving
from tests.journeys.scripted_http_server import (
    ReceivedRequest,
    Reply,
    Script,
    ScriptedHttpServer,
    modern,
)
from tests.journeys.scripts import Scripted, failure, note, result, rule, said, text, tools
from tests.record.planted_secrets import KINDS

LEVELS: Final = (pytest.param("off", marks=pytest.mark.exhaustive), "shape", "full")
PAGE: Final = 1000
DETAILS: Final = 60
"""Exchanges that the API is asked for one by one; the export has all."""
SHOWN: Final = 4
"""Exchanges that the command line is asked to show."""

SEPARATORS: Final = re.compile(r"""[\s",:;{}\[\]()<>\\]+""")

PLAIN_PAGES: Final = (
    *("/api/v1", "/api/v1/status", "/api/v1/servers", "/api/v1/servers/leaky"),
    *("/api/v1/servers/web", "/api/v1/profiles", "/api/v1/profiles/default"),
    *("/api/v1/why?name=leaky__say", "/api/v1/why?name=leaky", "/mcp/default/info", "/metrics"),
)
COMMANDS: Final = (
    *(("events", "--limit", "1000"), ("events", "--limit", "1000", "--json")),
    *(("traffic", "--limit", "1000"), ("traffic", "--limit", "1000", "--json")),
    *(("stats",), ("lint",), ("export",), ("export", "--format", "har"), ("check",), ("verify",)),
)


class Garden:
    """Plants a secret of every kind at every place, each a new one, and knows them all."""

    def __init__(self, level: str) -> None:
        self._chance = Random(level)
        self.planted: dict[str, tuple[str, str]] = {}

    def plant(self, place: str, *, line: bool = False, bare: bool = False) -> list[str]:
        """Texts with a secret of every kind.

        Only texts of one line, where no more is possible; or the bare secrets.
        """
        texts = []
        for kind, grow in KINDS.items():
            plant = grow(self._chance)
            if not (line and "\n" in plant.text):
                assert not SEPARATORS.search(plant.secret)
                texts.append(plant.secret if bare else plant.text)
                self.planted[plant.secret] = (place, kind)
        return texts

    def found_in(self, shown: dict[str, str]) -> list[tuple[str, ...]]:
        """Which of them stand somewhere: place, kind, where.

        No secret has what separates words in it, nor what JSON would escape; so it is enough to
        look at each word once.
        """
        words = "\n".join({word for text in shown.values() for word in SEPARATORS.split(text)})
        return [
            (*place, where)
            for secret, place in self.planted.items()
            if secret in words
            for where, text in shown.items()
            if secret in text
        ]


class Follower:
    """Reads a stream in a thread, for as long as it lasts."""

    def __init__(self, site: HttpGateway, path: str) -> None:
        self._answer = site.send("GET", None, [("Accept", "text/event-stream")], path)
        assert self._answer.status == 200
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(
            AssertionError, AttributeError, HTTPException, OSError, ValueError
        ):  # It may end anywhere.
            self._lines.extend(event.data for event in self._answer.events())

    def text(self) -> str:
        """All that came; the gateway has ended."""
        self._thread.join(WAIT_SECONDS)
        return "\n".join(self._lines)


@pytest.mark.parametrize("level", LEVELS)
def test_no_secret_is_in_any_record_at_any_level(level: str, tmp_path: Path) -> None:
    garden = Garden(level)
    leaky = scripted(tmp_path / "leaky", garden)
    fields = garden.plant("header field of the configuration", bare=True)
    environ = garden.plant("environment of the server")
    shown: dict[str, str] = {}
    with ScriptedHttpServer(modern(web_server(garden), "echo")) as web:
        servers = {
            "leaky": {
                "command": leaky.command[0],
                "args": leaky.command[1:],
                "env": {f"PLANT_{n}": words for n, words in enumerate(environ)},
            },
            "web": {"url": web.url, "headers": {f"X-P{n}": f for n, f in enumerate(fields)}},
        }
        record = {"capture": level}
        with serving(tmp_path, servers, record=record) as site:
            events = Follower(site, "/api/v1/events/stream")
            traffic = Follower(site, "/api/v1/traffic/stream")
            talk(site, garden, environ)
            shown |= asked(site)
            site.there.process.send_signal(signal.SIGTERM)
            shown["stderr"] = site.there.end()[1]
            shown["events stream"] = events.text()
            shown["traffic stream"] = traffic.text()
    shown |= commanded(tmp_path, site.state, rows(shown)) | filed(site.state)

    assert garden.found_in(shown) == []
    everything = "\n".join(shown.values())
    assert everything.count("[redacted]") > len(KINDS)
    recorded = {"off": ["leaky"], "shape": ["params_shape"], "full": PLACES_RECORDED}[level]
    assert not [words for words in recorded if words not in everything]
    assert ("payload_file" in everything) == (level == "full")


PLACES_RECORDED: Final = (
    *("an argument", "a result", "a tool error", "an error message", "error details", "progress"),
    *("a log message", "a stderr line", "a line that is no frame", "a notification", "a reason"),
    *("a cursor", "a client's name", "a resource", "a prompt", "an echoed field"),
)
"""Harmless words beside the secrets that prove, at `full`, that what was said was recorded."""


def scripted(path: Path, garden: Garden) -> Scripted:
    """A server that says secrets in every way a server has."""
    rules: list[Message] = []
    columns = zip(
        *(
            garden.plant(place)
            for place in ("result", "structured", "log", "progress", "stderr", "noise", "is error")
        ),
        garden.plant("error message"),
        garden.plant("error data"),
        strict=True,
    )
    for n, (words, more, log, progress, stderr, noise, wrong, message, details) in enumerate(
        columns
    ):
        told = json.dumps(
            {"progressToken": "$token", "progress": 1, "message": f"progress {progress}"}
        )
        answer = {**text(f"a result {words}"), "structuredContent": {"deep": [{"er": more}]}}
        rules += [
            rule(
                "tools/call",
                note("notifications/message", {"level": "info", "data": f"a log message {log}"}),
                note("notifications/progress", told.replace('"$token"', "$token")),
                f"a line that is no frame {noise}",
                result(answer),
                where={"name": "say", "arguments": {"n": n}},
                stderr=f"a stderr line\n{stderr}",
            ),
            rule(
                "tools/call",
                failure(
                    {
                        "code": -32000,
                        "message": f"an error message {message}",
                        "data": {"error details": details},
                    }
                ),
                where={"name": "fail", "arguments": {"n": n}},
            ),
            rule(
                "tools/call",
                result({**text(f"a tool error {wrong}"), "isError": True}),
                where={"name": "err", "arguments": {"n": n}},
            ),
        ]
    rules += [
        tools("say", "fail", "err", "hear"),
        rule("tools/call", result(text("heard"))),
        rule("resources/list", result({"resources": []})),
    ]
    return Scripted(path, *rules)


def web_server(garden: Garden) -> Script:
    """Says back what header fields it was sent, and fails with secrets."""
    bodies = iter(garden.plant("body of an HTTP error"))

    def call(heard: ReceivedRequest, back: Reply) -> None:
        if heard.message["params"]["arguments"].get("fail"):
            back.whole(500, f"a web error {next(bodies)}".encode(), "text/plain")
        else:
            words = " ".join(f"an echoed field {value}" for _, value in heard.lines)
            back.result(heard, {"resultType": "complete", **text(words)})

    return call


def talk(site: HttpGateway, garden: Garden, environ: list[str]) -> None:
    """Say every secret at every place that a client has."""
    session = SessionClient(site)
    for n, words in enumerate(garden.plant("progress token")):
        meta = {"progressToken": f"{n} {words}"}
        assert "result" in session.request("tools/call", calling("leaky__say", {"n": n}, meta))
        assert "error" in session.call("leaky__fail", {"n": n})
        assert session.call("leaky__err", {"n": n})["result"]["isError"]
    for client in (session, ModernClient(site)):
        for words in (*garden.plant("argument"), *environ):
            assert said(client.call("leaky__hear", {"an argument": words, words: 1})) == "heard"
        for words in garden.plant("baggage"):
            client.call("leaky__hear", {}, baggage=words)
        for words in garden.plant("name of a tool"):
            assert "error" in client.call(words)
        for words in garden.plant("uri"):
            assert "error" in client.request("resources/read", {"uri": f"x:a resource {words}"})
        for words in garden.plant("prompt"):
            assert "error" in client.request("prompts/get", {"name": f"a prompt {words}"})
        for words in garden.plant("cursor"):
            client.request("tools/list", {"cursor": f"a cursor {words}"})
    by_wire(site, session, garden)
    asker = ModernClient(site)
    echoed = said(asker.call("web__echo"))
    assert echoed.count("an echoed field") > len(garden.plant("nothing"))
    for _ in KINDS:
        asker.call("web__echo", {"fail": True})


def by_wire(site: HttpGateway, session: SessionClient, garden: Garden) -> None:
    """What only raw requests can say."""
    for words in garden.plant("method"):
        assert "error" in session.request(words)
    for words in garden.plant("notification"):
        session.notify(f"notifications/{words[:40]}", {"a notification": words})
        session.notify("notifications/cancelled", {"requestId": 999, "reason": f"a reason {words}"})
    for words in garden.plant("client"):
        told = hello("2025-11-25", {"experimental": {"x": {"y": words}}})
        told["clientInfo"] = {"name": f"a client's name {words}", "version": words}
        site.post(request("initialize", told)).rest()
    for words in garden.plant("no JSON"):
        site.post(b'{"jsonrpc":"2.0","id":1,"method":' + words.encode(), *session.fields).text()
    message = request(
        "tools/call", {**calling("leaky__hear", {}, {}), "_meta": ModernClient(site).meta}
    )
    for words in garden.plant("header field", line=True):
        for name in (
            "Authorization",
            "Cookie",
            "X-Api-Key",
            "Mcp-Session-Id",
            "Mcp-Name",
            "Origin",
        ):
            plain = [field for field in mirrored(message) if field[0] != name]
            site.post(message, *plain, (name, words)).text()
        site.at(f"/mcp?x={request_target(words)}").post(message).text()
        site.at(f"/mcp/{request_target(words)}").post(message).text()
        site.send("GET", None, [("Accept", JSON)], f"/{request_target(words)}").text()


def request_target(words: str) -> str:
    """As much of it as an address can have as it is."""
    return "".join(letter for letter in words if letter.isalnum() or letter in "-._~:/@!$&*+=")


def asked(site: HttpGateway) -> dict[str, str]:
    """What the gateway answers to those who ask about it."""
    client = SessionClient(site)
    shown = {path: get(site, path) for path in PLAIN_PAGES}
    shown["gateway_status"] = json.dumps(client.call("gateway_status"))
    shown["get_events"] = json.dumps(client.call("get_events", {"limit": 1000}))
    for path in ("/api/v1/events", "/api/v1/traffic"):
        for n, page in enumerate(pages(site, path)):
            shown[f"{path} {n}"] = page
    for row in some(rows(shown), DETAILS):
        shown[f"detail {row}"] = get(site, f"/api/v1/traffic/{row}")
    return shown


def get(site: HttpGateway, path: str) -> str:
    """The text of a page, in characters and not in their numbers."""
    answer = site.send("GET", None, [("Accept", JSON)], path)
    assert answer.status == 200, path
    words = answer.text()
    return words if path == "/metrics" else json.dumps(json.loads(words), ensure_ascii=False)


def pages(site: HttpGateway, path: str) -> Iterator[str]:
    """Every page of a list."""
    cursor = ""
    while True:
        page = get(site, f"{path}?limit={PAGE}{cursor}")
        yield page
        after = json.loads(page)["next_cursor"]
        if after is None:
            return
        cursor = f"&cursor={after}"


def rows(shown: dict[str, str]) -> list[str]:
    """The exchanges that were listed."""
    return [
        row["id"]
        for name, page in shown.items()
        if name.startswith("/api/v1/traffic ")
        for row in json.loads(page)["rows"]
        if "id" in row
    ]


def some(ids: list[str], count: int) -> list[str]:
    """So many of them, from beginning to end."""
    return ids[:: -(-len(ids) // count)]


def commanded(tmp_path: Path, state: Path, ids: list[str]) -> dict[str, str]:
    """What the command line says of the state directory."""
    shown = {}
    where = ["--config", str(tmp_path / "anyport.json"), "--state-dir", str(state)]
    for command in (*COMMANDS, *(("show", id) for id in some(ids, SHOWN))):
        argv = [sys.executable, "-m", "anyport", *command, *where]
        ended = subprocess.run(argv, capture_output=True, timeout=WAIT_SECONDS)
        assert ended.returncode in (0, 1), (argv, ended.stderr)
        shown[" ".join(command)] = (ended.stdout + ended.stderr).decode()
    return shown


def filed(state: Path) -> dict[str, str]:
    """Every file below the state directory."""
    files = [path for path in state.rglob("*") if path.is_file()]
    assert files
    return {
        str(path.relative_to(state)): path.read_bytes().decode("utf-8", "replace") for path in files
    }
