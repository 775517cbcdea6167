"""Follows a call through the code and prints its way: `python tools/walk.py`.

Two calls go through a gateway of this process, under a profiler hook:

- A legacy client over HTTP calls a tool of a modern server on stdio; then it calls it again, which
  takes the fast path.
- A modern client over HTTP calls a tool of a legacy server over HTTP, which asks the user first.

Clients and servers are others' code, so the walk holds nothing but the gateway. What is counted:

- A *leg* is the way of the message from the bytes that arrive to the bytes that leave. It ends with
  a write to a server or a client. Its *hand-overs* are the functions of `anyport` on the call stack
  at that moment. Where an earlier turn of the event loop has scheduled this one, the stack at the
  moment of scheduling stands before it.
- *Functions* are all that are called in turns of the event loop that begin with the arrival of
  bytes, or were scheduled by such a turn.

Time stands still meanwhile, so neither the speed of the machine nor its load changes a figure.
"""

import asyncio
import gc
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FrameType
from typing import Any, Final, Self, TypeAlias, TypeVarTuple
from weakref import WeakKeyDictionary

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import anyport  # noqa: E402 - the path comes first.
from anyport.config import load  # noqa: E402
from anyport.gateway.gateway import Gateway  # noqa: E402
from anyport.gateway.http_app import make_http_ingress  # noqa: E402
from tests.harness import MODERN_META, WAIT_SECONDS, write_config  # noqa: E402
from tests.peers.http_driver import HttpDemo  # noqa: E402

PACKAGE: Final = str(Path(anyport.__file__).parent) + os.sep
SHORT_TIMER_SECONDS: Final = 0.05
"""Such a timer gathers what comes at once, and fires at once here. Longer ones look after what goes
wrong, as timeouts and retries do, and never fire."""
IDLE_SECONDS: Final = 2.0
"""After this time an idle connection to a server has proved that it can be used again."""
QUIET_TURNS: Final = 100
QUIET_SECONDS: Final = 0.1
"""After this nothing more comes of what has happened, such as the end of a stream."""

PLAIN_SERVER: Final = """
import json, sys

schema = {"type": "object"}
results = {
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                        "serverInfo": {"name": "plain", "version": "1"}},
    "tools/list": {"tools": [{"name": name, "inputSchema": schema} for name in ("echo", "copy")]},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    text = message["params"].get("arguments", {}).get("text")
    called = {"content": [{"type": "text", "text": text}]}
    result = {"resultType": "complete", **results.get(message["method"], called)}
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    print(json.dumps(answer, separators=(",", ":")), flush=True)
"""
"""A modern server on stdio. A call leaves the fast path if its result has a `_meta`, or spaces."""

_RUN_HANDLE: Final = asyncio.Handle._run.__code__
_WRITES: Final = frozenset({os.write, os.writev})
_SOCKET_WRITES: Final = frozenset({"send", "sendmsg", "sendall"})

Ts = TypeVarTuple("Ts")
Message: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Function:
    """A function of the package."""

    file: str
    """From the package: `gateway/relay.py`."""
    name: str
    """Qualified: `Relay.begin`."""

    def __str__(self) -> str:
        return f"{self.file} {self.name}"


@dataclass(frozen=True, slots=True)
class Leg:
    """From the arrival of bytes to the write that passes the message on."""

    hand_overs: tuple[Function, ...]
    called: tuple[Function, ...]
    """Every function that was called since the leg before, in the order of the first call."""


@dataclass(slots=True)
class Walk:
    """The way of one call, there and back."""

    name: str
    legs: list[Leg] = field(default_factory=list)
    answers: list[Message] = field(default_factory=list)
    """What the client got."""

    @property
    def hand_overs(self) -> list[Function]:
        return [function for leg in self.legs for function in leg.hand_overs]

    @property
    def functions(self) -> set[Function]:
        return {function for leg in self.legs for function in leg.called}

    @property
    def figures(self) -> dict[str, int]:
        """What has a budget."""
        return {
            "hand-overs": len(self.hand_overs),
            "files of hand-overs": files(self.hand_overs),
            "functions": len(self.functions),
            "files": files(self.functions),
        }


