"""A gateway over HTTP as a process, under the same watch as one on a pipe (see `probe`)."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from math import inf
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from anyport.ingress.http.connection import UNUSED_SECONDS_MIN
from tests.harness import LEGACY_DEMO, WAIT_SECONDS, Message, put_down, write_config
from tests.rig.probe import (
    FAULT_WORDS,
    NEIGHBOUR_PAUSE_SECONDS,
    RSS_GROWTH_BYTES_MAX,
    TICK_SECONDS,
    Footprint,
    check_journal,
    check_recovery,
    check_secrets,
    cpu_ticks,
    eventually,
    footprint,
    peak,
    text_of,
)
from tests.rig.raw_http_client import Fields, Hangup, RawConnection, RawHttpClient, head, tool_call

TOKEN: Final = f"probe-{uuid4().hex}"
"""Of the neighbour, where the gateway asks for tokens."""


class HttpProbe:
    """A gateway that listens, and the neighbour who uses it all the while."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, state: Path) -> None:
        self.process = process
        self.pid = process.pid
        self.port = port
        self.state = state
        self.fields: Fields = {}
        """What the neighbour has to send to be let in."""
        self.growth_bytes_max = RSS_GROWTH_BYTES_MAX
        self.neighbour_calls = 0
        self.turns_away = False
        """Whether everybody, the neighbour too, may be asked to come later for a while."""
        self.evicts = False
        """Whether connections that were idle may be closed to make room for others."""
        self.calls_owed = 0
        """Calls that the test has made, and that must stand in the journal."""
        self.secrets: list[str] = []
        """Nowhere to be found: neither in the journal nor in what was said to people."""
        self.stderr = b""
        self._baseline = Footprint(rss_bytes=0, descriptors=0, processes=0, zombies=0)
        self._grievance: str | None = None
        self._over = threading.Event()
        self._neighbour = threading.Thread(target=self._be_a_neighbour, daemon=True)
        self._listener = threading.Thread(target=self._read_stderr, daemon=True)
        self._listener.start()

    def begin(self) -> None:
        """Warm up, take everything as it is for the measure, and start the neighbour."""
        with closing(RawHttpClient(self.port, self.fields)) as visitor:
            for _ in range(3):
                text_of(visitor.call("neighbour__echo", text="warm"))
                visitor.call("gateway_status")
        self.page("/metrics")
        self._baseline = footprint(self.pid)
        self._neighbour.start()
        # Its session is there from now on, for tests that count sessions.
        eventually(lambda: self.neighbour_calls > 0 or not self._neighbour.is_alive(), "a call")

    def end(self) -> None:
        """Check all that must hold."""
        self._over.set()
        self._neighbour.join()
        assert self._grievance is None, f"the neighbour suffered: {self._grievance}"
        check_recovery(self.pid, self._baseline, self.growth_bytes_max)
        status = self.status()
        assert status["gateway"]["event_monitoring"]["lost"] == 0
        assert self.stop() == 0, self.stderr
        for words in FAULT_WORDS:
            assert words not in self.stderr, self.stderr
        assert check_journal(self.state) >= self.neighbour_calls + self.calls_owed
        for secret in self.secrets:
            check_secrets(self.state, secret, self.stderr)

    def status(self) -> Message:
        """What `gateway_status` says."""
        with closing(RawHttpClient(self.port, self.fields)) as visitor:
            report: Message = json.loads(text_of(visitor.call("gateway_status")))
        return report

    def cpu_seconds(self) -> float:
        """The processor time that the gateway itself has taken so far."""
        return cpu_ticks(self.pid) * TICK_SECONDS

    def page(self, path: str) -> bytes:
        """What stands at a path."""
        with RawConnection(self.port) as wire:
            reply = wire.ask(head("GET", path, self.fields))
        assert reply.status == 200, reply
        return reply.body

    def slugs(self) -> set[str]:
        """The servers of its configuration."""
        return {server["slug"] for server in json.loads(self.page("/api/v1/servers"))["servers"]}

    def sessions(self) -> int:
        """How many sessions there are, those included that nobody uses any more."""
        lines = self.page("/metrics").decode().splitlines()
        counts = [line.rsplit(" ", 1)[1] for line in lines if line.startswith("anyport_sessions")]
        assert counts, "sessions are not counted"
        return sum(int(float(number)) for number in counts)

    def peak(self, growth_bytes_max: int) -> AbstractContextManager[None]:
        """Meanwhile the gateway never takes this much more memory than at the start."""
        return peak(self.pid, growth_bytes_max)

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(WAIT_SECONDS)
        self._listener.join(WAIT_SECONDS)
        return code

    def kill(self) -> None:
        """End it whatever it is doing."""
        self._over.set()
        put_down(self.process, self._listener)
        if self._neighbour.is_alive():
            self._neighbour.join(WAIT_SECONDS)

    def _be_a_neighbour(self) -> None:
        try:
            with closing(RawHttpClient(self.port, self.fields)) as visitor:
                used_at = time.monotonic()
                while not self._over.is_set() and self._grievance is None:
                    text, sent_at = f"{self.neighbour_calls}", time.monotonic()
                    try:
                        reply = visitor.send(tool_call("neighbour__echo", {"text": text}))
                    except (Hangup, ConnectionError):
                        if not self.evicts or time.monotonic() - used_at < UNUSED_SECONDS_MIN:
                            raise
                        # It was idle for too long, or there was no room for a new one.
                        visitor.reconnect()
                        used_at = -inf
                        self._over.wait(NEIGHBOUR_PAUSE_SECONDS)
                        continue
                    used_at, answer = sent_at, reply.message
                    if self.turns_away and reply.status == 503 and reply.get("retry-after"):
                        continue
                    if self.evicts and reply.status == 503:
                        used_at = -inf
                        continue
                    if "result" not in answer or answer["result"]["content"][0]["text"] != text:
                        self._grievance = f"{answer}"
                    self.neighbour_calls += 1
                    self._over.wait(NEIGHBOUR_PAUSE_SECONDS)
        except (AssertionError, Hangup, KeyError, OSError, ValueError) as error:
            self._grievance = f"{type(error).__name__}: {error}"

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while chunk := os.read(self.process.stderr.fileno(), 65536):
            self.stderr += chunk


