"""A client that comes back after a restart finds what it had wished for."""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anyport.config.model import Config, GatewayConfig, ProfileConfig, ServerConfig, Token
from anyport.gateway.gateway import Gateway
from anyport.gateway.http_app import (
    default_profile,
    make_http_ingress,
    restore_resumed_session,
    session_limits,
)
from anyport.protocol.methods import OfferKind
from anyport.upstream.supervisor import ServerState
from tests.gateway.fakes import FakeSession
from tests.harness import DEMO
from tests.ingress.http.stage import get, initialize_request, post, post_modern, raw_request
from tests.protocol.fakes import META, request
from tests.upstream.fakes import until


class FakeGateway:
    """A gateway that writes down what is asked of it."""

    def __init__(self, **servers: bool) -> None:
        """`servers`: whether each of them has told what it offers."""
        profile = SimpleNamespace(servers={slug: self._server(k) for slug, k in servers.items()})
        self.profiles = {"default": profile}
        self.notifications = self.local_methods = self.resource_subscriptions = self
        self.shown_kinds: set[OfferKind] = set()
        self.levels: list[Any] = []
        self.synced: list[Any] = []
        self.waiting: list[tuple[Any, Callable[[], None]]] = []

    @staticmethod
    def _server(known: bool) -> Any:
        return SimpleNamespace(
            disabled_reason=None, state=ServerState.STARTING, lists_ready=known, listings={}
        )

    @property
    def servers(self) -> list[Any]:
        return list(self.profiles["default"].servers.values())

    def mark_shown(self, session: Any, kind: OfferKind) -> None:
        self.shown_kinds.add(kind)

    def forward_log_level(self, server: Any) -> None:
        self.levels.append(server)

    def sync(self, servers: Iterable[Any]) -> None:
        self.synced += servers

    def wait_for_server(self, server: Any, waited: float, then: Callable[[], None]) -> None:
        self.waiting.append((server, then))


def resume(gateway: FakeGateway, **wishes: Any) -> FakeSession:
    session = FakeSession()
    for name, value in wishes.items():
        setattr(session, name, value)
    restore_resumed_session(cast(Gateway, gateway), session)
    return session


def test_it_learns_that_lists_may_have_changed_and_of_every_change_from_then_on() -> None:
    gateway = FakeGateway(a=True)

    session = resume(gateway)

    assert sorted(session.notified) == [
        ("notifications/prompts/list_changed", None),
        ("notifications/resources/list_changed", None),
        ("notifications/tools/list_changed", None),
    ]
    assert gateway.shown_kinds == set(OfferKind)


def test_who_wished_for_nothing_costs_the_servers_nothing() -> None:
    gateway = FakeGateway(a=True, b=False)
    resume(gateway)
    assert (gateway.levels, gateway.synced, gateway.waiting) == ([], [], [])


def test_its_log_level_is_passed_on() -> None:
    gateway = FakeGateway(a=True, b=False)
    resume(gateway, log_level="debug")
    assert gateway.levels == gateway.servers


@pytest.mark.parametrize("known", [True, False])
def test_what_it_follows_is_followed_as_soon_as_it_is_known_whose_it_is(known: bool) -> None:
    gateway = FakeGateway(a=known)

    resume(gateway, subscriptions={"a:1"})

    (server,) = gateway.servers
    assert gateway.synced == ([server] if known else [])
    for awaited, then in gateway.waiting:
        assert awaited is server
        then()
    assert gateway.synced == [server]


# Who is let in over HTTP, and to what, after the configuration has changed.


DEADLINE_SECONDS = 60.0
Address = tuple[str, int]


class RunningGateway:
    """A gateway over HTTP whose configuration can be changed."""

    def __init__(self, gateway: Gateway, at: Address) -> None:
        self.gateway = gateway
        self.at = at

    async def reload(self, config: Config) -> None:
        self.gateway.reload.source = lambda _: config
        await self.gateway.reload.run()


def config_of(*profiles: str, **gateway: Any) -> Config:
    return Config(
        gateway=GatewayConfig(**gateway),
        servers={},
        profiles={slug: ProfileConfig(slug=slug, servers=()) for slug in profiles},
    )


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    async def whole(
        scene: Callable[[RunningGateway], Coroutine[Any, Any, None]], config: Config
    ) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), Gateway(config, tmp_path, sole=False) as made:
            ingress = make_http_ingress(made, "127.0.0.1")
            address = await ingress.listen("127.0.0.1", 0)
            try:
                await scene(RunningGateway(made, address))
            finally:
                await ingress.close()

    return lambda scene, config: asyncio.run(whole(scene, config))


