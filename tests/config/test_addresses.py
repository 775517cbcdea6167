"""Hosts and origins in one form, and the addresses a gateway refuses to listen on."""

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.config import Config, GatewayConfig, Token, explain_exposure
from anyport.config.addresses import (
    Authority,
    Origin,
    host_key,
    is_loopback,
    read_authority,
    read_origin,
)

LOOPBACK = ["localhost", "LOCALHOST", "127.0.0.1", "127.0.0.2", "127.255.0.9", "::1", "[::1]"]
REACHABLE = [
    "",
    "0.0.0.0",
    "::",
    "[::]",
    "192.168.1.5",
    "10.0.0.1",
    "169.254.1.1",
    "8.8.8.8",
    "fe80::1",
    "fe80::1%eth0",
    "2001:db8::5",
    "::ffff:127.0.0.1",
    "::ffff:0.0.0.0",
    "gateway.example.com",
    "my-machine",
    "localhost.",
    "localhost.example.com",
    "ip6-localhost",
    "127.1",
    "127.0.0.01",
    "0177.0.0.1",
    "2130706433",
    "0",
    "*",
    "no host at all",
]


def config(*tokens: str) -> Config:
    made = tuple(Token(name=name, digest=name.encode()) for name in tokens)
    return Config(gateway=GatewayConfig(tokens=made), servers={}, profiles={})


@pytest.mark.parametrize("host", LOOPBACK)
def test_on_loopback_the_gateway_needs_no_tokens(host: str) -> None:
    assert is_loopback(host)
    assert explain_exposure(config(), host) is None


@pytest.mark.parametrize("host", REACHABLE)
def test_where_others_can_reach_it_the_gateway_needs_tokens(host: str) -> None:
    assert not is_loopback(host)
    assert explain_exposure(config(), host) is not None
    assert explain_exposure(config("alice"), host) is None


def test_the_refusal_says_what_to_do() -> None:
    assert explain_exposure(config(), "0.0.0.0") == (
        "listening on 0.0.0.0 would open every server to everyone who can reach this machine: "
        "set gateway.tokens, or listen on 127.0.0.1"
    )
    assert "listening on [::] would" in str(explain_exposure(config(), "::"))
    assert "listening on that address would" in str(explain_exposure(config(), "\x1b[31m"))


def test_without_configuration_the_gateway_listens_on_loopback() -> None:
    assert is_loopback(GatewayConfig().host)


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("Gateway.Example.COM", "gateway.example.com"),
        ("my_gateway", "my_gateway"),
        ("localhost.", "localhost."),
        ("127.0.0.1", "127.0.0.1"),
        ("2001:DB8:0:0::5", "[2001:db8::5]"),
        ("[0:0:0:0:0:0:0:1]", "[::1]"),
        ("", None),
        ("a..b", None),
        (".a", None),
        ("a b", None),
        ("a:b", None),
        ("[a]", None),
        ("*", None),
        ("*.example.com", None),
        ("https://a", None),
        ("a/b", None),
        ("u@a", None),
        ("fe80::1%eth0", None),
        ("1:2:3:4:5:6:7:8:9", None),
        ("\u0131", None),
        ("a" * 253, "a" * 253),
        ("a" * 254, None),
    ],
)
def test_a_host_is_compared_in_one_form(host: str, key: str | None) -> None:
    assert host_key(host) == key


@given(st.integers(min_value=0, max_value=2**128 - 1).map(IPv6Address))
def test_an_address_has_one_form_however_it_is_written(address: IPv6Address) -> None:
    assert host_key(address.exploded.upper()) == host_key(f"[{address}]") == host_key(str(address))


@pytest.mark.parametrize(
    ("text", "authority"),
    [
        ("a.example", Authority("a.example", None)),
        ("A.example:80", Authority("a.example", 80)),
        ("[::1]:65535", Authority("[::1]", 65535)),
        ("a:65536", None),
        ("a:", None),
        ("a:\u0661", None),
        (":1", None),
        ("::1", None),
        ("[::1]1", None),
        ("u@a:1", None),
    ],
)
def test_an_authority_is_a_host_with_or_without_a_port(
    text: str, authority: Authority | None
) -> None:
    assert read_authority(text) == authority


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://A.example", Origin("https", "a.example", None)),
        ("https://a.example:443", Origin("https", "a.example", None)),
        ("http://a.example:80", Origin("http", "a.example", None)),
        ("http://a.example:443", Origin("http", "a.example", 443)),
        ("app://a:443", Origin("app", "a", 443)),
        ("http://[::1]:3000", Origin("http", "[::1]", 3000)),
        ("null", None),
        ("", None),
        ("*", None),
        ("a.example", None),
        ("https://", None),
        ("https://a.example/", None),
        ("https://*.example", None),
        ("https://u@a.example", None),
        ("https://a.example\n", None),
        ("https://a https://b", None),
    ],
)
def test_an_origin_is_a_scheme_a_host_and_a_port(text: str, origin: Origin | None) -> None:
    assert read_origin(text) == origin


def test_only_web_origins_are_loopback_ones() -> None:
    assert Origin("http", "localhost", 3000).is_loopback
    assert Origin("https", "[::1]", None).is_loopback
    assert not Origin("app", "localhost", None).is_loopback
    assert not Origin("https", "a.example", None).is_loopback


@given(st.text())
def test_whatever_is_read_nothing_is_raised(text: str) -> None:
    host_key(text), is_loopback(text), read_authority(text), read_origin(text)
    explain_exposure(config(), text)


@pytest.mark.parametrize("piece", ["a", "a.", "1.", "[", ":", "-", "http://", "\xe4"])
def test_a_long_text_takes_no_long_time(piece: str) -> None:
    """Every pattern here is linear: at a hundred thousand characters others would not return."""
    text = piece * 100_000
    assert host_key(text) is None
    assert read_authority(text) is None
    assert read_origin(f"http://{text}") is None
