"""A configured server behind a URL: its lists, the headers of its tools, its lost streams."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from anyport.config.model import ServerConfig
from anyport.protocol.methods import OfferKind
from anyport.upstream.lease_key import SHARED
from anyport.upstream.lists import RELIST_SECONDS_MIN
from anyport.upstream.subscriptions import SubscriptionFilter
from anyport.upstream.supervisor import ServerState
from anyport.wire.jsonrpc import Result
from tests.upstream.fakes import offers, run, silent, until
from tests.upstream.server_scene import Scene
from tests.upstream.web import Heard, Legacy, Reply, Site, Web, call, modern


def over_http(site: Site, scene: Callable[[Web, Scene], Coroutine[Any, Any, None]]) -> None:
    """Play a scene with a server behind a URL."""

    async def whole() -> None:
        async with Web(site) as web:
            config = ServerConfig(slug="s", name="s", url=web.url, timeout_seconds=5.0)
            at = Scene(silent, config=config)
            assert at.server.disabled_reason is None
            assert at.server.transport == "auto"
            at.server.open(SHARED)
            await at.listed()
            await scene(web, at)
            await at.server.stop()
            await until(lambda: at.server.state is ServerState.STOPPED)

    run(whole)


def annotated(*, header: Any = "Region", **more: Any) -> dict[str, Any]:
    schema = {"properties": {"region": {"type": "string", "x-mcp-header": header}}}
    return {"name": "report", "inputSchema": schema, **more}


def test_a_server_behind_a_url_is_listed_like_any_other() -> None:
    tools = [annotated(), annotated(header="a b") | {"name": "bad"}, {"name": "last"}]

    def site(heard: Heard, reply: Reply) -> None:
        if heard.method == "tools/list":
            reply.json({"id": heard.id, "result": {"tools": tools}})
        elif heard.method == "subscriptions/listen":
            reply.stream()
        else:
            reply.json({"id": heard.id, "result": {}})

    async def scene(web: Web, at: Scene) -> None:
        assert at.server.transport == "streamable-http"
        assert at.server.modern
        assert at.tools == ["report", "last"]
        warning = at.server.listings[OfferKind.TOOLS].warning
        assert warning is not None
        assert "'bad'" in warning
        assert at.server.annotations("report") == {"Region": ("region",)}
        assert at.server.annotations("last") == {}

    over_http(modern(site), scene)


def test_tools_whose_headers_are_refused_are_read_again_before_the_call_is_repeated() -> None:
    tools: list[dict[str, Any]] = [{"name": "report"}]

    def site(heard: Heard, reply: Reply) -> None:
        if heard.method == "tools/list":
            reply.json({"id": heard.id, "result": {"tools": tools}})
        elif heard.method == "subscriptions/listen":
            reply.stream()
        elif heard.fields.get("mcp-param-region") == "eu":
            reply.json({"id": heard.id, "result": {}})
        else:
            tools[0] = annotated()
            error = {"code": -32020, "message": "Mcp-Param-Region is missing"}
            reply.json({"id": heard.id, "error": error}, 400)

    async def scene(web: Web, at: Scene) -> None:
        at.clock.seconds += RELIST_SECONDS_MIN
        connection = at.server.connections()[0][1]
        answered = asyncio.get_running_loop().create_task(call(connection, "report", region="eu"))
        await until(lambda: bool(at.clock.timers))
        at.clock.timers.pop()[1]()

        assert isinstance(await answered, Result)
        assert at.count("listed") == 2

    over_http(modern(site), scene)


def test_after_a_lost_subscription_anything_may_have_changed() -> None:
    streams: list[Reply] = []

    def site(heard: Heard, reply: Reply) -> None:
        if heard.method == "subscriptions/listen":
            reply.stream()
            streams.append(reply)
        else:
            reply.json({"id": heard.id, "result": offers("a")})

    async def scene(web: Web, at: Scene) -> None:
        at.server.subscribe(
            SHARED, SubscriptionFilter(frozenset({"file:///a"})), lambda: lambda: None
        )
        await until(lambda: len(streams) == 2)
        streams[1].cut()
        await until(lambda: bool(at.clock.timers))
        at.clock.timers.pop()[1]()
        await until(lambda: len(streams) == 3)

        # One wait for the lists to be read again; the resource is told at once.
        assert len(at.clock.timers) == 1
        told = [what for kind, what in at.story if kind == "told"]
        assert told == [(SHARED, "notifications/resources/updated")]

    over_http(modern(site), scene)


def test_a_server_that_lost_its_session_is_treated_as_one_that_has_just_started() -> None:
    site = Legacy(
        lambda heard, reply: reply.json({"id": heard.id, "result": offers("a")}),
    )

    async def scene(web: Web, at: Scene) -> None:
        connection = at.server.connections()[0][1]
        site.dead.add("session-1")
        assert isinstance(await call(connection), Result)
        await at.listed(2)

        assert at.count("started") == 2
        assert at.count("failed") == 0

    over_http(site, scene)
