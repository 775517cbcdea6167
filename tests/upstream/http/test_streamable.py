"""Calls to a modern server: what its headers say, and what becomes of each call alone."""

import base64
import json
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec import Raw

from anyport.upstream.pending_call import Answer, CallSubject, CallTemplate, NoAnswer, PendingCall
from anyport.wire.jsonrpc import Failure, Result
from tests.upstream.fakes import run, until
from tests.upstream.web import Heard, Reply, Scene, Site, Web, call, modern

FUZZED_NAMES = 500


def play(
    site: Site | None,
    scene: Callable[[Web, Scene], Coroutine[Any, Any, None]],
    **settings: Any,
) -> None:
    """Call a modern server."""

    async def whole() -> None:
        async with Web(modern(site)) as web, Scene(web.url, **settings) as at:
            await at.connected()
            await scene(web, at)

    run(whole)


def answer(heard: Heard, reply: Reply) -> None:
    reply.json({"id": heard.id, "result": {"n": heard.id}})


# What a request says.


def test_a_call_names_its_method_its_revision_and_the_native_name() -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        found = await call(connection, "get_weather")

        assert isinstance(found, Result)
        fields = web.heard[-1].fields
        assert fields["mcp-protocol-version"] == "2026-07-28"
        assert fields["mcp-method"] == "tools/call"
        assert fields["mcp-name"] == "get_weather"
        assert "mcp-session-id" not in fields

    play(answer, scene)


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("prompts/get", {"name": "p"}, "p"),
        ("resources/read", {"uri": "file:///a b"}, "file:///a b"),
        ("tools/list", {}, None),
        ("completion/complete", {"ref": {"name": "p"}}, None),
    ],
)
def test_only_what_is_about_one_thing_names_it(method: str, params: Any, name: str | None) -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        answers: list[Answer] = []
        connection.call(method, json.dumps(params).encode(), answers.append)
        await until(lambda: bool(answers))

        assert web.heard[-1].fields["mcp-method"] == method
        assert web.heard[-1].fields.get("mcp-name") == name

    play(answer, scene)


def test_who_knows_the_name_need_not_have_it_looked_up() -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        answers: list[Answer] = []
        connection.call("tools/call", b'{"name":"x"}', answers.append, None, CallSubject("x"))
        await until(lambda: bool(answers))

        assert web.heard[-1].fields["mcp-name"] == "x"

    play(answer, scene)


def test_no_name_breaks_out_of_its_field() -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        chance = random.Random(16)
        for _ in range(FUZZED_NAMES):
            name = "".join(chance.choices("\r\n\0 :=?base64äß€😀\u2028x", k=chance.randrange(12)))
            found = await call(connection, name)
            assert isinstance(found, Result)
            heard = web.heard[-1]
            value = heard.fields["mcp-name"]
            if value.startswith("=?base64?"):
                value = base64.b64decode(value[9:-2]).decode()
            assert value == name == heard.message["params"]["name"]
            assert b"\0" not in heard.raw
            assert heard.raw.isascii()
            assert len(heard.fields) == 8, "a field too many"

    play(answer, scene)


def test_annotated_arguments_are_made_anew_and_only_unknown_fields_pass() -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        at.owner.annotations_by_tool["report"] = {
            "Region": ("where", "region"),
            "Count": ("count",),
        }
        answers: list[Answer] = []
        params = {"name": "report", "arguments": {"where": {"region": "eu"}, "count": None}}
        fields = (
            ("mcp-param-region", "forged"),
            ("mcp-param-count", "forged"),
            ("mcp-param-unheard", "of=\xfc"),
        )
        concern = CallSubject("report", fields)
        connection.call("tools/call", json.dumps(params).encode(), answers.append, None, concern)
        await until(lambda: bool(answers))

        sent = {
            name: value
            for name, value in web.heard[-1].fields.items()
            if name.startswith("mcp-param-")
        }
        assert sent == {"mcp-param-region": "eu", "mcp-param-unheard": "of=\xfc"}
        await call(connection, "other", where={"region": "eu"})
        assert not any("param" in name for name in web.heard[-1].fields)

    play(answer, scene)


MISMATCH = {"code": -32020, "message": "Mcp-Param-Region is missing"}


def picky(heard: Heard, reply: Reply) -> None:
    """Wants to have an argument among the header fields."""
    if heard.fields.get("mcp-param-region") == "eu":
        answer(heard, reply)
    else:
        reply.json({"id": heard.id, "error": MISMATCH}, 400)


