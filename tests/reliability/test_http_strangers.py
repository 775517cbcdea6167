"""What belongs to one client over HTTP is nobody else's: sessions, streams, events, and secrets."""

import json
import re
import shutil
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any, Final

import pytest

from anyport import __version__
from anyport.ingress.http.sessions import HttpSessions
from anyport.protocol.principal import LOCAL
from anyport.protocol.quota import QuotaLimits
from anyport.protocol.sealing import KEY_BYTES, Seal
from tests.harness import Message
from tests.reliability.conftest import Serve
from tests.rig.fuzz import frames
from tests.rig.http_probe import HttpProbe
from tests.rig.probe import text_of
from tests.rig.raw_http_client import (
    STREAM,
    Fields,
    RawConnection,
    RawHttpClient,
    Reply,
    head,
    hello,
    modern,
    post,
    request,
    tool_call,
)
from tests.rig.scale import scaled

ALICE: Final = {"Authorization": "Bearer alice-4f1b9c0d2e7a8653"}
BOB: Final = {"Authorization": "Bearer bob-90c1d2e3f4a5b697"}
PEOPLE: Final = {
    "tokens": {
        "alice": ALICE["Authorization"].removeprefix("Bearer "),
        "bob": BOB["Authorization"].removeprefix("Bearer "),
    }
}
PROFILES: Final[Message] = {"default": {}, "other": {}}
IDS: Final = scaled(20_000, full=1_000_000)
GUESSES: Final = 200
FUZZED_BODIES: Final = scaled(600, full=5_000)
NOT_FOUND: Final = "Session not found: it has ended; send initialize to open a new one"


def test_ids_of_sessions_never_repeat_and_are_drawn_from_128_bits() -> None:
    drawn: list[int] = []
    random = Random(1)

    def random_bytes(count: int) -> bytes:
        drawn.append(count)
        return random.randbytes(count)

    sessions = HttpSessions(
        Anything(), Seal([bytes(KEY_BYTES)]), random_bytes, limits=QuotaLimits(1, 1), idle_seconds=1
    )
    ids = {sessions.new_id("default", LOCAL) for _ in range(IDS)}
    assert len(ids) == IDS
    assert set(drawn) == {16}
    assert all(re.fullmatch(r"[\x21-\x7e]+", id) for id in ids)


