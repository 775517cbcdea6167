"""A pytest plugin that puts the gateway between the client and the server of every test.

The suite connects them in the process of the test. Here its factories give a client of the
gateway instead, and the server is served to the gateway from the same process: over a port of
its own, or over a socket to which `pipe.py` leads. Which way is meant is in the environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import tests.interaction._connect as suite
import uvicorn
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

WAY = os.environ["ANYPORT_WAY"]
"""How the client reaches the gateway, and the gateway the server: `http-http`, `http-stdio` or
`stdio-stdio`."""
ANYPORT = json.loads(os.environ["ANYPORT_COMMAND"])
PIPE = Path(__file__).with_name("pipe.py")
LINE_BYTES_MAX = 64 * 1024 * 1024
LOOK_SECONDS = 0.005
RELOAD_SECONDS_MAX = 60.0
"""Longer than the gateway itself waits for a server that it is given."""
_numbers = count(1)
_gateway: dict[str, Any] = {}


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep the tests that connect through the suite's factories, in the cells of this way."""
    items[:] = [
        item
        for item in items
        if "connect" in getattr(item, "fixturenames", ())
        and (item.callspec.params["connect"][0] == "in-memory") != (WAY == "http-http")
    ]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
async def _one_loop(anyio_backend: str) -> AsyncIterator[None]:
    """All tests of a module share a loop, as in the suite's own configuration."""
    yield


@pytest.fixture(scope="session", autouse=True)
def _running() -> Iterator[None]:
    """One gateway for all tests over HTTP; each gives it a configuration of its own."""
    if WAY == "stdio-stdio":
        yield
        return
    with _folder() as folder:
        config = folder / "anyport.json"
        config.write_text(json.dumps({"gateway": {"watch": False}, "mcpServers": {}}))
        argv = [*ANYPORT, "serve", *_files(folder, config), "--port", "0", "--json"]
        with (folder / "stderr").open("wb") as stderr:
            process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=stderr)
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            _gateway.update(url=told["url"].removesuffix("/mcp").rstrip("/"), config=config)
            yield
        finally:
            process.kill()
            process.wait()


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _files(folder: Path, config: Path) -> list[str]:
    return ["--config", str(config), "--state-dir", str(folder / "state")]


async def _served(entry: dict[str, Any]) -> str:
    """The address at which the gateway shows this server as it is."""
    slug = f"suite-{next(_numbers)}"
    document = {
        "gateway": {"watch": False},
        "mcpServers": {slug: entry},
        "profiles": {slug: {"servers": [slug], "transparent": True}},
    }
    _gateway["config"].write_text(json.dumps(document))
    async with httpx2.AsyncClient(timeout=RELOAD_SECONDS_MAX) as http:
        said = await http.post(f"{_gateway['url']}/api/v1/reload")
    assert said.status_code == 200, said.text
    return f"{_gateway['url']}/mcp/{slug}"


@asynccontextmanager
async def _listening(app: Any) -> AsyncIterator[int]:
    """The suite's application on a port; the port."""
    config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=0)
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        serving = asyncio.get_running_loop().create_task(server._serve([listener]))
        try:
            while not server.started:
                assert not serving.done(), "the server does not start"
                await asyncio.sleep(LOOK_SECONDS)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            # A test that fails must not cut that short. The loop would go on to know a descriptor
            # that is closed, and never look at the socket that gets its number next.
            with anyio.CancelScope(shield=True):
                await serving
                await asyncio.gather(*server.server_state.tasks, return_exceptions=True)


async def _converse(
    lowlevel: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One conversation of a server, line by line."""
    heard, hears = anyio.create_memory_object_stream[Any](0)
    says, said = anyio.create_memory_object_stream[Any](0)

    async def come() -> None:
        async with heard:
            while line := await reader.readline():
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError as error:
                    await heard.send(error)
                else:
                    await heard.send(SessionMessage(message))

    async def go() -> None:
        async with said:
            async for each in said:
                raw = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(raw.encode() + b"\n")
                await writer.drain()

    async with anyio.create_task_group() as group:
        group.start_soon(come)
        group.start_soon(go)
        await lowlevel.run(hears, says, lowlevel.create_initialization_options())
        await says.aclose()
        group.cancel_scope.cancel()


@asynccontextmanager
async def _on_socket(server: Any, path: Path) -> AsyncIterator[None]:
    """The server on a socket; a conversation for each that connects."""
    lowlevel = server._lowlevel_server if isinstance(server, MCPServer) else server
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _converse(lowlevel, reader, writer)
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - the gateway has hung up
            pass
        finally:
            writer.close()

    def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_unix_server(met, path, limit=LINE_BYTES_MAX)
    try:
        yield
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _by_pipe(stack: AsyncExitStack, server: Any, folder: Path) -> Any:
    path = folder / "socket"
    await stack.enter_async_context(_on_socket(server, path))
    entry = {"command": sys.executable, "args": ["-S", "-E", str(PIPE), str(path)]}
    if WAY == "http-stdio":
        return streamable_http_client(await _served(entry))
    config = folder / "anyport.json"
    config.write_text(json.dumps({"mcpServers": {"suite": entry}}))
    argv = [*ANYPORT, "stdio", *_files(folder, config), "--transparent"]
    nowhere = stack.enter_context((folder / "stderr").open("w"))
    parameters = StdioServerParameters(command=argv[0], args=argv[1:], env=dict(os.environ))
    return stdio_client(parameters, errlog=nowhere)


async def _by_port(
    stack: AsyncExitStack, server: Any, transport: str, options: dict[str, Any]
) -> Any:
    if transport == "sse":
        app, _ = suite.build_sse_app(server)
        port = await stack.enter_async_context(_listening(app))
        url = await _served({"url": f"http://127.0.0.1:{port}/sse", "transport": "sse"})
        return sse_client(url)
    options = {"transport_security": suite.NO_DNS_REBINDING_PROTECTION, **options}
    app = server.streamable_http_app(**options)
    await stack.enter_async_context(server.session_manager.run())
    port = await stack.enter_async_context(_listening(app))
    return streamable_http_client(await _served({"url": f"http://127.0.0.1:{port}/mcp"}))


@asynccontextmanager
async def connect(
    transport: str,
    server: Any,
    *,
    spec_version: str = LATEST_HANDSHAKE_VERSION,
    stateless_http: bool = False,
    **about: Any,
) -> AsyncIterator[Client]:
    """What a factory of the suite does, with the gateway in between."""
    modern = spec_version in MODERN_PROTOCOL_VERSIONS
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(_folder())
        if transport == "in-memory":
            way = await _by_pipe(stack, server, folder)
        else:
            way = await _by_port(stack, server, transport, {"stateless_http": stateless_http})
        mode = spec_version if modern else "legacy"
        yield await stack.enter_async_context(Client(way, mode=mode, **about))


suite.connect_in_memory = partial(connect, "in-memory")
suite.connect_over_streamable_http = partial(connect, "http")
suite.connect_over_streamable_http_stateless = partial(connect, "http", stateless_http=True)
suite.connect_over_sse = partial(connect, "sse")