Play = Callable[..., None]


def test_a_profile_that_comes_is_there_and_one_that_goes_takes_its_sessions_along(
    play: Play,
) -> None:
    async def scene(running: RunningGateway) -> None:
        _, head, _ = await ask(running.at, post(initialize_request(), path="/mcp/one"))
        assert b"mcp-session-id" in head.lower()
        assert len(running.gateway.notifications.sessions) == 1

        await running.reload(config_of("two"))

        assert running.gateway.notifications.sessions == {}
        assert (await ask(running.at, post(initialize_request(), path="/mcp/one")))[0] == 404
        assert (await ask(running.at, post(initialize_request(), path="/mcp/two")))[0] == 200
        assert (await ask(running.at, post(initialize_request(), path="/mcp")))[0] == 200

    play(scene, config_of("one"))


def test_a_token_that_was_taken_away_opens_nothing_any_more(play: Play) -> None:
    def tokens(*names: str) -> tuple[Token, ...]:
        return tuple(
            Token(name=name, digest=hashlib.sha256(f"{name}-token".encode()).digest())
            for name in names
        )

    async def scene(running: RunningGateway) -> None:
        for name in ("ada", "bob"):
            status, _, _ = await ask(
                running.at, post(initialize_request(), authorization=f"Bearer {name}-token")
            )
            assert status == 200
        assert len(running.gateway.notifications.sessions) == 2

        await running.reload(config_of("default", tokens=tokens("ada")))

        assert len(running.gateway.notifications.sessions) == 1
        for name, expected in (("ada", 200), ("bob", 401)):
            status, _, _ = await ask(
                running.at, post(initialize_request(), authorization=f"Bearer {name}-token")
            )
            assert status == expected

    play(scene, config_of("default", tokens=tokens("ada", "bob")))


def token_of(name: str, secret: str) -> Token:
    return Token(name=name, digest=hashlib.sha256(secret.encode()).digest())


async def opening(at: Address, path: str, secret: str) -> bytes:
    """The request that opens a stream: at a path of the API, or of one kind at a profile."""
    authorization = f"Bearer {secret}"
    if path == "listen":
        wishes = {"notifications": {"toolsListChanged": True}}
        return post_modern("subscriptions/listen", wishes, authorization=authorization)
    if path != "session":
        return get(path, authorization=authorization)
    _, head, _ = await ask(at, post(initialize_request(), authorization=authorization))
    id = re.split(rb"(?i)mcp-session-id: ", head)[1].split(b"\r\n")[0].decode()
    return get(authorization=authorization, mcp_session_id=id)


@pytest.mark.parametrize(
    "path",
    ["/api/v1/events/stream", "/api/v1/traffic/stream", "session", "/mcp/default/sse", "listen"],
)
@pytest.mark.parametrize("kept", [(), (token_of("bob", "another-token"),)], ids=["gone", "new"])
def test_no_stream_goes_on_for_a_token_that_was_taken_away(
    play: Play, path: str, kept: tuple[Token, ...]
) -> None:
    """Nor for one of which only the name is still there."""

    async def scene(running: RunningGateway) -> None:
        streams, writers = {}, []
        for name in ("ada", "bob"):
            reader, writer = await asyncio.open_connection(*running.at)
            writer.write(await opening(running.at, path, f"{name}-token"))
            assert b"text/event-stream" in await reader.readuntil(b"\r\n\r\n")
            streams[name] = reader
            writers.append(writer)

        await running.reload(config_of("default", tokens=(token_of("ada", "ada-token"), *kept)))

        told = await streams["bob"].readuntil(b"0\r\n\r\n")
        assert b"config_reloaded" not in told
        if "events" in path:
            await streams["ada"].readuntil(b"config_reloaded")
        assert not streams["ada"].at_eof()
        for writer in writers:
            writer.close()

    play(
        scene,
        config_of("default", tokens=tuple(token_of(n, f"{n}-token") for n in ("ada", "bob"))),
    )


