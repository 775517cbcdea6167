"""Which era a server speaks, found out without harming it."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anyport.protocol.adapters.server import ModernServerAdapter
from anyport.protocol.extensions import SKILLS
from anyport.upstream import handshake
from anyport.upstream.connection import Connection
from anyport.upstream.handshake import (
    AmbiguousEra,
    HandshakeFailed,
    HandshakeOptions,
    ServerDied,
    perform_handshake,
    start_request,
)
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import PendingCall
from anyport.wire import jsonrpc
from tests.upstream.fakes import (
    LEGACY,
    MODERN,
    FakeChannel,
    FakeClock,
    Message,
    RecordingListener,
    Script,
    legacy,
    modern,
    run,
    silent,
    until,
)


class Answering(FakeChannel):
    """A channel with a server behind it that answers in the next turn of the loop."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script
        self.connection = Connection(self, RecordingListener(), jsonrpc.OUTBOUND, FakeClock())

    def send(self, frame: bytes, call: PendingCall | None) -> None:
        super().send(frame, call)
        for answer in self.script(self.sent[-1]):
            raw = json.dumps({"jsonrpc": "2.0", **answer}).encode()
            asyncio.get_running_loop().call_soon(self.connection.receive, raw)

    @property
    def methods(self) -> list[str]:
        return [frame["method"] for frame in self.sent]


def introduction(protocol: str = "auto") -> HandshakeOptions:
    return HandshakeOptions(
        client_info=b'{"name":"gateway"}', capabilities=b'{"roots":{}}', protocol=protocol
    )


def greet(script: Script, protocol: str = "auto") -> tuple[Peer, Answering]:
    """Shake hands with a server to the end."""
    met: list[tuple[Peer, Answering]] = []

    async def play() -> None:
        channel = Answering(script)
        met.append((await perform_handshake(channel.connection, introduction(protocol)), channel))

    run(play)
    return met[0]


def refusal(script: Script, protocol: str = "auto") -> str:
    """Why a handshake fails."""
    told: list[str] = []

    async def play() -> None:
        with pytest.raises(HandshakeFailed) as caught:
            await perform_handshake(Answering(script).connection, introduction(protocol))
        told.append(str(caught.value))

    run(play)
    return told[0]


def test_a_modern_server_is_asked_once_and_told_who_asks() -> None:
    peer, channel = greet(modern())

    assert peer.revision is MODERN
    assert peer.offers("tools")
    assert channel.methods == ["server/discover"]
    about = channel.sent[0]["params"]["_meta"]
    assert about["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert about["io.modelcontextprotocol/clientInfo"] == {"name": "gateway"}
    assert about["io.modelcontextprotocol/clientCapabilities"] == {}


def test_a_legacy_server_that_refuses_the_probe_gets_the_handshake() -> None:
    peer, channel = greet(legacy())

    assert peer.revision is LEGACY
    assert channel.methods == ["server/discover", "initialize", "notifications/initialized"]
    assert channel.sent[1]["params"] == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "gateway"},
    }


def test_a_legacy_server_may_answer_with_an_older_revision() -> None:
    def older(message: Message) -> list[Message]:
        told = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {}}
        return [{"id": message["id"], "result": told}] if message.get("id") == 1 else []

    peer, _ = greet(older, "legacy")

    assert peer.revision.name == "2024-11-05"


@pytest.mark.parametrize("protocol", ["legacy", "2025-03-26"])
def test_a_pinned_legacy_server_is_never_probed(protocol: str) -> None:
    peer, channel = greet(legacy(), protocol)

    assert channel.methods == ["initialize", "notifications/initialized"]
    assert peer.revision.name == ("2025-11-25" if protocol == "legacy" else protocol)


def test_a_pinned_modern_server_gets_no_handshake() -> None:
    assert refusal(legacy(), "modern") == "it does not speak revision 2026-07-28"


REFUSED = {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}


def answering(method: str, **outcome: Any) -> Script:
    """A server with one answer to one method."""
    return lambda message: (
        [{"id": message["id"], **outcome}] if message.get("method") == method else []
    )


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"protocolVersion": "1999-01-01"}, "it speaks revision '1999-01-01', which is not one"),
        ({"protocolVersion": "2026-07-28"}, "it speaks revision '2026-07-28', which is not one"),
        ({"protocolVersion": 7}, "its answer to initialize has no protocolVersion"),
        ({}, "its answer to initialize has no protocolVersion"),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_reason(result: Message, words: str) -> None:
    assert refusal(answering("initialize", result=result), "legacy").startswith(words)


def test_a_server_that_refuses_the_handshake_is_quoted() -> None:
    error = {"code": -1, "message": "go away"}

    assert refusal(answering("initialize", error=error), "legacy") == (
        "it refused the handshake: go away"
    )


