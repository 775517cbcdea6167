"""Request heads: trace context is split off before the cache, MCP headers are parsed."""

import hashlib
import json
from typing import Any

import pytest

from anyport.config.model import Token
from anyport.ingress.http.access import AccessControl
from anyport.ingress.http.request_head import (
    McpRequestHead,
    RequestHeadParser,
    RouteKind,
    split_trace_context,
)
from anyport.protocol.errors import Fault
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.request import ParsedRequest, read_request
from anyport.wire.http1 import HEAD_BYTES_MAX, HEADS_CACHED_MAX, BadMessage
from anyport.wire.jsonrpc import Request
from tests.ingress.http.stage import Stage, delete, get, play, post, post_modern, raw_request
from tests.protocol.fakes import request

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LINE, HOST, MORE = b"POST /mcp HTTP/1.1", b"\r\nHost: a", b"\r\nAccept: */*"


@pytest.mark.parametrize(
    ("fields", "context"),
    [
        (b"", {}),
        (b"\r\ntraceparent: p", {"traceparent": "p"}),
        (b"\r\nTraceParent:p", {"traceparent": "p"}),
        (b"\r\ntraceparent: \t p \t", {"traceparent": "p"}),
        (b"\r\ntraceparent: p\r\ntracestate: s", {"traceparent": "p", "tracestate": "s"}),
        (
            b"\r\ntracestate: s=1\r\ntraceparent: p\r\nTracestate: t=2",
            {"traceparent": "p", "tracestate": "s=1,t=2"},
        ),
        (b"\r\ntraceparent: p\r\nbaggage: k=1", {"traceparent": "p"}),
        (b"\r\nbaggage: k=1", {}),
        (b"\r\ntracestate: s", {}),
        (b"\r\ntraceparent: p\r\ntraceparent: q\r\ntracestate: s", {}),
    ],
)
def test_a_trace_is_taken_out_of_a_head(fields: bytes, context: dict[str, str]) -> None:
    assert split_trace_context(LINE + HOST + fields + MORE) == (LINE + HOST + MORE, context)
    assert split_trace_context(LINE + HOST + MORE + fields) == (LINE + HOST + MORE, context)


@pytest.mark.parametrize(
    "fields",
    [
        b"\r\nx-traceparent: p",
        b"\r\ntraceparents: p",
        b"\r\ntraceparent : p",
        b"\r\n traceparent: p",
        b"\ntraceparent: p",
        b"\r\ntraceparent: p\nHost: b",
        b"\r\ntraceparent: p\rHost: b",
        b"\r\ntraceparent: p\0",
        b"\r\ntraceparent: p\x7f",
        b"\r\ntraceparent: \xff",
    ],
)
def test_a_line_that_is_no_such_field_is_left_for_the_parser(fields: bytes) -> None:
    raw = LINE + HOST + fields + MORE
    assert split_trace_context(raw) == (raw, {})


def test_a_head_that_is_too_long_stays_too_long() -> None:
    raw = LINE + HOST + b"\r\nbaggage: " + b"x" * HEAD_BYTES_MAX
    assert split_trace_context(raw) == (raw, {})


def test_a_field_that_goes_on_in_the_next_line_is_refused_as_ever() -> None:
    async def scene(stage: Stage) -> None:
        raw = post(request("ping"), traceparent="p").replace(b"p\r\n", b"p\r\n q\r\n", 1)
        response = await stage.client().ask(raw)
        assert response.status == 400

    play(scene)


@pytest.mark.parametrize(
    "sent",
    [
        lambda **fields: post(request("tools/call", {"name": "a"}), **fields),
        lambda **fields: post_modern("tools/call", {"name": "a"}, **fields),
    ],
)
def test_a_request_brings_the_trace_of_its_head_along(sent: Any) -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        client = stage.client()
        await client.ask(sent())
        assert dict(stage.last.trace_headers) == {}
        await client.ask(sent(traceparent=PARENT, tracestate="v=1"))
        assert stage.last.trace_headers == {"traceparent": PARENT, "tracestate": "v=1"}
        await client.ask(sent())
        assert dict(stage.last.trace_headers) == {}

    play(scene)


def test_traces_do_not_push_other_heads_out_of_memory() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        client = stage.client()
        await client.ask(post(request("ping")))
        known = dict(stage.ingress.heads.cached)
        for number in range(HEADS_CACHED_MAX + 1):
            await client.ask(post(request("ping"), traceparent=f"{PARENT[:-7]}{number:04}-01"))
        assert stage.ingress.heads.cached == known

    play(scene)


# MCP headers.

PROFILES = {"default": None, "dev": None, "info": None}
DOOR = AccessControl(hosts=(), origins=(), tokens=())


def visit(
    raw: bytes, default: str | None = "default", access: AccessControl = DOOR
) -> McpRequestHead:
    return RequestHeadParser(access, PROFILES, default).parse(raw.partition(b"\r\n\r\n")[0])


