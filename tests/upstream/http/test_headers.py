"""What stands before a body: fixed lines, the configuration's, and none that contradict."""

from collections.abc import Callable
from typing import Any

import pytest

from anyport import __version__
from anyport.upstream.http.headers import (
    RequestHeads,
    describe_bad_response,
    header_line,
    redirect_target,
    retarget,
    trace_headers,
)
from anyport.upstream.http.url import HttpUrl
from anyport.upstream.pending_call import CallSubject
from tests.upstream.fakes import run, until
from tests.upstream.http.fake_client import head
from tests.upstream.http.test_legacy_sse import Events
from tests.upstream.web import Legacy, Scene, Web, call, modern

HERE = HttpUrl.parse("http://server.example:81/mcp?team=blue")


def lines(raw: bytes) -> list[str]:
    assert raw.endswith(b"\r\n")
    assert not raw.endswith(b"\r\n\r\n"), "the client ends the head, after the length"
    return raw.decode().removesuffix("\r\n").split("\r\n")


def names(raw: bytes) -> list[str]:
    return [line.partition(":")[0].lower() for line in lines(raw)[1:]]


# Heads.


def test_a_message_is_posted_to_the_whole_target_and_takes_either_kind_of_answer() -> None:
    assert lines(RequestHeads(HERE, {}).post(header_line("Mcp-Method", "ping"))) == [
        "POST /mcp?team=blue HTTP/1.1",
        "Host: server.example:81",
        f"User-Agent: anyport/{__version__}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "Mcp-Method: ping",
    ]


def test_a_stream_is_asked_for_without_a_body_and_past_every_cache() -> None:
    raw = RequestHeads(HERE, {}).get(header_line("Last-Event-ID", "7"))

    assert lines(raw)[0] == "GET /mcp?team=blue HTTP/1.1"
    assert lines(raw)[3:] == [
        "Accept: text/event-stream",
        "Cache-Control: no-cache",
        "Last-Event-ID: 7",
    ]
    assert "content-type" not in names(raw)


def test_the_end_of_a_session_says_nothing_but_the_session() -> None:
    raw = RequestHeads(HERE, {}).delete(header_line("Mcp-Session-Id", "s"))

    assert lines(raw)[0] == "DELETE /mcp?team=blue HTTP/1.1"
    assert names(raw) == ["host", "user-agent", "mcp-session-id"]


# What the configuration adds.


def test_configured_headers_go_with_every_kind_of_request() -> None:
    outgoing = RequestHeads(HERE, {"Authorization": "Bearer x", "X-Team": "grün"})

    for raw in (outgoing.post(), outgoing.get(), outgoing.delete(b"")):
        assert "Authorization: Bearer x" in lines(raw)
        assert "X-Team: grün" in lines(raw)


@pytest.mark.parametrize("name", ["User-Agent", "user-agent", "USER-AGENT"])
def test_a_configured_user_agent_takes_the_place_of_ours(name: str) -> None:
    raw = RequestHeads(HERE, {name: "mine/1"}).post()

    assert f"{name}: mine/1" in lines(raw)
    assert names(raw).count("user-agent") == 1


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "host", "Accept", "Accept-Encoding", "Connection", "Content-Length"),
        *("content-type", "Expect", "Last-Event-ID", "TE", "Trailer", "Transfer-Encoding"),
        *("Upgrade", "Mcp-Session-Id", "MCP-Protocol-Version", "mcp-anything"),
    ],
)
def test_no_configuration_contradicts_what_a_request_says_of_itself(name: str) -> None:
    plain, tried = RequestHeads(HERE, {}), RequestHeads(HERE, {name: "evil"})

    assert tried.post() == plain.post()
    assert tried.get() == plain.get()
    assert tried.delete(b"") == plain.delete(b"")


# Redirects.


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/other", "/other"),
        ("other?x=1", "/other?x=1"),
        ("?x=1", "/mcp?x=1"),
        ("http://server.example:81", "/"),
        ("//server.example:81/a#part", "/a"),
        ("../up", "/up"),
    ],
)
def test_the_same_request_may_be_sent_elsewhere_within_the_origin(
    status: int, location: str, target: str
) -> None:
    there = redirect_target(HERE, head(status, location=location))

    assert there is not None
    assert (there.origin, there.target) == (HERE.origin, target)


def test_the_way_through_a_proxy_stays_the_same() -> None:
    here = HttpUrl.parse("https://server.example/mcp", proxy="http://proxy.example:3128")

    there = redirect_target(here, head(307, location="/other"))

    assert there is not None
    assert there.proxy == here.proxy


