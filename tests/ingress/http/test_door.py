"""The door: which hosts and origins are let in."""

from itertools import product

import pytest

from anyport.ingress.http import door as texts
from anyport.ingress.http.door import Door
from anyport.protocol.principal import LOCAL
from tests.ingress.http.heads import head, status

HOSTS_LET_IN = [
    "localhost",
    "localhost:8640",
    "LOCALHOST:80",
    "LocalHost",
    "localhost:0",
    "localhost:65535",
    "127.0.0.1",
    "127.0.0.1:8640",
    "127.255.255.254:1",
    "[::1]",
    "[::1]:8640",
    "[0:0:0:0:0:0:0:1]:8640",
    "192.168.1.5:8640",
    "gateway.example.com",
    "GATEWAY.example.COM:443",
    "[2001:DB8::5]",
    "[2001:db8:0:0::5]:8640",
]
HOSTS_OF_OTHERS = [
    "evil.example",
    "evil.example:8640",
    "localhost.",
    "localhost.:8640",
    "127.0.0.1.",
    "gateway.example.com.",
    "localhost.evil.example",
    "evil.localhost",
    "127.0.0.1.nip.io",
    "gateway.example.com.evil.example",
    "xgateway.example.com",
    "example.com",
    "0.0.0.0",
    "0.0.0.0:8640",
    "[::]",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "0x7f000001",
    "0177.0.0.1",
    "127.0.0.01",
    "128.0.0.1",
    "192.168.1.50",
    "[::ffff:127.0.0.1]",
    "[::2]",
    "localhost-evil",
    "xn--localhost-9za",
    "8640",
    "null",
]
HOSTS_THAT_ARE_NONE = [
    "",
    ":8640",
    "localhost:",
    "localhost:http",
    "localhost:99999",
    "localhost:123456",
    "localhost:-1",
    "localhost:+1",
    "localhost:80:80",
    "localhost: 80",
    "local host",
    "user@localhost",
    "user:pw@localhost:8640",
    "evil.example@localhost",
    "localhost@evil.example",
    "localhost,evil.example",
    "localhost, localhost",
    "localhost/",
    "localhost/mcp",
    "localhost?x",
    "localhost#x",
    "http://localhost",
    "//localhost",
    "localhost\\evil.example",
    "::1",
    "::1:8640",
    "[::1",
    "::1]",
    "[]",
    "[localhost]",
    "[127.0.0.1]",
    "[::1]x",
    "[::1%25lo]",
    "[::1%lo]:8640",
    "[fe80::1%25eth0]",
    "[::1]:",
    "%6cocalhost",
    "local..host",
    ".localhost",
    ".",
    "*",
    "l\xf6calhost",
    "a" * 254,
]

ORIGINS_LET_IN = [
    "http://localhost",
    "http://localhost:3000",
    "https://localhost:8443",
    "http://127.0.0.1:5173",
    "http://127.8.9.1",
    "http://[::1]:8640",
    "https://app.example.com",
    "https://app.example.com:443",
    "http://app.example.com:8080",
    "vscode-webview://0f3k2",
]
ORIGINS_OF_OTHERS = [
    "",
    "null",
    "NULL",
    "*",
    "https://evil.example",
    "http://app.example.com",
    "https://app.example.com:8443",
    "https://app.example.com.evil.example",
    "https://app.example.com/",
    "https://app.example.com/path",
    "https://user@app.example.com",
    "https://evil.example@localhost",
    "http://localhost@evil.example",
    "http://localhost.",
    "http://localhost.:3000",
    "http://localhost.evil.example",
    "http://evil.localhost",
    "http://localhost/",
    "http://localhost#x",
    "http://localhost?x",
    "http://localhost:99999",
    "http://localhost:",
    "http://localhost https://evil.example",
    "https://evil.example http://localhost",
    "http://localhost, https://evil.example",
    "http://0.0.0.0:8640",
    "http://127.1",
    "http://2130706433",
    "http://[::ffff:127.0.0.1]",
    "http://[::1%25lo]",
    "http://192.168.1.5:8640",
    "https://gateway.example.com",
    "ftp://localhost",
    "file://",
    "file://localhost",
    "chrome-extension://0f3k2",
    "vscode-webview://0f3k2x",
    "localhost",
    "//localhost",
    "http:localhost",
    "http:///localhost",
    "javascript://localhost",
    "data:text/html,x",
]


OPEN = Door(
    hosts=["192.168.1.5", "gateway.example.com", "2001:db8::5"],
    origins=["https://app.example.com", "http://app.example.com:8080", "vscode-webview://0f3k2"],
    tokens=[],
)


# Host.


@pytest.mark.parametrize("host", HOSTS_LET_IN)
def test_a_host_that_is_ours_is_let_in(host: str) -> None:
    assert OPEN.admit(head(("Host", host))) == LOCAL


