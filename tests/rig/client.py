"""A client that keeps account: who was asked what, and how often it was answered.

It may be used from several threads, and sends whatever bytes it is told to. What the answers
mean is not its business.
"""

import json
import os
import re
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

from tests.harness import WAIT_SECONDS, Message, put_down

Key = tuple[str, Any]
"""An id with its JSON type: `1` and `"1"` are two ids."""

_ID: Final = re.compile(rb'"id"\s*:\s*(-?[0-9]{1,1000}|"(?:[^"\\]|\\.)*")')


def key_of(id: Any) -> Key:
    return type(id).__name__, id


def read_strictly(line: bytes) -> Any:
    """What stands on a line, where every parser agrees on it.

    Raises:
        ValueError: not UTF-8, not JSON, a name twice, or half of a surrogate pair.
    """

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in found}) != len(found):
            raise ValueError("a name stands twice")
        return dict(found)

    try:
        value = json.loads(line.decode(), parse_constant=refuse, object_pairs_hook=pairs)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("too deep to be read") from None
    return value


def owed_key(line: bytes) -> Key | None:
    """The id to which this line owes exactly one answer; None where it owes none for sure."""
    try:
        frame = read_strictly(line)
    except ValueError:
        return None
    if not isinstance(frame, dict) or "result" in frame or "error" in frame:
        return None
    id = frame.get("id")
    return key_of(id) if isinstance(id, str | int) and not isinstance(id, bool) else None


def is_notification(line: bytes) -> bool:
    """Whether nobody may answer this line."""
    try:
        frame = read_strictly(line)
    except ValueError:
        return False
    if not isinstance(frame, dict):
        return False
    if "result" in frame or "error" in frame:
        return True
    names = {name.strip("\0").casefold() for name in frame}
    return "id" not in names and isinstance(frame.get("method"), str)