@contextmanager
def http_probe(
    tmp_path: Path,
    servers: Mapping[str, Any] | None = None,
    *,
    tokens: bool = False,
    files_max: int | None = None,
    memory_bytes_max: int | None = None,
    **rest: Any,
) -> Iterator[HttpProbe]:
    """A gateway with these servers and a neighbour; at the end all that must hold is checked."""
    canary = f"canary-{uuid4().hex}"
    entries: dict[str, Any] = {}
    for name, entry in {**(servers or {}), "neighbour": LEGACY_DEMO}.items():
        if isinstance(entry, list):
            entry = {"command": entry[0], "args": entry[1:], "env": {"CANARY": canary}}
        entries[name] = entry
    if tokens:
        # Else each person has a process of its own, and keeps it for half an hour.
        entries = {name: {"scope": "shared", **entry} for name, entry in entries.items()}
        rest["gateway"] = {**rest.get("gateway", {}), "tokens": _tokens(rest)}
    config, state = write_config(tmp_path, entries, **rest), tmp_path / "state"
    argv = [
        *_limited("-n", files_max),
        *_limited("-v", memory_bytes_max and memory_bytes_max // 1024),
        *(sys.executable, "-m", "anyport", "serve", "--port", "0", "--json"),
        *("--config", str(config), "--state-dir", str(state)),
    ]
    process = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PROBE_TOKEN": TOKEN},
    )
    assert process.stdout is not None
    report = process.stdout.readline()
    there = HttpProbe(process, 0, state)
    try:
        assert report, there.stderr
        there.port = int(json.loads(report)["url"].rsplit(":", 1)[1].split("/")[0])
        there.secrets += [canary, TOKEN]
        if tokens:
            there.fields = {"Authorization": f"Bearer {TOKEN}"}
        there.begin()
        yield there
        there.end()
    finally:
        there.kill()


def _limited(which: str, most: int | None) -> list[str]:
    """What has to stand before a command that may use no more of something."""
    return [] if most is None else ["sh", "-c", f'ulimit {which} {most}; exec "$@"', "sh"]


def _tokens(rest: Mapping[str, Any]) -> Message:
    return {"probe": "${env:PROBE_TOKEN}", **rest.get("gateway", {}).get("tokens", {})}
