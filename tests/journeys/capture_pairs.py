"""The servers whose traffic is recorded, and one of them with a client of some kind before it.

Both servers offer the same in the words of their eras. What is said contains a word that stands
nowhere else, so that it is seen wherever a value has come to.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.harness import Message
from tests.journeys.capture_clients import (
    CaptureClient,
    RawExchange,
    ReceivingServer,
    RecordReader,
    all_fronts,
)
from tests.journeys.clients import MODERN
from tests.journeys.scripts import failure, note, question, result, rule

FRONTS: Final = (
    "stdio 2025-11-25",
    "http 2025-11-25",
    "sse 2025-06-18",
    f"http {MODERN}",
    f"stdio {MODERN}",
)
BACKS: Final = ("old", "new")
PAIRS: Final = tuple(f"{front} - {back}" for front in FRONTS for back in BACKS)
WITH_SESSION: Final = tuple(name for name in PAIRS if f"{MODERN} -" not in name)
WITHOUT: Final = tuple(name for name in PAIRS if name not in WITH_SESSION)
REVISIONS: Final = {"old": "2025-11-25", "new": MODERN}
TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN: Final = "00f067aa0ba902b7"
TRACED: Final = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
WORDS: Final[Message] = {"word": "quetzal", "times": 3}

PLAIN: Final[Message] = {"content": [{"type": "text", "text": "a quetzal"}]}
BAD: Final[Message] = {"content": [{"type": "text", "text": "no quetzal"}], "isError": True}
BROKEN: Final[Message] = {"code": -5, "message": "the quetzal is out", "data": {"since": 3}}
GREETING: Final[Message] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hello, quetzal"}}]
}
NOTE: Final[Message] = {"contents": [{"uri": "x:", "text": "a quetzal was here"}]}
COMPLETED: Final[Message] = {"completion": {"values": ["quetzal"]}}
FORM: Final[Message] = {
    "message": "Which bird?",
    "requestedSchema": {"type": "object", "properties": {"bird": {"type": "string"}}},
}
SAMPLE: Final[Message] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Which bird?"}}],
    "maxTokens": 10,
}
ASKED: Final = {
    "elicit": ("elicitation/create", FORM, {"action": "accept", "content": {"bird": "quetzal"}}),
    "sample": (
        "sampling/createMessage",
        SAMPLE,
        {"role": "assistant", "model": "m", "content": {"type": "text", "text": "quetzal"}},
    ),
}
LOG: Final = '{"level":"warning","data":"the quetzal left"}'
TOOLS: Final = ("plain", "bad", "broken", "mute", "steps", "chat", *ASKED)


def compact(of: Message) -> str:
    """As most programs write it."""
    return json.dumps(of, separators=(",", ":"))


def report(step: int) -> str:
    return f'{{"progressToken":$token,"progress":{step},"total":3,"message":"quetzal {step}"}}'


def called(tool: str) -> Message:
    return {"where": {"name": tool}}


def rules(name: str) -> list[Message]:
    """What a server says: in the words of its era the same as the others."""
    modern = "new" in name
    own: Message = {"resultType": "complete"} if modern else {}
    lasting: Message = {"ttlMs": 60_000, "cacheScope": "public"} if modern else {}

    def says(of: Message) -> str:
        return result(compact({**own, **of}))

    offers = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
    declared: Message = {
        "tools": {},
        "prompts": {},
        "resources": {},
        "completions": {},
        "logging": {},
    }
    progress = [note("notifications/progress", report(step)) for step in (1, 2, 3)]
    told = [
        rule("tools/list", says({"tools": offers, **lasting})),
        rule("prompts/list", says({"prompts": [{"name": "greet"}], **lasting})),
        rule("resources/list", says({"resources": [{"uri": f"x:{name}", "name": "n"}], **lasting})),
        rule("resources/templates/list", says({"resourceTemplates": [], **lasting})),
        rule("prompts/get", says(GREETING)),
        rule("resources/read", says({**NOTE, **lasting})),
        rule("completion/complete", says(COMPLETED)),
        rule("tools/call", says(PLAIN), **called("plain")),
        rule("tools/call", says(BAD), **called("bad")),
        rule("tools/call", failure(BROKEN), **called("broken")),
        rule("tools/call", *progress, says(PLAIN), **called("steps")),
        rule("tools/call", note("notifications/message", LOG), says(PLAIN), **called("chat")),
        rule("tools/call", progress[0], **called("mute")),
    ]
    if modern:
        found = {"supportedVersions": [MODERN], "capabilities": declared}
        told.append(rule("server/discover", says({**found, **lasting})))
    for tool, (method, asked, _) in ASKED.items():
        if modern:
            needs = {"k": {"method": method, "params": asked}}
            inquiry = {"resultType": "input_required", "inputRequests": needs, "requestState": tool}
            back = {"name": tool, "requestState": tool}
            told.append(rule("tools/call", says(PLAIN), where=back))
            told.append(rule("tools/call", result(inquiry), **called(tool)))
        else:
            told.append(
                rule("tools/call", question(tool, method, asked), keep="call", **called(tool))
            )
            ending = says(PLAIN).replace("$id", "$call")
            told.append(rule("answer", ending, where={"id": tool}))
    return told


@dataclass(slots=True)
class CapturePair:
    """A client, a server, and the record of what they say to each other."""

    front: CaptureClient
    back: str
    ears: ReceivingServer
    late: ReceivingServer

    @property
    def book(self) -> RecordReader:
        return self.front.book

    @property
    def bridges(self) -> bool:
        return self.front.modern != (self.back == "new")

    def said(self, of: Message) -> bytes:
        """A result as this server says it."""
        own = {"resultType": "complete"} if self.back == "new" else {}
        return compact({**own, **of}).encode()

    def calling(self, tool: str, server: str = "") -> Message:
        return {"name": f"{server or self.back}__{tool}", "arguments": WORDS}

    def check(self, row: Message, talk: RawExchange, outcome: str = "ok") -> Message:
        """What holds of every row whose server was asked."""
        about: Message = row["metadata"]
        self.check_client(row, talk, outcome)
        assert about["server"] == self.back
        assert about["server_revision"] == REVISIONS[self.back]
        assert about["server_transport"] == "stdio"
        sent = self.ears.params(talk.method)
        assert about["sent_bytes"] == len(sent[-1])
        split = about.get("queue_ms", 0.0) + about["server_ms"]
        assert 0.0 <= split <= row["duration_ms"]
        return about

    def check_client(self, row: Message, talk: RawExchange, outcome: str = "ok") -> None:
        """What holds of every row."""
        about = row["metadata"]
        assert about.get("outcome", "ok") == outcome
        assert about["client_revision"] == self.front.revision
        assert about["client_transport"] == self.front.transport
        assert about["client"] == "test 1"
        assert ("session" in about) is not self.front.modern
        assert about["params_bytes"] == len(talk.params)
        assert row["duration_ms"] >= 0
        for name in ("params_hash", "result_hash"):
            assert re.fullmatch("[0-9a-f]{16}", about.get(name, "0" * 16))
        if talk.frames:
            assert about["result_bytes"] == len(talk.answer)

    def check_trace(self, row: Message, talk: RawExchange) -> None:
        """The client's trace goes through to the server."""
        assert row["trace_id"] == TRACE
        assert row["metadata"]["parent_span_id"] == SPAN
        for sent in self.ears.params(talk.method):
            passed = json.loads(sent)["_meta"]["traceparent"]
            assert passed == f"00-{TRACE}-{row['metadata']['span_id']}-01"

    def frames(self, row: Message) -> list[tuple[str, str, bytes | None]]:
        """Every frame of a row, with what was said in it."""
        return [
            (
                frame.kind,
                frame.side,
                bytes(said) if (said := frame.payload or frame.error) else None,
            )
            for frame in self.book.payloads(row)
        ]


