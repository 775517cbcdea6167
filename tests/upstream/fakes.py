"""Fakes for what a connection needs: a clock, a channel, listeners, and a server on real pipes.

The server lives in the test's own event loop: no process is started, and nothing takes longer
than the next turn of the loop.
"""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Mapping
from math import inf
from typing import Any, cast

from anyport.clock import Clock
from anyport.config.model import ServerConfig
from anyport.protocol.adapters.server import server_adapter_for
from anyport.protocol.errors import Timeout
from anyport.protocol.headers import NO_ANNOTATIONS, Annotations
from anyport.protocol.revisions import NEWEST_LEGACY, NEWEST_MODERN, Revision
from anyport.upstream.call_queue import call_slots_of
from anyport.upstream.connection import Connection, Noise, OwnRequest
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import Answer, PendingCall
from anyport.upstream.server import Server
from anyport.upstream.stdio.process import (
    ChildProcess,
    Command,
    ExitStatus,
    ProcessSpawner,
    SpawnFailed,
)
from anyport.upstream.transport import UpstreamContext
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Notification, Request

DEADLINE_SECONDS = 60.0
"""For what takes milliseconds; only a broken build waits this long."""

Message = dict[str, Any]
Script = Callable[[Message], list[Message]]
"""What a server says to a message."""


class FakeChannel:
    """Remembers what was sent."""

    def __init__(self) -> None:
        self.full = False
        self.listening_since = -inf
        self.streamless = False
        self.sent: list[Message] = []
        self.calls: list[PendingCall] = []

    def send(self, frame: bytes, call: PendingCall | None) -> None:
        self.sent.append(json.loads(frame))
        if call is not None:
            self.calls.append(call)

    def cancel(self, call: PendingCall) -> bool:
        return False


class FakeClock(Clock):
    """A clock that is set by hand; a test runs its timers."""

    def __init__(self, seconds: float = 0.0, chance: float = 0.0) -> None:
        self.seconds = seconds
        self.cpu_seconds = 0.0
        self.chance = chance
        self.timers: list[tuple[float, Callable[[], object]]] = []

    def monotonic(self) -> float:
        return self.seconds

    def thread_time(self) -> float:
        return self.cpu_seconds

    def random(self) -> float:
        return self.chance

    def later(self, seconds: float, act: Callable[[], object]) -> asyncio.TimerHandle:
        timer = (seconds, act)
        self.timers.append(timer)
        return cast(asyncio.TimerHandle, FakeTimer(self, timer))

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(lambda done: done.result())

    def run_timers(self) -> None:
        """Run the timers that are set now, whatever their time."""
        timers, self.timers = self.timers, []
        for _, act in timers:
            act()


class FakeTimer:
    """A timer of a fake clock."""

    def __init__(self, clock: FakeClock, timer: tuple[float, Callable[[], object]]) -> None:
        self._clock = clock
        self._timer = timer

    def cancel(self) -> None:
        if self._timer in self._clock.timers:
            self._clock.timers.remove(self._timer)


class LoopTimerClock(FakeClock):
    """A clock that is set by hand, but whose timers are those of the event loop."""

    def later(self, seconds: float, act: Callable[[], object]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, act)