@pytest.mark.parametrize("reports", [True, False])
def test_an_open_call_of_a_token_that_was_taken_away_is_given_up(play: Play, reports: bool) -> None:
    """With a stream for its answer, and without."""
    profile = ProfileConfig(slug="default", servers=("demo",))
    server = ServerConfig(slug="demo", name="demo", command=DEMO[0], args=tuple(DEMO[1:]))

    def config(*names: str) -> Config:
        tokens = tuple(token_of(name, f"{name}-token") for name in names)
        gateway = GatewayConfig(tokens=tokens)
        return Config(gateway=gateway, servers={"demo": server}, profiles={"default": profile})

    async def scene(running: RunningGateway) -> None:
        arguments = {"seconds": 30, "steps": 300}
        params: dict[str, Any] = {"name": "demo__slow", "arguments": arguments}
        if reports:
            params["_meta"] = {**META, "progressToken": 1}
        answers = {}
        for name in ("ada", "bob"):
            reader, writer = await asyncio.open_connection(*running.at)
            writer.write(post_modern("tools/call", params, authorization=f"Bearer {name}-token"))
            answers[name] = reader, writer
        while len(running.gateway.relay.calls.open) < 2:
            await asyncio.sleep(0.01)
        if reports:
            for reader, _ in answers.values():
                await reader.readuntil(b"notifications/progress")

        await running.reload(config("ada"))

        told = await answers["bob"][0].read()
        assert b"result" not in told
        assert reports or told.startswith(b"HTTP/1.1 401 ")
        assert len(running.gateway.relay.calls.open) == 1
        assert not answers["ada"][0].at_eof()
        for _, writer in answers.values():
            writer.close()

    play(scene, config("ada", "bob"))


class Client:
    """Opens sessions, each with a call that goes on, until it is told that there is no room."""

    def __init__(self, at: Address, name: str) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self._at = at
        self._fields = {"authorization": f"Bearer {name}-token"}
        params = {"name": "demo__slow", "arguments": {"seconds": 30, "steps": 1}}
        self._call = request("tools/call", params)

    async def streamable(self) -> bool:
        status, head, _ = await ask(self._at, post(initialize_request(), **self._fields))
        if status == 200:
            id = re.split(rb"(?i)mcp-session-id: ", head)[1].split(b"\r\n")[0].decode()
            await self._send(post(self._call, mcp_session_id=id, **self._fields))
        return status == 200

    async def older(self) -> bool:
        reader = await self._send(get("/mcp/default/sse", **self._fields))
        status = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        if status == b"200":
            await reader.readuntil(b"data: ")
            where = (await reader.readuntil(b"\n")).decode().strip()
            for message in (initialize_request("2024-11-05"), self._call):
                assert (await ask(self._at, post(message, where, **self._fields)))[0] == 202
        return status == b"200"

    async def _send(self, raw: bytes) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(*self._at)
        self.writers.append(writer)
        writer.write(raw)
        return reader


@pytest.mark.parametrize("reloaded", [False, True])
@pytest.mark.parametrize("way", [Client.streamable, Client.older], ids=["streamable", "older"])
def test_the_open_calls_of_one_token_leave_room_for_the_sessions_of_another(
    play: Play, way: Callable[[Client], Coroutine[Any, Any, bool]], reloaded: bool
) -> None:
    server = ServerConfig(slug="demo", name="demo", command=DEMO[0], args=tuple(DEMO[1:]))
    profile = ProfileConfig(slug="default", servers=("demo",))

    def config(*names: str) -> Config:
        tokens = tuple(token_of(name, f"{name}-token") for name in names)
        gateway = GatewayConfig(tokens=tokens, sessions_max=5)
        return Config(gateway=gateway, servers={"demo": server}, profiles={"default": profile})

    async def scene(running: RunningGateway) -> None:
        if reloaded:
            await running.reload(config("ada", "bob"))
        ada, bob = Client(running.at, "ada"), Client(running.at, "bob")
        opened = 0
        while await way(ada):
            opened += 1
            while len(running.gateway.relay.calls.open) < opened:
                await asyncio.sleep(0.01)
        assert opened == 2
        assert await way(bob)
        for writer in ada.writers + bob.writers:
            writer.close()

    play(scene, config("ada") if reloaded else config("ada", "bob"))


