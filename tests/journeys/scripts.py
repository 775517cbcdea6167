"""Writing scripts for the scripted server, and reading what it heard.

The other half of `scripted_server.py`: this one runs in the test.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests import harness
from tests.harness import WAIT_SECONDS, LineClient, Message

PROGRAM: Final = Path(__file__).with_name("scripted_server.py")
POLL_SECONDS: Final = 0.01
LIST_SECONDS: Final = 30

EVERYTHING: Final[Message] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "logging": {},
    "completions": {},
}
"""What a scripted server declares unless told otherwise."""


@contextmanager
def gateway(
    tmp_path: Path, servers: Mapping[str, Any] | None = None, **rest: Any
) -> Iterator[LineClient]:
    """The gateway of the harness, with lists that wait for every server.

    So it is never the load of the machine that decides what a test sees.
    """
    patient = {"gateway": {"listSeconds": LIST_SECONDS}}
    with harness.gateway(tmp_path, servers, **{**patient, **rest}) as client:
        yield client


class Scripted:
    """One scripted server: its command line for a configuration, and its ears."""

    def __init__(
        self,
        path: Path,
        *rules: Message,
        name: str = "scripted",
        capabilities: Message | None = None,
    ) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.log = path / f"{name}.log"
        script = path / f"{name}.json"
        declared = EVERYTHING if capabilities is None else capabilities
        script.write_text(json.dumps({"rules": rules, "capabilities": declared}))
        # Isolated and without site: it starts in a few hundredths of a second.
        self.command = [sys.executable, "-I", "-S", str(PROGRAM), str(script), str(self.log)]

    @property
    def lines(self) -> list[bytes]:
        """Every whole line it heard, as it came, without the line end."""
        written = self.log.read_bytes() if self.log.exists() else b""
        whole = written.split(b"\n")[:-1]
        return [line for line in whole if not line.startswith(b"#")]

    @property
    def starts(self) -> int:
        """How many processes ran the script."""
        return self.log.read_bytes().count(b"# started") if self.log.exists() else 0

    def heard(self, method: str) -> list[Message]:
        """The messages with this method, in order."""
        messages: list[Message] = [json.loads(line) for line in self.lines]
        return [message for message in messages if message.get("method") == method]

    def answers(self) -> list[Message]:
        """The answers to what it asked."""
        messages: list[Message] = [json.loads(line) for line in self.lines]
        return [message for message in messages if "method" not in message]

    def wait_heard(self, method: str, count: int = 1) -> Message:
        """The message that makes it this many with the method."""
        eventually(lambda: len(self.heard(method)) >= count, f"{count} x {method}")
        return self.heard(method)[count - 1]


def eventually(true: Callable[[], bool], what: str) -> None:
    """Wait until something that cannot tell by itself has come true."""
    end = time.monotonic() + WAIT_SECONDS
    while not true():
        assert time.monotonic() < end, f"never came true: {what}"
        time.sleep(POLL_SECONDS)


def rule(on: str, *say: str, **rest: Any) -> Message:
    """A rule of a script: raw lines to say when something is heard."""
    return {"on": on, "say": list(say), **rest}


def result(of: Any) -> str:
    """A line that answers what was heard; text is taken as raw JSON."""
    return f'{{"jsonrpc":"2.0","id":$id,"result":{_raw(of)}}}'


def failure(of: Any) -> str:
    """A line that refuses what was heard."""
    return f'{{"jsonrpc":"2.0","id":$id,"error":{_raw(of)}}}'


def note(method: str, params: Any = None) -> str:
    """A notification's line."""
    if params is None:
        return f'{{"jsonrpc":"2.0","method":"{method}"}}'
    return f'{{"jsonrpc":"2.0","method":"{method}","params":{_raw(params)}}}'


def question(id: Any, method: str, params: Any = None) -> str:
    """The line of a request that the server makes."""
    member = "" if params is None else f',"params":{_raw(params)}'
    return f'{{"jsonrpc":"2.0","id":{json.dumps(id)},"method":"{method}"{member}}}'


def tools(*names: str) -> Message:
    """The rule that lists plain tools of these names."""
    offers = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    return rule("tools/list", result({"tools": offers}))


def text(words: str) -> Message:
    """A tool result with one text."""
    return {"content": [{"type": "text", "text": words}]}


def said(answer: Message) -> str:
    """The first text of a tool's answer."""
    words: str = answer["result"]["content"][0]["text"]
    return words


def names(client: LineClient, kind: str = "tools") -> list[str]:
    """The names in a list, or the URIs of resources."""
    member = {"resources": "uri", "resourceTemplates": "uriTemplate"}.get(kind, "name")
    method = {"resourceTemplates": "resources/templates/list"}.get(kind, f"{kind}/list")
    return [item[member] for item in client.request(method)["result"][kind]]


def status(client: LineClient) -> Message:
    """What `gateway_status` reports."""
    report: Message = json.loads(said(client.call("gateway_status")))
    return report


def _raw(of: Any) -> str:
    return of if isinstance(of, str) else json.dumps(of)