class RecordingListener:
    """Records what a server sends unasked, and what happens to its connection."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.notifications: list[Notification] = []
        self.noise: list[Noise] = []
        self.own_requests: list[str] = []
        self.unreachable: list[str] = []
        self.ends = 0

    def on_request(self, connection: Connection, request: Request) -> None:
        self.requests.append(request)

    def on_notification(self, connection: Connection, notification: Notification) -> None:
        self.notifications.append(notification)

    def on_noise(self, noise: Noise, reason: str) -> None:
        self.noise.append(noise)

    def on_own_request(self, request: OwnRequest, answer: Answer, seconds: float) -> None:
        self.own_requests.append(request[0])

    def on_unreachable(self, reason: str) -> None:
        self.unreachable.append(reason)

    def on_connection_end(self, connection: Connection) -> None:
        self.ends += 1


class RecordingOwner(RecordingListener):
    """Owns a transport; records what it reports and knows nothing of tools."""

    def __init__(self) -> None:
        super().__init__()
        self.draining: list[str] = []
        self.renewed: list[Connection] = []
        self.gaps: list[Connection] = []
        self.stderr: list[str] = []
        self.timeouts: list[Timeout] = []

    def on_draining(self, connection: Connection, reason: str) -> None:
        connection.draining_reason = reason
        self.draining.append(reason)

    def on_session_renewed(self, connection: Connection) -> None:
        self.renewed.append(connection)

    def on_gap(self, connection: Connection) -> None:
        self.gaps.append(connection)

    def on_stderr(self, lines: list[str]) -> None:
        self.stderr.extend(lines)

    def on_timeout(self, timeout: Timeout) -> None:
        self.timeouts.append(timeout)

    def tool_annotations(self, tool: str) -> Annotations:
        return NO_ANNOTATIONS

    def is_repeatable(self, tool: str) -> bool | None:
        return None

    def refresh_tools(self, then: Callable[[], None]) -> None:
        then()


class SupervisedServer:
    """What a supervisor knows of its server: its configuration, and where reports go."""

    def __init__(self, config: ServerConfig, context: UpstreamContext) -> None:
        self.config = config
        self.context = context
        self.call_slots = call_slots_of(config)
        self.listener = self.health = self
        self.needed = True
        self.ready: list[Connection] = []
        self.broken: list[str] = []
        self.gaps: list[Connection] = []
        self.requests: list[Request] = []
        self.notifications: list[Notification] = []
        self.noise: list[Noise] = []
        self.unreachable: list[str] = []
        self.stderr: list[str] = []
        self.timeouts: list[Timeout] = []
        self.ends = 0
        self.annotations_by_tool: dict[str, Annotations] = {}
        self.repeatable: dict[str, bool] = {}
        self.refreshes = 0
        self.on_refresh: Callable[[], None] = lambda: None

    @property
    def server(self) -> Server:
        return cast(Server, self)

    def is_needed(self, key: LeaseKey) -> bool:
        return self.needed

    def on_ready(self, key: LeaseKey, connection: Connection) -> None:
        self.ready.append(connection)

    def on_broken(self, key: LeaseKey, reason: str) -> None:
        self.broken.append(reason)

    def on_gap(self, key: LeaseKey, connection: Connection) -> None:
        self.gaps.append(connection)

    def on_request(self, key: LeaseKey, connection: Connection, request: Request) -> None:
        self.requests.append(request)

    def on_notification(
        self, key: LeaseKey, connection: Connection, notification: Notification
    ) -> None:
        self.notifications.append(notification)

    def on_noise(self, server: Server, noise: Noise, reason: str) -> None:
        self.noise.append(noise)

    def on_own_request(
        self, server: Server, peer: Peer | None, request: OwnRequest, answer: Answer, seconds: float
    ) -> None: ...

    def on_unreachable(self, reason: str) -> None:
        self.unreachable.append(reason)

    def on_connection_lost(self, server: Server, connection: Connection) -> None:
        self.ends += 1

    def on_stderr(self, server: Server, lines: list[str]) -> None:
        self.stderr.extend(lines)

    def on_timeout(self, server: Server, timeout: Timeout) -> None:
        self.timeouts.append(timeout)

    def annotations(self, tool: str) -> Annotations:
        return self.annotations_by_tool.get(tool, NO_ANNOTATIONS)

    def is_repeatable(self, key: LeaseKey, tool: str) -> bool | None:
        return self.repeatable.get(tool)

    def refresh_tools(self, then: Callable[[], None]) -> None:
        self.refreshes += 1
        self.on_refresh()
        asyncio.get_running_loop().call_soon(then)


def connected(
    revision: Revision | None = None, listener: RecordingListener | None = None
) -> tuple[Connection, FakeChannel, RecordingListener]:
    """A connection with a fake channel; with a revision, its handshake is done."""
    channel, listener = FakeChannel(), listener or RecordingListener()
    connection = Connection(channel, listener, jsonrpc.OUTBOUND, FakeClock())
    if revision is not None:
        connection.peer = peer_of(revision)
    return connection, channel, listener


def peer_of(revision: Revision, **capabilities: Any) -> Peer:
    declared = capabilities or {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}
    raw = {name: cast(Any, json.dumps(value).encode()) for name, value in declared.items()}
    return Peer(revision=revision, capabilities=raw, adapter=server_adapter_for(revision, b"{}"))


def say(connection: Connection, **message: Any) -> None:
    """Have the server say something."""
    connection.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())


class FakeServer:
    """The far ends of a server's pipes, and a script that answers."""

    def __init__(self, script: Script) -> None:
        self.heard: list[Message] = []
        self.script = script
        near_in, far_in = os.pipe()
        far_out, near_out = os.pipe()
        far_err, near_err = os.pipe()
        self.stdin, self.stdout, self.stderr = near_in, near_out, near_err
        for fd in (near_in, near_out, near_err, far_in, far_out, far_err):
            os.set_blocking(fd, False)
        self.child = FakeChild(self, (far_in, far_out, far_err))
        self._partial = b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.stdin, self._read)

    def say(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, raw: bytes) -> None:
        os.write(self.stdout, raw)

    def die(self, code: int = 1) -> None:
        """Exit: the pipes close, and the keeper tells."""
        if self.stdin >= 0:
            self._loop.remove_reader(self.stdin)
            for fd in (self.stdin, self.stdout, self.stderr):
                os.close(fd)
            self.stdin = self.stdout = self.stderr = -1
            self.child.exit(ExitStatus(code=code, signal=None))

    def _read(self) -> None:
        portion = os.read(self.stdin, 1 << 20)
        if not portion:
            self.die(0)
            return
        *whole, self._partial = (self._partial + portion).split(b"\n")
        for line in whole:
            message = json.loads(line)
            self.heard.append(message)
            for answer in self.script(message):
                if self.stdin >= 0:
                    self.say(**answer)


