"""Requests to a gateway elsewhere, and what people are told when that goes wrong."""

import asyncio
import socket

import pytest

from anyport.cli.ending import CommandFailed
from anyport.cli.options import Given
from anyport.cli.reach import NotThere, Reach, words_of
from anyport.cli.target import read_target
from tests.cli.played_http import Reply, played
from tests.rig.toxic import deserted

MISSING = b'{"status":404,"detail":"There is no profile \'x\' here"}'
PROBLEM = "application/problem+json"
STRANGE = "is no Anyport gateway: it has no /api/v1. If it is an MCP server, 'anyport tools --url "


def fetch(url: str, token: str | None = None) -> bytes:
    async def get() -> bytes:
        reach = Reach(read_target(Given(url=url, token=token), {}))
        try:
            return await reach.get("/api/v1")
        finally:
            reach.close()

    return asyncio.run(get())


def refused(reply: Reply, token: str | None = None) -> CommandFailed:
    with played(lambda _: reply) as server, pytest.raises(CommandFailed) as caught:
        fetch(server.url, token)
    return caught.value


def test_a_page_is_fetched_with_the_token() -> None:
    with played(lambda _: Reply(body=b"[1]")) as server:
        assert fetch(f"{server.url}/below/mcp", "s3cret") == b"[1]"
    (asked,) = server.asked
    assert (asked.verb, asked.path) == ("GET", "/below/api/v1")
    assert asked.fields["authorization"] == "Bearer s3cret"


def test_where_nothing_listens_it_says_so_and_what_to_do() -> None:
    with deserted() as port, pytest.raises(CommandFailed) as caught:
        fetch(f"http://127.0.0.1:{port}")
    assert f"nothing answers at http://127.0.0.1:{port}: " in str(caught.value)
    assert "'anyport serve' starts one" in str(caught.value)


def test_a_token_that_is_missing_or_wrong_is_told_apart() -> None:
    assert "give it with --token or ANYPORT_TOKEN" in str(refused(Reply(status=401)))
    wrong = str(refused(Reply(status=401), token="s3cret"))
    assert "does not accept this token" in wrong
    assert "s3cret" not in wrong


def test_what_is_not_there_can_be_told_from_other_failures() -> None:
    missing = refused(Reply(status=404, body=MISSING, media=PROBLEM))
    assert isinstance(missing, NotThere)
    assert str(missing) == "There is no profile 'x' here"
    html = refused(Reply(status=404, body=b"<h1>404</h1>", media="text/html"))
    assert isinstance(html, NotThere)
    assert STRANGE in str(html)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(body=b"<html>", media="text/html"), STRANGE),
        (Reply(status=400, body=b'{"detail":"No"}', media=PROBLEM), "refuses (HTTP 400): No"),
        (Reply(status=403, body=b'{"detail":"Not you"}'), "refuses (HTTP 403): Not you"),
        (Reply(status=503, body=b'{"detail":"Try later"}'), "refuses (HTTP 503): Try later"),
        (Reply(status=500), "is no MCP server: it answered with HTTP 500 and application/json"),
        (Reply(media="text/event-stream"), STRANGE),
    ],
)
def test_other_replies_are_described(reply: Reply, told: str) -> None:
    assert told in str(refused(reply))


def test_a_connection_that_breaks_off_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        async def get() -> None:
            loop = asyncio.get_running_loop()
            server.setblocking(False)

            async def hang_up() -> None:
                connection, _ = await loop.sock_accept(server)
                connection.close()

            reach = Reach(read_target(Given(url=f"http://127.0.0.1:{port}"), {}))
            async with asyncio.TaskGroup() as group:
                group.create_task(hang_up())
                with pytest.raises(CommandFailed, match="gave no answer"):
                    await reach.get("/")
            reach.close()

        asyncio.run(get())


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b'{"error":1}', b'{"detail":7}', b"{}"])
def test_a_body_that_says_nothing_is_quoted_by_nobody(body: bytes) -> None:
    assert words_of(body) is None


def test_what_a_stranger_says_is_short_and_harmless() -> None:
    assert words_of(b'{"detail":"\\u001b[2Jred"}') == "red"
    assert len(words_of(b'{"detail":"%b"}' % (b"x" * 9999)) or "") <= 300
