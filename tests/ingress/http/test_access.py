"""Access control: allowed hosts and origins, media types, tokens."""

import hashlib
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.config.model import Token
from anyport.ingress.http import access as texts
from anyport.ingress.http.access import (
    FORBIDDEN_PAGE_CHANGE,
    AcceptedMedia,
    AccessControl,
    Denial,
    check_accept,
    check_content_type,
    read_accept,
)
from anyport.protocol.principal import LOCAL, Principal
from anyport.wire.http1 import RequestHead, read_request_head


def head(*fields: tuple[str, str], target: str = "/mcp", method: str = "POST") -> RequestHead:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
    return read_request_head("\r\n".join(lines).encode("latin-1"))


def status(access: AccessControl, *fields: tuple[str, str], target: str = "/mcp") -> int:
    """The status of a denial; 200 for an admitted request."""
    admitted = access.admit(head(*fields, target=target))
    return admitted.status if isinstance(admitted, Denial) else 200


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


OPEN = AccessControl(
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
def test_forwarded_host_headers_are_ignored(name: str) -> None:
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
    access = AccessControl(hosts=[], origins=[], tokens=[])
    assert status(access, ("Host", "localhost")) == 200
    assert status(access, ("Host", "gateway.example.com")) == 421
    assert status(access, ("Host", "")) == 400


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
    access = AccessControl(hosts=[], origins=["*", "null", ""], tokens=[])
    for origin in ORIGINS_OF_OTHERS:
        assert status(access, ("Host", "localhost"), ("Origin", origin)) == 403


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


@pytest.mark.parametrize(
    "fields",
    [
        [("Origin", "http://localhost:3000")],
        [("Origin", "http://127.0.0.1:8640"), ("Sec-Fetch-Site", "same-origin")],
        [("Origin", "null")],
        [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Dest", "document")],
        [("Sec-Fetch-Site", "same-site")],
        [("Sec-Fetch-Site", "none")],
    ],
)
def test_a_page_changes_nothing_unless_it_is_named(fields: list[tuple[str, str]]) -> None:
    assert OPEN.check_change(head(("Host", "localhost"), *fields)) is FORBIDDEN_PAGE_CHANGE


def test_a_program_and_a_named_page_may_change_the_gateway() -> None:
    assert OPEN.check_change(head(("Host", "localhost"))) is None
    fields = ("Origin", "https://app.example.com"), ("Sec-Fetch-Site", "cross-site")
    assert OPEN.check_change(head(("Host", "localhost"), *fields)) is None


def test_a_named_origin_may_be_of_another_site() -> None:
    fields = ("Host", "localhost"), ("Sec-Fetch-Site", "cross-site")
    assert status(OPEN, *fields, ("Origin", "https://app.example.com")) == 200
    assert status(OPEN, *fields, ("Origin", "https://evil.example")) == 403


# Media types.

# Bodies.


@pytest.mark.parametrize(
    "media",
    [
        "application/json",
        "Application/JSON",
        "application/json;charset=utf-8",
        "application/json; charset=UTF-8",
        'application/json ; Charset="utf-8" ',
        "application/json; charset=utf8",
        "application/json; profile=x",
    ],
)
def test_a_body_of_json_is_read(media: str) -> None:
    assert check_content_type(head(("Host", "localhost"), ("Content-Type", media))) is None


@pytest.mark.parametrize(
    "media",
    [
        "",
        "text/plain",
        "text/plain;charset=UTF-8",
        "text/plain; application/json",
        "text/plain;x=application/json",
        "text/plain, application/json",
        "application/json, text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "multipart/form-data; boundary=application/json",
        "text/json",
        "application/jsonx",
        "application/json-rpc",
        "application/*",
        "*/*",
        "json",
        "application/json; charset=utf-16",
        "application/json; charset=latin-1",
        "application/json; charset=",
        "application/json; charset=utf-8; charset=utf-16",
    ],
)
def test_a_body_that_a_page_could_send_without_asking_is_refused(media: str) -> None:
    denial = check_content_type(head(("Host", "localhost"), ("Content-Type", media)))
    assert denial == texts.NOT_JSON
    assert texts.NOT_JSON.status == 415


def test_a_body_has_exactly_one_type() -> None:
    json = ("Content-Type", "application/json")
    assert check_content_type(head(("Host", "localhost"))) == texts.NOT_JSON
    assert check_content_type(head(json, json)) == texts.NOT_JSON
    assert check_content_type(head(json, ("Content-Type", "text/plain"))) == texts.NOT_JSON


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "identity, gzip", "x"])
def test_a_compressed_body_is_refused(coding: str) -> None:
    fields = ("Content-Type", "application/json"), ("Content-Encoding", coding)
    assert check_content_type(head(*fields)) == texts.ENCODED_BODY


