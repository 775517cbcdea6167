import pytest

from anyport.protocol.adapters.elicitation import (
    URL_CHARACTERS_MAX,
    explain_unsafe_url,
    is_url_elicitation,
)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://example.com/login?state=a%20b#x",
        "https://sub.example.co.uk:8443/",
        "https://xn--bcher-kva.example/",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/",
        "HTTPS://EXAMPLE.COM/",
        "https://example.com./",
    ],
)
def test_pages_that_anybody_could_open_may_be_opened(url: str) -> None:
    assert explain_unsafe_url(url, local=False) is None


@pytest.mark.parametrize(
    "url",
    [
        *("javascript:alert(1)", "JaVaScRiPt:alert(1)", "file:///etc/passwd", "data:text/html,x"),
        *("vbscript:x", "ftp://example.com/", "about:blank", "blob:https://example.com/1", "x"),
        *("", "//example.com/", "https:", "https://", "https:///x", "https:example.com"),
        *("http://example.com/", "https://user@example.com/", "https://a:b@example.com/"),
        *("https://example.com\\@evil.example/", "https://exa mple.com/", "https://ex\tample.com/"),
        *("https://example.com:99999/", "https://[::1/", "https://[fe80::1%25eth0]/"),
        *("https://10.0.0.1/", "https://192.168.1.1/", "https://172.16.0.1/", "https://0.0.0.0/"),
        *("https://169.254.169.254/latest/", "https://100.64.0.1/", "https://224.0.0.1/"),
        *("https://[fd00::1]/", "https://[fe80::1]/", "https://[::ffff:10.0.0.1]/"),
        *("https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/", "https://127.1/"),
        *("https://router/", "https://wiki.corp/", "https://x.internal/", "https://nas.local/"),
        *("https://a.home.arpa/", "https://x.localhost/", "https://intranet/", "https://a..b.com/"),
        "https://example.com/" + "x" * URL_CHARACTERS_MAX,
    ],
)
def test_what_leads_elsewhere_may_not(url: str) -> None:
    assert explain_unsafe_url(url, local=False) is not None
    assert explain_unsafe_url(url, local=True) is not None


@pytest.mark.parametrize(
    "url",
    ["http://localhost:8080/cb", "https://localhost/", "http://127.0.0.1:9/", "http://[::1]/"],
)
def test_only_a_server_on_this_machine_may_lead_into_it(url: str) -> None:
    assert explain_unsafe_url(url, local=True) is None
    assert explain_unsafe_url(url, local=False) == "it leads into this machine"


@pytest.mark.parametrize(
    ("method", "params", "wanted"),
    [
        ("elicitation/create", b'{"mode":"url"}', True),
        ("elicitation/create", b'{"mode":"\\u0075rl"}', True),
        ("elicitation/create", b'{"mode":"form"}', False),
        ("elicitation/create", b"{}", False),
        ("elicitation/create", b"[]", False),
        ("elicitation/create", None, False),
        ("roots/list", b'{"mode":"url"}', False),
    ],
)
def test_only_elicitation_by_url_wants_an_address_opened(
    method: str, params: bytes | None, wanted: bool
) -> None:
    assert is_url_elicitation(method, params) is wanted