@pytest.mark.parametrize(
    ("names", "in_all", "of_one", "expected"),
    [
        (("ada",), 500, 1000, 1000),
        (("ada", "bob"), 500, 1000, 250),
        (("ada", "bob"), 10_000, 1000, 1000),
        (("ada", "bob"), 1, 1000, 1),
    ],
)
def test_one_of_several_tokens_never_has_more_than_half_of_the_sessions(
    names: tuple[str, ...], in_all: int, of_one: int, expected: int
) -> None:
    tokens = tuple(token_of(name, f"{name}-token") for name in names)
    gateway = GatewayConfig(tokens=tokens, sessions_max=in_all, client_sessions_max=of_one)
    assert session_limits(gateway) == (in_all, expected)


async def answer_after(running: RunningGateway, raw: bytes, config: Config) -> int:
    """The status for a request the last byte of which comes once the configuration is another."""
    reader, writer = await asyncio.open_connection(*running.at)
    writer.write(raw[:-1])
    await ask(running.at, get("/healthz"))
    await running.reload(config)
    writer.write(raw[-1:])
    status = (await reader.readuntil(b"\r\n\r\n")).split()[1]
    writer.close()
    return int(status)


@pytest.mark.parametrize("path", ["/api/v1/events/stream", "listen", "initialize"])
def test_a_request_that_comes_slowly_is_let_in_by_the_door_that_is_there_at_its_end(
    play: Play, path: str
) -> None:
    async def scene(running: RunningGateway) -> None:
        if path == "initialize":
            raw = post(initialize_request(), authorization="Bearer bob-token")
        else:
            raw = await opening(running.at, path, "bob-token")
        if path.startswith("/"):
            raw = raw.removesuffix(b"\r\n") + b"Content-Length: 2\r\n\r\n{}"
        after = config_of("default", tokens=(token_of("ada", "ada-token"),))
        assert await answer_after(running, raw, after) == 401
        assert running.gateway.notifications.sessions == {}

    play(scene, config_of("default", tokens=(token_of("bob", "bob-token"),)))


def test_a_request_that_comes_slowly_for_a_profile_that_goes_finds_none(play: Play) -> None:
    async def scene(running: RunningGateway) -> None:
        raw = post(initialize_request(), path="/mcp/one")
        assert await answer_after(running, raw, config_of("two")) == 404

    play(scene, config_of("one"))


def test_hosts_and_limits_hold_from_then_on(play: Play) -> None:
    async def scene(running: RunningGateway) -> None:
        named = raw_request("GET", "/healthz", None, {"host": "gateway.example"})
        assert (await ask(running.at, named))[0] == 421

        await running.reload(
            config_of("default", allowed_hosts=("gateway.example",), sessions_max=1)
        )

        assert (await ask(running.at, named))[0] == 200
        for _ in range(3):
            assert (await ask(running.at, post(initialize_request())))[0] == 200
            assert len(running.gateway.notifications.sessions) == 1

    play(scene, config_of("default"))


def test_health_is_told_all_the_while(play: Play) -> None:
    async def scene(running: RunningGateway) -> None:
        await running.reload(config_of("default", "other"))
        assert (await ask(running.at, get("/healthz")))[0] == 200

    play(scene, config_of("default"))


def test_which_profile_has_no_name_is_only_known_if_nobody_can_mistake_it() -> None:
    assert default_profile(config_of("one")) == "one"
    assert default_profile(config_of("default", "other")) == "default"
    assert default_profile(config_of("one", "two")) is None


# The parts of a gateway over HTTP, put together: one URL for each profile, and all beside it.


Scene = Callable[[Gateway, Address], Coroutine[Any, Any, None]]


def serve(path: Path, scene: Scene, *profiles: str, **gateway: Any) -> list[str]:
    """Plays a scene with a gateway that has no servers; what it warned of."""
    warned: list[str] = []
    config = Config(
        gateway=GatewayConfig(**gateway),
        servers={},
        profiles={slug: ProfileConfig(slug=slug, servers=()) for slug in profiles or ("default",)},
    )

    async def whole() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), Gateway(config, path, sole=False) as made:
            if made.keys_warning is not None:
                warned.append(made.keys_warning)
            ingress = make_http_ingress(made, "127.0.0.1")
            address = await ingress.listen("127.0.0.1", 0)
            try:
                await scene(made, address)
            finally:
                await ingress.close()

    asyncio.run(whole())
    return warned


