"""The configuration changes again and again while calls go on, and nobody notices but who must.

Changes under load cost no call, and no process of a server that did not change. A broken file
changes nothing, and the reason is told.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.harness import LEGACY_DEMO, Message
from tests.rig.http_probe import HttpProbe, http_probe
from tests.rig.probe import MIB, descendants, eventually, text_of
from tests.rig.raw_http_client import RawHttpClient
from tests.rig.scale import measured, scaled
from tests.rig.small_servers import GatedServer

pytestmark = pytest.mark.slow

RELOADS = scaled(15, full=100)
CALLERS = scaled(3, full=10)
BROKEN = scaled(20, full=50)
EFFECT_SECONDS_MAX = scaled(60.0, full=10.0)
"""On a machine that is busy with other things; the figure that counts is the one measured."""
PAUSE_SECONDS = 0.02


def entry(mark: str) -> Message:
    return {"command": LEGACY_DEMO[0], "args": LEGACY_DEMO[1:], "env": {"MARK": mark}}


class Files:
    """The configuration of a gateway, rewritten as a whole."""

    def __init__(self, there: HttpProbe, folder: Path) -> None:
        self._there = there
        self._file = folder / "anyport.json"
        self._base: Message = json.loads(self._file.read_text())

    def put(self, **servers: Message) -> None:
        """These servers, beside the one that never changes and the neighbour's."""
        whole = {**self._base, "mcpServers": {**self._base["mcpServers"], **servers}}
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(whole))
        new.replace(self._file)

    def put_raw(self, raw: bytes) -> None:
        self._file.write_bytes(raw)

    @property
    def raw(self) -> bytes:
        return self._file.read_bytes()


def marks(there: HttpProbe) -> dict[int, str]:
    """The processes of servers that bear a mark."""
    found: dict[int, str] = {}
    for pid in descendants(there.pid):
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for line in environ:
            if line.startswith(b"MARK="):
                found[pid] = line[5:].decode()
    return found


def reloads(there: HttpProbe) -> list[Message]:
    """What was noted of them, the oldest first."""
    page = there.page("/api/v1/events?event_type=gateway.config_reloaded&limit=1000")
    events: list[Message] = json.loads(page)["events"]
    return sorted(events, key=lambda event: str(event["timestamp"]))


def has_mark(there: HttpProbe, mark: str) -> bool:
    return mark in marks(there).values()


def has_reloaded(there: HttpProbe, times: int) -> bool:
    return len(reloads(there)) >= times


class Callers:
    """Clients that call all the while; each answer must be right."""

    def __init__(self, there: HttpProbe, *tools: str) -> None:
        self.calls = 0
        self.violations: list[str] = []
        self._over = threading.Event()
        self._there = there
        self._threads = [
            threading.Thread(target=self._call, args=(tools[number % len(tools)],), daemon=True)
            for number in range(CALLERS * len(tools))
        ]

    def _call(self, tool: str) -> None:
        with closing(RawHttpClient(self._there.port, self._there.fields)) as visitor:
            number = 0
            while not self._over.is_set():
                number += 1
                answer = visitor.call(tool, text=f"{number}")
                if "result" not in answer or text_of(answer) != f"{number}":
                    self.violations.append(f"{tool}: {answer}")
                self.calls += 1
                self._over.wait(PAUSE_SECONDS)

    @contextmanager
    def at_work(self) -> Iterator["Callers"]:
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()


def test_reloads_under_load_cost_no_call_and_no_process(tmp_path: Path) -> None:
    effects: list[float] = []
    with http_probe(tmp_path, {"still": entry("still"), "moving": entry("0")}) as there:
        # What caches hold, of twenty clients and their events; five hundred reloads take no more.
        there.growth_bytes_max = scaled(there.growth_bytes_max, full=20 * MIB)
        files = Files(there, tmp_path)
        still = [pid for pid, mark in marks(there).items() if mark == "still"]
        assert len(still) == 1
        with Callers(there, "still__echo", "moving__echo").at_work() as callers:
            for number in range(1, RELOADS + 1):
                extra = {"extra": entry("extra")} if number % 2 else {}
                files.put(moving=entry(f"{number}"), **extra)
                begun = time.monotonic()
                eventually(partial(has_mark, there, f"{number}"), "the new process")
                eventually(partial(has_reloaded, there, number), "its taking over")
                effects.append(time.monotonic() - begun)
                assert ("extra" in there.slugs()) == bool(number % 2)
        assert callers.violations == []
        assert callers.calls > RELOADS
        assert [pid for pid, mark in marks(there).items() if mark == "still"] == still
        assert all(event["status"] == "success" for event in reloads(there))
        eventually(lambda: len(marks(there)) == 2 + RELOADS % 2, "the old processes to be gone")
        assert max(effects) < EFFECT_SECONDS_MAX
        measured(reloads=RELOADS, calls=callers.calls, effect_seconds_max=round(max(effects), 3))
        files.put(moving=entry("0"))
        eventually(lambda: "extra" not in there.slugs(), "everything as it was")
        eventually(lambda: len(marks(there)) == 2, "the last old process to be gone")
        there.calls_owed = callers.calls


