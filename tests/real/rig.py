"""Where the real servers and clients are, and how to run them.

Everything comes from `tests/real/install`. This file builds command lines and runs clients; it
knows nothing of the gateway, nor of what a test expects.

A client script takes a list of steps and one target, and prints one JSON object a line, an
*observation*. The target is the command line of a server, or the URL of a running one; a URL
that ends in /sse is one of HTTP+SSE, any other one of Streamable HTTP.

    [sys.executable, "py1_client.py", "--steps", '[{"do": "list", "what": "tools"}]', "--", *target]

Every client declares sampling, elicitation (form and URL) and roots, and answers at once: a
sample is the text "canned sample"; a form is accepted with every required property filled in
(strings "canned", numbers 1, booleans true, choices the first); a URL is accepted; there is one
root, file:///tmp/canned.

Steps. Connecting is not one of them, it always comes first.

    {"do": "list", "what": "tools" | "resources" | "templates" | "prompts"}       all pages
    {"do": "call", "name": N, "arguments": {…}}
    {"do": "call", …, "progress": true}           asks for progress
    {"do": "call", …, "cancel": true}             likewise, and cancels at the first that comes
    {"do": "read", "uri": U}
    {"do": "subscribe", "uri": U}                 modern: opens a stream for that resource
    {"do": "listen"}                              modern: opens a stream for changes of lists;
                                                  legacy: nothing, they come unasked
    {"do": "prompt", "name": N, "arguments": {…}}
    {"do": "complete", "ref": {…}, "argument": {"name": N, "value": V}, "context"?: {…}}
    {"do": "log_level", "level": L}               modern: goes along with each later call
    {"do": "wait", "method": M, "uri"?: U}        for a notification that came since the start
                                                  and was not waited for before
    {"do": "wait", …, "tool": N}                  likewise, lists the tools, and waits for the next
                                                  one until this one is there

Observations. Each has `saw` and `step`, the index of the step under way (-1: connecting).

    {"saw": "connected", "protocolVersion", "capabilities", "serverInfo"?, "instructions"?}
    {"saw": "listed", "what", "items"}
    {"saw": "result", "result"}                   of every other step that was answered
    {"saw": "error", "code", "message", "data"?}  the answer was a JSON-RPC error
    {"saw": "progress", "progress", "total"?, "message"?}
    {"saw": "cancelled"}                          the client gave the call up, and said so
    {"saw": "asked", "method", "params"}          the server asked, and got the canned answer
    {"saw": "notified", "method", "params"?}      every notification but progress
    {"saw": "waited" | "missed", "method"}        the end of a wait
    {"saw": "fault", "message"}                   the SDK complained of what it received
    {"saw": "closed"}                             always the last

A member that is absent and one that is null mean the same. In a modern conversation `asked`
stands for a question inside an `input_required` answer; the SDKs hide the difference.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from tests.rig.toxic_proxy import deserted

Observation = dict[str, Any]
Step = Mapping[str, Any]

HERE: Final = Path(__file__).parent
HOME: Final = HERE.parent.parent / ".real"
NODE_MODULES: Final = HOME / "node" / "node_modules"

RUN_SECONDS_MAX: Final = 300
"""A client on a busy machine starts two interpreters and a server, then waits for those."""

LISTENING_SECONDS_MAX: Final = 120
"""A server on a busy machine takes seconds to import what it needs."""

_UTC: Final = ("--local-timezone", "UTC")
_MODERN: Final = "2026-07-28"
_CLIENTS: Final[Mapping[str, tuple[str, str]]] = {
    "py1-6": ("py1-6", "legacy"),
    "py1-9": ("py1-9", "legacy"),
    "py1-12": ("py1-12", "legacy"),
    "py1": ("py1", "legacy"),
    "py2": ("py2", "auto"),
    "py2-legacy": ("py2", "legacy"),
    "py2-modern": ("py2", _MODERN),
    "fm": ("fm", "auto"),
    "fm-legacy": ("fm", "legacy"),
    "fm-modern": ("fm", _MODERN),
    "ts1-0": ("ts1-0", "legacy"),
    "ts1": ("ts1", "legacy"),
    "ts2": ("ts2", "auto"),
    "ts2-legacy": ("ts2", "legacy"),
    "ts2-modern": ("ts2", _MODERN),
}
CLIENTS: Final = tuple(_CLIENTS)
"""SDK and way to begin: ask which era it is (no suffix), or insist on one.

