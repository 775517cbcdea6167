"""Gateways that follow one another on one port, and the clients that must not notice.

Each client sends and reads as any HTTP client does: it keeps its connection until it is told
that this was the last answer on it. Nothing is ever sent twice: what fails, has failed.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final, Protocol, TypeVar

from tests.harness import DEMO, WAIT_SECONDS, Message, write_config
from tests.rig.probe import text_of
from tests.rig.raw_http_client import (
    Hangup,
    RawConnection,
    RawHttpClient,
    Reply,
    modern,
    post,
    request,
    tool_call,
)

LEGACY: Final = {"command": DEMO[0], "args": [*DEMO[1:]], "protocol": "legacy"}
"""A server that has sessions."""
ASK: Final[Message] = {"elicitation": {}}
"""What a client declares that can be asked."""
SERVE: Final = [sys.executable, "-m", "anyport", "serve", "--json"]


ACTIVATE: Final = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
environ = {**os.environ, "LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.execve(sys.argv[2], sys.argv[2:], environ)
"""


class Closing(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closing)


class GatewayProcess:
    """One gateway process."""

    def __init__(self, argv: list[str]) -> None:
        self.process = subprocess.Popen(
            [*SERVE, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr and self.process.stderr.read().decode()
        self.port = int(json.loads(line)["url"].rsplit(":", 1)[1])
        self.pid = self.process.pid

    def end(self) -> tuple[int, str]:
        """Wait for its end: exit code, and what it said to people."""
        _, said = self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode, said.decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


class Takeovers:
    """Gateways of one configuration, one after another."""

    def __init__(self, folder: Path, servers: Message, **rest: Message) -> None:
        self.state = folder / "state"
        self._kept: list[Closing] = []
        config = write_config(folder, servers, **rest)
        self._argv = ["--config", str(config), "--state-dir", str(self.state)]
        self.runners = [GatewayProcess([*self._argv, "--port", "0"])]
        self.port = self.runners[0].port

    def visitor(self, **capabilities: Message) -> RawHttpClient:
        """A client with a session, which is gone when the race is over."""
        return self.keep(RawHttpClient(self.port, **capabilities))

    def wire(self) -> RawConnection:
        """A connection, likewise."""
        return self.keep(RawConnection(self.port))

    def keep(self, what: T) -> T:
        """Something that is closed when the race is over."""
        self._kept.append(what)
        return what

    def end(self) -> None:
        """Nobody is left behind."""
        for each in self._kept:
            each.close()
        for runner in self.runners:
            runner.kill()

    @property
    def now(self) -> GatewayProcess:
        """The one that accepts connections."""
        return self.runners[-1]

    def upgrade(self) -> GatewayProcess:
        """Have another take over; the one before."""
        before = self.now
        self.runners.append(GatewayProcess([*self._argv, "--port", str(self.port), "--upgrade"]))
        return before

    def crash(self) -> None:
        """Kill the one that runs, and start another."""
        self.now.kill()
        self.restart()

    def restart(self) -> None:
        """Start another, when the one before has gone."""
        self.runners.append(GatewayProcess([*self._argv, "--port", str(self.port)]))


@contextmanager
def takeovers(folder: Path, servers: Message, **rest: Message) -> Iterator[Takeovers]:
    """A race, until its end."""
    running = Takeovers(folder, servers, **rest)
    try:
        yield running
    finally:
        running.end()


class KeepAliveClient:
    """A client that keeps its connection as long as it may."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.closed = 0
        """How often it was told that there are no more answers on its connection."""
        self._wire: RawConnection | None = None

    def ask(self, raw: bytes) -> Reply:
        if self._wire is None:
            self._wire = RawConnection(self.port)
        reply = self._wire.ask(raw)
        if (reply.get("connection") or "").lower() == "close":
            self.closed += 1
            self.close()
        return reply

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None


class BusyClient:
    """A client that makes one call after another, and writes down every one that fails."""

    def __init__(self, port: int, number: int, *, fresh: bool, legacy: bool, pause: float) -> None:
        self.answered = 0
        self.faults: list[str] = []
        self.slowest = 0.0
        self._keeper = KeepAliveClient(port)
        self._fresh = fresh
        self._name = f"client-{number}"
        self._pause = pause
        self._fields = None
        if legacy:
            visitor = RawHttpClient(port)
            self._fields = visitor.fields
            visitor.close()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()
        self._keeper.close()

    def _work(self) -> None:
        for number in count(1):
            if self._over.wait(self._pause):
                return
            began = time.monotonic()
            try:
                self._call(f"{self._name}-{number}", number)
                self.answered += 1
            except (AssertionError, Hangup, OSError, ValueError) as error:
                self.faults.append(f"{self._name}, call {number}: {error!r}")
                self._keeper.close()
            self.slowest = max(self.slowest, time.monotonic() - began)
            if self._fresh:
                self._keeper.close()

    def _call(self, nonce: str, number: int) -> None:
        call = tool_call("s__echo", {"text": nonce}, number)
        raw = modern(call) if self._fields is None else post(call, self._fields)
        reply = self._keeper.ask(raw)
        assert reply.status == 200, reply
        answers = [message for message in reply.messages if message.get("id") == number]
        assert [text_of(answer) for answer in answers] == [nonce]


def fresh(visitor: RawHttpClient) -> RawHttpClient:
    """The same session on a new connection."""
    visitor.close()
    visitor.wire = RawConnection(visitor.port)
    visitor.ids = count(100)
    return visitor


def ask_again(visitor: RawHttpClient) -> Reply:
    """Whatever is said to it now."""
    return fresh(visitor).send(request("ping"))


def updated(told: Iterator[Message]) -> Message:
    """The next thing that is told of a resource."""
    return next(each for each in told if each["method"] == "notifications/resources/updated")


def activated(kept: socket.socket, *argv: str) -> subprocess.Popen[bytes]:
    """A gateway that is started as systemd starts one, with a socket as its fourth file."""
    return subprocess.Popen(
        [sys.executable, "-c", ACTIVATE, str(kept.fileno()), *SERVE, *argv],
        pass_fds=[kept.fileno()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