@pytest.mark.parametrize(
    "location",
    [
        "http://server.example/mcp",
        "https://server.example:81/mcp",
        "http://other.example:81/mcp",
        "//other.example/",
        "http://user:secret@server.example:81/",
        "file:///etc/passwd",
        "http://[::1",
        "/with space",
        "/\x80",
    ],
)
def test_no_redirect_leads_away_from_the_origin(location: str) -> None:
    assert redirect_target(HERE, head(307, location=location)) is None


@pytest.mark.parametrize("status", [200, 201, 300, 301, 302, 303, 304])
def test_only_what_keeps_the_method_and_the_body_is_a_redirect(status: int) -> None:
    assert redirect_target(HERE, head(status, location="/other")) is None


def test_a_redirect_to_nowhere_is_none() -> None:
    assert redirect_target(HERE, head(307)) is None


def test_a_head_is_aimed_elsewhere_and_otherwise_the_same() -> None:
    raw = RequestHeads(HERE, {"X-Team": "blue"}).post()

    again = retarget(raw, HttpUrl.parse("http://server.example:81/other"))

    assert lines(again)[0] == "POST /other HTTP/1.1"
    assert lines(again)[1:] == lines(raw)[1:]


# Complaints.


@pytest.mark.parametrize(
    ("status", "media", "words"),
    [
        (401, "", "wants authorization (HTTP 401): set headers"),
        (403, "application/json", "wants authorization (HTTP 403): set headers"),
        (202, "", "accepted the request (HTTP 202) but did not answer it"),
        (
            302,
            "text/html",
            "answered with a redirect (HTTP 302) that is not followed; set url to where it is",
        ),
        (200, "text/html", "answered with HTTP 200 and text/html, which is no MCP message"),
        (500, "", "answered with HTTP 500 and nothing, which is no MCP message"),
    ],
)
def test_a_reply_without_a_message_is_described_so_that_something_can_be_done(
    status: int, media: str, words: str
) -> None:
    assert describe_bad_response(head(status, media)) == words


# On the wire.


def test_on_the_wire_configured_headers_change_nothing_but_what_they_may() -> None:
    headers = {
        "Authorization": "Bearer secret",
        "X-Team": "blue",
        "Host": "evil.example",
        "content-length": "0",
        "Mcp-Session-Id": "stolen",
        "MCP-Protocol-Version": "1999-01-01",
        "Accept": "text/html",
    }

    async def scene() -> None:
        async with Web(Legacy()) as web, Scene(web.url, headers=headers) as at:
            connection = await at.connected()
            await call(connection)
            connection.notify("notifications/x", None)
            await until(lambda: bool(web.of("notifications/x")))
            await at.supervisor.stop()

            assert {heard.verb for heard in web.heard} == {"POST", "GET", "DELETE"}
            for heard in web.heard:
                assert heard.fields["authorization"] == "Bearer secret"
                assert heard.fields["x-team"] == "blue"
                assert heard.fields["host"] == f"127.0.0.1:{web.port}"
                assert heard.fields.get("mcp-session-id") in (None, "session-1")
                assert heard.fields.get("mcp-protocol-version") != "1999-01-01"
                assert heard.fields.get("accept") != "text/html"

    run(scene)


TRACE = (("traceparent", f"00-{'a' * 32}-{'b' * 16}-01"), ("tracestate", "v=1"))


def test_only_the_trace_among_the_fields_of_a_call_goes_with_every_request() -> None:
    lines = trace_headers((("Mcp-Param-Region", "eu"), *TRACE))
    assert lines == b"".join(header_line(name, value) for name, value in TRACE)
    assert trace_headers(()) == b""


@pytest.mark.parametrize("site", [Legacy, modern, Events])
@pytest.mark.parametrize("method", ["tools/call", "resources/read"])
def test_on_the_wire_a_call_names_its_trace(site: Callable[[], Any], method: str) -> None:
    async def scene() -> None:
        async with Web(site()) as web, Scene(web.url) as at:
            connection = await at.connected()
            params = b'{"name":"echo","uri":"a:b"}'
            connection.call(method, params, lambda _: None, None, CallSubject("echo", TRACE))
            connection.call(method, params, lambda _: None, None, CallSubject("echo"))
            await until(lambda: len(web.of(method)) == 2)

            traced, plain = web.of(method)
            for name, value in TRACE:
                assert traced.fields[name] == value
                assert name not in plain.fields

    run(scene)