def test_a_call_refused_for_its_headers_is_sent_again_once_the_tools_were_read_again() -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        at.owner.on_refresh = lambda: at.owner.annotations_by_tool.update(
            report={"Region": ("region",)}
        )

        assert isinstance(await call(connection, "report", region="eu"), Result)
        assert at.owner.refreshes == 1
        assert isinstance(await call(connection, "report", region="eu"), Result)
        assert at.owner.refreshes == 1
        # A second refusal is the answer.
        assert isinstance(await call(connection, "report", region="us"), Failure)
        assert at.owner.refreshes == 2
        assert len(web.of("tools/call")) == 5

    play(picky, scene)


def test_a_call_in_a_known_form_is_sent_again_in_a_better_one() -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        at.owner.on_refresh = lambda: at.owner.annotations_by_tool.update(
            report={"Region": ("region",)}
        )
        frame = b'"tools/call","params":{"name":"report","arguments":%b}}'
        form = CallTemplate(
            "report", b'{"jsonrpc":"2.0","id":%d,"method":' + frame, wants_progress=False
        )
        answers: list[Answer] = []

        connection.call_from_template(
            form, Raw(b'{"region":"eu"}'), answers.append, lambda _: None, "who"
        )
        await until(lambda: bool(answers))

        assert isinstance(answers[0], Result)
        assert at.owner.refreshes == 1

    play(picky, scene)


def test_a_call_that_is_given_up_while_the_tools_are_read_is_not_sent_again() -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        answers: list[Answer] = []
        sent = connection.call("tools/call", b'{"name":"a"}', answers.append)
        assert isinstance(sent, PendingCall)
        at.owner.on_refresh = lambda: connection.cancel(sent, None)
        await until(lambda: at.owner.refreshes == 1)
        await call(connection, "b")

        assert [heard.message["params"]["name"] for heard in web.of("tools/call")] == ["a", "b"]
        assert answers == []

    def picky(heard: Heard, reply: Reply) -> None:
        if heard.fields["mcp-name"] == "a":
            reply.json({"id": heard.id, "error": MISMATCH}, 400)
        else:
            answer(heard, reply)

    play(picky, scene)


# What comes back.


def test_progress_and_the_answer_may_come_on_a_stream() -> None:
    def streaming(heard: Heard, reply: Reply) -> None:
        reply.stream()
        token = heard.message["params"]["_meta"]["progressToken"]
        reply.event({"method": "notifications/progress", "params": {"progressToken": token}})
        reply.event({"method": "notifications/message", "params": {"level": "info"}})
        reply.event({"id": heard.id, "result": {}})
        reply.end()

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        at.quirks.reuse.on_stayed_open()
        for _ in range(3):
            answers: list[Answer] = []
            told: list[bytes] = []
            connection.call("tools/call", b'{"name":"x"}', answers.append, told.extend)
            await until(lambda answers=answers: bool(answers))  # type: ignore[misc]
            assert isinstance(answers[0], Result)
            assert len(told) == 1
        assert len(at.owner.notifications) == 3
        # A stream that ended in peace leaves its connection for the next one.
        assert web.connections == 1

    play(streaming, scene)


def test_to_cancel_is_to_close_the_reply() -> None:
    def site(heard: Heard, reply: Reply) -> None:
        if heard.method == "tools/call":
            reply.stream()
            reply.event({"method": "notifications/message", "params": {}})

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        answers: list[Answer] = []
        sent = connection.call("tools/call", b'{"name":"x"}', answers.append)
        assert isinstance(sent, PendingCall)
        await until(lambda: bool(at.owner.notifications))

        connection.cancel(sent, b'"enough"')

        await until(web.replies[-1].gone.is_set)
        assert "notifications/cancelled" not in web.methods()
        assert answers == []
        assert connection.open_calls == 0

    play(site, scene)


def test_everything_is_told_and_closed_when_the_gateway_stops() -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        answers: list[Answer] = []
        for _ in range(3):
            connection.call("tools/call", b'{"name":"x"}', answers.append)
        await until(lambda: len(web.of("tools/call")) == 3)

        await at.supervisor.stop("enough")

        assert answers == [NoAnswer("enough")] * 3
        await until(lambda: all(reply.gone.is_set() for reply in web.replies[-3:]))
        assert at.owner.ends == 1

    play(lambda heard, reply: None, scene)


def test_connections_are_kept_and_used_again() -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        at.quirks.reuse.on_stayed_open()
        for _ in range(20):
            await call(connection)

        assert web.connections == 1

    play(answer, scene)
