"""The gateway's section and the profiles."""

from pathlib import Path

import pytest

from anyport.config import Config, ConfigError, load

SERVERS = '[mcpServers.one]\ncommand = "x"\n[mcpServers."Two Words"]\ncommand = "y"\n'


def loaded(folder: Path, text: str) -> Config:
    file = folder / "anyport.toml"
    file.write_text(SERVERS + text)
    return load([file], {})


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text)
    [fault] = caught.value.faults
    return str(fault).removeprefix(f"{folder}/anyport.toml:")


def test_without_a_section_the_gateway_listens_on_loopback(tmp_path: Path) -> None:
    gateway = loaded(tmp_path, "").gateway
    assert (gateway.listen, gateway.list_seconds) == ("127.0.0.1:8640", 2.0)
    assert (gateway.tokens, gateway.allowed_hosts, gateway.allowed_origins) == ((), (), ())
    assert (gateway.session_idle_seconds, gateway.sessions_max) == (1800.0, 10_000)
    assert gateway.client_sessions_max == 1000
    assert (gateway.calls_max, gateway.client_calls_max) == (4096, 1024)
    assert (gateway.bytes_max, gateway.watch) == (256 * 1024 * 1024, True)


def test_the_gateway_says_everything(tmp_path: Path) -> None:
    gateway = loaded(
        tmp_path,
        """
        [gateway]
        listen = "[::1]:9000"
        listSeconds = 0
        allowedHosts = ["Gateway.Example.com", "2001:DB8:0::5", "gateway.example.com"]
        allowedOrigins = ["https://app.example.com", "vscode-webview://0f3k2"]
        sessionIdleSeconds = 1.5
        sessionsMax = 1
        clientSessionsMax = 3
        callsMax = 7
        clientCallsMax = 5
        bytesMax = 20000000
        watch = false
        """,
    ).gateway
    assert (gateway.listen, gateway.list_seconds) == ("[::1]:9000", 0.0)
    assert gateway.allowed_hosts == ("gateway.example.com", "[2001:db8::5]")
    assert gateway.allowed_origins == ("https://app.example.com", "vscode-webview://0f3k2")
    assert (gateway.session_idle_seconds, gateway.sessions_max) == (1.5, 1)
    assert gateway.client_sessions_max == 3
    assert (gateway.calls_max, gateway.client_calls_max) == (7, 5)
    assert (gateway.bytes_max, gateway.watch) == (20_000_000, False)


@pytest.mark.parametrize(
    "host",
    ["*", "*.example.com", "", "a.example:443", "https://a.example", "a/b", "u@a", "fe80::1%0"],
)
def test_a_host_that_is_none_cannot_be_allowed(tmp_path: Path, host: str) -> None:
    assert refusal(tmp_path, f'[gateway]\nallowedHosts = ["ok.example", "{host}"]') == (
        "6:31: gateway.allowedHosts[1] must be the name of a host "
        "(such as gateway.example.com, without scheme and port; name each one)"
    )


@pytest.mark.parametrize(
    "origin", ["*", "null", "", "a.example", "https://a.example/", "https://*.example", "https://"]
)
def test_an_origin_that_is_none_cannot_be_allowed(tmp_path: Path, origin: str) -> None:
    assert refusal(tmp_path, f'[gateway]\nallowedOrigins = ["{origin}"]') == (
        "6:19: gateway.allowedOrigins[0] must be the origin of a web page "
        "(such as https://app.example.com, without a path; name each one)"
    )


@pytest.mark.parametrize("listen", ["0.0.0.0:80", "localhost:0", "[::1]:8640", "a-b.example:65535"])
def test_addresses_to_listen_on(tmp_path: Path, listen: str) -> None:
    assert loaded(tmp_path, f'[gateway]\nlisten = "{listen}"').gateway.listen == listen


@pytest.mark.parametrize(
    "listen", ["", "8640", ":8640", "localhost", "localhost:65536", "::1:8640", "a b:1", "x:-1"]
)
def test_addresses_nobody_can_listen_on(tmp_path: Path, listen: str) -> None:
    assert refusal(tmp_path, f'[gateway]\nlisten = "{listen}"') == (
        "6:10: gateway.listen must be host:port (such as 127.0.0.1:8640 or [::1]:8640)"
    )


def test_without_profiles_there_is_one_with_every_server(tmp_path: Path) -> None:
    config = loaded(tmp_path, "")
    assert list(config.profiles) == ["default"]
    assert config.profile().servers == ("one", "two-words")


def test_a_profile_has_defaults(tmp_path: Path) -> None:
    profile = loaded(tmp_path, "[profiles.dev]").profile("dev")
    assert profile.servers == ("one", "two-words")
    assert (profile.prefix, profile.separator, profile.errors) == ("always", "__", "context")
    assert profile.gateway_tools
    assert (profile.allow, profile.deny) == (("*",), ())


def test_a_profile_says_everything(tmp_path: Path) -> None:
    profile = loaded(
        tmp_path,
        """
        [profiles.dev]
        servers = ["Two Words", "one", "two-words"]
        prefix = "on-conflict"
        separator = "."
        gatewayTools = false
        errors = "verbatim"
        tools = { allow = ["get_*"], deny = ["one/delete_*"] }
        """,
    ).profile("dev")
    assert profile.servers == ("two-words", "one")
    assert (profile.prefix, profile.separator, profile.errors) == ("on-conflict", ".", "verbatim")
    assert not profile.gateway_tools
    assert (profile.allow, profile.deny) == (("get_*",), ("one/delete_*",))