def files(functions: Sequence[Function] | set[Function]) -> int:
    return len({function.file for function in functions})


class StoppedTime:
    """The clocks of this process, which stand still until they may go on.

    So no timer, and no limit of time, takes part in a walk by accident.
    """

    def __init__(self) -> None:
        self._clocks = {name: getattr(time, name) for name in ("time", "monotonic", "thread_time")}
        self._stopped_at = {name: clock() for name, clock in self._clocks.items()}
        self._goes = False
        self._skipped_seconds = 0.0

    def __enter__(self) -> Self:
        for name in self._clocks:
            setattr(time, name, partial(self._read, name))
        return self

    def __exit__(self, *_: object) -> None:
        for name, clock in self._clocks.items():
            setattr(time, name, clock)

    def _read(self, name: str) -> float:
        now: float = self._clocks[name]() if self._goes else self._stopped_at[name]
        return now + self._skipped_seconds

    def skip(self, seconds: float) -> None:
        """Let time pass at once."""
        self._skipped_seconds += seconds

    def go_on(self) -> None:
        """The walk is over."""
        self._goes = True


class TracingLoop(asyncio.SelectorEventLoop):
    """An event loop that follows a message from turn to turn."""

    def __init__(self) -> None:
        super().__init__()
        self._walk: Walk | None = None
        self._followed = False
        """Whether this turn belongs to the walk."""
        self._called: dict[Function, None] = {}
        self._stacks: WeakKeyDictionary[asyncio.Handle, tuple[Function, ...]] = WeakKeyDictionary()
        """The way that led to each callback of the walk."""
        self._scheduled_handles: WeakKeyDictionary[asyncio.Handle, None] = WeakKeyDictionary()
        """Callbacks that something has scheduled; all others are run since bytes arrived."""
        self._functions: dict[CodeType, Function | None] = {}

    @contextmanager
    def following(self, walk: Walk) -> Iterator[None]:
        """Note every turn that belongs to a message."""
        gc.collect()
        gc.disable()  # Whatever it would finalize has no part in this message.
        self._walk = walk
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(None)
            if walk.legs:  # What is done once the answer is out belongs to its leg.
                last = walk.legs.pop()
                walk.legs.append(Leg(last.hand_overs, (*last.called, *self._called)))
            self._called.clear()
            self._walk, self._followed = None, False
            gc.enable()

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self._remember(super().call_soon(callback, *args, context=context))

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = super().call_soon_threadsafe(callback, *args, context=context)
        self._scheduled_handles[handle] = None
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if when - self.time() <= SHORT_TIMER_SECONDS:
            handle = super().call_at(self.time(), callback, *args, context=context)
            self._remember(handle)
        else:
            handle = super().call_at(when, callback, *args, context=context)
            self._scheduled_handles[handle] = None
        return handle

    def _remember(self, handle: asyncio.Handle) -> asyncio.Handle:
        self._scheduled_handles[handle] = None
        if self._followed:
            self._stacks[handle] = self._stack(sys._getframe(1))
        return handle

    def _on_event(self, frame: FrameType, event: str, what: Any) -> None:
        if event == "call":
            if frame.f_code is _RUN_HANDLE:
                handle = frame.f_locals["self"]
                self._followed = handle not in self._scheduled_handles or handle in self._stacks
            elif self._followed and (function := self._function(frame.f_code)):
                self._called.setdefault(function)
        elif event == "return" and frame.f_code is _RUN_HANDLE:
            self._followed = False
        elif event == "c_call" and self._followed and _is_write(what):
            self._on_write(self._stack(frame))

    def _on_write(self, stack: tuple[Function, ...]) -> None:
        # The record is written, too, and a client of this process writes without the gateway.
        if self._walk is not None and stack and not stack[-1].file.startswith("record/"):
            self._walk.legs.append(Leg(stack, tuple(self._called)))
            self._called.clear()

    def _stack(self, frame: FrameType | None) -> tuple[Function, ...]:
        """The functions of the package on the stack, and those that led to this turn."""
        found: list[Function] = []
        while frame is not None and frame.f_code is not _RUN_HANDLE:
            if function := self._function(frame.f_code):
                found.append(function)
            frame = frame.f_back
        before = () if frame is None else self._stacks.get(frame.f_locals["self"], ())
        return (*before, *reversed(found))

    def _function(self, code: CodeType) -> Function | None:
        if code not in self._functions:
            # Comprehensions are functions or not, as the version of Python has it.
            of_package = code.co_filename.startswith(PACKAGE)
            unnamed = code.co_name.startswith("<") and code.co_name != "<lambda>"
            file, name = code.co_filename.removeprefix(PACKAGE), code.co_qualname
            name = name.replace(".<locals>", "")
            found = Function(file, name) if of_package and not unnamed else None
            self._functions[code] = found
        return self._functions[code]


