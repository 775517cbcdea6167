"""A URL names one place, or is refused; the environment may name a proxy on the way."""

import pytest

from anyport.upstream.http.url import BadUrl, HttpUrl, proxy_from_environment


@pytest.mark.parametrize(
    ("url", "host", "port", "target", "authority"),
    [
        ("http://example.com", "example.com", 80, "/", "example.com"),
        ("http://example.com:80/mcp", "example.com", 80, "/mcp", "example.com"),
        ("http://example.com:8080/mcp?a=b", "example.com", 8080, "/mcp?a=b", "example.com:8080"),
        ("https://Example.COM/a/", "example.com", 443, "/a/", "example.com"),
        ("HTTPS://example.com:80/", "example.com", 80, "/", "example.com:80"),
        ("http://[::1]:8640/mcp", "::1", 8640, "/mcp", "[::1]:8640"),
        ("http://[::1]/mcp#part", "::1", 80, "/mcp", "[::1]"),
        ("http://bücher.example/", "xn--bcher-kva.example", 80, "/", "xn--bcher-kva.example"),
    ],
)
def test_a_url_is_taken_apart(url: str, host: str, port: int, target: str, authority: str) -> None:
    place = HttpUrl.parse(url)

    assert (place.host, place.port, place.target) == (host, port, target)
    assert place.authority == authority
    assert place.origin == f"{place.scheme}://{authority}"
    assert place.secure == url.lower().startswith("https")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com/mcp",
        "ftp://example.com/",
        "ws://example.com/",
        "http:///mcp",
        "http://",
        "http://example.com:99999/",
        "http://example.com:x/",
        "http://[::1/",
        "http://user@example.com/",
        "http://user:secret@example.com/",
        "http://example.com/a b",
        "http://example.com/é",
        "http://exa mple.com/",
        "http://a..é.example/",
        f"http://{'é' * 70}.example/",
    ],
)
def test_what_names_no_place_is_refused_in_words_without_secrets(url: str) -> None:
    with pytest.raises(BadUrl) as refused:
        HttpUrl.parse(url)

    assert str(refused.value)
    assert "secret" not in str(refused.value)


def test_line_ends_never_reach_a_request() -> None:
    place = HttpUrl.parse("http://exam\r\nple.com/a\r\nX-Evil:1")

    assert (place.authority, place.target) == ("example.com", "/aX-Evil:1")


def test_a_proxy_is_a_place_too() -> None:
    place = HttpUrl.parse("https://example.com/mcp", proxy="http://proxy:3128")

    assert place.proxy == HttpUrl.parse("http://proxy:3128")


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("http://a.example/", {}, None),
        ("http://a.example/", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("http://a.example/", {"http_proxy": "http://p:1"}, "http://p:1"),
        ("https://a.example/", {"HTTP_PROXY": "http://p:1"}, None),
        ("https://a.example/", {"HTTPS_PROXY": "http://p:2"}, "http://p:2"),
        ("https://a.example/", {"ALL_PROXY": "http://p:3"}, "http://p:3"),
        ("https://a.example/", {"HTTPS_PROXY": "http://p:2", "ALL_PROXY": "x"}, "http://p:2"),
        ("http://a.example/", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("http://a.example/", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "b, a.example"}, None),
        ("http://a.example/", {"HTTP_PROXY": "http://p:1", "NO_PROXY": ".example"}, None),
        ("http://a.example/", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "example"}, None),
        ("http://a.example:81/", {"HTTP_PROXY": "http://p:1", "no_proxy": "a.example:81"}, None),
        ("http://aexample/", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "example"}, "http://p:1"),
        ("http://a.example/", {"HTTP_PROXY": "http://p:1", "NO_PROXY": ""}, "http://p:1"),
        ("http://a.example/", {"HTTP_PROXY": "  "}, None),
    ],
)
def test_the_environment_names_the_proxy_and_who_needs_none(
    url: str, environ: dict[str, str], proxy: str | None
) -> None:
    assert proxy_from_environment(url, environ) == proxy
