"""What clients send that nobody should: media types, cursors, event ids, `_meta` of every kind."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import DEMO, MODERN_META, Message
from tests.journeys.clients import (
    META,
    Kept,
    ModernClient,
    SessionClient,
    calling,
    mirrored,
    names,
    request,
)
from tests.journeys.http_gateway import ACCEPT, EVENTS, JSON, HttpGateway, serving
from tests.journeys.scripts import Scripted, note, result, rule, said, text, tools

PROGRESS = "notifications/progress"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Scripted:
    """Reports progress under whatever token it was sent."""
    progress = note(PROGRESS, '{"progressToken":$token,"progress":1}')
    path = tmp_path_factory.mktemp("server")
    return Scripted(path, tools("work"), rule("tools/call", progress, result(text("ok"))))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, server: Scripted) -> Iterator[HttpGateway]:
    """The scripted server beside the demo servers of both eras, which has many tools."""
    servers = {
        "only": server.command,
        "new": [*DEMO, "--modern-only", "--tools", "2100"],
        "old": [*DEMO, "--legacy-only"],
    }
    with serving(tmp_path_factory.mktemp("input"), servers) as site:
        names(ModernClient(site))
        yield site


# Media types


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("APPLICATION/JSON", 200),
        ("application/json; charset=utf-16", 415),
        ("text/plain", 415),
        ("text/json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/jsonp", 415),
        ("application/json-rpc", 415),
        ("", 415),
        (None, 415),
    ],
)
def test_a_body_is_json_and_says_so(
    site: HttpGateway, server: Scripted, kind: str | None, status: int
) -> None:
    before = len(server.heard("tools/call"))
    message = request("tools/call", {"name": "only__work", "_meta": MODERN_META})
    fields = [] if kind is None else [("Content-Type", kind)]
    sent = [*fields, ("Accept", ACCEPT), *mirrored(message)]
    answer = site.send("POST", json.dumps(message).encode(), sent)
    assert answer.status == status
    answer.close()
    assert len(server.heard("tools/call")) == before + (status == 200)


@pytest.mark.parametrize(
    ("accept", "status", "kind"),
    [
        (ACCEPT, 200, JSON),
        ("text/event-stream, application/json", 200, JSON),
        (JSON, 200, JSON),
        (EVENTS, 200, EVENTS),
        ("*/*", 200, JSON),
        ("application/*", 200, JSON),
        ("application/json;q=0, text/event-stream", 200, EVENTS),
        ("text/html", 406, JSON),
        ("application/json;q=0", 406, JSON),
        ("", 406, JSON),
        (None, 406, JSON),
    ],
)
def test_an_answer_has_a_form_that_the_client_takes(
    site: HttpGateway, server: Scripted, accept: str | None, status: int, kind: str
) -> None:
    before = len(server.heard("tools/call"))
    message = request("tools/call", {"name": "only__work", "_meta": MODERN_META})
    fields = [] if accept is None else [("Accept", accept)]
    sent = [("Content-Type", JSON), *fields, *mirrored(message)]
    answer = site.send("POST", json.dumps(message).encode(), sent)
    assert (answer.status, answer.kind) == (status, kind)
    answer.text()  # A stream begins before the call: who hangs up now has cancelled it.
    assert len(server.heard("tools/call")) == before + (status == 200)


# Cursors


def tampered(cursor: str, count: int) -> list[Any]:
    """Cursors that nobody was given."""
    chance = random.Random(5)
    made: list[Any] = [0, 1.5, True, {}, [], [cursor], "", " ", cursor + "=", cursor + " "]
    made += [cursor[:cut] for cut in range(1, len(cursor), 7)]
    while len(made) < count:
        at = chance.randrange(len(cursor))
        other = chance.choice("ABCxyz019-_=é\u2028")
        if cursor[at] != other:
            made.append(cursor[:at] + other + cursor[at + 1 :])
        made.append("".join(chance.choices("abcXYZ019-_=/+ \n", k=chance.randint(1, 80))))
    return made


def test_a_cursor_that_was_not_given_is_refused(site: HttpGateway) -> None:
    first = ModernClient(site).request("tools/list")["result"]
    line, old = Kept(site), Kept(site, *SessionClient(site).fields)
    for cursor in tampered(first["nextCursor"], 250):
        modern = request("tools/list", {"cursor": cursor, "_meta": MODERN_META})
        status, answer = line.post(modern)
        assert (status, answer["error"]["code"]) == (400, -32602), cursor
        status, answer = old.post(request("tools/list", {"cursor": cursor}))
        assert (status, answer["error"]["code"]) == (200, -32602), cursor
    assert ModernClient(site).request("tools/list", {"cursor": first["nextCursor"]})["result"][
        "tools"
    ]


@pytest.mark.parametrize("method", ["resources/list", "prompts/list", "resources/templates/list"])
def test_a_cursor_of_one_list_is_none_of_another(site: HttpGateway, method: str) -> None:
    cursor = ModernClient(site).request("tools/list")["result"]["nextCursor"]
    assert ModernClient(site).request(method, {"cursor": cursor})["error"]["code"] == -32602


# Event ids


def test_an_event_id_that_was_not_given_opens_a_fresh_stream(site: HttpGateway) -> None:
    owner, stranger = SessionClient(site), SessionClient(site)
    # The owner's streams hold events that are worth stealing.
    kept = owner.start("tools/call", calling("only__work", {}, {"progressToken": "p"}))
    assert said(kept.ending()) == "ok"
    assert kept.last_id is not None
    chance = random.Random(6)
    guesses = [kept.last_id, kept.last_id.replace("-", "-0"), f"{kept.last_id}0", "1-0", "1-1"]
    guesses += ["2-0", "2-1", "1", "-", "-1", "1-", "1--1", "0-0", "1-99999999999999999999", "x-y"]
    guesses += [f"{chance.randrange(9)}-{chance.randrange(9)}" for _ in range(20)]
    guesses += ["".join(chance.choices("0123456789abcdef-/=. ", k=12)) for _ in range(40)]
    guesses += ["é", "\u00b2-1", "9" * 4000, "1-" + "1" * 4000]
    streams = []
    for guess in guesses:
        stream = stranger.listen(after=guess)
        assert (stream.status, stream.kind) == (200, EVENTS), guess
        streams.append(stream)
    assert stranger.delete().status == 200
    assert [message for stream in streams for message in stream.rest()] == []


# `_meta`


@pytest.mark.parametrize("token", ["t", "", "1", 0, 1, -7, 2**53 + 1, "é\n"])
@pytest.mark.parametrize("kind", ["modern", "session"])
def test_progress_comes_under_the_clients_own_token(
    site: HttpGateway, kind: str, token: Any
) -> None:
    client = ModernClient(site) if kind == "modern" else SessionClient(site)
    assert said(client.call("only__work", progressToken=token)) == "ok"
    (told,) = [m["params"]["progressToken"] for m in client.seen if m.get("method") == PROGRESS]
    assert (told, type(told)) == (token, type(token))


@pytest.mark.parametrize("token", [1.5, True, False, None, {}, [], {"a": 1}, ["t"]])
@pytest.mark.parametrize("kind", ["modern", "session"])
def test_what_is_no_token_gets_no_progress(site: HttpGateway, kind: str, token: Any) -> None:
    client = ModernClient(site) if kind == "modern" else SessionClient(site)
    assert said(client.call("only__work", progressToken=token)) == "ok"
    assert [m for m in client.seen if m.get("method") == PROGRESS] == []


@pytest.mark.parametrize("back", ["new", "old"])
def test_progress_goes_to_its_own_call_even_if_all_use_one_token(
    site: HttpGateway, back: str
) -> None:
    steps = {"seconds": 0.3, "steps": 6}
    params = calling(f"{back}__slow", steps, {"progressToken": 1})
    answers = [
        SessionClient(site, "2025-11-25").start("tools/call", params, id="same"),
        SessionClient(site, "2025-06-18").start("tools/call", params, id="same"),
        ModernClient(site).start("tools/call", params, id="same", progressToken=1),
        ModernClient(site).start("tools/call", params, id="same", progressToken=1),
    ]
    for answer in answers:
        assert said(answer.ending()) == "Done after 6 steps."
        told = [m["params"] for m in answer.seen if m.get("method") == PROGRESS]
        assert [(one["progressToken"], one["progress"]) for one in told] == [
            (1, step) for step in range(1, 7)
        ]


RESERVED: Message = {
    f"{META}clientInfo": {"name": "somebody else"},
    f"{META}logLevel": "debug",
    f"{META}serverInfo": {"name": "nobody"},
    f"{META}subscriptionId": 7,
}
VENDOR: Message = {"example.com/key": {"n": 1.50}, "key": [None]}


def test_a_legacy_clients_meta_passes_as_it_is_to_a_legacy_server(
    site: HttpGateway, server: Scripted
) -> None:
    SessionClient(site).call("only__work", **RESERVED, **VENDOR)
    sent = server.heard("tools/call")[-1]["params"]["_meta"]
    assert {**RESERVED, **VENDOR}.items() <= sent.items()


def test_a_modern_clients_own_words_stay_with_the_gateway(
    site: HttpGateway, server: Scripted
) -> None:
    ModernClient(site).call("only__work", progressToken="mine", **{**RESERVED, **VENDOR})
    sent = server.heard("tools/call")[-1]["params"]["_meta"]
    assert VENDOR.items() <= sent.items()
    words = ("clientInfo", "clientCapabilities", "protocolVersion", "logLevel")
    assert not {META + word for word in words} & sent.keys()
    assert sent["progressToken"] != "mine"


def test_nobody_can_speak_for_the_gateway_to_a_modern_server(tmp_path: Path) -> None:
    found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    server = Scripted(
        tmp_path,
        rule("server/discover", result({"resultType": "complete", **found})),
        tools("work"),
        rule("tools/call", result({"resultType": "complete", **text("ok")})),
    )
    command, *args = server.command
    entry = {"command": command, "args": args, "protocol": "modern"}
    with serving(tmp_path, {"only": entry}) as site:
        forged: Message = {f"{META}clientCapabilities": {"sampling": {}}}
        SessionClient(site).call("only__work", **{**RESERVED, **forged, **VENDOR})
        ModernClient(site).call("only__work", **{**RESERVED, **VENDOR})
    for heard, level in zip(server.heard("tools/call"), (None, "debug"), strict=True):
        sent = heard["params"]["_meta"]
        assert VENDOR.items() <= sent.items()
        assert sent[f"{META}protocolVersion"] == "2026-07-28"
        assert sent[f"{META}clientCapabilities"] == {}
        assert sent[f"{META}clientInfo"]["name"] == "anyport"
        assert sent.get(f"{META}logLevel") == level


@pytest.mark.parametrize("kind", ["modern", "session"])
def test_a_megabyte_of_meta_is_carried(site: HttpGateway, server: Scripted, kind: str) -> None:
    client = ModernClient(site) if kind == "modern" else SessionClient(site)
    large: Message = {"example.com/large": ["x" * 1000] * 1048}
    assert said(client.call("only__work", **large)) == "ok"
    sent = server.heard("tools/call")[-1]["params"]["_meta"]
    assert sent["example.com/large"] == large["example.com/large"]


@pytest.mark.parametrize("meta", [None, [], "x", 7, True])
def test_meta_that_is_no_object_is_refused(site: HttpGateway, server: Scripted, meta: Any) -> None:
    before = len(server.heard("tools/call"))
    session = SessionClient(site)
    answer = session.request("tools/call", {"name": "only__work", "_meta": meta})
    assert answer["error"]["code"] == -32602
    assert len(server.heard("tools/call")) == before