class CapturePairs:
    """Every client before every server."""

    def __init__(self, fronts: dict[str, CaptureClient], ears: dict[str, ReceivingServer]) -> None:
        self.fronts = fronts
        self.ears = ears

    def pair(self, name: str) -> CapturePair:
        """A client and a server, of which nothing has been seen yet."""
        front, _, back = name.partition(" - ")
        for server in self.ears.values():
            server.turn()
        self.fronts[front].book.turn()
        return CapturePair(self.fronts[front], back, self.ears[back], self.ears[f"late-{back}"])


def receiving_servers(path: Path, *names: str) -> dict[str, ReceivingServer]:
    """Servers of both eras; those that are `new` are modern."""
    return {name: ReceivingServer(path, *rules(name), name=name) for name in names}


def configured(ears: dict[str, ReceivingServer], **more: Message) -> Message:
    """The servers of a configuration, and what more there is to say of some."""
    servers: Message = {}
    for name, server in ears.items():
        command, *args = server.command
        era = "modern" if "new" in name else "legacy"
        late = {"timeout": 0.3} if name.startswith("late") else {}
        own = more.get(name, {})
        servers[name] = {"command": command, "args": args, "protocol": era, **late, **own}
    return servers


@contextmanager
def capture_pairs(path: Path, **rest: Any) -> Iterator[CapturePairs]:
    """Every client before every server, with the rest of a configuration."""
    ears = receiving_servers(path / "servers", *BACKS, *(f"late-{back}" for back in BACKS))
    with all_fronts(path, configured(ears), **rest) as fronts:
        yield CapturePairs(fronts, ears)
