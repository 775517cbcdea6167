"""Who is let in over HTTP, and to what, after the configuration has changed."""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from anyport.config.schema import Config, GatewayConfig, ProfileConfig, Token
from anyport.gateway.runtime import Gateway
from anyport.gateway.serving import http_ingress
from anyport.gateway.threshold import default_profile
from tests.gateway.test_serving import ask
from tests.ingress.http.stage import get, hello, post, raw_request

DEADLINE_SECONDS = 20.0
Address = tuple[str, int]


class Place:
    """A gateway over HTTP whose configuration can be changed."""

    def __init__(self, gateway: Gateway, at: Address) -> None:
        self.gateway = gateway
        self.at = at

    async def become(self, config: Config) -> None:
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
    async def whole(scene: Callable[[Place], Coroutine[Any, Any, None]], config: Config) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), Gateway(config, tmp_path, sole=False) as made:
            ingress = http_ingress(made, "127.0.0.1")
            address = await ingress.listen("127.0.0.1", 0)
            try:
                await scene(Place(made, address))
            finally:
                await ingress.close()

    return lambda scene, config: asyncio.run(whole(scene, config))


Play = Callable[..., None]


def test_a_profile_that_comes_is_there_and_one_that_goes_takes_its_sessions_along(
    play: Play,
) -> None:
    async def scene(place: Place) -> None:
        _, head, _ = await ask(place.at, post(hello(), path="/mcp/one"))
        assert b"mcp-session-id" in head.lower()
        assert len(place.gateway.feed.sessions) == 1

        await place.become(config_of("two"))

        assert place.gateway.feed.sessions == {}
        assert (await ask(place.at, post(hello(), path="/mcp/one")))[0] == 404
        assert (await ask(place.at, post(hello(), path="/mcp/two")))[0] == 200
        assert (await ask(place.at, post(hello(), path="/mcp")))[0] == 200

    play(scene, config_of("one"))


def test_a_token_that_was_taken_away_opens_nothing_any_more(play: Play) -> None:
    def tokens(*names: str) -> tuple[Token, ...]:
        return tuple(
            Token(name=name, digest=hashlib.sha256(f"{name}-token".encode()).digest())
            for name in names
        )

    async def scene(place: Place) -> None:
        for name in ("ada", "bob"):
            status, _, _ = await ask(place.at, post(hello(), authorization=f"Bearer {name}-token"))
            assert status == 200
        assert len(place.gateway.feed.sessions) == 2

        await place.become(config_of("default", tokens=tokens("ada")))

        assert len(place.gateway.feed.sessions) == 1
        for name, expected in (("ada", 200), ("bob", 401)):
            status, _, _ = await ask(place.at, post(hello(), authorization=f"Bearer {name}-token"))
            assert status == expected

    play(scene, config_of("default", tokens=tokens("ada", "bob")))


def test_hosts_and_limits_hold_from_then_on(play: Play) -> None:
    async def scene(place: Place) -> None:
        named = raw_request("GET", "/healthz", None, {"host": "gateway.example"})
        assert (await ask(place.at, named))[0] == 421

        await place.become(config_of("default", allowed_hosts=("gateway.example",), sessions_max=1))

        assert (await ask(place.at, named))[0] == 200
        assert (await ask(place.at, post(hello())))[0] == 200
        assert (await ask(place.at, post(hello())))[0] == 503

    play(scene, config_of("default"))


def test_health_is_told_all_the_while(play: Play) -> None:
    async def scene(place: Place) -> None:
        await place.become(config_of("default", "other"))
        assert (await ask(place.at, get("/healthz")))[0] == 200

    play(scene, config_of("default"))


def test_which_profile_has_no_name_is_only_known_if_nobody_can_mistake_it() -> None:
    assert default_profile(config_of("one")) == "one"
    assert default_profile(config_of("default", "other")) == "default"
    assert default_profile(config_of("one", "two")) is None