def _is_write(function: BuiltinFunctionType) -> bool:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, socket.socket):
        return function.__name__ in _SOCKET_WRITES
    return owner is os or function in _WRITES


class HttpClient:
    """A client on one connection, in the loop of the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.fields: dict[str, str] = {}
        """Sent with every request."""

    async def post(self, message: Message, **fields: str) -> tuple[Message, Mapping[str, str]]:
        """Post a message; the last message of the response, and its head."""
        body = json.dumps(message, separators=(",", ":")).encode()
        head = {
            "Host": "127.0.0.1",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **self.fields,
            **{name.replace("_", "-"): value for name, value in fields.items()},
            "Content-Length": str(len(body)),
        }
        lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        return await self._response()

    async def modern(self, method: str, params: Message, **meta: Any) -> Message:
        """Post a modern request; the response."""
        params = {**params, "_meta": {**MODERN_META, **meta}}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        revision = params["_meta"]["io.modelcontextprotocol/protocolVersion"]
        response, _ = await self.post(
            message, MCP_Protocol_Version=revision, Mcp_Method=method, Mcp_Name=params["name"]
        )
        return response

    async def _response(self) -> tuple[Message, Mapping[str, str]]:
        raw = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        status, *lines = raw.rstrip().split("\r\n")
        assert status.split()[1] in ("200", "202"), status
        head = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
        if "content-length" not in head:
            body = (await self._reader.readuntil(b"0\r\n\r\n")).decode()
            head["transfer-encoding"]
            body = [line for line in body.splitlines() if line.startswith("data: {")][-1][6:]
        else:
            body = (await self._reader.readexactly(int(head["content-length"]))).decode()
        return (json.loads(body) if body else {}), head

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def gateway_client(
    folder: Path, servers: Mapping[str, Any], clock: StoppedTime
) -> AsyncIterator[tuple[Gateway, HttpClient]]:
    """A client of a gateway with these servers."""
    config = load([write_config(folder, servers)], os.environ)
    async with Gateway(config, folder / "state", sole=False) as gateway:
        ingress = make_http_ingress(gateway, "127.0.0.1")
        _, port = await ingress.listen("127.0.0.1", 0)
        client = HttpClient(*await asyncio.open_connection("127.0.0.1", port))
        try:
            yield gateway, client
        finally:
            clock.go_on()
            client.close()
            await ingress.close()


async def settle(gateway: Gateway) -> None:
    """Wait until the gateway has no task but those that look after its connections."""
    connections = [c for server in gateway.servers.values() for c in server.connections()]
    while len(asyncio.all_tasks()) > 1 + len(connections):
        await asyncio.sleep(0)
    for _ in range(QUIET_TURNS):
        time.sleep(QUIET_SECONDS / QUIET_TURNS)
        await asyncio.sleep(0)


async def follow_plain_call(loop: TracingLoop, clock: StoppedTime, folder: Path) -> list[Walk]:
    """A legacy client over HTTP, a modern server on stdio: the first call, and the second."""
    walks = [Walk("plain call"), Walk("fast path")]
    # A server of both eras, or of an unknown one, is started a second time for a legacy client.
    argv = ["-I", "-S", "-c", PLAIN_SERVER]
    servers = {"demo": {"command": sys.executable, "args": argv, "protocol": "modern"}}
    async with gateway_client(folder, servers, clock) as (gateway, client):
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "walk", "version": "1"},
        }
        _, head = await client.post(request("initialize", hello))
        client.fields = {
            "Mcp-Session-Id": head["mcp-session-id"],
            "MCP-Protocol-Version": "2025-11-25",
        }
        await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await client.post(request("tools/list", {}))
        # The connection to the server is in use, and the head of the request is known: those of
        # the call and of a misspelt one are the same.
        await client.post(call_of("demo__copy", text="hello"))
        await client.post(call_of("demo__ecko", text="hello"))
        call = call_of("demo__echo", text="hello")
        for walk in walks:
            await settle(gateway)
            with loop.following(walk):
                answer, _ = await client.post(call)
                await settle(gateway)
            walk.answers.append(answer)
    return walks


async def follow_elicitation(loop: TracingLoop, clock: StoppedTime, folder: Path) -> list[Walk]:
    """A modern client over HTTP, a legacy server over HTTP that asks the user."""
    walk = Walk("elicitation")
    able: Message = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    call: Message = {"name": "demo__elicit", "arguments": {}}
    with HttpDemo("--revision", "2025-11-25", "--transport", "streamable") as demo:
        servers = {"demo": {"url": f"http://127.0.0.1:{demo.port}/mcp"}}
        async with gateway_client(folder, servers, clock) as (gateway, client):

            async def call_and_answer(answers: list[Message]) -> None:
                answers.append(await client.modern("tools/call", call, **able))
                asked = answers[-1]["result"]
                accepted = {"action": "accept", "content": {"name": "Ada"}}
                answered = {
                    **call,
                    "requestState": asked["requestState"],
                    "inputResponses": dict.fromkeys(asked["inputRequests"], accepted),
                }
                answers.append(await client.modern("tools/call", answered, **able))

            await call_and_answer([])  # The server is known to ask from now on.
            clock.skip(IDLE_SECONDS)  # It is known to keep connections open.
            await settle(gateway)
            await call_and_answer([])
            await settle(gateway)
            with loop.following(walk):
                await call_and_answer(walk.answers)
                await settle(gateway)
    return [walk]


def call_of(tool: str, **arguments: Any) -> Message:
    return request("tools/call", {"name": tool, "arguments": arguments})


def request(method: str, params: Message) -> Message:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def follow_all(folder: Path) -> list[Walk]:
    """Both calls, each in a gateway and a loop of its own."""
    walks: list[Walk] = []
    for name, follow in (("plain", follow_plain_call), ("elicitation", follow_elicitation)):
        with StoppedTime() as clock, asyncio.Runner(loop_factory=TracingLoop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, TracingLoop)
            walks += runner.run(_bounded(follow(loop, clock, folder / name)))
    return walks


async def _bounded(work: Coroutine[Any, Any, list[Walk]]) -> list[Walk]:
    """What takes too long is cancelled; timers of the loop stand still."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    timer = threading.Timer(WAIT_SECONDS, lambda: loop.call_soon_threadsafe(task.cancel))
    timer.start()
    try:
        return await work
    finally:
        timer.cancel()


def render(walk: Walk) -> str:
    """The walk, for people: each leg with its hand-overs, and what else is called on it."""
    parts = [f"{walk.name}: {', '.join(f'{n} {name}' for name, n in walk.figures.items())}"]
    for number, leg in enumerate(walk.legs, start=1):
        parts.append(f"\n  leg {number}: {len(leg.hand_overs)} hand-overs")
        parts += (f"    {i:2} {function}" for i, function in enumerate(leg.hand_overs, start=1))
        others: dict[str, list[str]] = {}
        for function in leg.called:
            if function not in leg.hand_overs:
                others.setdefault(function.file, []).append(function.name)
        parts += (f"     · {file}: {', '.join(names)}" for file, names in others.items())
    return "\n".join(parts)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        print("\n\n".join(map(render, follow_all(Path(folder)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
