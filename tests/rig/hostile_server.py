"""A stdio server that does everything a server must not do, each thing when asked.

Its arguments say how it takes the first request, and with `modern` that it speaks the era without
a handshake; the tool that is called says the rest. It needs nothing but Python, so that it starts
quickly, and knows nothing of the gateway. What it does wrong is done on purpose; `echo`, `mirror`,
`hold` and `report` are honest.
"""

import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from typing import Any

REVISION = "2025-11-25"
MODERN = "2026-07-28"
MISDELIVERED = "this answer was not for you"
LONG_INSTRUCTIONS = "Read me. " * 120_000

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

BANNERS: tuple[bytes, ...] = (
    b"Server listening on stdio (pid 4711)",
    b"\x1b[32mINFO\x1b[0m ready",
    b'{"level":"info","msg":"half of a log lin',
    b'{"jsonrpc":"2.0","id":',
    b'{"jsonrpc":"2.0","id":999999999,"result":{"content"',
    b"}",
    b'["an", "array"]',
    b"{}",
    b"null",
    b"0",
)
BROKEN_TEXT: dict[str, tuple[bytes, ...]] = {
    "start": (b"\xff\xfe\xfd is how this line starts\n",),
    "middle": (b"half of this line \xc3( is text\n",),
    "alone": (b"\x80\n",),
    "split": (b"a character \xe2", b"\x82", b"( that is none\n"),
}
"""Lines that are no UTF-8, in the pieces in which they are written."""


