"""Stand-ins for what lies below a connection: a channel, and a server on real pipes.

The server lives in the test's own loop: no process is started, and nothing is waited for but
the next turn of the loop.
"""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from typing import Any, cast

from anyport.protocol.back import back_for
from anyport.protocol.revision import NEWEST_LEGACY, NEWEST_MODERN, Revision
from anyport.upstream.call import Call
from anyport.upstream.connection import Connection
from anyport.upstream.hearer import Hearer, Noise
from anyport.upstream.peer import Peer
from anyport.upstream.process import Child, Command, Exit, SpawnFailed, Warden
from anyport.wire import codec
from anyport.wire.frame import Notification, Request

DEADLINE_SECONDS = 20.0
"""For what takes milliseconds; only a broken build waits this long."""

Message = dict[str, Any]
Script = Callable[[Message], list[Message]]
"""What a server says to a message."""


class FakeChannel:
    """Remembers what was sent."""

    def __init__(self) -> None:
        self.full = False
        self.sent: list[Message] = []
        self.calls: list[Call] = []

    def send(self, frame: bytes, call: Call | None) -> None:
        self.sent.append(json.loads(frame))
        if call is not None:
            self.calls.append(call)

    def cancel(self, call: Call) -> bool:
        return False


class Ear:
    """Remembers what a server said on its own."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.notifications: list[Notification] = []
        self.noise: list[Noise] = []
        self.ends = 0
        self.unreached: list[str] = []

    def hearer(self) -> Hearer:
        return Hearer(
            on_request=self.requests.append,
            on_notification=self.notifications.append,
            on_noise=lambda raw, words: self.noise.append(raw),
            on_end=self._end,
            on_unreached=self.unreached.append,
        )

    def _end(self) -> None:
        self.ends += 1


def connected(revision: Revision | None = None) -> tuple[Connection, FakeChannel, Ear]:
    """A connection with a fake channel; with a revision, its handshake is done."""
    channel, ear = FakeChannel(), Ear()
    connection = Connection(channel, ear.hearer(), codec.OUTBOUND)
    if revision is not None:
        connection.peer = peer_of(revision)
    return connection, channel, ear


def peer_of(revision: Revision, **capabilities: Any) -> Peer:
    declared = capabilities or {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}
    raw = {name: cast(Any, json.dumps(value).encode()) for name, value in declared.items()}
    return Peer(revision=revision, capabilities=raw, back=back_for(revision, b"{}"))


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
            self.child.exit(Exit(code=code, signal=None))

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
    """What a warden gives, without a process."""

    def __init__(self, server: FakeServer, ends: tuple[int, int, int]) -> None:
        self.server = server
        self.stdin, self.stdout, self.stderr = ends
        self.pid = 4711
        self.stopped = False
        self.exited: Exit | None = None
        self._on_exit: Callable[[Exit], None] | None = None

    @property
    def on_exit(self) -> Callable[[Exit], None] | None:
        return self._on_exit

    @on_exit.setter
    def on_exit(self, callback: Callable[[Exit], None]) -> None:
        self._on_exit = callback
        if self.exited is not None:
            callback(self.exited)

    def exit(self, how: Exit) -> None:
        self.exited = how
        if self._on_exit is not None:
            self._on_exit(how)

    async def stop(self) -> Exit:
        self.stopped = True
        self.server.die(0)
        assert self.exited is not None
        return self.exited

    def close(self) -> None:
        for fd in {self.stdin, self.stdout, self.stderr} - {-1}:
            os.close(fd)
        self.stdin = self.stdout = self.stderr = -1


class FakeWarden:
    """Starts fake servers; each start takes the next script, and the last one again and again."""

    def __init__(self, *scripts: Script | str) -> None:
        self.scripts = list(scripts)
        self.servers: list[FakeServer] = []
        self.commands: list[Command] = []
        self.gate: asyncio.Event | None = None
        """Holds up every start until it is set."""

    async def spawn(self, command: Command) -> Child:
        self.commands.append(command)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(script, str):
            raise SpawnFailed(script)
        server = FakeServer(script)
        self.servers.append(server)
        return cast(Child, server.child)

    @property
    def warden(self) -> Warden:
        return cast(Warden, self)


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
    """Play a scene, and see that no task of it is left over."""

    async def play() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await scene()
            # A connection that was taken just now is still being made by the loop itself.
            while any("_accept_connection" in repr(task) for task in asyncio.all_tasks()):
                await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"left over: {left}"

    asyncio.run(play())


async def until(true: Callable[[], bool]) -> None:
    """Let the loop turn until something has come true."""
    while not true():
        await asyncio.sleep(0.001)


LEGACY = NEWEST_LEGACY
MODERN = NEWEST_MODERN