`py1` and `ts1` are the last of their line; older ones have their version in the name.
"""

CORNERS: Final[Mapping[str, Sequence[str]]] = {
    "py1-6": ("stdio", "sse"),
    "py1-9": ("stdio", "sse", "http"),
    "py1-12": ("stdio", "sse", "http"),
    "py1": ("stdio", "sse", "http"),
    "py2": ("stdio", "sse", "http"),
    "fm": ("stdio", "sse", "http"),
    "ts1-0": ("stdio", "sse"),
    "ts1": ("stdio", "sse", "http"),
    "ts2": ("stdio", "http"),
}
"""Every SDK, and the transports that a server on it can have: the servers called `corner_…`."""


def server(name: str, place: Path | None = None) -> list[str]:
    """The command line of a real server.

    `place` is the folder that `filesystem` may touch, the repository of `git`, or the file that
    `memory` writes; the others have none. `fetch` must be sent to addresses of this machine only.
    """
    match name:
        case "everything":
            return [*_node_server(name), "stdio"]
        case "filesystem":
            return [*_node_server(name), str(place)]
        case "memory":
            return ["env", f"MEMORY_FILE_PATH={place}", *_node_server(name)]
        case "time":
            return [_python_server(name), *_UTC]
        case "git":
            return [_python_server(name), "--repository", str(place)]
        case "fetch":
            # A library of its runs `npm install` at the first page if it finds a node to run.
            no_node = f"PATH={HOME / 'servers' / 'bin'}"
            options = ["--ignore-robots-txt", "--allow-private-ips"]
            return ["env", no_node, _python_server(name), *options]
        case "old_python":
            return [_python("sdk-old"), str(HERE / "servers" / "old_python.py")]
        case "modern_python" | "growing_py2":
            return [_python("sdk2"), str(HERE / "servers" / f"{name}.py")]
    sdk, _, transport = name.rpartition("-")
    if sdk in CORNERS and transport == "stdio":
        return corner(sdk, name, "stdio")
    raise LookupError(f"no real server is called {name!r}")


@contextmanager
def listening(*names: str) -> Iterator[dict[str, str]]:
    """Run servers that listen on ports of this machine, for the time of a block; their URLs.

    They are `everything-http`, `everything-sse`, `classic-http`, `classic-sse`, `modern-http`, and
    an SDK of `CORNERS` with one of its transports, such as `py1-6-sse`.
    """
    with ExitStack() as stack:
        ports = {name: stack.enter_context(_listening(name)) for name in names}
        for name, port in ports.items():
            wait_listening(name, port)
        yield {
            name: f"http://127.0.0.1:{port}/{'sse' if name.endswith('-sse') else 'mcp'}"
            for name, port in ports.items()
        }


def client(
    name: str,
    steps: Sequence[Step],
    target: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
) -> list[Observation]:
    """Run a client to its end and return what it saw.

    Raises:
        AssertionError: it did not reach its end; the message holds what it wrote till then.
    """
    try:
        run = subprocess.run(
            [*client_command(name), "--", *target],
            input=json.dumps(list(steps)),
            env=os.environ | (env or {}),
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise AssertionError(
            f"{name} did not end in {RUN_SECONDS_MAX} s\n{late.stdout!r}\n{late.stderr!r}"
        ) from None
    assert run.returncode == 0, f"{name} failed\n{run.stdout}\n{run.stderr}"
    return [json.loads(line) for line in run.stdout.splitlines()]


def client_command(name: str) -> list[str]:
    """A client's command line, up to the `--` that its target follows; steps come on stdin."""
    sdk, mode = _CLIENTS[name]
    script = f"{sdk.partition('-')[0]}_client"
    if environment := _ENVIRONMENTS.get(sdk):
        return [_python(environment), str(HERE / "clients" / f"{script}.py"), "--mode", mode]
    return [*_node_script(sdk, f"clients/{script}.mjs"), "--mode", mode]


def inspector(
    target: Sequence[str],
    method: str,
    *,
    tool: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    era: str = "auto",
) -> list[str]:
    """The Inspector as a command: one method, its result as one JSON object on stdout.

    `era` is "legacy", "auto" or "modern". `arguments` are for `tools/call`.
    """
    options = ["--quiet", "--format", "json", "--protocol-era", era, "--method", method]
    if target[0].startswith("http://"):
        options += ["--transport", "sse" if target[0].endswith("/sse") else "http"]
    if tool is not None:
        options += ["--tool-name", tool, "--tool-args-json", json.dumps(arguments or {})]
    return [str(NODE_MODULES / ".bin" / "mcp-inspector"), "--cli", *options, "--", *target]


def of(observations: Sequence[Observation], saw: str, step: int | None = None) -> list[Observation]:
    """Those that saw one thing, of one step or of all."""
    return [o for o in observations if o["saw"] == saw and step in (None, o["step"])]


