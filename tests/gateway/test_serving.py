"""The parts of a gateway over HTTP, put together: one URL for each profile, and all beside it."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from anyport.config.schema import Config, GatewayConfig, ProfileConfig, Token
from anyport.gateway.runtime import Gateway
from anyport.gateway.serving import http_ingress
from tests.ingress.http.stage import get, hello, post, post_modern, raw_request
from tests.protocol.fakes import request
from tests.upstream.fakes import until

DEADLINE_SECONDS = 20.0
Address = tuple[str, int]
Scene = Callable[[Gateway, Address], Coroutine[Any, Any, None]]


def play(path: Path, scene: Scene, *profiles: str, **gateway: Any) -> list[str]:
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
            ingress = http_ingress(made, "127.0.0.1")
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

    assert play(tmp_path, scene) == []


def test_every_profile_has_its_url_and_two_of_them_have_none_in_common(tmp_path: Path) -> None:
    async def scene(gateway: Gateway, at: Address) -> None:
        for path, status in (("/mcp/a", 200), ("/mcp/b", 200), ("/mcp", 404), ("/mcp/c", 404)):
            assert (await ask(at, post(request("tools/list"), path)))[0] == status

    play(tmp_path, scene, "a", "b")


def test_what_is_not_mcp_is_answered_too(tmp_path: Path) -> None:
    async def scene(gateway: Gateway, at: Address) -> None:
        assert (await ask(at, raw_request("GET", "/healthz", None, {})))[0] == 200
        assert (await ask(at, raw_request("GET", "/no/such", None, {})))[0] == 404

    play(tmp_path, scene)


def test_tokens_hosts_and_limits_are_those_of_the_configuration(tmp_path: Path) -> None:
    token = Token(name="laptop", digest=hashlib.sha256(b"secret").digest())

    async def scene(gateway: Gateway, at: Address) -> None:
        async def status(**fields: str) -> int:
            return (await ask(at, post(hello(), **fields)))[0]

        bearer = "Bearer secret"
        assert await status() == 401
        assert await status(authorization=bearer, host="other.example") == 421
        assert await status(authorization=bearer, host="gateway.example") == 200
        assert await status(authorization=bearer) == 503  # One session is all there is room for.

    play(tmp_path, scene, tokens=(token,), allowed_hosts=("gateway.example",), sessions_max=1)


def test_streams_show_in_the_numbers(tmp_path: Path) -> None:
    async def scene(gateway: Gateway, at: Address) -> None:
        assert gateway.metrics.streams() == 0
        reader, writer = await asyncio.open_connection(*at)
        writer.write(get())
        await reader.readuntil(b"endpoint")
        assert gateway.metrics.streams() == 1
        writer.close()
        await until(lambda: gateway.metrics.streams() == 0)

    play(tmp_path, scene)


def test_a_call_is_in_the_record_before_its_answer_is_sent(tmp_path: Path) -> None:
    async def scene(gateway: Gateway, at: Address) -> None:
        call = request("tools/call", {"name": "gateway_status", "arguments": {}})
        await ask(at, post(call))

        (file,) = (tmp_path / "events").glob("*/events.jsonl")
        last = json.loads(file.read_bytes().splitlines()[-1])
        assert (last["event_type"], last["status"]) == ("gateway.tool_call", "success")
        assert last["metadata"]["tool"] == "gateway_status"

    play(tmp_path, scene)


def test_keys_outlive_the_gateway(tmp_path: Path) -> None:
    async def scene(gateway: Gateway, at: Address) -> None:
        assert (await ask(at, post(hello())))[0] == 200

    play(tmp_path, scene)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    play(tmp_path, scene)

    keys = {name: held for name, held in before.items() if "key" in name}
    assert keys
    assert all((tmp_path / name).read_bytes() == held for name, held in keys.items())
