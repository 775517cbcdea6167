"""Router of requests that are not MCP: health, metrics and the management API.

Health and metrics are requested every few seconds, and are answered right here. Everything else
goes to the ASGI application, which is imported with the first request for it.
"""

import asyncio
import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from anyport.gateway.api.schemas import MEDIA_TYPE, READ_ALLOW, SAFE_HEADERS, Health, encode_problem
from anyport.gateway.gateway import Gateway
from anyport.ingress.http.asgi import Application, serve_asgi
from anyport.ingress.http.responder import HttpResponder
from anyport.wire.http1 import RequestHead

OK: Final = msgspec.json.encode(Health(status="ok"))
DRAINING: Final = msgspec.json.encode(Health(status="draining"))
BLOCKING: Final = msgspec.json.encode(Health(status="blocking"))
"""Readiness while calls are refused because they cannot be recorded."""
READ_METHODS: Final = frozenset({"GET", "HEAD"})

_JSON: Final = (("content-type", "application/json"), *SAFE_HEADERS)
_PROBLEM: Final = (("content-type", MEDIA_TYPE), *SAFE_HEADERS)


class ApiRouter:
    """Answers requests that the HTTP ingress does not handle as MCP."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._app: Application | None = None
        self.shortcuts: Mapping[str, Callable[[HttpResponder], None]] = {
            "/healthz": self._health,
            "/readyz": self._readiness,
            "/metrics": self._metrics,
        }
        """Handlers by path, which do without the application."""

    def __call__(self, head: RequestHead, body: bytes, reply: HttpResponder) -> None:
        shortcut = self.shortcuts.get(head.target.partition("?")[0])
        if shortcut is None:
            self._serve_app(head, body, reply)
        elif head.method in READ_METHODS:
            shortcut(reply)
        else:
            reply.answer(405, encode_problem(405), (*_PROBLEM, ("allow", READ_ALLOW)))

    def _health(self, reply: HttpResponder) -> None:
        reply.answer(200, OK, _JSON)

    def _readiness(self, reply: HttpResponder) -> None:
        if self._gateway.draining:
            reply.answer(503, DRAINING, _JSON)
        elif self._gateway.journal.is_blocking:
            reply.answer(503, BLOCKING, _JSON)
        else:
            reply.answer(200, OK, _JSON)

    def _metrics(self, reply: HttpResponder) -> None:
        is_closed = asyncio.Event()
        reply.on_closed = is_closed.set
        self._gateway.clock.spawn(self._answer_metrics(reply, is_closed), "metrics")

    async def _answer_metrics(self, reply: HttpResponder, is_closed: asyncio.Event) -> None:
        status, media_type, body = 500, MEDIA_TYPE, encode_problem(500)
        try:
            prometheus = await asyncio.to_thread(_load, "prometheus")
            body = await asyncio.to_thread(prometheus.render, prometheus.read(self._gateway))
            status, media_type = 200, prometheus.CONTENT_TYPE
        finally:
            if not is_closed.is_set():
                reply.answer(status, body, (("content-type", media_type), *SAFE_HEADERS))

    def _serve_app(self, head: RequestHead, body: bytes, reply: HttpResponder) -> None:
        app = self._app or self._load_and_serve
        serve_asgi(app, head, body, reply, self._gateway.clock.spawn)

    async def _load_and_serve(self, *scope_receive_send: Any) -> None:
        """An ASGI application that imports the real one first, in a thread."""
        module = await asyncio.to_thread(_load, "app")
        if self._app is None:
            self._app = module.build(self._gateway)
        await self._app(*scope_receive_send)


def _load(module: str) -> Any:
    return importlib.import_module(f"anyport.gateway.api.{module}")