async def ask(at: Address, raw: bytes) -> tuple[int, bytes, Any]:
    """Status, head and, if it is JSON, the body of an answer with a length."""
    reader, writer = await asyncio.open_connection(*at)
    writer.write(raw)
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
    body = await reader.readexactly(int(length or b"0"))
    writer.close()
    is_json = b"application/json" in head.lower() and body
    return int(head.split()[1]), head, json.loads(body) if is_json else None


def names(answer: Any) -> list[str]:
    return [tool["name"] for tool in answer["result"]["tools"]]


@pytest.mark.parametrize(
    "raw",
    [post(request("tools/list"), "/mcp"), post_modern("tools/list")],
    ids=["legacy", "modern"],
)
def test_clients_of_every_era_find_the_gateways_own_tools(tmp_path: Path, raw: bytes) -> None:
    async def scene(gateway: Gateway, at: Address) -> None:
        status, _, answer = await ask(at, raw)

        assert status == 200
        assert names(answer) == ["gateway_status", "get_events"]

    assert serve(tmp_path, scene) == []


def test_every_profile_has_its_url_and_two_of_them_have_none_in_common(tmp_path: Path) -> None:
    async def scene(gateway: Gateway, at: Address) -> None:
        for path, status in (("/mcp/a", 200), ("/mcp/b", 200), ("/mcp", 404), ("/mcp/c", 404)):
            assert (await ask(at, post(request("tools/list"), path)))[0] == status

    serve(tmp_path, scene, "a", "b")


def test_what_is_not_mcp_is_answered_too(tmp_path: Path) -> None:
    async def scene(gateway: Gateway, at: Address) -> None:
        assert (await ask(at, raw_request("GET", "/healthz", None, {})))[0] == 200
        assert (await ask(at, raw_request("GET", "/no/such", None, {})))[0] == 404

    serve(tmp_path, scene)


def test_tokens_hosts_and_limits_are_those_of_the_configuration(tmp_path: Path) -> None:
    token = Token(name="laptop", digest=hashlib.sha256(b"secret").digest())

    async def scene(gateway: Gateway, at: Address) -> None:
        async def status(**fields: str) -> int:
            return (await ask(at, post(initialize_request(), **fields)))[0]

        bearer = "Bearer secret"
        assert await status() == 401
        assert await status(authorization=bearer, host="other.example") == 421
        assert await status(authorization=bearer, host="gateway.example") == 200
        assert await status(authorization=bearer) == 200
        assert len(gateway.notifications.sessions) == 1  # Which is all there is room for.

    serve(tmp_path, scene, tokens=(token,), allowed_hosts=("gateway.example",), sessions_max=1)


def test_streams_show_in_the_numbers(tmp_path: Path) -> None:
    async def scene(gateway: Gateway, at: Address) -> None:
        assert gateway.metrics.count_streams() == 0
        reader, writer = await asyncio.open_connection(*at)
        writer.write(get())
        await reader.readuntil(b"endpoint")
        assert gateway.metrics.count_streams() == 1
        writer.close()
        await until(lambda: gateway.metrics.count_streams() == 0)

    serve(tmp_path, scene)


def test_a_call_is_in_the_record_before_its_answer_is_sent(tmp_path: Path) -> None:
    async def scene(gateway: Gateway, at: Address) -> None:
        call = request("tools/call", {"name": "gateway_status", "arguments": {}})
        await ask(at, post(call))

        (file,) = (tmp_path / "events").glob("*/events.jsonl")
        last = json.loads(file.read_bytes().splitlines()[-1])
        assert (last["event_type"], last["status"]) == ("gateway.tool_call", "success")
        assert last["metadata"]["tool"] == "gateway_status"

    serve(tmp_path, scene)


def test_keys_outlive_the_gateway(tmp_path: Path) -> None:
    async def scene(gateway: Gateway, at: Address) -> None:
        assert (await ask(at, post(initialize_request())))[0] == 200

    serve(tmp_path, scene)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    serve(tmp_path, scene)

    keys = {name: held for name, held in before.items() if "key" in name}
    assert keys
    assert all((tmp_path / name).read_bytes() == held for name, held in keys.items())