def test_identity_content_encoding_is_accepted() -> None:
    fields = ("Content-Type", "application/json"), ("Content-Encoding", "Identity")
    assert check_content_type(head(*fields)) is None


# Answers.

BOTH, JSON_ALONE, STREAM_ALONE, NEITHER = (
    AcceptedMedia(json=True, stream=True),
    AcceptedMedia(json=True, stream=False),
    AcceptedMedia(json=False, stream=True),
    AcceptedMedia(json=False, stream=False),
)


@pytest.mark.parametrize(
    ("accept", "taken"),
    [
        ("application/json, text/event-stream", BOTH),  # The official clients, on POST.
        ("text/event-stream, application/json", BOTH),
        ("Application/JSON,TEXT/Event-Stream", BOTH),
        ("text/event-stream", STREAM_ALONE),  # The official clients, on GET.
        ("*/*", BOTH),  # curl, fetch, requests, httpx.
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", BOTH),
        ("application/json", JSON_ALONE),
        ("application/json;charset=utf-8", JSON_ALONE),
        ("application/*", JSON_ALONE),
        ("text/*", STREAM_ALONE),
        ("*/*, text/event-stream;q=0", JSON_ALONE),
        ("text/event-stream; q=0.0, */*", JSON_ALONE),
        ("application/json;q=0.001, */*;q=0", JSON_ALONE),
        ("text/*;q=0, text/event-stream", STREAM_ALONE),
        ("text/plain", NEITHER),
        ("text/html,application/xhtml+xml", NEITHER),
        ("application/jsonx, text/event-streams", NEITHER),
        ("*/*;q=0", NEITHER),
        ("", NEITHER),
        (",;,", NEITHER),
    ],
)
def test_what_a_client_takes(accept: str, taken: AcceptedMedia) -> None:
    assert read_accept(head(("Accept", accept))) == taken


def test_several_accept_headers_are_one_list() -> None:
    fields = ("Accept", "application/json"), ("Accept", "text/event-stream")
    assert read_accept(head(*fields)) == BOTH


def test_who_does_not_say_what_they_take_gets_nothing() -> None:
    for json, stream in ((True, True), (True, False), (False, True)):
        denial = check_accept(head(("Host", "localhost")), json=json, stream=stream)
        assert denial is not None
        assert denial.status == 406


def test_a_client_needs_to_take_one_of_the_forms_that_are_possible() -> None:
    json, stream = head(("Accept", "application/json")), head(("Accept", "text/event-stream"))
    assert check_accept(json, json=True, stream=True) is None
    assert check_accept(stream, json=True, stream=True) is None
    assert check_accept(json, json=False, stream=True) == Denial(
        status=406, message="Send Accept: text/event-stream"
    )
    assert check_accept(stream, json=True, stream=False) == Denial(
        status=406, message="Send Accept: application/json"
    )
    assert check_accept(head(("Accept", "text/plain")), json=True, stream=True) == Denial(
        status=406, message="Send Accept: application/json, text/event-stream"
    )


# Tokens.