class Anything:
    """Stands for what is not used."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is not needed for this")


def uses(session_id: str, fields: Fields, path: str = "/mcp") -> dict[str, bytes]:
    """Every way to use a session."""
    named = {**fields, "Mcp-Session-Id": session_id}
    cancel = {"method": "notifications/cancelled", "params": {"requestId": 1}}
    return {
        "request": post(tool_call("neighbour__touch"), named, path),
        "notification": post({"jsonrpc": "2.0", **cancel}, named, path),
        "answer": post({"jsonrpc": "2.0", "id": 1, "result": {}}, named, path),
        "stream": head("GET", path, {"Accept": STREAM, **named}),
        "resumption": head("GET", path, {"Accept": STREAM, "Last-Event-ID": "1-0", **named}),
        "end": head("DELETE", path, named),
    }


def refusals(there: HttpProbe, attempts: dict[str, bytes]) -> dict[str, Reply]:
    found = {}
    for way, raw in attempts.items():
        with RawConnection(there.port) as wire:
            found[way] = wire.ask(raw)
    return found


@pytest.mark.slow
def test_a_session_is_of_no_use_to_anybody_else(serve: Serve) -> None:
    with serve({}, tokens=True, gateway=PEOPLE, profiles=PROFILES) as there:
        alice = RawHttpClient(there.port, ALICE)
        there.secrets.append(alice.session_id)
        elsewhere = uses(alice.session_id, ALICE, "/mcp/other")
        for attempts in (uses(alice.session_id, BOB), elsewhere):
            for way, reply in refusals(there, attempts).items():
                assert reply.status == 404, (way, reply)
                assert reply.message["error"]["message"] == NOT_FOUND
        for way, reply in refusals(there, uses(alice.session_id, {})).items():
            assert reply.status == 401, (way, reply)
        # She has lost nothing by it, and nobody has touched anything in her name.
        assert text_of(alice.call("neighbour__touch")).endswith("version 1.")
        with RawConnection(there.port) as wire:
            assert wire.ask(uses(alice.session_id, ALICE)["end"]).status == 200
        for way, reply in refusals(there, uses(alice.session_id, ALICE)).items():
            assert reply.status == 404, (way, reply)
        alice.close()


@pytest.mark.slow
def test_a_session_that_is_not_named_is_not_guessed(serve: Serve) -> None:
    with serve({}) as there, closing(RawHttpClient(there.port)) as visitor:
        version = {"MCP-Protocol-Version": "2025-11-25"}
        with RawConnection(there.port) as wire:
            assert wire.ask(post(tool_call("neighbour__touch"), version)).status == 400
        assert text_of(visitor.call("neighbour__touch")).endswith("version 1.")


def mutants(id: str, random: Random) -> set[str]:
    """Ids that are nearly this one."""
    found = {id[:at] for at in range(1, len(id), 7)} | {id + "A", id + "=", id[::-1], id.lower()}
    while len(found) < GUESSES:
        at = random.randrange(len(id))
        swapped = chr(ord(id[at]) ^ (1 << random.randrange(7)))
        if "!" <= swapped <= "~":
            found.add(id[:at] + swapped + id[at + 1 :])
    return found - {id}


@pytest.mark.slow
def test_an_id_that_is_changed_in_any_way_is_worth_nothing(serve: Serve) -> None:
    with (
        serve({}) as there,
        closing(RawHttpClient(there.port)) as visitor,
        RawConnection(there.port) as wire,
    ):
        random = Random(7)
        others = {Random(number).randbytes(48).hex() for number in range(20)}
        words = set()
        for id in mutants(visitor.session_id, random) | others | {"1", "null", "undefined"}:
            reply = wire.ask(post(tool_call("neighbour__touch"), {"Mcp-Session-Id": id}))
            assert reply.status == 404, (id, reply)
            words.add(reply.message["error"]["message"])
        assert words == {NOT_FOUND}
        assert text_of(visitor.call("neighbour__touch")).endswith("version 1.")


@pytest.mark.slow
def test_a_session_that_nobody_has_written_down_is_not_believed(
    serve: Serve, tmp_path: Path
) -> None:
    """The keys are the same after a restart, so the seal alone must not be enough."""
    with serve({}) as there, closing(RawHttpClient(there.port)) as visitor:
        id = visitor.session_id
    shutil.rmtree(tmp_path / "state" / "sessions")
    with serve({}) as there, RawConnection(there.port) as wire:
        assert there.state == tmp_path / "state"
        reply = wire.ask(post(request("tools/list"), {"Mcp-Session-Id": id}))
        assert (reply.status, reply.message["error"]["message"]) == (404, NOT_FOUND)


@pytest.mark.slow
def test_the_events_of_a_stream_are_for_its_own_session(serve: Serve) -> None:
    with serve({}, tokens=True, gateway=PEOPLE) as there:
        alice = RawHttpClient(there.port, ALICE)
        slow = tool_call("neighbour__slow", {"seconds": 0, "steps": 3}, progressToken="hers")
        told = alice.send(slow)
        ids = re.findall(rb"^id: (.+)$", told.body, re.MULTILINE)
        assert len(ids) >= 4
        tried = [id.decode() for id in ids]
        tried += ["0-0", "1-0", "2-1", "1--1", "1-999999999999", "%", "-", "1"]
        for fields in (BOB, ALICE):  # Another session of her own is another session, too.
            with closing(RawHttpClient(there.port, fields)) as stranger, ExitStack() as stack:
                stranger.send(request("tools/list"))
                streams = [
                    stack.enter_context(stranger.open_stream(**{"Last-Event-ID": id}))
                    for id in tried
                ]
                stranger.call("neighbour__grow")
                news = next(streams[-1].events())
                assert news["method"] == "notifications/tools/list_changed"
                assert not [stream for stream in streams[:-1] if b"jsonrpc" in stream.arrived()]
        # It is all still there for herself.
        with alice.open_stream(**{"Last-Event-ID": ids[0].decode()}) as stream:
            again = list(stream.events())
        assert again == told.messages
        alice.close()


def open_older(there: HttpProbe, fields: Fields) -> tuple[RawConnection, str]:
    """A session of the oldest transport: its stream, and where to post."""
    wire = RawConnection(there.port)
    wire.send(head("GET", "/mcp/default/sse", {"Accept": STREAM, **fields}))
    assert wire.head()[1] == 200
    first = next(wire.pieces()).decode()
    assert first.startswith("event: endpoint\ndata: ")
    return wire, first.split("data: ")[1].strip()


@pytest.mark.slow
def test_the_address_of_an_older_session_is_of_no_use_to_anybody_else(serve: Serve) -> None:
    with serve({}, tokens=True, gateway=PEOPLE, profiles=PROFILES) as there:
        stream, address = open_older(there, ALICE)
        id = address.rsplit("=", 1)[1]
        there.secrets.append(id)
        touch = tool_call("neighbour__touch", id="stranger")
        elsewhere = address.replace("/default/", "/other/")
        flipped = address[:-1] + ("A" if address[-1] != "A" else "B")
        attempts: list[tuple[int, Fields, str]] = [
            (404, BOB, address),
            (401, {}, address),
            (404, ALICE, elsewhere),
            (404, ALICE, flipped),
            (404, ALICE, address.partition("?")[0]),
            (404, ALICE, "/mcp/default/messages?session_id="),
        ]
        for status, fields, path in attempts:
            with RawConnection(there.port) as wire:
                assert wire.ask(post(touch, fields, path)).status == status, (status, path)
        # Nor is the id good for the newer transport, nor one of the newer for this.
        for reply in refusals(there, uses(id, ALICE)).values():
            assert reply.status == 404
        newer = RawHttpClient(there.port, ALICE)
        with RawConnection(there.port) as wire:
            foreign = f"/mcp/default/messages?session_id={newer.session_id}"
            assert wire.ask(post(touch, ALICE, foreign)).status == 404
        with RawConnection(there.port) as wire:
            for message in (hello(), tool_call("neighbour__touch", id="hers")):
                assert wire.ask(post(message, ALICE, address)).status == 202
        answers = stream.events()
        assert next(answers)["id"] == 1
        answer = next(answers)
        assert (answer["id"], text_of(answer)[-10:]) == ("hers", "version 1.")
        for page in ("/metrics", "/api/v1/status", "/api/v1/events"):
            assert id.encode() not in there.page(page), page
        stream.close()
        newer.close()


TRACES: Final = (
    b"Traceback", b'File "', b".py", b"site-packages", b"/src/", b"/usr/", b"/root", b"/home",
    b"/tmp", b"line ", b"Error(", b"object at 0x", b"msgspec", b"httptools", b"asyncio", b"uvloop",
    b"starlette", b"Python", __version__.encode(),
)  # fmt: skip
"""Words that would tell how the gateway is built, or where it lies."""

ODD_PATHS: Final = (
    "/", "/mcp/", "/mcp/none", "/mcp/none/info", "/mcp/default/none", "/mcp/../etc/passwd",
    "/mcp/%2e%2e/%2e%2e/etc/passwd", "/mcp/%00", "/mcp/%ff", "/api", "/api/v1", "/api/v1/none",
    "/api/v1/servers/none", "/api/v1/events?since=never", "/api/v1/events?limit=-1",
    "/api/v1/events?limit=99999999999999999999", "/api/v1/events?trace_id=%27",
    "//", "/.git/config",
    "/api/v1/profiles/none", "/static/../../x", "/?x=" + "y" * 2000,
)  # fmt: skip


NO_PARAMS: Final[tuple[Message, ...]] = (
    {}, {"name": 1}, {"name": "none"}, {"uri": "file:///etc/passwd"}, {"x": {}},
)  # fmt: skip


def odd_requests() -> list[bytes]:
    """Requests that are answered with an error, nearly all of them."""
    accept = {"Accept": "application/json"}
    found = [head(verb, path, accept) for path in ODD_PATHS for verb in ("GET", "DELETE", "TRACE")]
    for number, frame in enumerate(frames(3, FUZZED_BODIES)):
        shapes: list[bytes] = [post(frame), post(frame, {"MCP-Protocol-Version": "2026-07-28"})]
        found.append(shapes[number % 2])
    for method in ("tools/call", "resources/read", "prompts/get", "completion/complete", "nothing"):
        for params in NO_PARAMS:
            found += [post(request(method, params)), modern(request(method, params))]
    return found


@pytest.mark.slow
def test_errors_tell_nothing_of_how_the_gateway_is_built(serve: Serve, tmp_path: Path) -> None:
    with serve({}) as there:
        refused = 0
        for raw in odd_requests():
            with RawConnection(there.port) as wire:
                reply = wire.ask(raw)
            assert reply.status < 500 or reply.status == 501, (raw, reply)
            assert reply.get("server") is None
            if reply.status >= 400 or b'"error":{"code"' in reply.body:
                refused += 1
                for word in (*TRACES, str(tmp_path).encode()):
                    assert word not in reply.raw or word in raw, (word, raw, reply)
        assert refused > FUZZED_BODIES // 2


class Broken(BaseHTTPRequestHandler):
    """A server that is well until a tool is called, and then shows its insides."""

    protocol_version = "HTTP/1.1"
    insides = b"<pre>Traceback: /srv/app/secrets.py: password=hunter2-upstream</pre>"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = message.get("method")
        results: dict[str, Message] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "broken", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "fall", "inputSchema": {"type": "object"}}]},
        }
        if "id" not in message:
            self.reply(202, b"")
        elif method in results:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": results[method]}
            self.reply(200, json.dumps(answer).encode(), "application/json")
        else:
            self.reply(500 if method == "tools/call" else 404, self.insides)

    def do_GET(self) -> None:
        self.reply(405, b"")

    do_DELETE = do_GET

    def reply(self, status: int, body: bytes, media: str = "text/html") -> None:
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody wants to read it."""


@pytest.mark.slow
def test_what_a_broken_server_shows_of_itself_goes_no_further(serve: Serve) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Broken) as behind:
        thread = Thread(target=behind.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{behind.server_port}/mcp"
        try:
            with (
                serve({"broken": {"url": url}}) as there,
                closing(RawHttpClient(there.port)) as visitor,
            ):
                for _ in range(3):
                    reply = visitor.send(tool_call("broken__fall"))
                    assert b"hunter2" not in reply.raw
                    assert b"broken" in reply.raw, reply
                    assert b"500" in reply.raw, reply
                for page in ("/api/v1/events", "/mcp/default/info", "/metrics"):
                    assert b"hunter2" not in there.page(page), page
                there.secrets.append("hunter2")
        finally:
            behind.shutdown()
            thread.join()
