"""A gateway over HTTP in the test's own loop: what it still holds on to can be looked at."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anyport.config import load
from anyport.gateway.deadlines import Term
from anyport.gateway.runtime import Gateway
from anyport.gateway.serving import http_ingress
from anyport.gateway.track import Run
from anyport.ingress.http.server import HttpIngress
from tests.harness import WAIT_SECONDS, write_config
from tests.rig.scale import scaled

SCENE_SECONDS_MAX: Final = scaled(WAIT_SECONDS, full=3600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """A gateway that listens."""

    gateway: Gateway
    ingress: HttpIngress
    port: int
    reports: list[BaseException]
    """What broke in it and should not have."""

    @property
    def open_calls(self) -> dict[str, int]:
        """What has no answer yet on the connections to each server."""
        return {
            slug: sum(connection.open_calls for _, connection in server.connections())
            for slug, server in self.gateway.servers.items()
        }

    def works_on(self, text: str) -> bool:
        """Whether a call with this text among its arguments is on its way to a server."""
        return any(
            text.encode() in (term.params if isinstance(term, Run) else term.exchange.params)
            for term in self.gateway.relay.deadlines.terms.values()
            if isinstance(term, Run | Term)
        )

    @property
    def at_rest(self) -> bool:
        """Whether nobody waits for anything."""
        endpoint = self.ingress.endpoint
        return not (
            self.gateway.relay.deadlines.terms
            or endpoint.open_requests
            or endpoint.modern.listening
        )


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scene, which must come to an end."""

    async def bounded() -> None:
        async with asyncio.timeout(SCENE_SECONDS_MAX):
            await scene()

    asyncio.run(bounded())


@asynccontextmanager
async def inside(tmp_path: Path, servers: Mapping[str, Any], **rest: Any) -> AsyncIterator[Inside]:
    """A gateway with these servers, on a free port."""
    config = load([write_config(tmp_path, servers, **rest)], os.environ)
    state = tmp_path / "state"
    async with Gateway(config, state, sole=False) as gateway:
        reports: list[BaseException] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, told: reports.append(told.get("exception") or RuntimeError(told["message"]))
        )
        ingress = http_ingress(gateway, "127.0.0.1")
        _, port = await ingress.listen("127.0.0.1", 0)
        try:
            yield Inside(gateway=gateway, ingress=ingress, port=port, reports=reports)
        finally:
            await ingress.close()
    assert not reports, reports
