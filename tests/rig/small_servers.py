"""What the reliability tests share: servers that fork, and what /proc says of a gateway."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.harness import LineClient, Message, gateway
from tests.upstream.processes import children_of

PATIENCE_SECONDS: Final = 30

MINIMAL: Final = """
import json, os, signal, sys

def answer(message, **outcome):
    line = json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome})
    os.write(1, line.encode() + b"\\n")

def shake_hands(message):
    asked = message["params"]["protocolVersion"]
    told = {"name": "minimal", "version": "1"}
    answer(message, result={
        "protocolVersion": asked, "capabilities": {"tools": {}}, "serverInfo": told,
    })

def offer(message, *names):
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    answer(message, result={"tools": tools})

def say(message, text):
    answer(message, result={"content": [{"type": "text", "text": text}]})

def serve(names, use):
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if "id" not in message:
            continue
        if method == "initialize":
            shake_hands(message)
        elif method == "tools/list":
            offer(message, *names)
        elif method == "tools/call":
            use(message)
        else:
            answer(message, error={"code": -32601, "message": "Method not found"})
"""
"""A legacy server in a few lines; what follows it says what its tools do."""

ECHO: Final = MINIMAL + 'serve(["echo"], lambda message: say(message, "here"))\n'

FAMILY: Final = (
    MINIMAL
    + """
def stay():
    while True:
        signal.pause()

stubborn = sys.argv[1:] == ["stubborn"]
if stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    stay()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        stay()
    os._exit(0)
os.wait()
serve(["echo"], lambda message: say(message, "here"))
if stubborn:
    stay()
"""
)
"""A server with a child, and a grandchild in a session of its own; `stubborn` ones do not go."""

FAMILY_SIZE: Final = 3

DUMP: Final = (
    MINIMAL
    + """
def dump(message):
    with open("/proc/self/environ", "rb") as file:
        environ = file.read()
    say(message, json.dumps({
        "argv": [os.fsencode(word).hex() for word in sys.argv[1:]],
        "environ": environ.hex(),
        "cwd": os.fsencode(os.getcwd()).hex(),
        "descriptors": sorted(
            int(name) for name in os.listdir("/proc/self/fd")
            if os.path.exists("/proc/self/fd/" + name)
        ),
    }))

serve(["dump"], dump)
"""
)
"""A server whose one tool tells what the process was given."""


GATED: Final = (
    MINIMAL
    + """
import time

begun, gate = sys.argv[1:]

def work(message):
    with open(begun, "a") as file:
        file.write(message["params"]["arguments"]["whose"] + "\\n")
    while not os.path.exists(gate):
        time.sleep(0.02)
    say(message, "done")

serve(["work"], work)
"""
)
"""A server that writes down whose calls it is given, and answers while its gate is open."""


GATED_SECONDS_MAX: Final = 600
"""For calls that wait until its gate is opened, however busy the machine is meanwhile."""


class GatedServer:
    """Such a server, and its gate, which is closed."""

    def __init__(self, folder: Path) -> None:
        self._begun, self._gate = folder / "begun", folder / "gate"
        command, *args = python(GATED, str(self._begun), str(self._gate))
        waits = dict.fromkeys(("timeout", "queueSeconds"), GATED_SECONDS_MAX)
        self.entry: Message = {"command": command, "args": args, **waits}

    @property
    def begun(self) -> list[str]:
        """Whose calls it was given since the gate was closed, in order."""
        return self._begun.read_text().splitlines() if self._begun.exists() else []

    def open_gate(self) -> None:
        self._gate.touch()

    def close_gate(self) -> None:
        self._gate.unlink()
        self._begun.unlink()


@contextmanager
def patient(tmp_path: Path, servers: Mapping[str, Any]) -> Iterator[LineClient]:
    """A gateway whose lists wait for every server, however busy the machine is."""
    with gateway(tmp_path, servers, gateway={"listSeconds": PATIENCE_SECONDS}) as client:
        yield client


def python(source: str, *arguments: str) -> list[str]:
    """The command line of a server given as source; starts in a few hundredths of a second."""
    return [sys.executable, "-I", "-S", "-c", source, *arguments]


def text_of(answer: Message) -> str:
    """The first text of a tool's answer."""
    words: str = answer["result"]["content"][0]["text"]
    return words


def status(client: LineClient) -> dict[str, Any]:
    """What `gateway_status` reports."""
    report: dict[str, Any] = json.loads(text_of(client.call("gateway_status")))
    return report


def tool_names(client: LineClient) -> set[str]:
    """What `tools/list` shows, the gateway's own tools left out."""
    names = {tool["name"] for tool in client.request("tools/list")["result"]["tools"]}
    return names - {"gateway_status", "get_events"}


def wait_for_tools(client: LineClient, wanted: set[str]) -> None:
    """List until all of these are there."""
    while not wanted <= tool_names(client):
        client.wait_method("notifications/tools/list_changed")
        client.seen = [m for m in client.seen if "list_changed" not in str(m.get("method"))]


def descendants(pid: int) -> dict[int, bytes]:
    """Every process below one, with its state; zombies have `Z`."""
    found = children_of(pid)
    for child in list(found):
        found |= descendants(child)
    return found


def open_descriptors(pid: int) -> int:
    """How many descriptors a process has."""
    return len(os.listdir(f"/proc/{pid}/fd"))