def at(path: str, default: str | None = "default") -> tuple[RouteKind, str]:
    found = visit(post(request("ping"), path), default)
    return found.route, found.profile


@pytest.mark.parametrize(
    ("path", "goal", "profile"),
    [
        ("/mcp", RouteKind.MCP, "default"),
        ("/mcp/", RouteKind.MCP, "default"),
        ("/mcp?x=y", RouteKind.MCP, "default"),
        ("/mcp/dev", RouteKind.MCP, "dev"),
        ("/mcp/dev/", RouteKind.MCP, "dev"),
        ("/mcp/%64ev", RouteKind.MCP, "dev"),
        ("/mcp/dev/sse", RouteKind.SSE, "dev"),
        ("/mcp/dev/messages?session_id=1", RouteKind.MESSAGES, "dev"),
        ("/mcp/dev/info", RouteKind.OTHER, ""),
        ("/mcp/info", RouteKind.MCP, "info"),
        ("/mcp/dev/other", RouteKind.OTHER, "dev"),
        ("/mcp/dev/sse/more", RouteKind.OTHER, ""),
        ("/mcp/nobody", RouteKind.UNKNOWN_PROFILE, "nobody"),
        ("/mcp/nobody/sse", RouteKind.UNKNOWN_PROFILE, "nobody"),
        ("/mcp/../dev", RouteKind.UNKNOWN_PROFILE, ".."),
        ("/", RouteKind.OTHER, ""),
        ("/healthz", RouteKind.OTHER, ""),
        ("/mcpx", RouteKind.OTHER, ""),
        ("/api/v1/mcp", RouteKind.OTHER, ""),
    ],
)
def test_a_path_leads_somewhere(path: str, goal: RouteKind, profile: str) -> None:
    assert at(path) == (goal, profile)


def test_there_may_be_no_profile_at_the_short_path() -> None:
    assert at("/mcp", default=None) == (RouteKind.UNKNOWN_PROFILE, "")


def test_a_legacy_head_says_session_and_revision() -> None:
    found = visit(
        post(
            request("ping"),
            mcp_session_id="s",
            mcp_protocol_version="2025-06-18",
            last_event_id="1-2",
        )
    )

    assert (found.session_id, found.version, found.last_event_id) == ("s", "2025-06-18", "1-2")
    assert found.revision is not None
    assert not found.is_modern
    assert not found.may_be_modern
    assert found.principal == LOCAL
    assert found.denial is None


@pytest.mark.parametrize(
    ("version", "is_modern", "speaks_modern"),
    [
        ("2026-07-28", True, True),
        ("2025-11-25", False, False),
        ("2099-01-01", False, True),
        ("x", False, True),
        (None, False, False),
    ],
)
def test_an_unknown_revision_counts_as_modern(
    version: str | None, is_modern: bool, speaks_modern: bool
) -> None:
    fields = {} if version is None else {"mcp_protocol_version": version}
    found = visit(post(request("ping"), **fields))

    assert (found.is_modern, found.may_be_modern) == (is_modern, speaks_modern)


def test_a_modern_head_says_method_name_and_parameters() -> None:
    found = visit(post_modern("tools/call", {"name": "echo"}, mcp_param_region="eu"))

    assert (found.method, found.name) == ("tools/call", "echo")
    assert found.param_fields == (("mcp-param-region", "eu"),)
    assert found.is_modern


def test_a_name_may_be_encoded() -> None:
    found = visit(post_modern("tools/call", {"name": "echo"}, mcp_name="=?base64?w6k=?="))

    assert found.name == "é"
    assert found.bad_field is None


@pytest.mark.parametrize(
    "name", ["mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id"]
)
def test_a_repeated_header_is_noticed(name: str) -> None:
    twice = f"{name}: a\r\n{name}: b\r\nhost: ".encode()
    raw = post(request("ping")).replace(b"host: ", twice, 1)

    assert visit(raw).bad_field == name


def test_a_name_with_invalid_base64_is_noticed() -> None:
    assert visit(post_modern("tools/call", mcp_name="=?base64?!?=")).bad_field == "mcp-name"


def read(raw: bytes) -> ParsedRequest:
    message = json.loads(raw.partition(b"\r\n\r\n")[2])
    frame = Request(b"1", message["method"], json.dumps(message["params"]).encode())
    found = read_request(frame)
    assert isinstance(found, ParsedRequest)
    return found


