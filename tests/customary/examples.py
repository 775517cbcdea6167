"""Customary messages, as people write them: read from files, and told to a gateway.

A story is a text file of examples. `== name` begins one, `>` what the client says, `<` what it
hears; the JSON below is kept as it is printed, white space and all. The same files write the
script of the server that stands behind the gateway, so that each example is tried in both
directions.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.harness import LineClient, Message
from tests.journeys.scripts import rule

STORIES: Final = Path(__file__).with_name("stories")
_PRINTED_ID: Final = re.compile(r'"id": (?:[0-9]+|"[^"]*")')
_SHORTHAND_ID: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One thing the client says, and all it hears of it."""

    name: str
    says: str
    """One line, ready to be sent."""
    hears: tuple[str, ...]
    """One line each, the answer last."""

    @property
    def method(self) -> str:
        method: str = json.loads(self.says)["method"]
        return method


def read_story(name: str) -> tuple[Example, ...]:
    """The examples of one file, in order."""
    whole = (STORIES / name).read_text(encoding="utf-8")
    examples = []
    for section in whole.split("\n== ")[1:]:
        title, *marked = re.split(r"^([<>])\n", section, flags=re.MULTILINE)
        blocks = list(zip(marked[::2], marked[1::2], strict=True))
        says = [complete(block) for mark, block in blocks if mark == ">"]
        hears = tuple(complete(block) for mark, block in blocks if mark == "<")
        assert len(says) == 1, f"{name}: {title.strip()!r} must say one thing"
        examples.append(Example(name=title.strip(), says=says[0], hears=hears))
    return tuple(examples)


def complete(block: str) -> str:
    """One printed message as a line: newlines become spaces, the rest stays byte for byte.

    Shorthand without `jsonrpc` gets it, and an `id` where there must be one.
    """
    line = " ".join(block.strip("\n").split("\n"))
    message = json.loads(line)
    if "jsonrpc" in message:
        return line
    answered = not message.get("method", "").startswith("notifications/")
    added = f'"jsonrpc": "2.0", "id": {_SHORTHAND_ID},' if answered else '"jsonrpc": "2.0",'
    return line.replace("{", "{ " + added, 1)


def script(examples: Iterable[Example], prefix: str = "") -> list[Message]:
    """The rules of a server that says what the client of these examples hears."""
    rules = []
    for example in examples:
        if not example.hears or example.method == "ping":
            continue
        lines = [_PRINTED_ID.sub('"id": $id', line, count=1) for line in example.hears]
        # Calls differ from example to example; lists and the handshake may be asked for again.
        once = example.method == "tools/call"
        rules.append(rule(example.method, *lines, once=once))
        assert not prefix or prefix in example.says, example.name
    return rules


def tell(client: LineClient, example: Example) -> None:
    """Say one example and compare everything that is heard, field by field."""
    client.send(example.says.encode() + b"\n")
    for printed in example.hears:
        heard, line = client.next(), client.lines[-1]
        if example.method == "initialize":
            assert_same_handshake(heard, json.loads(printed), example.name)
            continue
        assert heard == json.loads(printed), example.name
        if not example.method.endswith("/list"):
            # The payload is the printed one to the byte; lists are put together from items.
            for member in payloads(printed):
                assert member in line, example.name


def assert_same_handshake(heard: Message, printed: Message, name: str) -> None:
    """The gateway introduces itself: the frame and the revision are the printed ones, the
    capabilities at least those, the name and version its own."""
    assert heard["jsonrpc"] == printed["jsonrpc"], name
    assert heard["id"] == printed["id"], name
    assert heard.keys() == {"jsonrpc", "id", "result"}, name
    ours, theirs = heard["result"], printed["result"]
    assert ours["protocolVersion"] == theirs["protocolVersion"], name
    assert declares(ours["capabilities"], theirs["capabilities"]), name
    assert ours["serverInfo"]["name"] == "anyport", name
    assert isinstance(ours["serverInfo"]["version"], str), name
    assert ours.keys() - theirs.keys() <= {"instructions"}, name


def declares(ours: Message, theirs: Message) -> bool:
    """Whether a declaration covers another; `false` and an empty `experimental` declare nothing."""
    for name, value in theirs.items():
        if value is False or (name == "experimental" and not value):
            continue
        if isinstance(value, dict):
            if not isinstance(ours.get(name), dict) or not declares(ours[name], value):
                return False
        elif ours.get(name) != value:
            return False
    return True


def payloads(line: str) -> list[bytes]:
    """The raw payloads in a printed message."""
    raw: dict[str, Any] = msgspec.json.decode(line.encode(), type=dict[str, msgspec.Raw])
    return [bytes(raw[name]) for name in ("params", "result", "error") if name in raw]
