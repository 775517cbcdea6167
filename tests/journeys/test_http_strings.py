"""Any text, anywhere: in names, in header fields on both sides, in events, in lists.

What comes out must be what went in, and nothing in it may be taken for a part of HTTP or SSE.
"""

import base64
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import MODERN_META, Message, transparent
from tests.journeys.clients import (
    META,
    Client,
    Kept,
    ModernClient,
    SessionClient,
    SseClient,
    encoded,
    mirrored,
    names,
    request,
)
from tests.journeys.http_gateway import EVENTS, JSON, HttpGateway, serving
from tests.journeys.scripted_http_server import (
    ReceivedRequest,
    Reply,
    ScriptedHttpServer,
    echoing,
    modern,
    tool,
)
from tests.journeys.scripts import Scripted, result, rule, said, text
from tests.rig.scale import scaled

PIECES = (
    *("\n", "\r", "\r\n", "\n\ndata: x", "\n\nevent: endpoint\ndata: /", "data:", "id: 7", ":"),
    *("\u2028", "\u2029", "\x00", "\x1b", "\x7f", "\x85", "\ufeff", "\u200b", "\u202e", "\ufffd"),
    *("=?base64?", "?=", "=?base64?ZQ==?=", " ", "\t", "  ", '"', "\\", "\\n", "{}", "/../", ","),
    *("a", "Z", "0", "ä", "ß", "é", "e\u0301", "\ufb01", "\u212a", "\U0001d518", "\U0001f600"),
    *("漢", "ع", "Mcp-Name: x", "%0d%0a"),
)
LINE = re.compile(rb"[\x21-\x7e][\x20-\x7e\t]*\r\n")


def oddities(count: int, seed: int) -> list[str]:
    """Texts made of whatever has ever gone wrong; the same ones in every run."""
    chance = random.Random(seed)
    made = [*PIECES]
    while len(made) < count:
        made.append("".join(chance.choices(PIECES, k=chance.randint(1, 6))))
    return made


def unwrapped(value: str) -> str:
    """What a field value stands for, read as the specification says."""
    found = re.fullmatch(r"=\?base64\?(.*)\?=", value)
    return value if found is None else base64.b64decode(found[1], validate=True).decode()


# Header fields


def test_names_and_values_of_any_kind_reach_a_server_in_clean_fields(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"value": {"type": "string", "x-mcp-header": "Value"}},
    }
    offers: Message = {"tools": {}, "prompts": {}, "resources": {}}

    def script(heard: ReceivedRequest, back: Reply) -> None:
        if heard.method in ("prompts/list", "resources/list", "resources/templates/list"):
            member = {"resources/templates/list": "resourceTemplates"}.get(
                heard.method, heard.method.partition("/")[0]
            )
            back.result(heard, {"resultType": "complete", member: []})
        else:
            echoing(heard, back)

    texts = oddities(scaled(250, full=10_000), 1)
    with (
        ScriptedHttpServer(modern(script, tool("fuzz", schema), capabilities=offers)) as web,
        serving(tmp_path, {"only": {"url": web.url}}, profiles=transparent("only")) as site,
    ):
        names(ModernClient(site))
        line = Kept(site)
        for odd in texts:
            call = {"name": "fuzz", "arguments": {"value": odd}, "_meta": MODERN_META}
            value = ("Mcp-Param-Value", encoded(odd))
            status, answer = line.post(request("tools/call", call), value)
            assert (status, json.loads(said(answer))) == (200, {"value": odd})
            status, _ = line.post(request("tools/call", {"name": odd, "_meta": MODERN_META}))
            assert status == 200
            read = {"uri": odd, "_meta": MODERN_META}
            status, _ = line.post(request("resources/read", read))
            assert status == 200
        calls = [heard for heard in web.heard if heard.method in ("tools/call", "resources/read")]
    assert len(calls) == 3 * len(texts)
    for heard in calls:
        assert all(LINE.fullmatch(line) for line in heard.raw.splitlines(keepends=True)), heard.raw
        params = heard.message["params"]
        named = params["uri"] if heard.method == "resources/read" else params["name"]
        assert unwrapped(heard.fields["mcp-name"]) == named
        if named == "fuzz":
            assert unwrapped(heard.fields["mcp-param-value"]) == params["arguments"]["value"]
    values = [heard.message["params"].get("arguments", {}).get("value") for heard in calls[::3]]
    assert values == texts


# Events


def breaking(heard: ReceivedRequest, back: Reply) -> None:
    """Echoes with raw line breaks wherever JSON allows them, and no needless escapes."""
    words = json.dumps(heard.message["params"]["arguments"]["text"], ensure_ascii=False)
    content = f'[\r{{"type":\n"text",\r\n"text": {words}}}\n\n]'
    raw = f'{{"jsonrpc":"2.0",\n\n"id":{heard.id},\r"result":\r\n{{"content":{content}\r}}\n}}'
    back.whole(200, raw.encode())


@pytest.fixture(scope="module")
def breaking_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    with (
        ScriptedHttpServer(modern(breaking, "echo")) as web,
        serving(tmp_path_factory.mktemp("breaking"), {"only": {"url": web.url}}) as site,
    ):
        names(ModernClient(site))
        yield site


