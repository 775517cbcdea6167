"""Command-line options, most of which exist to make a client's life hard."""

import argparse
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from tests.peers.demo.revisions import REVISIONS, Revision

INSTRUCTIONS: Final = (
    "A server for trying things out. Call 'echo' or 'add' to see an answer, 'slow' to see "
    "progress, 'elicit' to be asked a question."
)
HOST: Final = "127.0.0.1"
PORT_MAX: Final = 65535

Style: TypeAlias = Literal["json", "sse"]
Transport: TypeAlias = Literal["streamable", "sse"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How this run of the server behaves."""

    revisions: frozenset[str] = frozenset(REVISIONS)
    die_on_discover: bool = False
    slow_start_seconds: float = 0.0
    name: str = "anyport-demo"
    instructions: str = INSTRUCTIONS
    noise: bool = False
    filler_tools: int = 0
    ask_roots: bool = False
    page_size: int | None = None
    empty_cursor: bool = False
    tasks: bool = False
    apps: bool = False
    skills: bool = False
    http_port: int | None = None
    """None for standard input and output."""
    host: str = HOST
    transport: Transport | None = None
    """The only one to serve over HTTP; None for both."""
    style: Style | None = None
    """How requests are answered over HTTP, whatever would suit them better."""
    lose_sessions: int | None = None
    drop_streams: bool = False

    @property
    def legacy(self) -> Mapping[str, Revision]:
        """The revisions to speak that begin with a handshake, oldest first."""
        return self._known(enveloped=False)

    @property
    def modern(self) -> Mapping[str, Revision]:
        """The revisions to speak that have no handshake."""
        return self._known(enveloped=True)

    def _known(self, *, enveloped: bool) -> Mapping[str, Revision]:
        rows = REVISIONS.items()
        return {n: r for n, r in rows if n in self.revisions and r.enveloped is enveloped}


def read_options(argv: list[str]) -> Options:
    """The options that `argv` spells.

    Raises:
        SystemExit: 2 after telling stderr what is wrong; 0 after `--help`.
    """
    parser = _parser()
    given = parser.parse_args(argv)
    revisions = frozenset(given.revision or REVISIONS)
    if given.era is not None:
        enveloped = given.era == "modern"
        revisions = frozenset(r for r in revisions if REVISIONS[r].enveloped is enveloped)
    if not revisions:
        parser.error(f"--revision and --{given.era}-only leave no revision to speak")
    beside = (given.transport, given.style, given.lose_sessions, given.drop_streams or None)
    if given.http is None and (given.host != HOST or any(each is not None for each in beside)):
        parser.error("the options for HTTP need --http")
    return Options(
        revisions=revisions,
        die_on_discover=given.die_on_discover,
        slow_start_seconds=given.slow_start,
        name=given.name,
        instructions=given.instructions,
        noise=given.noise,
        filler_tools=given.tools,
        ask_roots=given.ask_roots,
        page_size=given.page_size,
        empty_cursor=given.empty_cursor,
        tasks=given.tasks,
        apps=given.apps,
        skills=given.skills,
        http_port=given.http,
        host=given.host,
        transport=given.transport,
        style=given.style,
        lose_sessions=given.lose_sessions,
        drop_streams=given.drop_streams,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="demo",
        description="A complete MCP server on stdin and stdout, or over HTTP, for trying clients "
        "and gateways.",
    )
    add = parser.add_argument
    add(
        "--revision",
        action="append",
        choices=list(REVISIONS),
        metavar="DATE",
        help="a revision to speak; repeat it for more (default: all of them)",
    )
    era = parser.add_mutually_exclusive_group()
    era.add_argument(
        "--legacy-only",
        dest="era",
        action="store_const",
        const="legacy",
        help="speak only the revisions that begin with a handshake",
    )
    era.add_argument(
        "--modern-only",
        dest="era",
        action="store_const",
        const="modern",
        help="speak only the revisions that have no handshake",
    )
    add("--page-size", type=_positive, metavar="N", help="at most N entries in a page of a list")
    add("--empty-cursor", action="store_true", help='name the second page "", a legal cursor')
    add("--tools", type=int, default=0, metavar="N", help="add N tools named tool_0000 and so on")
    add("--tasks", action="store_true", help="add tools that can become tasks")
    add("--apps", action="store_true", help="add a tool that has a view (MCP Apps)")
    add("--skills", action="store_true", help="serve a skill")
    add("--name", default="anyport-demo", help="the name the server goes by")
    add("--instructions", default=INSTRUCTIONS, metavar="TEXT", help="its hint for the model")
    add("--ask-roots", action="store_true", help="ask for the roots right after the handshake")
    add("--noise", action="store_true", help="print lines that are not JSON before the first one")
    add("--slow-start", type=float, default=0.0, metavar="SECONDS", help="sleep before reading")
    add("--die-on-discover", action="store_true", help="exit with 1 when asked server/discover")
    _add_http(parser.add_argument_group("over HTTP"))
    return parser


def _add_http(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add("--http", type=_port, metavar="PORT", help="serve HTTP on this port; 0 for any free one")
    add("--host", default=HOST, help=f"the address to listen on (default: {HOST})")
    add(
        "--transport",
        choices=["streamable", "sse"],
        help="serve only Streamable HTTP on /mcp, or only HTTP+SSE on /sse (default: both)",
    )
    style = group.add_mutually_exclusive_group()
    style.add_argument(
        "--json-only",
        dest="style",
        action="store_const",
        const="json",
        help="never open an event stream on /mcp",
    )
    style.add_argument(
        "--sse-only",
        dest="style",
        action="store_const",
        const="sse",
        help="answer every request on /mcp with an event stream",
    )
    add(
        "--lose-sessions",
        type=_positive,
        metavar="N",
        help="forget a session after N requests, not counting the handshake",
    )
    add(
        "--drop-streams",
        action="store_true",
        help="close the response of each stream that can be resumed after its first event",
    )


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= PORT_MAX:
        raise argparse.ArgumentTypeError(f"must be between 0 and {PORT_MAX}")
    return number


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