def disagreement(raw: bytes, version: str = "2026-07-28") -> Fault | None:
    return visit(raw).find_header_mismatch(read(raw), version)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "echo"}),
        ("prompts/get", {"name": "p"}),
        ("resources/read", {"uri": "file:///x"}),
        ("tools/list", {}),
        ("completion/complete", {"ref": {}}),
        ("tools/call", {}),
    ],
)
def test_headers_that_repeat_the_body_agree_with_it(method: str, params: Any) -> None:
    assert disagreement(post_modern(method, params)) is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"mcp_method": "tools/list"}, "Mcp-Method"),
        ({"mcp_name": "other"}, "Mcp-Name"),
        ({"mcp_protocol_version": "2025-11-25"}, "MCP-Protocol-Version"),
    ],
)
def test_headers_that_differ_from_the_body_are_named(fields: dict[str, str], words: str) -> None:
    fault = disagreement(post_modern("tools/call", {"name": "echo"}, **fields))

    assert fault is not None
    assert fault.message.startswith(f"Header mismatch: {words} is ")


@pytest.mark.parametrize("name", ["mcp-method", "mcp-name", "mcp-protocol-version"])
def test_missing_and_repeated_headers_are_named(name: str) -> None:
    raw = post_modern("tools/call", {"name": "echo"})
    line = next(line for line in raw.split(b"\r\n") if line.startswith(name.encode()))

    for changed in (raw.replace(line + b"\r\n", b""), raw.replace(line, line + b"\r\n" + line)):
        fault = disagreement(changed)

        assert fault is not None
        assert name in fault.message.lower()


def test_a_mismatch_repeats_only_so_much_of_what_was_sent() -> None:
    fault = disagreement(post_modern("tools/call", {"name": "echo"}, mcp_name="x" * 5000))

    assert fault is not None
    assert len(fault.message) < 400


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (post(request("ping")), None),
        (get(), None),
        (delete(), None),
        (raw_request("PUT", "/mcp", b"{}", {}), 405),
        (raw_request("OPTIONS", "/mcp", None, {}), 405),
        (raw_request("HEAD", "/mcp", None, {}), 405),
        (post(request("ping"), "/mcp/dev/sse"), 405),
        (get("/mcp/dev/messages"), 405),
        (get("/mcp/dev/sse"), None),
        (post(request("ping"), "/mcp/dev/messages", accept="*/*"), None),
        (post(request("ping"), "/mcp/dev/messages", accept="text/html"), None),
        (post(request("ping"), accept="text/html"), 406),
        (post(request("ping"), accept="application/json"), None),
        (post(request("ping"), accept="text/event-stream"), None),
        (post(request("ping"), content_type="text/plain"), 415),
        (get(accept="application/json"), 406),
        (post(request("ping"), host="evil.example"), 421),
        (post(request("ping"), origin="https://evil.example"), 403),
    ],
)
def test_what_can_be_refused_without_its_body_is(raw: bytes, status: int | None) -> None:
    denial = visit(raw).denial

    assert (None if denial is None else denial.status) == status


def test_a_refused_method_comes_with_the_allowed_ones() -> None:
    denial = visit(raw_request("PUT", "/mcp", b"{}", {})).denial

    assert denial is not None
    assert denial.fields == (("allow", "GET, POST, DELETE"),)


def test_a_token_is_required_and_names_the_principal() -> None:
    token = Token(name="laptop", digest=hashlib.sha256(b"secret").digest())
    access = AccessControl(hosts=(), origins=(), tokens=(token,))

    known = visit(post(request("ping"), authorization="Bearer secret"), access=access)
    unknown = visit(post(request("ping")), access=access)

    assert known.principal == Principal("token", "laptop")
    assert known.denial is None
    assert unknown.denial is not None
    assert unknown.denial.status == 401


def test_the_length_of_a_body_is_known_unless_it_is_chunked() -> None:
    assert visit(post(b"12345")).length == 5
    assert visit(get()).length == 0
    assert visit(raw_request("POST", "/mcp", None, {"transfer-encoding": "chunked"})).length == -1


def test_what_is_not_a_head_is_refused() -> None:
    with pytest.raises(BadMessage):
        visit(b"hello\r\n\r\n")


@pytest.mark.parametrize(
    ("raw", "straight"),
    [
        (post(request("ping")), True),
        (post(request("ping"), mcp_session_id="s", mcp_protocol_version="2025-06-18"), True),
        (post_modern("tools/call", {"name": "a"}), True),
        (post_modern("tools/call", {"name": "a"}, mcp_param_x="1"), False),
        (post_modern("tools/call", {"name": "a"}, mcp_name="=?base64?!?="), False),
        (post(request("ping"), mcp_protocol_version="2099-01-01"), False),
        (post(request("ping"), connection="close"), False),
        (post(request("ping"), accept="application/json"), False),
        (post(request("ping"), content_type="text/plain"), False),
        (post(request("ping"), host="evil.example"), False),
        (post(request("ping"), "/mcp/dev/messages"), False),
        (post(request("ping"), "/healthz"), False),
        (get(), False),
    ],
)
def test_only_what_has_nothing_unusual_about_it_goes_straight_on(
    raw: bytes, straight: bool
) -> None:
    assert visit(raw).is_plain_post is straight
