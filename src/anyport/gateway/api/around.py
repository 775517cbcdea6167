"""Answers every request that is not MCP.

Health and metrics are asked for every few seconds, and are answered with next to nothing. All
else takes the road through the application, which is loaded when it is first needed, so that
whoever only calls tools does not pay for it.
"""

import asyncio
import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from anyport.gateway.api.answers import Health
from anyport.gateway.api.problem import MEDIA_TYPE, READ_ONLY, SAFE, problem
from anyport.gateway.api.views import Gateway
from anyport.ingress.http.asgi import Application, serve_asgi
from anyport.ingress.http.reply import Reply
from anyport.wire.http import RequestHead

OK: Final = msgspec.json.encode(Health(status="ok"))
DRAINING: Final = msgspec.json.encode(Health(status="draining"))
BLOCKING: Final = msgspec.json.encode(Health(status="blocking"))
"""The record cannot be written, and calls are refused for that."""
READING: Final = frozenset({"GET", "HEAD"})

_JSON: Final = (("content-type", "application/json"), *SAFE)
_PROBLEM: Final = (("content-type", MEDIA_TYPE), *SAFE)


class Around:
    """An `Aside` of the HTTP ingress."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._app: Application | None = None
        self.shortcuts: Mapping[str, Callable[[Reply], None]] = {
            "/healthz": self._health,
            "/readyz": self._readiness,
            "/metrics": self._metrics,
        }
        """What is answered without the application."""

    def __call__(self, head: RequestHead, body: bytes, reply: Reply) -> None:
        """Answer one request."""
        shortcut = self.shortcuts.get(head.target.partition("?")[0])
        if shortcut is None:
            self._serve(head, body, reply)
        elif head.method in READING:
            shortcut(reply)
        else:
            reply.answer(405, problem(405), (*_PROBLEM, ("allow", READ_ONLY)))

    def _health(self, reply: Reply) -> None:
        reply.answer(200, OK, _JSON)

    def _readiness(self, reply: Reply) -> None:
        if self._gateway.draining:
            reply.answer(503, DRAINING, _JSON)
        elif self._gateway.journal.blocking:
            reply.answer(503, BLOCKING, _JSON)
        else:
            reply.answer(200, OK, _JSON)

    def _metrics(self, reply: Reply) -> None:
        left = asyncio.Event()
        reply.on_closed = left.set
        self._gateway.spawn(self._expose(reply, left), "metrics")

    async def _expose(self, reply: Reply, left: asyncio.Event) -> None:
        status, media, body = 500, MEDIA_TYPE, problem(500)
        try:
            exposition = await asyncio.to_thread(_load, "exposition")
            body = await asyncio.to_thread(exposition.render, exposition.read(self._gateway))
            status, media = 200, exposition.CONTENT_TYPE
        finally:
            if not left.is_set():
                reply.answer(status, body, (("content-type", media), *SAFE))

    def _serve(self, head: RequestHead, body: bytes, reply: Reply) -> None:
        app = self._app or self._load_and_serve
        serve_asgi(app, head, body, reply, self._gateway.spawn)

    async def _load_and_serve(self, *scope_receive_send: Any) -> None:
        """The application before it is loaded; the loop goes on meanwhile."""
        module = await asyncio.to_thread(_load, "app")
        if self._app is None:
            self._app = module.build(self._gateway)
        await self._app(*scope_receive_send)


def _load(module: str) -> Any:
    return importlib.import_module(f"anyport.gateway.api.{module}")