class FakeChild:
    """A child process without a process."""

    def __init__(self, server: FakeServer, ends: tuple[int, int, int]) -> None:
        self.server = server
        self.stdin, self.stdout, self.stderr = ends
        self.pid = 4711
        self.stopped = False
        self.exit_status: ExitStatus | None = None
        self._on_exit: Callable[[ExitStatus], None] | None = None

    @property
    def on_exit(self) -> Callable[[ExitStatus], None] | None:
        return self._on_exit

    @on_exit.setter
    def on_exit(self, callback: Callable[[ExitStatus], None]) -> None:
        self._on_exit = callback
        if self.exit_status is not None:
            callback(self.exit_status)

    def exit(self, how: ExitStatus) -> None:
        self.exit_status = how
        if self._on_exit is not None:
            self._on_exit(how)

    async def stop(self) -> ExitStatus:
        self.stopped = True
        self.server.die(0)
        assert self.exit_status is not None
        return self.exit_status

    def close(self) -> None:
        for fd in {self.stdin, self.stdout, self.stderr} - {-1}:
            os.close(fd)
        self.stdin = self.stdout = self.stderr = -1


class FakeSpawner:
    """Starts fake servers; each start takes the next script, and the last one again and again."""

    def __init__(self, *scripts: Script | str) -> None:
        self.scripts = list(scripts)
        self.servers: list[FakeServer] = []
        self.commands: list[Command] = []
        self.gate: asyncio.Event | None = None
        """Holds up every start until it is set."""

    async def spawn(self, command: Command) -> ChildProcess:
        self.commands.append(command)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(script, str):
            raise SpawnFailed(script)
        server = FakeServer(script)
        self.servers.append(server)
        return cast(ChildProcess, server.child)

    @property
    def spawner(self) -> ProcessSpawner:
        return cast(ProcessSpawner, self)


def legacy(**answers: Any) -> Script:
    """A legacy server that has these results, with `__` for the slash in a method."""

    def script(message: Message) -> list[Message]:
        method, id = message.get("method"), message.get("id")
        if id is None or method is None:
            return []
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            told = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {}}
            return [{"id": id, "result": told}]
        known = method.replace("/", "__")
        if known not in answers:
            return [{"id": id, "error": {"code": -32601, "message": "Method not found"}}]
        return [] if answers[known] is None else [{"id": id, "result": answers[known]}]

    return script


def modern(**answers: Any) -> Script:
    """A modern server that has these results."""

    def script(message: Message) -> list[Message]:
        method, id = message.get("method"), message.get("id")
        if id is None or method is None or method == "subscriptions/listen":
            return []
        if method == "server/discover":
            told = {"supportedVersions": [NEWEST_MODERN.name], "capabilities": {"tools": {}}}
            return [{"id": id, "result": told}]
        known = method.replace("/", "__")
        if known not in answers:
            return [{"id": id, "error": {"code": -32601, "message": "Method not found"}}]
        return [{"id": id, "result": answers[known]}]

    return script


def silent(message: Message) -> list[Message]:
    """A server that hears everything and says nothing."""
    return []


def offers(*names: str) -> Message:
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}


def run(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Play a scene, and see that no task and no connection of it is left over."""

    async def play() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await scene()
            # The loop itself may still be making a connection, or closing one.
            while accepting() or open_transports():
                await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"left over: {left}"

    asyncio.run(play())


def open_transports() -> list[asyncio.Transport]:
    """The connections of the loop that still have a socket."""
    made: Mapping[int, asyncio.Transport] = asyncio.get_running_loop()._transports  # type: ignore[attr-defined]
    return [each for each in made.values() if each.get_extra_info("socket").fileno() >= 0]


def accepting() -> bool:
    """Whether the loop has taken a connection that is not yet made."""
    return any("_accept_connection" in repr(task) for task in asyncio.all_tasks())


async def until(true: Callable[[], bool]) -> None:
    """Let the loop turn until something has come true."""
    while not true():
        await asyncio.sleep(0.001)


LEGACY = NEWEST_LEGACY
MODERN = NEWEST_MODERN
