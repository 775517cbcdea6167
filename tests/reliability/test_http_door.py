"""Who gets in over HTTP, end to end: names that are not ours, pages, forms, tokens, upgrades."""

import base64
import hashlib
import subprocess
import sys
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from tests.harness import WAIT_SECONDS, write_config
from tests.reliability.conftest import Serve
from tests.rig.http_probe import TOKEN, HttpProbe
from tests.rig.probe import text_of
from tests.rig.raw_http_client import (
    JSON,
    STREAM,
    RawConnection,
    RawHttpClient,
    hello,
    post,
    tool_call,
)

pytestmark = pytest.mark.slow

Lines = list[tuple[str, str]]

PATHS: Final = (
    "/mcp", "/mcp/default", "/mcp/default/sse", "/mcp/default/messages", "/mcp/default/info",
    "/api/v1/status", "/api/v1/events", "/metrics", "/healthz", "/readyz", "/",
)  # fmt: skip


def raw(verb: str, path: str, lines: Lines, body: bytes = b"") -> bytes:
    """A request of exactly these lines, however often a name stands in them."""
    whole = [*lines, ("Content-Length", f"{len(body)}")] if body else lines
    head = "".join(f"{name}: {value}\r\n" for name, value in whole)
    return f"{verb} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def body_of(request: bytes) -> bytes:
    return request.partition(b"\r\n\r\n")[2]


HELLO: Final = body_of(post(hello()))
TOUCH: Final = body_of(post(tool_call("neighbour__touch")))
MEDIA: Final[Lines] = [("Content-Type", JSON), ("Accept", f"{JSON}, {STREAM}")]


def touched(there: HttpProbe) -> int:
    """How often the counter has been touched; asking counts, and is taken off."""
    with closing(RawHttpClient(there.port, there.fields)) as visitor:
        words = text_of(visitor.call("neighbour__touch"))
    return int(words.rstrip(".").rsplit(" ", 1)[1]) - 1


def listening_addresses(pid: int) -> list[str]:
    """Where a process accepts connections, in the kernel's spelling."""
    inodes = {
        link.readlink().name.removeprefix("socket:[").rstrip("]")
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if link.is_symlink()
    }
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.append(fields[1].partition(":")[0])
    return found


def test_without_being_told_otherwise_only_this_machine_is_served(serve: Serve) -> None:
    with serve({}) as there:
        assert listening_addresses(there.pid) == ["0100007F"]


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "0", "example.com", "192.0.2.1", "127.0.0.1.nip.io"]
)
@pytest.mark.parametrize("way", ["option", "configuration"])
def test_an_address_that_others_reach_is_refused_without_tokens(
    tmp_path: Path, host: str, way: str
) -> None:
    listen = {"listen": f"[{host}]:0" if ":" in host else f"{host}:0"}
    said = {"gateway": listen} if way == "configuration" else {}
    argv = [sys.executable, "-m", "anyport", "serve", "--state-dir", str(tmp_path / "state")]
    argv += ["--config", str(write_config(tmp_path, {}, **said))]
    if way == "option":
        argv += ["--host", host, "--port", "0"]
    ended = subprocess.run(argv, capture_output=True, timeout=WAIT_SECONDS, check=False)
    assert ended.returncode == 1, ended.stderr
    assert b"gateway.tokens" in ended.stderr
    assert b"Traceback" not in ended.stderr


