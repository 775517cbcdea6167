"""A gateway over HTTP in the test's own loop: what it still holds on to can be looked at."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anyport.config import load
from anyport.gateway.calls.fast_path import FastCall
from anyport.gateway.gateway import Gateway
from anyport.gateway.http_app import make_http_ingress
from anyport.ingress.http.server import HttpIngress
from tests.harness import WAIT_SECONDS, write_config
from tests.rig.scale import scaled

SCENE_SECONDS_MAX: Final = scaled(5 * WAIT_SECONDS, full=3600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcessGateway:
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
            text.encode() in (call.params if isinstance(call, FastCall) else call.exchange.params)
            for call in self.gateway.relay.calls.open.values()
        )

    @property
    def at_rest(self) -> bool:
        """Whether nobody waits for anything."""
        endpoint = self.ingress.endpoint
        return not (
            self.gateway.relay.calls.open
            or endpoint.open_requests
            or endpoint.modern_requests.subscriptions
        )


def run_bounded(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scene, which must come to an end."""

    async def bounded() -> None:
        async with asyncio.timeout(SCENE_SECONDS_MAX):
            await scene()

    asyncio.run(bounded())


@asynccontextmanager
async def in_process_gateway(
    tmp_path: Path, servers: Mapping[str, Any], **rest: Any
) -> AsyncIterator[InProcessGateway]:
    """A gateway with these servers, on a free port."""
    config = load([write_config(tmp_path, servers, **rest)], os.environ)
    state = tmp_path / "state"
    async with Gateway(config, state, sole=False) as gateway:
        reports: list[BaseException] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, told: reports.append(told.get("exception") or RuntimeError(told["message"]))
        )
        ingress = make_http_ingress(gateway, "127.0.0.1")
        _, port = await ingress.listen("127.0.0.1", 0)
        try:
            yield InProcessGateway(gateway=gateway, ingress=ingress, port=port, reports=reports)
        finally:
            await ingress.close()
    assert not reports, reports