@pytest.mark.parametrize("host", HOSTS_OF_OTHERS)
def test_a_host_that_is_not_ours_is_misdirected(host: str) -> None:
    assert status(OPEN, ("Host", host)) == 421


@pytest.mark.parametrize("host", HOSTS_THAT_ARE_NONE)
def test_what_is_no_host_is_a_bad_request(host: str) -> None:
    assert status(OPEN, ("Host", host)) == 400


def test_a_request_names_exactly_one_host() -> None:
    assert status(OPEN) == 400
    for first, second in product(["localhost", "evil.example"], repeat=2):
        assert status(OPEN, ("Host", first), ("host", second)) == 400


@pytest.mark.parametrize(
    "name", ["X-Forwarded-Host", "X-Host", "Forwarded", "X-Original-Host", "X-Forwarded-Server"]
)
def test_what_a_proxy_says_about_the_host_changes_nothing(name: str) -> None:
    assert status(OPEN, ("Host", "evil.example"), (name, "localhost")) == 421
    assert status(OPEN, ("Host", "localhost"), (name, "evil.example")) == 200
    assert status(OPEN, (name, "localhost")) == 400


@pytest.mark.parametrize(
    "target", ["http://evil.example/mcp", "http://localhost/mcp", "*", "localhost:80"]
)
def test_a_target_is_a_path_and_names_no_host(target: str) -> None:
    fields, method = (("Host", "localhost"),), "CONNECT" if target == "localhost:80" else "OPTIONS"
    assert OPEN.admit(head(*fields, target=target, method=method)) == texts.BAD_TARGET


def test_white_space_around_a_host_is_no_part_of_it() -> None:
    assert status(OPEN, ("Host", " \t localhost \t ")) == 200


def test_without_further_hosts_only_loopback_is_let_in() -> None:
    door = Door(hosts=[], origins=[], tokens=[])
    assert status(door, ("Host", "localhost")) == 200
    assert status(door, ("Host", "gateway.example.com")) == 421
    assert status(door, ("Host", "")) == 400


# Origin.


@pytest.mark.parametrize("origin", ORIGINS_LET_IN)
def test_an_origin_of_this_machine_or_a_named_one_is_let_in(origin: str) -> None:
    assert status(OPEN, ("Host", "localhost"), ("Origin", origin)) == 200


@pytest.mark.parametrize("origin", ORIGINS_OF_OTHERS)
def test_any_other_origin_is_forbidden(origin: str) -> None:
    assert status(OPEN, ("Host", "localhost"), ("Origin", origin)) == 403


def test_a_request_has_at_most_one_origin() -> None:
    for first, second in product(["http://localhost", "https://evil.example", "null"], repeat=2):
        fields = ("Host", "localhost"), ("Origin", first), ("Origin", second)
        assert status(OPEN, *fields) == 400


@pytest.mark.parametrize(
    ("hosts", "expected"), [(HOSTS_OF_OTHERS, 421), (HOSTS_THAT_ARE_NONE, 400)]
)
def test_a_good_origin_does_not_excuse_a_bad_host(hosts: list[str], expected: int) -> None:
    for host, origin in product(hosts, [*ORIGINS_LET_IN, *ORIGINS_OF_OTHERS]):
        assert status(OPEN, ("Host", host), ("Origin", origin)) == expected


def test_a_good_host_does_not_excuse_a_bad_origin() -> None:
    for host, origin in product(HOSTS_LET_IN, ORIGINS_OF_OTHERS):
        assert status(OPEN, ("Host", host), ("Origin", origin)) == 403


def test_an_empty_list_of_origins_does_not_mean_any() -> None:
    door = Door(hosts=[], origins=["*", "null", ""], tokens=[])
    for origin in ORIGINS_OF_OTHERS:
        assert status(door, ("Host", "localhost"), ("Origin", origin)) == 403


@pytest.mark.parametrize("kind", ["image", "script", "iframe", "empty", "video", None])
def test_what_a_foreign_page_embeds_is_forbidden_though_it_has_no_origin(kind: str | None) -> None:
    fields = [("Host", "localhost"), ("Sec-Fetch-Site", "cross-site")]
    fields += [("Sec-Fetch-Dest", kind)] if kind else []
    assert status(OPEN, *fields) == 403


@pytest.mark.parametrize(
    ("site", "kind"),
    [("cross-site", "document"), ("none", "document"), ("same-origin", "empty"), ("x", "y")],
)
def test_a_person_may_follow_a_link_to_the_gateway(site: str, kind: str) -> None:
    fields = ("Host", "localhost"), ("Sec-Fetch-Site", site), ("Sec-Fetch-Dest", kind)
    assert status(OPEN, *fields) == 200


def test_a_named_origin_may_be_of_another_site() -> None:
    fields = ("Host", "localhost"), ("Sec-Fetch-Site", "cross-site")
    assert status(OPEN, *fields, ("Origin", "https://app.example.com")) == 200
    assert status(OPEN, *fields, ("Origin", "https://evil.example")) == 403