HOSTS: Final[dict[int, tuple[Lines, ...]]] = {
    200: (
        [("Host", "127.0.0.1")],
        [("Host", "127.0.0.1:1")],
        [("Host", "localhost")],
        [("host", "LOCALHOST:8640")],
        [("Host", "[::1]:8640")],
        [("Host", "gateway.test")],
        [("Host", "localhost"), ("X-Forwarded-Host", "evil.example")],
        [("Host", "localhost"), ("Forwarded", "host=evil.example")],
    ),
    400: (
        [],
        [("Host", "")],
        [("Host", "localhost"), ("Host", "localhost")],
        [("Host", "localhost"), ("Host", "evil.example")],
        [("Host", "localhost, evil.example")],
        [("Host", "user@localhost")],
        [("Host", "localhost:80:80")],
        [("Host", "localhost:")],
        [("Host", "localhost:99999")],
        [("Host", "http://localhost")],
        [("Host", "localhost/x")],
        [("Host", "::1")],
        [("Host", "[::1%25lo]")],
        [("Host", "local host")],
    ),
    421: (
        [("Host", "evil.example")],
        [("Host", "evil.example:8640")],
        [("Host", "localhost.")],
        [("Host", "localhost.evil.example")],
        [("Host", "127.0.0.1.nip.io")],
        [("Host", "127.1")],
        [("Host", "2130706433")],
        [("Host", "0x7f000001")],
        [("Host", "0.0.0.0")],
        [("Host", "[::ffff:127.0.0.1]")],
        [("Host", "192.168.0.1")],
        [("Host", "evil.example"), ("X-Forwarded-Host", "localhost")],
    ),
}
ORIGINS: Final[dict[int, tuple[Lines, ...]]] = {
    200: (
        [],
        [("Origin", "http://localhost")],
        [("Origin", "http://127.0.0.1:3000")],
        [("Origin", "https://app.test")],
        [("Sec-Fetch-Site", "same-origin")],
    ),
    400: ([("Origin", "http://localhost"), ("Origin", "http://localhost")],),
    403: (
        [("Origin", "http://evil.example")],
        [("Origin", "null")],
        [("Origin", "")],
        [("Origin", "http://localhost.evil.example")],
        [("Origin", "http://evil.example/http://localhost")],
        [("Origin", "http://localhost@evil.example")],
        [("Origin", "http://app.test")],
        [("Origin", "https://app.test:444")],
        [("Origin", "https://app.test.")],
        [("Origin", "file://")],
        [("Origin", "chrome-extension://abc")],
        [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Dest", "image")],
    ),
}
KNOWN: Final = {"allowedHosts": ["gateway.test"], "allowedOrigins": ["https://app.test"]}


def test_every_combination_of_host_and_origin_is_judged_before_anything_is_made(
    serve: Serve,
) -> None:
    hosts = [(status, lines) for status, group in HOSTS.items() for lines in group]
    origins = [(status, lines) for status, group in ORIGINS.items() for lines in group]
    assert len(hosts) * len(origins) > 200
    with serve({}, gateway=KNOWN) as there:
        welcome = 0
        before = there.sessions()
        for (by_host, host), (by_origin, origin) in product(hosts, origins):
            with RawConnection(there.port) as wire:
                reply = wire.ask(raw("POST", "/mcp", [*host, *origin, *MEDIA], HELLO))
            expected = by_origin if by_host == 200 else by_host
            assert reply.status == expected, (host, origin, reply)
            assert (reply.get("mcp-session-id") is None) == (expected != 200)
            assert b"evil" not in reply.raw
            welcome += expected == 200
        assert there.sessions() == before + welcome


def test_a_name_that_an_attacker_points_here_executes_nothing(serve: Serve) -> None:
    """Rebinding: to the browser it is the page's own site, so nothing holds it back but us."""
    with serve({}, gateway=KNOWN) as there:
        name = f"rebound.attacker.example:{there.port}"
        page = [
            ("Host", name),
            ("Origin", f"http://{name}"),
            ("Sec-Fetch-Site", "same-origin"),
            ("Sec-Fetch-Mode", "cors"),
        ]
        # A page's own GET comes without an `Origin`.
        for lines, path, verb in product((page, page[:1]), PATHS, ("GET", "POST", "DELETE")):
            with RawConnection(there.port) as wire:
                sent = [*lines, *MEDIA] if verb == "POST" else [*lines, ("Accept", "*/*")]
                reply = wire.ask(raw(verb, path, sent, TOUCH if verb == "POST" else b""))
            assert reply.status == 421, (verb, path, reply)
        assert touched(there) == 0


SIMPLE_TYPES: Final = (
    "text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x", "text/plain; application/json",
    "text/plain, application/json", "application/jsonp", "application/json+x", "",
)  # fmt: skip
"""What a page may send to any host without asking first, and what only looks like JSON."""


def test_forms_and_beacons_of_web_pages_execute_nothing(serve: Serve) -> None:
    with serve({}) as there:
        sources: tuple[Lines, ...] = (
            [],
            [("Origin", "null")],
            [("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")],
            [("Origin", "http://localhost:3000")],
        )
        for media, lines in product(SIMPLE_TYPES, sources):
            named = [("Content-Type", media)] if media else []
            with RawConnection(there.port) as wire:
                sent = [("Host", "localhost"), *lines, *named, ("Accept", "*/*")]
                reply = wire.ask(raw("POST", "/mcp", sent, TOUCH))
            assert reply.status in (403, 415), (media, lines, reply)
        for target in ("/mcp?method=tools/call&name=neighbour__touch", "/mcp/default?id=1"):
            for verb in ("GET", "HEAD", "PUT", "PATCH"):
                with RawConnection(there.port) as wire:
                    wire.send(raw(verb, target, [("Host", "localhost"), ("Accept", "*/*")]))
                    status = wire.head()[1]
                # A GET may open a stream, which does nothing by itself.
                assert status in (200, 405), (verb, target, status)
        assert touched(there) == 0


def test_no_page_makes_the_gateway_reload(serve: Serve) -> None:
    page: Lines = [("Host", "localhost"), ("Origin", "http://localhost:3000")]
    form: Lines = [*page, ("Content-Type", "application/x-www-form-urlencoded")]
    with serve({}) as there:
        for request in (
            raw("POST", "/api/v1/reload", [*page, ("Content-Length", "0")]),
            raw("POST", "/api/v1/reload?preview=true", form, b"a=b"),
            raw("POST", "/api/v1/reload", [("Host", "localhost"), ("Sec-Fetch-Site", "same-site")]),
        ):
            with RawConnection(there.port) as wire:
                assert wire.ask(request).status == 403, request
        with RawConnection(there.port) as wire:
            asked = raw("POST", "/api/v1/reload", [("Host", "localhost"), ("Content-Length", "0")])
            assert wire.ask(asked).status == 200


def test_no_page_is_ever_told_that_it_may_read_an_answer(serve: Serve) -> None:
    origins = ("https://evil.example", "null", "http://localhost:3000", "https://app.test")
    with serve({}, gateway=KNOWN) as there:
        for origin, path in product(origins, PATHS):
            lines = [("Host", "localhost"), ("Origin", origin)]
            asked = [
                *lines,
                ("Access-Control-Request-Method", "POST"),
                ("Access-Control-Request-Headers", "content-type, mcp-session-id"),
                ("Access-Control-Request-Private-Network", "true"),
            ]
            for request in (
                raw("OPTIONS", path, asked),
                raw("POST", path, [*lines, *MEDIA], HELLO),
                raw("GET", path, [*lines, ("Accept", JSON)]),
            ):
                with RawConnection(there.port) as wire:
                    reply = wire.ask(request)
                assert not [n for n, _ in reply.fields if n.startswith("access-control")], reply
                assert b"evil" not in reply.raw


def bad_credentials() -> dict[str, Lines]:
    """Everything that is not exactly the token, sent as a token."""
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    basic = base64.b64encode(f"probe:{TOKEN}".encode()).decode()
    values = {
        "empty": "", "scheme alone": "Bearer", "scheme and space": "Bearer ",
        "no scheme": TOKEN, "another scheme": f"Basic {basic}", "digest scheme": f"Digest {TOKEN}",
        "scheme twice": f"Bearer Bearer {TOKEN}", "no space": f"Bearer{TOKEN}",
        "a colon": f"Bearer: {TOKEN}", "quoted": f'Bearer "{TOKEN}"',
        "named": f"Bearer token={TOKEN}",
        "shorter": f"Bearer {TOKEN[:-1]}", "longer": f"Bearer {TOKEN}x",
        "tail": f"Bearer {TOKEN[1:]}",
        "upper case": f"Bearer {TOKEN.upper()}", "padded": f"Bearer {TOKEN}=",
        "its name": "Bearer probe", "its hash": f"Bearer {digest}",
        "its hash as configured": f"Bearer sha256:{digest}", "a list": f"Bearer {TOKEN}, Bearer x",
        "a second word": f"Bearer {TOKEN} x", "percent": f"Bearer %70{TOKEN[1:]}",
        "the reference": "Bearer ${env:PROBE_TOKEN}", "null": "Bearer null", "none": "Bearer none",
        "a wildcard": "Bearer *", "a tab": f"Bearer\t{TOKEN}", "semicolon": f"Bearer {TOKEN};",
        "a JWT without a key": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJwcm9iZSJ9.",
        "a quote": "Bearer ' OR 1=1 --", "latin": f"Bearer {TOKEN[:-1]}\xe9",
        "very long": "Bearer " + "x" * 20_000,
    }  # fmt: skip
    single = {name: [("Authorization", value)] for name, value in values.items()}
    good = f"Bearer {TOKEN}"
    return {
        **single,
        "nothing": [],
        "twice": [("Authorization", good), ("Authorization", good)],
        "good and bad": [("Authorization", good), ("Authorization", "Bearer x")],
        "bad and good": [("Authorization", "Bearer x"), ("Authorization", good)],
        "for a proxy": [("Proxy-Authorization", good)],
        "a cookie": [("Cookie", f"token={TOKEN}; Authorization={good}")],
        "a key": [("X-API-Key", TOKEN)],
        "forwarded": [("X-Forwarded-Authorization", good)],
        "original": [("X-Original-Authorization", good), ("X-Forwarded-User", "probe")],
    }


def test_only_the_token_itself_opens_the_door(serve: Serve) -> None:
    bad = bad_credentials()
    assert len(bad) >= 40
    with serve({}, tokens=True) as there:
        before = there.sessions()
        for (name, lines), path in product(bad.items(), ("/mcp", f"/mcp?access_token={TOKEN}")):
            sent = [("Host", "localhost"), *lines, *MEDIA]
            with RawConnection(there.port) as wire:
                reply = wire.ask(raw("POST", path, sent, HELLO))
            assert reply.status == 401, (name, reply)
            challenge = reply.get("www-authenticate") or ""
            assert challenge.startswith("Bearer "), name
            assert TOKEN.encode() not in reply.raw, name
        for path, verb in product(PATHS, ("GET", "POST", "DELETE", "HEAD", "OPTIONS")):
            with RawConnection(there.port) as other:
                other.send(raw(verb, path, [("Host", "localhost"), ("Accept", "*/*")]))
                assert other.head()[1] == 401, (verb, path)
        assert there.sessions() == before
        with RawConnection(there.port) as wire:
            for scheme in ("Bearer", "bearer", "BEARER", "Bearer  "):
                good = [("Host", "localhost"), ("Authorization", f"{scheme} {TOKEN}"), *MEDIA]
                assert wire.ask(raw("POST", "/mcp", good, HELLO)).status == 200, scheme


def test_a_client_that_waits_for_leave_to_send_learns_at_once_that_it_has_none(
    serve: Serve,
) -> None:
    with serve({}, tokens=True) as there, RawConnection(there.port) as wire:
        lines = [("Host", "localhost"), *MEDIA, ("Expect", "100-continue")]
        wire.send(raw("POST", "/mcp", lines, HELLO).removesuffix(HELLO))
        reply = wire.reply()
        assert (reply.status, reply.get("connection")) == (401, "close")
        assert reply.get("www-authenticate")


UPGRADES: Final[tuple[Lines, ...]] = (
    [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ],
    [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Origin", "https://evil.example")],
    [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk")],
    [("Connection", "upgrade"), ("Upgrade", "TLS/1.0")],
)


def test_there_is_nothing_to_upgrade_to(serve: Serve) -> None:
    with serve({}) as there:
        for lines, path, verb in product(UPGRADES, (*PATHS, "/ws", "/mcp/ws"), ("GET", "POST")):
            with RawConnection(there.port) as wire:
                body = TOUCH if verb == "POST" else b""
                media = [("Content-Type", "text/plain")] if body else []
                wire.send(raw(verb, path, [("Host", "localhost"), *lines, *media], body))
                _, status, fields = wire.head()
            assert status != 101, (verb, path)
            assert "upgrade" not in dict(fields), (verb, path)
        for target in ("evil.example:443", "localhost:22"):
            with RawConnection(there.port) as wire:
                assert wire.ask(raw("CONNECT", target, [("Host", target)])).status == 400
        with RawConnection(there.port) as wire:
            absolute = raw("GET", "http://evil.example/healthz", [("Host", "localhost")])
            assert wire.ask(absolute).status == 400
        assert touched(there) == 0