@pytest.mark.parametrize("kind", ["modern", "session", "older"])
def test_every_message_is_one_event_whatever_it_says(breaking_site: HttpGateway, kind: str) -> None:
    session = SessionClient(breaking_site) if kind == "session" else None
    older = SseClient(breaking_site) if kind == "older" else None
    for odd in oddities(scaled(100, full=3_400), 2):
        params: Message = {"name": "only__echo", "arguments": {"text": odd}}
        if older is not None:
            older.start("tools/call", params)
            event = next(older.stream.events())
        else:
            message = request("tools/call", params if session else {**params, "_meta": MODERN_META})
            fields = mirrored(message) if session is None else session.fields
            wanted = [("Content-Type", JSON), ("Accept", EVENTS), *fields]
            answer = breaking_site.send("POST", json.dumps(message).encode(), wanted)
            assert (answer.status, answer.kind) == (200, EVENTS)
            (event,) = [event for event in answer.events() if event.data]
        assert said(event.message) == odd


# Names


def odd_names() -> list[str]:
    """Names that look alike, that are other names in disguise, or that lead elsewhere."""
    alike = [
        *("echo", "Echo", "ECHO", "\u0435\u0441ho", "\uff45\uff43ho", "e\u0301cho", "écho"),
        *("ech\u200bo", "\u202eohce", "echo ", " echo", "echo\x00", "../echo", "..\\echo", "/echo"),
        *("echo/../echo", "%65cho", "\ufb01le", "file", "Kelvin", "\u212aelvin", "a__b", "a_b"),
        *("_b", "b", "__", "_", "-", ".", "x" * 64, "x" * 65, "x" * 128, "x" * 256, "é" * 256),
        *("constructor", "__proto__", "null", "0", "1", "=?base64?ZWNobw==?=", '"', "\\"),
        *("odd__echo", "gateway_status"),
    ]
    return list(dict.fromkeys([*alike, *oddities(scaled(200, full=2_350), 3)]))


@pytest.fixture(scope="module")
def odd_server(tmp_path_factory: pytest.TempPathFactory) -> Scripted:
    offers = [{"name": name, "inputSchema": {"type": "object"}} for name in odd_names()]
    return Scripted(
        tmp_path_factory.mktemp("odd"),
        rule("tools/list", result({"tools": offers})),
        rule("tools/call", result(text("called"))),
    )


@pytest.fixture(scope="module")
def odd_site(
    tmp_path_factory: pytest.TempPathFactory, odd_server: Scripted
) -> Iterator[HttpGateway]:
    with serving(tmp_path_factory.mktemp("names"), {"odd": odd_server.command}) as site:
        yield site


def test_every_odd_name_has_a_plain_one_that_leads_to_it_alone(
    odd_site: HttpGateway, odd_server: Scripted
) -> None:
    listed = names(ModernClient(odd_site))[2:]
    assert len(listed) == len(set(map(str.lower, listed))) == len(odd_names())
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in listed)
    line = Kept(odd_site)
    before = len(odd_server.heard("tools/call"))
    for public in listed:
        message = request("tools/call", {"name": public, "_meta": MODERN_META})
        assert said(line.post(message)[1]) == "called"
    called = [heard["params"]["name"] for heard in odd_server.heard("tools/call")[before:]]
    assert called == odd_names()


def test_a_name_that_is_only_like_one_leads_nowhere(
    odd_site: HttpGateway, odd_server: Scripted
) -> None:
    listed = set(names(ModernClient(odd_site)))
    line = Kept(odd_site)
    before = len(odd_server.heard("tools/call"))
    strangers = [
        *(f"odd__{odd}" for odd in oddities(150, 4)),
        *(name + "\u200b" for name in list(listed)[:50]),
        *(name.upper() for name in list(listed)[:50]),
        *(f" {name}" for name in list(listed)[:20]),
    ]
    native = set(odd_names())
    for stranger in (name for name in strangers if name not in listed | native):
        message = request("tools/call", {"name": stranger, "_meta": MODERN_META})
        status, answer = line.post(message)
        assert (status, answer["error"]["code"]) == (400, -32602), stranger
        assert answer["error"]["message"] == f"Unknown tool: {stranger}"
    assert len(odd_server.heard("tools/call")) == before


def test_a_name_of_one_server_alone_is_taken_as_it_is_where_it_may_have_no_prefix(
    tmp_path: Path, odd_server: Scripted
) -> None:
    profiles = {"default": {"servers": ["odd"], "prefix": "on-conflict"}}
    with serving(tmp_path, {"odd": odd_server.command}, profiles=profiles) as site:
        line = Kept(site)
        known = ("gateway_status", *names(ModernClient(site)))
        native = [
            name for name in odd_names() if name not in known and not name.startswith("odd__")
        ]
        before = len(odd_server.heard("tools/call"))
        for name in native:
            message = request("tools/call", {"name": name, "_meta": MODERN_META})
            assert said(line.post(message)[1]) == "called", name
    assert native
    called = [heard["params"]["name"] for heard in odd_server.heard("tools/call")[before:]]
    assert called == native


def clients(site: HttpGateway) -> list[Client]:
    return [ModernClient(site), SessionClient(site), SseClient(site)]


def test_all_clients_see_the_same_names(odd_site: HttpGateway) -> None:
    lists: list[Any] = [names(client) for client in clients(odd_site)]
    assert lists[0] == lists[1] == lists[2]
    assert META not in "".join(lists[0])