class Client:
    """A gateway's process and both sides of the conversation with it."""

    def __init__(self, argv: list[str]) -> None:
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.owed: Counter[Key] = Counter()
        self.cancelled: set[Key] = set()
        self.guessable: set[Key] = set()
        """Ids in lines that cannot be read for sure; an error may name them, or none."""
        self.unreadable_count = 0
        self.forgotten = 0
        self.calls: set[Key] = set()
        """Sound requests for a tool."""
        self.lines: list[bytes] = []
        self.answers: dict[Key, list[Message]] = defaultdict(list)
        self.order: list[Key] = []
        """The ids of answers as they arrived."""
        self.idless: list[Message] = []
        """Errors that could not say which request they are for."""
        self.told: list[Message] = []
        """What came without being asked for."""
        self.stderr = b""
        self._ended = False
        self._ids = count(1)
        self._writing = threading.RLock()
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._read_stdout, self._read_stderr)
        ]
        for thread in self._threads:
            thread.start()

    def send(self, *lines: bytes) -> None:
        """Send whole lines in one write."""
        for line in lines:
            self.account(line)
        self.write(b"".join(line + b"\n" for line in lines))

    def account(self, line: bytes) -> None:
        """Note what a line that is going to be sent will be owed."""
        key = owed_key(line)
        if key is not None:
            self.owed[key] += 1
        elif not is_notification(line):
            self.unreadable_count += 1
            self.guessable |= {key_of(json.loads(found)) for found in ids_in(line)}

    def owe(self, id: str | int) -> None:
        """Note that a request with this id will be written, for lines too large to be read."""
        self.owed[key_of(id)] += 1

    def write(self, raw: bytes) -> None:
        """Write bytes as they are, with no account kept."""
        assert self.process.stdin is not None
        with self._writing:
            self.process.stdin.write(raw)
            self.process.stdin.flush()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else writes meanwhile: a line is sent in pieces."""
        with self._writing:
            yield

    def start(self, method: str, params: Any = None, *, id: str | int | None = None) -> str | int:
        """Send a request; its id."""
        return self.start_all([(method, params)], ids=None if id is None else [id])[0]

    def start_all(
        self, requests: list[tuple[str, Any]], ids: list[str | int] | None = None
    ) -> list[str | int]:
        """Send requests in one write; their ids."""
        ids = [f"r{next(self._ids)}" for _ in requests] if ids is None else ids
        lines = []
        for id, (method, params) in zip(ids, requests, strict=True):
            message: Message = {"jsonrpc": "2.0", "id": id, "method": method}
            if params is not None:
                message["params"] = params
            if method == "tools/call":
                self.calls.add(key_of(id))
            lines.append(json.dumps(message).encode())
        self.send(*lines)
        return ids

    def start_call(self, name: str, **arguments: Any) -> str | int:
        """Call a tool; the id."""
        return self.start("tools/call", {"name": name, "arguments": arguments})

    def call(self, name: str, **arguments: Any) -> Message:
        """Call a tool and wait for the answer."""
        return self.answer(self.start_call(name, **arguments))

    def request(self, method: str, params: Any = None) -> Message:
        """Send a request and wait for its answer."""
        return self.answer(self.start(method, params))

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def cancel(self, *ids: str | int) -> None:
        """Give requests up."""
        for id in ids:
            self.cancelled.add(key_of(id))
            self.notify("notifications/cancelled", {"requestId": id})

    def initialize(self, revision: str = "2025-11-25") -> Message:
        """The legacy handshake; the result of `initialize`."""
        params = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        result: Message = self.request("initialize", params)["result"]
        self.notify("notifications/initialized", {})
        return result

    def answer(self, id: Any, nth: int = 0) -> Message:
        """Wait for the answer to a request, the first of them unless told."""
        key = key_of(id)
        self.wait(lambda: len(self.answers[key]) > nth, f"answer to {id!r}")
        return self.answers[key][nth]

    def answered(self, id: Any) -> bool:
        """Whether a request has its answer already."""
        return bool(self.answers.get(key_of(id)))

    def wait(self, condition: Callable[[], bool], wanted: str) -> None:
        """Wait until what has arrived meets a condition."""
        give_up_at = time.monotonic() + WAIT_SECONDS
        with self._changed:
            while not condition():
                assert not self._ended, f"no {wanted}: the gateway has gone; {self.stderr!r}"
                left = give_up_at - time.monotonic()
                assert left > 0, f"no {wanted} in {WAIT_SECONDS:g} s"
                self._changed.wait(left)

    def wait_settled(self) -> None:
        """Wait until every request that was not cancelled has its answer."""
        self.wait(lambda: not self._unanswered(), "answer to some request")

    def forget(self, *ids: str | int) -> list[bytes]:
        """Close the account of requests that were answered as often as is right; what came so far.

        For conversations too long to be kept.
        """
        with self._changed:
            for key in map(key_of, ids):
                assert len(self.answers.pop(key)) == self.owed.pop(key), key
            self.forgotten += len(ids)
            lines, self.lines, self.order = self.lines, [], []
        return lines

    def finish(self) -> int:
        """Close stdin, read to the end, and wait for the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(WAIT_SECONDS)
        for thread in self._threads:
            thread.join(WAIT_SECONDS)
        return code

    def kill(self) -> None:
        """End it whatever it is doing."""
        put_down(self.process, *self._threads)

    def _unanswered(self) -> list[Key]:
        return [
            key
            for key, times in self.owed.items()
            if key not in self.cancelled and len(self.answers.get(key, ())) < times
        ]

    def _read_stdout(self) -> None:
        assert self.process.stdout is not None
        for line in _lines(self.process.stdout.fileno()):
            message = json.loads(line)
            with self._changed:
                self._file(line, message)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _file(self, line: bytes, message: Message) -> None:
        self.lines.append(line)
        if "method" in message:
            self.told.append(message)
        elif message.get("id") is None:
            self.idless.append(message)
        else:
            key = key_of(message["id"])
            self.answers[key].append(message)
            self.order.append(key)

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        fd = self.process.stderr.fileno()
        while chunk := os.read(fd, 65536):
            self.stderr += chunk


def _lines(fd: int) -> Iterator[bytes]:
    """Whole lines, read in large pieces: some are huge."""
    parts: list[bytes] = []
    while portion := os.read(fd, 1 << 20):
        *whole, rest = portion.split(b"\n")
        for piece in whole:
            parts.append(piece)
            yield b"".join(parts) + b"\n"
            parts.clear()
        parts.append(rest)
    assert not any(parts), "the last line has no end"


def ids_in(line: bytes) -> list[bytes]:
    """What might be the id of a line that cannot be read for sure."""
    sound = []
    for found in _ID.findall(line):
        try:
            json.loads(found)
        except ValueError:
            continue
        sound.append(found)
    return sound