def text(observation: Observation) -> str:
    """All the text in the result of a call."""
    content = observation["result"]["content"]
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def check_progress(client: str, told: Sequence[tuple[float, float]], *, total: int) -> None:
    """Whether a client saw the progress of a call that counts to a total.

    The last report comes with the answer or just before. Of reports that the TypeScript SDKs read
    together with the answer, as they do on a busy machine, they drop all.
    """
    whole = [(number, total) for number in range(1, total + 1)]
    assert list(told) == whole[: len(told)]
    assert client.startswith("ts") or len(told) >= total - 1


def missing() -> list[str]:
    """The environments that are not there, or were made from other lock files than these."""
    locks = {HOME / name / "lock.txt": HERE / f"python-{name}.txt" for name in _PYTHONS}
    locks[HOME / "node" / "lock.json"] = HERE / "node" / "package-lock.json"
    return [
        copy.parent.name
        for copy, lock in locks.items()
        if not copy.is_file() or copy.read_bytes() != lock.read_bytes()
    ]


@contextmanager
def _listening(name: str) -> Iterator[int]:
    quiet = subprocess.DEVNULL
    with deserted() as port:
        command, env = _listening_server(name, str(port)), os.environ | {"PORT": str(port)}
        with subprocess.Popen(command, env=env, stdout=quiet, stderr=quiet) as running:
            try:
                yield port
            finally:
                running.kill()


def _listening_server(name: str, port: str) -> list[str]:
    match name:
        case "everything-http":
            return [*_node_server("everything"), "streamableHttp"]
        case "everything-sse":
            return [*_node_server("everything"), "sse"]
        case "classic-http":
            return [
                _python("sdk1"),
                str(HERE / "servers/classic_python.py"),
                "streamable-http",
                port,
            ]
        case "classic-sse":
            return [_python("sdk1"), str(HERE / "servers/classic_python.py"), "sse", port]
        case "modern-http":
            return [*server("modern_python"), port]
    sdk, _, transport = name.rpartition("-")
    if transport in CORNERS.get(sdk, ()):
        return corner(sdk, name, "sse" if transport == "sse" else "streamable-http", port)
    raise LookupError(f"no listening server is called {name!r}")


def wait_listening(name: str, port: int) -> None:
    """Wait until a server listens."""
    deadline = time.monotonic() + LISTENING_SECONDS_MAX
    while True:
        with socket.socket() as caller:
            if caller.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, f"{name} does not listen on port {port}"
        time.sleep(0.05)


_ENVIRONMENTS: Final = {
    "py1-6": "sdk-old",
    "py1-9": "sdk1-9",
    "py1-12": "sdk1-12",
    "py1": "sdk1",
    "py2": "sdk2",
    "fm": "fastmcp",
}
_PYTHONS: Final = (*_ENVIRONMENTS.values(), "servers", "interaction")
_PACKAGES: Final = {"ts1-0": "sdk-1-0", "ts1": "@modelcontextprotocol/sdk"}


def one_day_time() -> list[str]:
    """The command line of `time` for sessions that are compared: it knows one date only."""
    return [_python("servers"), str(HERE / "servers" / "one_day_time.py"), *_UTC]


def pushing() -> list[str]:
    """The command line of a server of both eras that does in sessions what it can only there."""
    return [_python("sdk2"), str(HERE / "servers" / "pushing_py2.py")]


def corner(sdk: str, *arguments: str) -> list[str]:
    """The command line of a server on an SDK that does whatever that can."""
    script = f"servers/corner_{sdk.partition('-')[0]}"
    if environment := _ENVIRONMENTS.get(sdk):
        return [_python(environment), str(HERE / f"{script}.py"), *arguments]
    return [*_node_script(sdk, f"{script}.mjs"), *arguments]


def _node_script(sdk: str, script: str) -> list[str]:
    # The scripts stand there through links, and must find the packages that are beside those.
    options = ["--preserve-symlinks", "--preserve-symlinks-main"]
    node = ["node", *options, str(HOME / "node" / script)]
    return ["env", f"MCP_SDK={_PACKAGES[sdk]}", *node] if sdk in _PACKAGES else node


def _python(environment: str) -> str:
    return str(HOME / environment / "bin" / "python")


def _python_server(name: str) -> str:
    return str(HOME / "servers" / "bin" / f"mcp-server-{name}")


def _node_server(name: str) -> list[str]:
    package = NODE_MODULES / "@modelcontextprotocol" / f"server-{name}"
    return ["node", str(package / "dist" / "index.js")]
