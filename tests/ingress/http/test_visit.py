"""What a head says, made out once: where it leads, who comes, what may be refused at once."""

import hashlib
import json
from typing import Any

import pytest

from anyport.config.schema import Token
from anyport.ingress.http.door import Door
from anyport.ingress.http.visit import Goal, Reception, Visit
from anyport.protocol.errors import Fault
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.reading import Reading, read_request
from anyport.wire.frame import Request
from anyport.wire.http import BadMessage
from tests.ingress.http.stage import delete, get, post, post_modern, raw_request
from tests.protocol.fakes import request

PROFILES = {"default": None, "dev": None, "info": None}
DOOR = Door(hosts=(), origins=(), tokens=())


def visit(raw: bytes, default: str | None = "default", door: Door = DOOR) -> Visit:
    return Reception(door, PROFILES, default).read(raw.partition(b"\r\n\r\n")[0])


def at(path: str, default: str | None = "default") -> tuple[Goal, str]:
    found = visit(post(request("ping"), path), default)
    return found.goal, found.profile


@pytest.mark.parametrize(
    ("path", "goal", "profile"),
    [
        ("/mcp", Goal.MCP, "default"),
        ("/mcp/", Goal.MCP, "default"),
        ("/mcp?x=y", Goal.MCP, "default"),
        ("/mcp/dev", Goal.MCP, "dev"),
        ("/mcp/dev/", Goal.MCP, "dev"),
        ("/mcp/%64ev", Goal.MCP, "dev"),
        ("/mcp/dev/sse", Goal.SSE, "dev"),
        ("/mcp/dev/messages?session_id=1", Goal.MESSAGES, "dev"),
        ("/mcp/dev/info", Goal.ASIDE, ""),
        ("/mcp/info", Goal.MCP, "info"),
        ("/mcp/dev/other", Goal.ASIDE, "dev"),
        ("/mcp/dev/sse/more", Goal.ASIDE, ""),
        ("/mcp/nobody", Goal.NOWHERE, "nobody"),
        ("/mcp/nobody/sse", Goal.NOWHERE, "nobody"),
        ("/mcp/../dev", Goal.NOWHERE, ".."),
        ("/", Goal.ASIDE, ""),
        ("/healthz", Goal.ASIDE, ""),
        ("/mcpx", Goal.ASIDE, ""),
        ("/api/v1/mcp", Goal.ASIDE, ""),
    ],
)
def test_a_path_leads_somewhere(path: str, goal: Goal, profile: str) -> None:
    assert at(path) == (goal, profile)


def test_there_may_be_no_profile_at_the_short_path() -> None:
    assert at("/mcp", default=None) == (Goal.NOWHERE, "")


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
    assert not found.speaks_modern
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
def test_a_revision_that_nobody_knows_is_taken_for_a_new_one(
    version: str | None, is_modern: bool, speaks_modern: bool
) -> None:
    fields = {} if version is None else {"mcp_protocol_version": version}
    found = visit(post(request("ping"), **fields))

    assert (found.is_modern, found.speaks_modern) == (is_modern, speaks_modern)


def test_a_modern_head_says_method_name_and_parameters() -> None:
    found = visit(post_modern("tools/call", {"name": "echo"}, mcp_param_region="eu"))

    assert (found.method, found.name) == ("tools/call", "echo")
    assert found.param_fields == (("mcp-param-region", "eu"),)
    assert found.is_modern


def test_a_name_may_be_encoded() -> None:
    found = visit(post_modern("tools/call", {"name": "echo"}, mcp_name="=?base64?w6k=?="))

    assert found.name == "é"
    assert found.repeated is None


@pytest.mark.parametrize(
    "name", ["mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id"]
)
def test_a_header_that_must_stand_once_and_stands_twice_is_noticed(name: str) -> None:
    twice = f"{name}: a\r\n{name}: b\r\nhost: ".encode()
    raw = post(request("ping")).replace(b"host: ", twice, 1)

    assert visit(raw).repeated == name


def test_a_name_that_is_not_encoded_as_it_says_is_noticed() -> None:
    assert visit(post_modern("tools/call", mcp_name="=?base64?!?=")).repeated == "mcp-name"


def read(raw: bytes) -> Reading:
    message = json.loads(raw.partition(b"\r\n\r\n")[2])
    frame = Request(b"1", message["method"], json.dumps(message["params"]).encode())
    found = read_request(frame)
    assert isinstance(found, Reading)
    return found


def disagreement(raw: bytes, version: str = "2026-07-28") -> Fault | None:
    return visit(raw).disagreement(read(raw), version)


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
def test_headers_that_are_missing_or_stand_twice_are_named(name: str) -> None:
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


def test_a_refusal_of_a_method_says_which_are_known() -> None:
    denial = visit(raw_request("PUT", "/mcp", b"{}", {})).denial

    assert denial is not None
    assert denial.fields == (("allow", "GET, POST, DELETE"),)


def test_who_has_a_token_comes_as_somebody_and_nobody_else_comes_in() -> None:
    token = Token(name="laptop", digest=hashlib.sha256(b"secret").digest())
    door = Door(hosts=(), origins=(), tokens=(token,))

    known = visit(post(request("ping"), authorization="Bearer secret"), door=door)
    unknown = visit(post(request("ping")), door=door)

    assert known.principal == Principal("token", "laptop")
    assert known.denial is None
    assert unknown.denial is not None
    assert unknown.denial.status == 401


def test_the_length_of_a_body_is_known_unless_it_is_chunked() -> None:
    assert visit(post(b"12345")).length == 5
    assert visit(get()).length == 0
    assert visit(raw_request("POST", "/mcp", None, {"transfer-encoding": "chunked"})).length == -1


def test_what_is_no_head_is_no_visit() -> None:
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
    assert visit(raw).straight is straight