def test_a_server_of_a_newer_era_is_named() -> None:
    error = {"code": -32022, "message": "no", "data": {"supported": ["2030-01-01"]}}

    assert refusal(answering("server/discover", error=error)) == (
        "it speaks only revisions 2030-01-01, none of which we know"
    )


def test_a_server_that_goes_away_has_died() -> None:
    async def play() -> None:
        channel = Answering(silent)
        asyncio.get_running_loop().call_soon(channel.connection.end, "exit code 1")
        with pytest.raises(ServerDied, match="exit code 1"):
            await perform_handshake(channel.connection, introduction())

    run(play)


def impatient(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[Answering], Coroutine[Any, Any, None]]], None]:
    """Plays a scene in which the probe is answered by hand, too late."""
    monkeypatch.setattr(handshake, "PROBE_SECONDS_MAX", 0.0)

    def play(scene: Callable[[Answering], Coroutine[Any, Any, None]]) -> None:
        run(lambda: scene(Answering(silent)))

    return play


@pytest.mark.parametrize("refuses", [False, True])
def test_a_slow_modern_server_is_still_recognised(
    refuses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(channel: Answering) -> None:
        async with asyncio.TaskGroup() as group:
            met = group.create_task(perform_handshake(channel.connection, introduction()))
            await until(lambda: channel.methods == ["server/discover", "initialize"])
            told = modern()(channel.sent[0])
            if refuses:
                told += answering("initialize", error=REFUSED)(channel.sent[1])
            for answer in told:
                channel.connection.receive(json.dumps({"jsonrpc": "2.0", **answer}).encode())
        assert met.result().revision is MODERN
        assert channel.methods == ["server/discover", "initialize"]

    impatient(monkeypatch)(scene)


def test_a_slow_modern_server_that_opens_an_older_session_as_well_was_misled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene(channel: Answering) -> None:
        met = asyncio.get_running_loop().create_task(
            perform_handshake(channel.connection, introduction())
        )
        await until(lambda: channel.methods == ["server/discover", "initialize"])
        for answer in modern()(channel.sent[0]) + legacy()(channel.sent[1]):
            channel.connection.receive(json.dumps({"jsonrpc": "2.0", **answer}).encode())
        with pytest.raises(AmbiguousEra):
            await met
        assert channel.connection.peer is None

    impatient(monkeypatch)(scene)


@pytest.mark.parametrize("probe_answered", ["never", "before", "after"])
def test_a_slow_legacy_server_is_initialized_once(
    probe_answered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(channel: Answering) -> None:
        def answer(number: int) -> None:
            for told in legacy()(channel.sent[number]):
                channel.connection.receive(json.dumps({"jsonrpc": "2.0", **told}).encode())

        async with asyncio.TaskGroup() as group:
            met = group.create_task(perform_handshake(channel.connection, introduction()))
            await until(lambda: len(channel.sent) == 2)
            if probe_answered == "before":
                answer(0)
                await asyncio.sleep(0)
            answer(1)
            if probe_answered == "after":
                answer(0)
        assert met.result().revision is LEGACY
        given_up = ["notifications/cancelled"] if probe_answered == "never" else []
        said = ["server/discover", "initialize", "notifications/initialized", *given_up]
        assert channel.methods == said
        assert channel.connection.open_calls == 0

    impatient(monkeypatch)(scene)


def test_a_server_that_says_nothing_at_all_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "PROBE_SECONDS_MAX", 0.0)
    monkeypatch.setattr(handshake, "START_SECONDS_MAX", 0.01)

    assert refusal(silent) == "it did not answer the handshake within 0.01 s"


def test_asking_a_server_that_is_gone_gives_its_loss_at_once() -> None:
    async def play() -> None:
        channel = Answering(silent)
        channel.connection.end("gone")

        assert (
            await start_request(channel.connection, "ping", None) == channel.connection.closed_with
        )

    run(play)


@pytest.mark.parametrize("name", ["server/discover", "initialize"])
def test_the_extensions_that_a_server_declares_are_kept_known_or_not(name: str) -> None:
    told = {
        "protocolVersion": "2025-11-25",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {
            "extensions": {SKILLS: {"directoryRead": True}, "com.example/own": {}, "odd": 1}
        },
    }
    script = answering(name, result=told)

    peer, _ = greet(script, "modern" if name == "server/discover" else "legacy")

    assert peer.extensions == {SKILLS: b'{"directoryRead": true}', "com.example/own": b"{}"}
    if isinstance(peer.adapter, ModernServerAdapter):
        assert peer.adapter.extensions == {SKILLS, "com.example/own"}