TOKEN = "c2VjcmV0LXRva2VuLW9mLWFsaWNl.~+/-_=="
OTHER = "another-token-of-bob-0123456789"


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


NO_TOKENS = AccessControl(hosts=[], origins=[], tokens=[])
CLOSED = AccessControl(
    hosts=["0.0.0.0"],
    origins=[],
    tokens=[
        Token(name="alice", digest=digest(TOKEN)),
        Token(name="bob", digest=digest(OTHER)),
    ],
)


MUTANTS = [
    "",
    "Bearer",
    "Bearer ",
    TOKEN,
    f"Basic {TOKEN}",
    f"Digest {TOKEN}",
    f"Negotiate {TOKEN}",
    f"DPoP {TOKEN}",
    f"Token {TOKEN}",
    f"token={TOKEN}",
    f"Bearer{TOKEN}",
    f"Bearer:{TOKEN}",
    f"Bearer: {TOKEN}",
    f"Bearer\t{TOKEN}",
    f"Bearer={TOKEN}",
    f"Bearer token={TOKEN}",
    f'Bearer "{TOKEN}"',
    f"Bearer '{TOKEN}'",
    f"Bearer <{TOKEN}>",
    f"Bearer {TOKEN},",
    f"Bearer {TOKEN};",
    f"Bearer {TOKEN} x",
    f"Bearer x {TOKEN}",
    f"Bearer {TOKEN} {TOKEN}",
    f"Bearer {TOKEN}, Bearer {TOKEN}",
    f"Bearer {TOKEN},{OTHER}",
    f"Bearer Bearer {TOKEN}",
    f"Basic x, Bearer {TOKEN}",
    f"Bearer {TOKEN.lower()}",
    f"Bearer {TOKEN.upper()}",
    f"Bearer {TOKEN.swapcase()}",
    f"Bearer {TOKEN[:-1]}",
    f"Bearer {TOKEN[1:]}",
    f"Bearer {TOKEN.rstrip('=')}",
    f"Bearer {TOKEN}=",
    f"Bearer {TOKEN}a",
    f"Bearer a{TOKEN}",
    f"Bearer {TOKEN}{OTHER}",
    f"Bearer {TOKEN[::-1]}",
    f"Bearer {TOKEN}\xa0",
    f"Bearer \xa0{TOKEN}",
    f"Bearer\xa0{TOKEN}",
    f"Bearer {TOKEN}\xe9",
    f"B\xe9arer {TOKEN}",
    f"Bearer {TOKEN.replace('c', chr(0xE7), 1)}",
    f"Bearer {TOKEN.replace('c', '%63', 1)}",
    f"Bearer sha256:{digest(TOKEN).hex()}",
    f"Bearer {digest(TOKEN).hex()}",
    "Bearer alice",
    f"Bearer alice:{TOKEN}",
    "Bearer null",
    "Bearer *",
    "Bearer ${env:TOKEN}",
    "Bearer " + "=" * 44,
    "Bearer " + "A" * 30_000,
    f"Bearer {TOKEN * 800}",
]


@pytest.mark.parametrize("value", MUTANTS, ids=lambda value: value[:60])
def test_a_mutant_of_the_token_is_refused(value: str) -> None:
    denial = CLOSED.admit(head(("Host", "localhost"), ("Authorization", value)))
    assert denial in (texts.NO_TOKEN, texts.BAD_TOKEN)


def test_there_are_enough_mutants() -> None:
    assert len(set(MUTANTS)) >= 40


@given(st.text(alphabet=TOKEN + OTHER, min_size=1, max_size=60))
def test_no_other_token_is_let_in(token: str) -> None:
    admitted = CLOSED.admit(head(("Host", "localhost"), ("Authorization", f"Bearer {token}")))
    assert isinstance(admitted, Denial) == (token not in (TOKEN, OTHER))


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer   "])
def test_a_token_makes_its_sender_a_principal_of_that_name(scheme: str) -> None:
    for token, name in ((TOKEN, "alice"), (OTHER, "bob")):
        fields = ("Host", "localhost"), ("Authorization", f"{scheme} {token}")
        assert CLOSED.admit(head(*fields)) == Principal("token", name)


