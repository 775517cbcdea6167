"""Clients whose second call of a name may take the beaten track."""

import json
from collections.abc import Hashable
from typing import Any

from anyport.gateway.identity import IDENTITY
from anyport.protocol.adapters.legacy_client import deliver_legacy
from anyport.protocol.adapters.modern_client import deliver_modern
from anyport.protocol.exchange import Caller, Exchange, ExchangeEvent
from anyport.protocol.methods import METHODS
from anyport.protocol.request import ParsedRequest, read_plain_call, read_request
from anyport.protocol.revisions import Era
from anyport.wire.jsonrpc import Request, decode
from tests.gateway.fakes import LEGACY, MODERN, FakeSession, caller
from tests.gateway.scene import Scene
from tests.protocol.fakes import META, FakeReplyWriter

ERAS = [LEGACY, MODERN]
PLAIN = {"name": "s__echo", "arguments": {"n": 1}}


class Client:
    """Sends calls the way a front does: on the track where there is one."""

    def __init__(self, scene: Scene, by: Caller) -> None:
        self.scene = scene
        self.caller = by
        self.wire = FakeReplyWriter()
        self.open: dict[Hashable, Any] = {}
        self.frames: list[bytes] = []
        """What the server was sent."""
        self.tracked = 0
        send = scene.server.channel.send

        def keep(frame: bytes, call: Any) -> None:
            self.frames.append(frame)
            send(frame, call)

        scene.server.channel.send = keep  # type: ignore[method-assign]

    def deliver(self, exchange: Exchange, happening: ExchangeEvent) -> None:
        if self.caller.revision.era is Era.MODERN:
            deliver_modern(exchange, happening, IDENTITY)
        else:
            deliver_legacy(exchange, happening)

    def remove(self, key: Hashable) -> None:
        del self.open[key]

    def replace(self, key: Hashable, exchange: Exchange) -> None:
        assert key in self.open
        self.open[key] = exchange

    def call(self, params: Any = PLAIN, id: int = 1) -> None:
        if not isinstance(params, bytes):
            params = self.written(params)
        raw = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}' % (id, params)
        plain = read_plain_call(raw)
        if plain is not None:
            run = self.scene.relay.prepare_fast_call(plain, self.caller, self, self.wire, id)
            if run is not None:
                self.tracked += 1
                self.open[id] = run
                run.start()
                return
        frame = decode(raw)
        assert isinstance(frame, Request)
        reading = read_request(frame)
        assert isinstance(reading, ParsedRequest)
        exchange = Exchange(
            id=frame.id,
            method=METHODS["tools/call"],
            params=reading.params,
            param_members=reading.param_members,
            caller=self.caller,
            writer=self.wire,
            deliver=self.deliver,
            key=id,
            progress_token=reading.progress_token,
        )
        self.open[id] = exchange
        self.scene.relay.begin(exchange)

    def written(self, params: dict[str, Any]) -> bytes:
        """As this client writes it: a modern one says who it is."""
        if self.caller.revision.era is Era.MODERN:
            params = {**params, "_meta": META}
        return json.dumps(params, separators=(",", ":")).encode()

    def hear(self, answer: bytes) -> None:
        """Have the server answer the call it was sent last."""
        number = json.loads(self.frames[-1])["id"]
        raw = b'{"jsonrpc":"2.0","id":%d,%b}' % (number, answer)
        self.scene.server.connection.receive(raw)

    def progress(self, params: bytes) -> None:
        """Have the server tell how far the call is that it was sent last."""
        number = json.loads(self.frames[-1])["id"]
        told = params.replace(b"TOKEN", b"%d" % number)
        raw = b'{"jsonrpc":"2.0","method":"notifications/progress","params":%b}' % told
        self.scene.server.connection.receive(raw)

    def prime(self, params: Any = PLAIN) -> None:
        """Make the call that leaves the track."""
        self.call(params, 100)
        self.hear(plain_result(self.scene))
        assert self.wire.take()
        self.scene.events.clear()


def plain_result(scene: Scene) -> bytes:
    peer = scene.server.connection.peer
    assert peer is not None
    modern = peer.revision.era is Era.MODERN
    return b'"result":{%b"content":[]}' % (b'"resultType":"complete",' if modern else b"")


def by(revision: Any) -> Caller:
    return caller(FakeSession() if revision is LEGACY else None, revision)