class HostileServer:
    """One run of the server."""

    def __init__(self, handshake: str, *, modern: bool = False) -> None:
        self.handshake = handshake
        self.modern = modern
        self.complete = {"resultType": "complete"} if modern else {}
        """What every result of the modern era says of itself."""
        self.listener: object = None
        """The request that listens for changes, in that era."""
        self.calls: Counter[str] = Counter()
        """How often each text was to be echoed: a call that was made twice stands out."""
        self.held: list[tuple[int, str]] = []
        self.list_count = 0
        self.cancelled: list[int] = []
        self.unsound_count = 0
        """Lines from the gateway that a strict parser refuses."""
        self.restless = False
        self.tools: dict[str, Callable[..., None]] = {
            tool.__name__: tool
            for tool in (
                self.echo, self.mirror, self.hold, self.release, self.spoil, self.big,
                self.endless, self.flood, self.deaf, self.stray, self.storm, self.crash,
                self.report, self.answer_raw, self.chatter,
            )
        }  # fmt: skip

    def run(self) -> None:
        """Serve until the input ends."""
        if self.handshake == "crash":
            self.say_last(f"cannot read the licence ({os.environ.get('CANARY')})")
            sys.exit(3)
        for line in sys.stdin.buffer:
            self.take(line)

    def take(self, line: bytes) -> None:
        """Take one message."""
        try:
            message = json.loads(line.decode(), parse_constant=_refuse)
        except ValueError:
            self.unsound_count += 1
            return
        method, id = message.get("method"), message.get("id")
        if method == "notifications/cancelled":
            self.cancelled.append(message["params"]["requestId"])
        elif id is None or method is None:
            return
        elif method == ("server/discover" if self.modern else "initialize"):
            self.introduce(id)
        elif method == "tools/list":
            self.list_count += 1
            self.answer(id, {**self.complete, "tools": self.listed()})
        elif method == "subscriptions/listen":
            self.listener = id
            self.tell("subscriptions/acknowledged", notifications={"toolsListChanged": True})
        elif method == "tools/call":
            self.call(id, line, message["params"])
        else:
            self.send({"id": id, "error": {"code": -32601, "message": "Method not found"}})

    def introduce(self, id: int) -> None:
        if self.handshake == "hang":
            return
        revision = MODERN if self.modern else REVISION
        if self.handshake == "wrong-version":
            revision = "1999-12-31"
        result: dict[str, Any] = {
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "hostile", "version": "1"},
        }
        if self.modern:
            result |= {**self.complete, "supportedVersions": [revision]}
        else:
            result["protocolVersion"] = revision
        if self.handshake == "long-instructions":
            result["instructions"] = LONG_INSTRUCTIONS
        self.answer(id, result)

    def listed(self) -> list[dict[str, Any]]:
        names = [*self.tools, *([f"fresh-{self.list_count}"] if self.restless else [])]
        return [{"name": name, "inputSchema": {"type": "object"}} for name in names]

    def call(self, id: int, line: bytes, params: dict[str, Any]) -> None:
        arguments = params.get("arguments") or {}
        if params["name"] == "mirror":
            self.mirror(id, line)
        elif params["name"] == "chatter":
            self.chatter(id, params.get("_meta", {}).get("progressToken"), **arguments)
        else:
            self.tools[params["name"]](id, **arguments)

    # Honest tools.

    def echo(self, id: int, text: str) -> None:
        self.calls[text] += 1
        self.answer_text(id, text)

    def mirror(self, id: int, line: bytes) -> None:
        """Answer with the arguments as they stood on the wire."""
        found = re.search(rb'"arguments":(\{.*\})\}\}\s*\Z', line, re.DOTALL)
        raw = b"null" if found is None else found[1]
        self.answer_around(id, raw)

    def hold(self, id: int, text: str) -> None:
        """Answer when released."""
        self.held.append((id, text))

    def report(self, id: int) -> None:
        """What was seen so far."""
        seen = {
            "lists": self.list_count,
            "cancelled": len(self.cancelled),
            "held": len(self.held),
            "unsound": self.unsound_count,
            "twice": sum(times > 1 for times in self.calls.values()),
        }
        self.answer_text(id, json.dumps(seen))

    # The others.

    def release(
        self, id: int, broken: str = "", banners: int = 0, victim: str = "", twice: bool = False
    ) -> None:
        """Answer all that is held, with something bad before each; the victim's is bad itself."""
        held, self.held = self.held, []
        noise = cycle(BANNERS)
        for call, text in held:
            for piece in BROKEN_TEXT.get(broken, ()):
                self.write(piece)
            for _ in range(banners):
                self.write(next(noise) + b"\n")
            if text == victim:
                good = _answer_line(call, json.dumps(self.text_result("@")).encode())
                self.write(good.replace(b"@", b"bad \xff text"))
            else:
                for _ in range(1 + twice):
                    self.answer_text(call, text)
        self.answer_text(id, f"{len(held)}")

    def spoil(self, id: int, frame: str) -> None:
        """Answer with a frame of the caller's choice; `@` in it is the id."""
        self.write(frame.replace("@", str(id)).encode("latin-1") + b"\n")

    def answer_raw(self, id: int, literal: str) -> None:
        """Answer with a literal that a JSON library would write otherwise."""
        self.answer_around(id, b'{"value":%b}' % literal.encode())

    def big(self, id: int, size: int) -> None:
        """Answer with a line of exactly this many bytes."""
        empty = len(_answer_line(id, json.dumps(self.text_result("")).encode())) - 1
        self.answer_text(id, filling(size - empty))

    def endless(self, id: int, size: int) -> None:
        """A line that does not end, or not before it is enormous."""
        self.write(b'{"jsonrpc":"2.0","id":%d,"result":{"x":"' % id)
        chunk = b"x" * (1 << 20)
        for _ in range(size >> 20):
            self.write(chunk)

    def flood(self, id: int, size: int, newlines: bool) -> None:
        """Fill stderr, then answer."""
        word = f"{os.environ.get('CANARY')} and so on ".encode()
        chunk = (word + b"\n" if newlines else word) * (65536 // len(word))
        for _ in range(size // len(chunk)):
            _write(2, chunk)
        self.answer_text(id, "flooded")

    def deaf(self, id: int) -> None:
        """Answer, and never read again."""
        self.answer_text(id, "what?")
        while True:
            time.sleep(3600)

    def stray(self, id: int, count: int) -> None:
        """Answers nobody asked for, among them ids that only look like this one; then a good one.

        The answers to all held calls are among them: a cancelled call's comes late.
        """
        bad = [f'"{id}"', f"{id}.0", "null", "true", f"[{id}]", f'{{"id":{id}}}', "", "-1"]
        bad += [f"{id + 1000}", f"{id}e0", f"0{id}", f"{10**40}", f"{id - 1}"]
        bad += [str(call) for call, _ in self.held]
        payload = json.dumps(self.text_result(MISDELIVERED)).encode()
        for number in range(count):
            self.write(_answer_line(bad[number % len(bad)], payload))
        self.answer_text(id, "mine")
        self.write(_answer_line(id, payload))

    def storm(self, id: int, count: int, per_second: int) -> None:
        """Say again and again that the list has changed, which it has each time it is read."""
        self.restless = True
        burst = max(1, per_second // 50)
        for _ in range(count // burst):
            for _ in range(burst):
                self.tell("tools/list_changed")
            time.sleep(burst / per_second)
        self.restless = False
        self.answer_text(id, "calm")

    def chatter(self, id: int, token: Any, count: int, size: int) -> None:
        """Report progress in far more words than anybody wants, then answer."""
        words = filling(size)
        for step in range(count):
            params = {"progressToken": token, "progress": step, "message": words}
            self.send({"method": "notifications/progress", "params": params})
        self.answer_text(id, "that is all")

    def crash(self, id: int, code: int) -> None:
        """Exit in the middle of a call."""
        self.say_last(f"out of ideas ({os.environ.get('CANARY')})")
        os._exit(code)

    # The wire.

    def text_result(self, text: str) -> dict[str, Any]:
        return {**self.complete, "content": [{"type": "text", "text": text}]}

    def answer_text(self, id: int, text: str) -> None:
        self.answer(id, self.text_result(text))

    def answer_around(self, id: int, raw: bytes) -> None:
        """Answer with structured content as it stands."""
        result = {**self.complete, "content": [], "structuredContent": "@"}
        around = json.dumps(result, separators=(",", ":")).encode()
        self.write(_answer_line(id, around.replace(b'"@"', raw)))

    def answer(self, id: int, result: dict[str, Any]) -> None:
        self.write(_answer_line(id, json.dumps(result).encode()))

    def tell(self, what: str, **params: Any) -> None:
        """A notification for whoever listens."""
        if self.modern:
            params["_meta"] = {SUBSCRIPTION: self.listener}
        self.send({"method": f"notifications/{what}", "params": params})

    def send(self, message: dict[str, Any]) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, raw: bytes) -> None:
        _write(1, raw)

    def say_last(self, words: str) -> None:
        _write(2, words.encode() + b"\n")


def filling(size: int) -> str:
    """A text of this size; the period is odd, so that no two pieces of a power of two agree."""
    period = "".join(f"{number:07x}" for number in range(9_999))
    return (period * (size // len(period) + 1))[:size]


def _answer_line(id: object, result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (str(id).encode(), result)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _write(fd: int, raw: bytes) -> None:
    view = memoryview(raw)
    while view:
        view = view[os.write(fd, view) :]


if __name__ == "__main__":
    try:
        words = sys.argv[1:]
        handshake = next((word for word in words if word != "modern"), "")
        HostileServer(handshake, modern="modern" in words).run()
    except BrokenPipeError:
        os._exit(0)