def test_an_allow_list_may_be_empty(tmp_path: Path) -> None:
    profile = loaded(tmp_path, "[profiles.dev]\ntools = { allow = [] }").profile("dev")
    assert profile.allow == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[profiles.Dev]", "5:11: 'Dev' cannot be the name of a profile (use dev)"),
        (
            '[profiles.d]\nservers = ["oen"]',
            "6:12: there is no server 'oen' (did you mean one?)",
        ),
        (
            "[profiles.d]\nservers = [3]",
            "6:12: profiles.d.servers[0] must be a string, not a number (put it in quotes)",
        ),
        (
            '[profiles.d]\nservers = [["one"]]',
            "6:12: profiles.d.servers[0] must be a string, not an array",
        ),
        (
            '[profiles.d]\nservers = "one"',
            "6:11: profiles.d.servers must be an array of strings, not a string "
            '(such as ["one", "two"])',
        ),
        (
            '[profiles.d]\nprefix = "sometimes"',
            "6:10: profiles.d.prefix cannot be 'sometimes' "
            "(valid here: always, on-conflict, never)",
        ),
        (
            '[profiles.d]\nseparator = "_"',
            '6:13: profiles.d.separator cannot be \'_\' (valid here: "__", ":", "/", ".", "-")',
        ),
        (
            '[profiles.d]\ngatewayTools = "no"',
            "6:16: profiles.d.gatewayTools must be true or false, not a string",
        ),
        (
            "[profiles.d]\ngateway_tools = false",
            "6:1: unknown key 'gateway_tools' (did you mean gatewayTools?)",
        ),
        (
            "[profiles.d]\ntools = { alow = [] }",
            "6:11: unknown key 'alow' (did you mean allow?)",
        ),
        ("[gateway]\nlisen = 1", "6:1: unknown key 'lisen' (did you mean listen?)"),
        (
            "[gateway]\nlistSeconds = 61",
            "6:15: gateway.listSeconds must be between 0 and 60 seconds",
        ),
        ("[gateway]\ntoken = {}", "6:1: unknown key 'token' (did you mean tokens?)"),
        (
            '[gateway]\nallowed_hosts = ["a"]',
            "6:1: unknown key 'allowed_hosts' (did you mean allowedHosts?)",
        ),
        (
            '[gateway]\nallowedHosts = "a"',
            "6:16: gateway.allowedHosts must be an array of strings, not a string "
            '(such as ["one", "two"])',
        ),
        (
            "[gateway]\nallowedOrigins = [1]",
            "6:19: gateway.allowedOrigins[0] must be a string, not a number (put it in quotes)",
        ),
        (
            '[gateway]\nallowedOrigins = "https://a.example"',
            "6:18: gateway.allowedOrigins must be an array of strings, not a string "
            '(such as ["one", "two"])',
        ),
        (
            "[gateway]\nsessionIdleSeconds = 0",
            "6:22: gateway.sessionIdleSeconds must be between 1 and 604,800 seconds",
        ),
        ("[gateway]\nsessionsMax = 0", "6:15: gateway.sessionsMax must be between 1 and 1,000,000"),
        (
            "[gateway]\nsessionsMax = 1.5",
            "6:15: gateway.sessionsMax must be a whole number, not a decimal number",
        ),
    ],
)
def test_what_a_section_cannot_say(tmp_path: Path, text: str, message: str) -> None:
    assert refusal(tmp_path, text) == message


def test_a_transparent_profile_shows_its_one_server_as_it_is(tmp_path: Path) -> None:
    profile = '[profiles.p]\nservers = ["one"]\ntransparent = true\n'
    found = loaded(tmp_path, profile).profiles["p"]
    assert (found.transparent, found.prefix, found.gateway_tools) == (True, "never", False)
    assert found.errors == "verbatim"

    told = loaded(tmp_path, profile + 'errors = "context"\nprefix = "never"\n').profiles["p"]
    assert (told.transparent, told.errors) == (True, "context")
    assert not loaded(tmp_path, profile.replace("true", "false")).profiles["p"].transparent


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('prefix = "always"', "a transparent profile shows one server as it is: its names"),
        ("gatewayTools = true", "a transparent profile shows one server as it is: there are"),
        ('tools = { deny = ["x"] }', "no tool can be left out (leave out tools, or transparent)"),
        ('tools = { allow = ["x"] }', "no tool can be left out (leave out tools, or transparent)"),
    ],
)
def test_what_contradicts_a_transparent_profile_is_refused(
    tmp_path: Path, more: str, words: str
) -> None:
    text = f'[profiles.p]\ntransparent = true\nservers = ["one"]\n{more}\n'
    assert words in refusal(tmp_path, text)


@pytest.mark.parametrize(("servers", "number"), [("", "2"), ("servers = []", "none")])
def test_a_transparent_profile_of_more_or_less_than_one_server_is_refused(
    tmp_path: Path, servers: str, number: str
) -> None:
    words = refusal(tmp_path, f"[profiles.p]\ntransparent = true\n{servers}\n")
    assert f"and this one has {number} (name one server under servers)" in words