def test_a_token_is_sent_once() -> None:
    good, bad = f"Bearer {TOKEN}", "Bearer bad"
    for first, second in product([good, bad, f"Bearer {OTHER}", "Basic x", ""], repeat=2):
        fields = ("Host", "localhost"), ("Authorization", first), ("authorization", second)
        assert status(CLOSED, *fields) == 401


@pytest.mark.parametrize(
    "target",
    [
        f"/mcp?access_token={TOKEN}",
        f"/mcp?token={TOKEN}",
        f"/{TOKEN}",
        f"/mcp?Authorization={TOKEN}",
    ],
)
def test_a_token_in_the_address_opens_nothing(target: str) -> None:
    assert status(CLOSED, ("Host", "localhost"), target=target) == 401


@pytest.mark.parametrize(
    "name", ["X-Authorization", "Proxy-Authorization", "X-Api-Key", "Cookie", "Authorization-"]
)
def test_a_token_in_another_header_opens_nothing(name: str) -> None:
    assert status(CLOSED, ("Host", "localhost"), (name, f"Bearer {TOKEN}")) == 401


def test_who_sent_no_token_is_asked_for_one() -> None:
    for fields in ((), (("Authorization", "Basic eDp5"),)):
        denial = CLOSED.admit(head(("Host", "localhost"), *fields))
        assert isinstance(denial, Denial)
        assert denial.fields == (("www-authenticate", 'Bearer realm="anyport"'),)


def test_a_wrong_token_is_reported_as_invalid() -> None:
    denial = CLOSED.admit(head(("Host", "localhost"), ("Authorization", "Bearer wrong")))
    assert isinstance(denial, Denial)
    assert denial.fields == (("www-authenticate", 'Bearer realm="anyport", error="invalid_token"'),)


def test_a_token_does_not_excuse_a_foreign_host_or_origin() -> None:
    bearer = ("Authorization", f"Bearer {TOKEN}")
    assert status(CLOSED, ("Host", "evil.example"), bearer) == 421
    origin = ("Origin", "https://evil.example")
    assert status(CLOSED, ("Host", "localhost"), origin, bearer) == 403


def test_without_tokens_whatever_is_sent_is_the_local_user() -> None:
    bearer = ("Authorization", "Bearer anything")
    assert NO_TOKENS.admit(head(("Host", "localhost"), bearer)) == LOCAL


# Refusals.


def test_a_page_never_gets_leave_to_read_an_answer() -> None:
    denials = [each for each in vars(texts).values() if isinstance(each, Denial)]
    assert len(denials) >= 10
    for denial in denials:
        assert not [name for name, _ in denial.fields if name.startswith("access-control")]


@given(st.text(alphabet=st.characters(min_codepoint=0x21, max_codepoint=0xFF), min_size=6))
def test_no_refusal_repeats_what_was_sent(noise: str) -> None:
    noise = re.sub(r"[\x7f-\x9f]", "", f"zq9-{noise}")
    sent = [
        (("Host", noise),),
        (("Host", "localhost"), ("Origin", noise)),
        (("Host", "localhost"), ("Authorization", noise)),
        (("Host", "localhost"), ("Authorization", f"Bearer {noise}")),
    ]
    received: list[object] = [CLOSED.admit(head(*fields)) for fields in sent]
    received.append(check_content_type(head(("Content-Type", noise))))
    received.append(check_accept(head(("Accept", noise)), json=True, stream=True))
    for denial in received:
        assert isinstance(denial, Denial)
        assert noise not in f"{denial.message} {denial.fields}"
        assert re.fullmatch(r"[\x20-\x7e]{1,120}", denial.message)
