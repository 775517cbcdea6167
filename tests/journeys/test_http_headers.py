"""The header fields of a request against its body: code and status of every combination.

What is expected is what the revisions say: keys of the envelope first, then the fields, then the
revision, then the method, then the fields that repeat arguments. Older revisions have none of
these fields, and whatever stands in them means nothing.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from tests.harness import MODERN_META, Message, transparent
from tests.journeys.clients import META, MODERN, SessionClient, hello, wrapped
from tests.journeys.http_gateway import Field, HttpGateway, serving
from tests.journeys.scripts import Scripted, failure, result, rule, text

VERSION: Final = "MCP-Protocol-Version"
METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"
REGION, SHARD, FLAG, ZONE = (f"Mcp-Param-{name}" for name in ("Region", "Shard", "Flag", "Zone"))

OK: Final = (200, None)
ACCEPTED: Final = (202, None)
INVALID: Final = (400, -32602)
MISMATCH: Final = (400, -32020)
UNSUPPORTED: Final = (400, -32022)
NO_METHOD: Final = (404, -32601)
BAD_REQUEST: Final = (400, -32600)
SENTINEL: Final = "=?base64?ZWNobw==?="
"""What `echo` looks like when it is wrapped, and the raw name of another tool."""
FREE_URI: Final = "file:///naïve.txt"
_INDEX: Final = {"string": "Region", "integer": "Shard", "boolean": "Flag"}


class Case(NamedTuple):
    """One request, and what it must get."""

    title: str
    message: Message
    fields: list[Field]
    expected: tuple[int, int | None]


def envelope(**changes: Any) -> Message:
    """The envelope with some keys changed; `...` leaves one out."""
    changed = {**MODERN_META, **{META + name: value for name, value in changes.items()}}
    return {name: value for name, value in changed.items() if value is not ...}


def case(
    title: str,
    expected: tuple[int, int | None],
    method: str = "tools/list",
    params: Message | None = None,
    *fields: Field,
    meta: Message | None = MODERN_META,
    **changes: Any,
) -> Case:
    """A modern request with these fields in place of those it should have.

    `version`, `named` and `said` change the three usual ones: None leaves the field out, a list
    sends it that many times.
    """
    body = dict(params or {}) if meta is None else {**(params or {}), "_meta": meta}
    usual: dict[str, Any] = {
        VERSION: changes.get("version", MODERN),
        METHOD: changes.get("said", method),
        NAME: changes.get("named", body.get("uri" if method == "resources/read" else "name")),
    }
    sent = [
        (name, value)
        for name, values in usual.items()
        for value in (values if isinstance(values, list) else [values])
        if value is not None
    ]
    message = {"jsonrpc": "2.0", "id": title, "method": method, "params": body}
    return Case(title, message, [*sent, *fields], expected)


def call(title: str, expected: tuple[int, int | None], **changes: Any) -> Case:
    return case(title, expected, "tools/call", {"name": "echo", "arguments": {}}, **changes)


def regional(
    title: str, expected: tuple[int, int | None], arguments: Message, *fields: Field, **rest: Any
) -> Case:
    params = {"name": "regional", "arguments": arguments}
    return case(title, expected, "tools/call", params, *fields, **rest)


def read(title: str, expected: tuple[int, int | None], uri: str, **changes: Any) -> Case:
    return case(title, expected, "resources/read", {"uri": uri}, **changes)


def of(version: Any) -> Message:
    return envelope(protocolVersion=version)


VERSIONS = [
    case("the same version", OK),
    case("no version field", MISMATCH, version=None),
    case("an empty version field", MISMATCH, version=""),
    case("spaces around the version", OK, version=f"  {MODERN}  "),
    case("the version twice", MISMATCH, version=[MODERN, MODERN]),
    case("two versions", MISMATCH, version=[MODERN, "2025-11-25"]),
    case("two versions, the wrong one first", MISMATCH, version=["2025-11-25", MODERN]),
    case("two versions in one field", MISMATCH, version=f"{MODERN}, {MODERN}"),
    case("a wrapped version: it is taken literally", MISMATCH, version=wrapped(MODERN)),
    case(
        "the field in upper case", OK, "tools/list", None, (VERSION.upper(), MODERN), version=None
    ),
    case(
        "the field in lower case", OK, "tools/list", None, (VERSION.lower(), MODERN), version=None
    ),
    *(
        case(f"the field says {version}", MISMATCH, version=version)
        for version in ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2027-01-01", "x")
    ),
    *(
        case(f"both say {version}", UNSUPPORTED, version=version, meta=of(version))
        for version in ("2027-01-01", "junk", "2025-11-25", "2025-06-18", "2025-03-26")
    ),
    case("an unknown version in the body alone", MISMATCH, meta=of("2027-01-01")),
    case("two different unknown versions", MISMATCH, version="2027-01-02", meta=of("2027-01-01")),
    case("an unknown version without a field", MISMATCH, version=None, meta=of("2027-01-01")),
    case("an older version in the body alone", MISMATCH, meta=of("2025-11-25")),
    case("an unknown version and method", UNSUPPORTED, "x", version="junk", meta=of("junk")),
]

ENVELOPES = [
    case("a version that is a number", INVALID, meta=of(20260728)),
    case("a version that is null", INVALID, meta=of(None)),
    case("a version that is an object", INVALID, meta=of({})),
    case("no capabilities", INVALID, meta=envelope(clientCapabilities=...)),
    case("capabilities that are null", INVALID, meta=envelope(clientCapabilities=None)),
    case("capabilities that are a list", INVALID, meta=envelope(clientCapabilities=[])),
    case(
        "no capabilities, and another version in the field",
        INVALID,
        version="2025-11-25",
        meta=envelope(clientCapabilities=...),
    ),
    case(
        "no capabilities, and an unknown version",
        INVALID,
        version="junk",
        meta=envelope(protocolVersion="junk", clientCapabilities=...),
    ),
    case("no client", OK, meta=envelope(clientInfo=...)),
    case("a level that is none", INVALID, meta=envelope(logLevel="loud")),
    case("no envelope, with the modern field", INVALID, meta=None),
    case("an empty envelope, with the modern field", INVALID, meta={}),
    case("no version, but the rest", INVALID, meta=envelope(protocolVersion=...)),
    case("no envelope, with an unknown version", UNSUPPORTED, version="2027-01-01", meta=None),
    case("no envelope, with junk for a version", UNSUPPORTED, version="junk", meta=None),
    case("no envelope and no fields", OK, version=None, said=None, meta=None),
    case("no envelope, with a version that has none", OK, version="2025-03-26", meta=None),
    case("2025-06-18 without its session", BAD_REQUEST, version="2025-06-18", meta=None),
    case("2025-11-25 without its session", BAD_REQUEST, version="2025-11-25", meta=None),
    case("an envelope and a session id", OK, "tools/list", None, ("Mcp-Session-Id", "what?")),
    case("an envelope and an event id", OK, "tools/list", None, ("Last-Event-ID", "1-1")),
]

METHODS = [
    case("no method field", MISMATCH, said=None),
    case("an empty method field", MISMATCH, said=""),
    case("another method", MISMATCH, said="tools/call"),
    case("the method in another case", MISMATCH, said="Tools/List"),
    case("spaces around the method", OK, said="\ttools/list "),
    case("the method twice", MISMATCH, said=["tools/list", "tools/list"]),
    case("two methods", MISMATCH, said=["tools/list", "tools/call"]),
    case("two methods, the wrong one first", MISMATCH, said=["tools/call", "tools/list"]),
    case("a wrapped method: it is taken literally", MISMATCH, said=wrapped("tools/list")),
    case("more than the method", MISMATCH, said="tools/list/"),
    case("no version and no method field", MISMATCH, version=None, said=None),
    *(
        case(f"{method}, which is gone", NO_METHOD, method)
        for method in (
            *("initialize", "ping", "logging/setLevel", "resources/subscribe"),
            *("resources/unsubscribe", "tasks/result", "tasks/list", "roots/list"),
        )
    ),
    case("a method that never was", NO_METHOD, "tools/frobnicate"),
    case("a method in another case", NO_METHOD, "Tools/list"),
    case("a method that is gone, and no field", MISMATCH, "ping", said=None),
    case("a method that is gone, and another field", MISMATCH, "ping", said="tools/list"),
    case("a handshake with the fields of another method", MISMATCH, "initialize", said="ping"),
]

NAMES = [
    call("the same name", OK),
    call("no name field", MISMATCH, named=None),
    call("an empty name field", MISMATCH, named=""),
    call("another name", MISMATCH, named="regional"),
    call("the name in another case", MISMATCH, named="Echo"),
    call("the name twice", MISMATCH, named=["echo", "echo"]),
    call("two names", MISMATCH, named=["echo", "regional"]),
    call("two names, the wrong one first", MISMATCH, named=["regional", "echo"]),
    call("a plain name wrapped", OK, named=wrapped("echo")),
    call("another name wrapped", MISMATCH, named=wrapped("regional")),
    call("a wrapping that holds nothing", MISMATCH, named="=?base64??="),
    call("a wrapping that is no base64", MISMATCH, named="=?base64?!!!!?="),
    call("a wrapping without its padding", MISMATCH, named="=?base64?ZWNobw?="),
    call("a wrapping with stray bits", MISMATCH, named="=?base64?ZWNobx==?="),
    call("a wrapping with a space in it", MISMATCH, named="=?base64?ZWNo bw==?="),
    call("a wrapping that is no UTF-8", MISMATCH, named="=?base64?/////w==?="),
    call("the wrong wrapping", MISMATCH, named="=?utf-8?B?ZWNobw==?="),
    call("a name and another version", MISMATCH, version="2025-11-25"),
    call("a wrong name and an unknown version", MISMATCH, named="x", version="j", meta=of("j")),
    case("a raw name that looks wrapped", MISMATCH, "tools/call", {"name": SENTINEL}),
    case("the same name wrapped", OK, "tools/call", {"name": SENTINEL}, named=wrapped(SENTINEL)),
    case("a name nobody has", INVALID, "tools/call", {"name": "nobody"}),
    case("a name that is a number", INVALID, "tools/call", {"name": 7}, named=None),
    case("no name at all", INVALID, "tools/call", {"arguments": {}}),
    case("a prompt", OK, "prompts/get", {"name": "greet"}),
    case("a prompt without the field", MISMATCH, "prompts/get", {"name": "greet"}, named=None),
    case("a prompt, another field", MISMATCH, "prompts/get", {"name": "greet"}, named="echo"),
    read("a resource", OK, "x:plain"),
    read("a resource without the field", MISMATCH, "x:plain", named=None),
    read("a resource, another field", MISMATCH, "x:plain", named="x:plane"),
    read("a resource beyond ASCII, wrapped", OK, FREE_URI, named=wrapped(FREE_URI)),
    read("a resource beyond ASCII, raw", MISMATCH, FREE_URI, named=FREE_URI),
    read("a resource nobody has", INVALID, "x:nobody"),
]

EU: Final = {"region": "eu"}
PARAMS = [
    regional("an argument repeated", OK, EU, (REGION, "eu")),
    regional("an argument not repeated", MISMATCH, EU),
    regional("another value", MISMATCH, EU, (REGION, "us")),
    regional("the value in another case", MISMATCH, EU, (REGION, "EU")),
    regional("the field twice", MISMATCH, EU, (REGION, "eu"), (REGION, "eu")),
    regional("two values", MISMATCH, EU, (REGION, "eu"), (REGION, "us")),
    regional("a value wrapped", OK, EU, (REGION, wrapped("eu"))),
    regional("a value badly wrapped", MISMATCH, EU, (REGION, "=?base64?ZXU?=")),
    regional("the field in another case", OK, EU, (REGION.upper(), "eu")),
    regional("a field without its argument", MISMATCH, {}, (REGION, "eu")),
    regional("a field for null", MISMATCH, {"region": None}, (REGION, "null")),
    regional("no field for null", OK, {"region": None}),
    regional("a value beyond ASCII, wrapped", OK, {"region": "ö"}, (REGION, wrapped("ö"))),
    regional("a value beyond ASCII, raw", MISMATCH, {"region": "ö"}, (REGION, "ö")),
    regional("spaces at the edge, wrapped", OK, {"region": " eu"}, (REGION, wrapped(" eu"))),
    regional("spaces at the edge, raw", MISMATCH, {"region": " eu"}, (REGION, " eu")),
    regional("an integer", OK, {"shard": 42}, (SHARD, "42")),
    regional("an integer with a fraction of zero", OK, {"shard": 42}, (SHARD, "42.0")),
    regional("another integer", MISMATCH, {"shard": 42}, (SHARD, "43")),
    regional("no number", MISMATCH, {"shard": 42}, (SHARD, "forty-two")),
    regional("no digits at all", MISMATCH, {"shard": 42}, (SHARD, "")),
    regional("a negative integer", OK, {"shard": -7}, (SHARD, "-7")),
    regional("a boolean", OK, {"flag": True}, (FLAG, "true")),
    regional("a boolean in another case", MISMATCH, {"flag": True}, (FLAG, "True")),
    regional("a boolean as a number", MISMATCH, {"flag": True}, (FLAG, "1")),
    regional("the other boolean", MISMATCH, {"flag": False}, (FLAG, "true")),
    regional("an argument further inside", OK, {"where": {"zone": "z"}}, (ZONE, "z")),
    regional("an inner argument not repeated", MISMATCH, {"where": {"zone": "z"}}),
    regional("a field that nobody defines", OK, EU, (REGION, "eu"), ("Mcp-Param-Other", "1")),
    regional("a wrong field and an unknown method", MISMATCH, EU, (REGION, "us"), said="x"),
]

CASES = [*VERSIONS, *ENVELOPES, *METHODS, *NAMES, *PARAMS]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Scripted:
    """Tools with names and arguments that have to be repeated in fields."""
    properties: Message = {
        name.lower(): {"type": kind, "x-mcp-header": name} for kind, name in _INDEX.items()
    }
    zone = {"zone": {"type": "string", "x-mcp-header": "Zone"}}
    properties["where"] = {"type": "object", "properties": zone}
    offers = [
        {"name": "echo", "inputSchema": {"type": "object"}},
        {"name": SENTINEL, "inputSchema": {"type": "object"}},
        {"name": "regional", "inputSchema": {"type": "object", "properties": properties}},
    ]
    resources = [{"uri": uri, "name": uri} for uri in ("x:plain", FREE_URI)]
    unknown = failure({"code": -32602, "message": "Nobody has this"})
    return Scripted(
        tmp_path_factory.mktemp("server"),
        rule("tools/list", result({"tools": offers})),
        rule("prompts/list", result({"prompts": [{"name": "greet"}]})),
        rule("resources/list", result({"resources": resources})),
        rule("tools/call", unknown, where={"name": "nobody"}),
        rule("resources/read", unknown, where={"uri": "x:nobody"}),
        rule("tools/call", result(text("called"))),
        rule("prompts/get", result({"messages": []})),
        rule("resources/read", result({"contents": []})),
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, server: Scripted) -> Iterator[HttpGateway]:
    """A gateway that shows the server under its own names."""
    servers, profiles = {"only": server.command}, transparent("only")
    with serving(tmp_path_factory.mktemp("headers"), servers, profiles=profiles) as site:
        SessionClient(site).request("tools/list")
        yield site


def outcome(site: HttpGateway, message: Message, fields: list[Field]) -> tuple[int, int | None]:
    """Status and code of what a message gets; the answer has its id."""
    # What is no ASCII goes out as UTF-8, as a careless client would send it.
    raw = [(name, value.encode().decode("latin-1")) for name, value in fields]
    answer = site.post(message, *raw)
    words = answer.text()
    if not words:
        return answer.status, None
    told = json.loads(words)
    assert told.get("id") == message["id"], told
    return answer.status, told["error"]["code"] if "error" in told else None


def test_there_are_a_hundred_and_twenty_of_them() -> None:
    assert len(CASES) >= 120
    assert len({case.title for case in CASES}) == len(CASES)


def test_code_and_status(site: HttpGateway, server: Scripted) -> None:
    got, reached = {}, []
    for case in CASES:
        calls = len(server.heard("tools/call"))
        got[case.title] = outcome(site, case.message, case.fields)
        if case.expected is MISMATCH and len(server.heard("tools/call")) != calls:
            reached.append(case.title)
    assert got == {case.title: case.expected for case in CASES}
    assert not reached, "refused calls that reached the server"


WRONG: Final = [(METHOD, "ping"), (NAME, "nobody"), (REGION, "us"), (NAME, "=?base64?!?=")]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_older_revisions_know_none_of_these_fields(site: HttpGateway, revision: str) -> None:
    session = SessionClient(site, revision)
    params = {"name": "regional", "arguments": EU}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    assert outcome(site, message, [*session.fields, *WRONG]) == OK


@pytest.mark.parametrize("version", [MODERN, "junk", "2025-11-25", None])
def test_a_handshake_is_one_whatever_the_version_field_says(
    site: HttpGateway, version: str | None
) -> None:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": hello("2025-06-18"),
    }
    assert outcome(site, message, [] if version is None else [(VERSION, version)]) == OK


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([], ACCEPTED),
        ([(VERSION, MODERN)], ACCEPTED),
        ([(VERSION, MODERN), (METHOD, "notifications/cancelled")], ACCEPTED),
    ],
)
def test_a_notification_that_stands_alone_is_taken(
    site: HttpGateway, fields: list[Field], expected: tuple[int, int | None]
) -> None:
    params = {"requestId": 1, "_meta": MODERN_META}
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    assert outcome(site, message, fields) == expected
