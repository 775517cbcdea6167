"""Which running gateway is asked."""

from pathlib import Path

import pytest

from anyport.cli.ending import WrongUsage
from anyport.cli.options import Given
from anyport.cli.target import Target, read_target


def target(url: str, profile: str | None = None, **environ: str) -> Target:
    return read_target(Given(url=url, profile=profile), environ)


@pytest.mark.parametrize(
    ("url", "profile", "endpoint", "root"),
    [
        ("http://127.0.0.1:8640", None, "http://127.0.0.1:8640/mcp", ""),
        ("http://127.0.0.1:8640/", None, "http://127.0.0.1:8640/mcp", ""),
        ("127.0.0.1:8640", None, "http://127.0.0.1:8640/mcp", ""),
        ("localhost:8640/mcp", None, "http://localhost:8640/mcp", ""),
        ("http://[::1]:8640/mcp/", None, "http://[::1]:8640/mcp", ""),
        ("http://127.0.0.1:8640", "dev", "http://127.0.0.1:8640/mcp/dev", ""),
        ("http://127.0.0.1:8640/mcp", "dev", "http://127.0.0.1:8640/mcp/dev", ""),
        ("http://127.0.0.1:8640/mcp/dev", None, "http://127.0.0.1:8640/mcp/dev", ""),
        ("http://127.0.0.1:8640", "a/../b", "http://127.0.0.1:8640/mcp/a%2F..%2Fb", ""),
        ("https://example.com/tools/mcp/dev", None, "https://example.com/tools/mcp/dev", "/tools"),
        ("https://example.com/some/server", None, "https://example.com/some/server", ""),
    ],
)
def test_a_url_leads_to_an_endpoint(
    url: str, profile: str | None, endpoint: str, root: str
) -> None:
    found = target(url, profile)
    assert (str(found), found.root) == (endpoint, root)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Given(url="ftp://x/"), "begins with http:// or https://"),
        (Given(url="http://user:pw@x/mcp"), "must not hold a user or password"),
        (Given(url="http://x/mcp/dev", profile="dev"), "names the profile 'dev'"),
        (Given(url="http://x/elsewhere", profile="dev"), "must end in /mcp"),
        (Given(url="http://x", config=(Path("a.toml"),)), "leave out --config"),
        (Given(url="http://x", state_dir=Path("s")), "leave out --state-dir"),
        (Given(url="http://x", token="two words"), "character that no bearer token"),
        (Given(url="http://x", token="a\r\nHost: y"), "character that no bearer token"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(given: Given, told: str) -> None:
    with pytest.raises(WrongUsage) as caught:
        read_target(given, {})
    assert told in str(caught.value)
    assert "pw" not in str(caught.value)


def test_a_token_comes_from_the_option_or_the_environment_and_is_never_shown() -> None:
    assert target("http://x").token is None
    assert target("http://x", ANYPORT_TOKEN="").token is None
    assert target("http://x", ANYPORT_TOKEN="s3cret").token == "s3cret"
    given = Given(url="http://x", token="option")
    found = read_target(given, {"ANYPORT_TOKEN": "s3cret"})
    assert found.token == "option"
    assert "option" not in repr(found) + repr(given)


def test_a_head_names_host_and_token_and_pages_lie_beside_the_endpoint() -> None:
    found = target("http://x:81/a/mcp/dev", ANYPORT_TOKEN="s3cret")
    assert found.head("POST", Content_Type="application/json") == (
        b"POST /a/mcp/dev HTTP/1.1\r\nHost: x:81\r\n"
        b"Content-Type: application/json\r\nAuthorization: Bearer s3cret\r\n"
    )
    assert target("http://x/a/mcp").head("GET", "/api/v1").startswith(b"GET /a/api/v1 HTTP/1.1\r\n")