def test_a_call_that_a_server_had_taken_is_answered_by_it_after_it_was_removed(
    tmp_path: Path,
) -> None:
    server = GatedServer(tmp_path)
    with http_probe(tmp_path, {"going": {**server.entry, "env": {"MARK": "going"}}}) as there:
        files = Files(there, tmp_path)
        base = json.loads(files.raw)
        answers: list[Message] = []

        def call() -> None:
            with closing(RawHttpClient(there.port, there.fields)) as visitor:
                answers.append(visitor.call("going__work", whose="mine"))

        waiting = threading.Thread(target=call)
        waiting.start()
        eventually(lambda: server.begun == ["mine"], "the call to be under way")
        del base["mcpServers"]["going"]
        files.put_raw(json.dumps(base).encode())
        eventually(lambda: "going" not in there.slugs(), "the reload")
        assert "going" in marks(there).values(), "it finishes its call first"
        server.open_gate()
        waiting.join()
        assert "result" in answers[0], answers
        assert not answers[0]["result"].get("isError")
        eventually(lambda: marks(there) == {}, "the process to be gone")
        there.calls_owed = 1


def broken() -> Iterator[bytes]:
    """Files that cannot be used, each for a reason of its own."""
    good: dict[str, Any] = {"mcpServers": {"still": entry("still"), "neighbour": {"command": "x"}}}
    whole = json.dumps(good).encode()
    yield from (whole[: len(whole) * part // 10] for part in range(1, 10))  # Half written.
    yield from (b"", b"[]", b"null", b"\xff\xfe\x00", b"{" * 1000, b'{"mcpServers": 7}')
    yield b'{"mcpServers": {"a": {"command": "no-such-program-anywhere"}}}'
    yield b'{"mcpServers": {"a": {"command": 7}}}'
    yield b'{"mcpServers": {"a": {"url": "not a url"}}}'
    yield b'{"mcpServers": {"a": {"command": "sh", "cwd": "/no/such/place"}}}'
    yield b'{"mcpServers": {"a": {"command": "sh", "env": {"X": "${env:NO_SUCH_VARIABLE}"}}}}'
    yield b'{"mcpServers": {"a": {"command": "sh", "timeout": -1}}}'
    yield b'{"gateway": {"lissen": "x"}, "mcpServers": {}}'
    yield b'{"gateway": {"listen": "nowhere"}, "mcpServers": {}}'
    yield b'{"profiles": {"default": {"servers": ["nobody"]}}, "mcpServers": {}}'
    yield b'{"profiles": {"Not A Slug": {}}, "mcpServers": {}}'
    yield b'{"hooks": {"h": {"on": "(", "run": ["true"]}}, "mcpServers": {}}'
    yield b'{"record": {"capture": "everything"}, "mcpServers": {}}'
    yield b'{"mcpServers": {"a b": {"command": "sh"}, "a-b": {"command": "sh"}}}'
    for number in range(30):
        yield b'{"mcpServers": {"a": {"command": "sh", "unknown%d": 1}}}' % number


def test_a_broken_file_changes_nothing_and_the_reason_is_told(tmp_path: Path) -> None:
    longest = 0.0
    with http_probe(tmp_path, {"still": entry("still")}) as there:
        files = Files(there, tmp_path)
        good, before = files.raw, marks(there)
        cases = list(broken())
        step = max(1, len(cases) // BROKEN)
        with Callers(there, "still__echo").at_work() as callers:
            for number, raw in enumerate(cases[::step], 1):
                files.put_raw(raw)
                begun = time.monotonic()
                eventually(partial(has_reloaded, there, number), f"a word on {raw[:60]!r}")
                longest = max(longest, time.monotonic() - begun)
                last = reloads(there)[-1]
                assert last["status"] == "failure", raw
                assert last["error_message"], raw
                assert there.slugs() == {"still", "neighbour"}
        assert callers.violations == []
        assert marks(there) == before
        files.put_raw(good)
        files.put(more=entry("more"))
        eventually(lambda: "more" in there.slugs(), "a good file to be taken over")
        files.put_raw(good)
        eventually(lambda: "more" not in there.slugs(), "everything as it was")
        eventually(lambda: marks(there) == before, "the process to be gone")
        measured(broken=number, reason_seconds_max=round(longest, 3))
        there.calls_owed = callers.calls
