"""Servers: what they say, what is wrong with them, what keeps them from starting."""

import sys
from pathlib import Path

import pytest

from anyport.config import ConfigError, ServerConfig, load

SECRET = "hunter2"
ENVIRON = {"TOKEN": SECRET, "EMPTY": "", "HOME": "/home-of-me", "BREAK": "a\nb", "WORD": "htps"}


def server(folder: Path, lines: str) -> ServerConfig:
    file = folder / "anyport.toml"
    file.write_text(f"[mcpServers.x]\n{lines}\n")
    return load([file], ENVIRON).servers["x"]


def refusals(folder: Path, lines: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        server(folder, lines)
    assert SECRET not in str(caught.value)
    prefix = f"{folder}/anyport.toml:"
    return [str(fault).removeprefix(prefix) for fault in caught.value.faults]


def test_a_command_has_defaults(tmp_path: Path) -> None:
    assert server(tmp_path, 'command = "npx"') == ServerConfig(
        slug="x", name="x", command="npx", transport="stdio"
    )


def test_a_url_has_defaults(tmp_path: Path) -> None:
    assert server(tmp_path, 'url = "https://a.example/mcp"') == ServerConfig(
        slug="x", name="x", url="https://a.example/mcp", transport="auto"
    )


def test_a_command_says_everything(tmp_path: Path) -> None:
    found = server(
        tmp_path,
        """
        command = "npx"
        args = ["--token", "${env:TOKEN}", ""]
        env = { TOKEN = "${TOKEN}", MODE = "fast", PATH = "/opt" }
        cwd = "/srv"
        protocol = "2025-06-18"
        timeout = 1.5
        scope = "session"
        disabled = true
        maxMessageBytes = 65536
        permitEnv = ["PATH"]
        """,
    )
    assert found == ServerConfig(
        slug="x",
        name="x",
        command="npx",
        args=("--token", SECRET, ""),
        env={"TOKEN": SECRET, "MODE": "fast", "PATH": "/opt"},
        cwd="/srv",
        transport="stdio",
        protocol="2025-06-18",
        timeout_seconds=1.5,
        scope="session",
        disabled=True,
        message_bytes_max=65536,
        permit_env=("PATH",),
        secrets=frozenset({SECRET, "fast", "/opt"}),
    )


def test_every_value_that_may_be_secret_is_known_and_none_is_shown(tmp_path: Path) -> None:
    found = server(
        tmp_path,
        'url = "https://me:pa55@a.example/${env:TOKEN}"\n'
        'headers = { Authorization = "Bearer l1teral", X = "${env:NONE | env:TOKEN}" }',
    )
    assert found.secrets == {SECRET, "pa55", "Bearer l1teral", "l1teral"}
    for secret in ("pa55", "l1teral", SECRET):
        assert secret not in repr(found)


@pytest.mark.parametrize(
    ("lines", "command", "cwd"),
    [
        ('command = "run"', "run", None),
        ('command = "./run"', "{here}/run", None),
        ('command = "bin/run"', "{here}/bin/run", None),
        ('command = "/bin/run"', "/bin/run", None),
        ('command = "~/run"', "/home-of-me/run", None),
        ('command = "${HOME}/run"', "/home-of-me/run", None),
        ('command = "run"\ncwd = "sub"', "run", "{here}/sub"),
        ('command = "run"\ncwd = "."', "run", "{here}"),
        ('command = "run"\ncwd = "~"', "run", "/home-of-me"),
        ('command = "run"\ncwd = "~/x"', "run", "/home-of-me/x"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="the paths are those of POSIX")
def test_paths_are_meant_from_the_file(
    tmp_path: Path, lines: str, command: str, cwd: str | None
) -> None:
    found = server(tmp_path, lines)
    assert found.command == command.format(here=tmp_path)
    assert found.cwd == (cwd and cwd.format(here=tmp_path))


def test_a_path_is_absolute_even_when_the_file_was_named_relatively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("anyport.toml").write_text('[mcpServers.x]\ncommand = "./run"\n')
    assert load([Path("anyport.toml")], {}).servers["x"].command == str(tmp_path / "run")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            'command = "x"\nenv = { A = "${env:NONE}" }',
            "env.A needs the environment variable NONE, which is not set",
        ),
        (
            'command = "x"\nargs = ["a", "${EMPTY}"]',
            "args[1] needs the environment variable EMPTY, which is empty",
        ),
        ('command = "${NONE}"', "command needs the environment variable NONE, which is not set"),
        ('command = "${NONE:-}"', "command is empty"),
        (
            'url = "https://${env:NONE}/mcp"',
            "url needs the environment variable NONE, which is not set",
        ),
        (
            'url = "${env:WORD}://a.example/"',
            "url must be an address such as https://example.com/mcp",
        ),
        (
            'url = "http://${env:WORD}@a.example/"',
            "url must not hold a user or password: use headers",
        ),
        (
            'url = "http://a/"\nheaders = { A = "${env:BREAK}" }',
            "headers.A has a character no header can carry",
        ),
        (
            'command = "x"\nenv = { PATH = "/evil" }',
            'sets PATH, which decides what code runs; add permitEnv = ["PATH"] to allow it',
        ),
        (
            'command = "x"\nenv = { DYLD_INSERT_LIBRARIES = "/evil" }\npermitEnv = ["PATH"]',
            "sets DYLD_INSERT_LIBRARIES, which decides what code runs; "
            'add permitEnv = ["DYLD_INSERT_LIBRARIES"] to allow it',
        ),
    ],
)
def test_what_keeps_a_server_from_starting_and_no_other(
    tmp_path: Path, lines: str, reason: str
) -> None:
    found = server(tmp_path, lines)
    assert found.unresolved == (reason,)
    assert "${" not in f"{found.command} {found.args} {found.url} {dict(found.env)}"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("timeout = 5", "1:13: server 'x' has neither a command nor a url (add one of them)"),
        (
            'command = "x"\nurl = "http://a/"',
            "1:13: server 'x' has both a command and a url (keep one of them)",
        ),
        ('command = ""', "2:11: mcpServers.x.command is empty"),
        (
            "command = 3",
            "2:11: mcpServers.x.command must be a string, not a number (put it in quotes)",
        ),
        ('comand = "x"\nurl = "http://a/"', "2:1: unknown key 'comand' (did you mean command?)"),
        ('command = "a\\u0000b"', "2:11: mcpServers.x.command has a NUL character"),
        (
            'command = "x"\nargs = "y"',
            "3:8: mcpServers.x.args must be an array of strings, not a string "
            '(such as ["one", "two"])',
        ),
        (
            'command = "x"\nargs = ["y",\n 3]',
            "4:2: mcpServers.x.args[1] must be a string, not a number (put it in quotes)",
        ),
        ('command = "x"\nargs = ["a\\u0000"]', "3:9: mcpServers.x.args[0] has a NUL character"),
        (
            'command = "x"\nenv = ["A=hunter2"]',
            "3:7: mcpServers.x.env must be a table, not an array",
        ),
        (
            'command = "x"\nenv = { A = 5 }',
            "3:13: mcpServers.x.env.A must be a string, not a number (put it in quotes)",
        ),
        (
            'command = "x"\nenv = { A = "hunter2\\u0000" }',
            "3:13: mcpServers.x.env.A has a NUL character",
        ),
        (
            'command = "x"\nenv = { "A=B" = "hunter2" }',
            "3:9: 'A=B' is not possible in env: the name of a variable cannot have a '='",
        ),
        (
            'command = "x"\nenv = { "A\\nB" = "hunter2" }',
            "3:9: 'A\\nB' is not possible in env: "
            "the name of a variable cannot have a line break or a NUL",
        ),
        (
            'command = "x"\ncwd = false',
            "3:7: mcpServers.x.cwd must be a string, not true or false (put it in quotes)",
        ),
        (
            'url = "a.example/hunter2"',
            "2:7: mcpServers.x.url must be an address such as https://example.com/mcp",
        ),
        (
            'url = "http://me:hunter2@a.example/mcp"',
            "2:7: mcpServers.x.url must not hold a user or password (use headers)",
        ),
        (
            'url = "http://hunter2@a.example/mcp"',
            "2:7: mcpServers.x.url must not hold a user or password (use headers)",
        ),
        (
            'url = "http://a.example/é"',
            "2:7: mcpServers.x.url must have an ASCII path (escape what is not, such as %C3%A9)",
        ),
        (
            'url = "https://a:99999/"',
            "2:7: mcpServers.x.url must be an address such as https://example.com/mcp",
        ),
        (
            'url = "http://a/"\nheaders = { "A B" = "hunter2" }',
            "3:13: 'A B' cannot be the name of a header (use letters, digits and -)",
        ),
        (
            'url = "http://a/"\nheaders = { A = "hunter2\\r\\nB: c" }',
            "3:17: mcpServers.x.headers.A has a character no header can carry",
        ),
        (
            'url = "http://a/"\nheaders = { A = "1", a = "2" }',
            "3:22: the header a is given twice (keep one)",
        ),
        (
            'url = "http://a/"\ntransport = "ws"',
            "3:13: mcpServers.x.transport cannot be 'ws' "
            "(valid here: auto, streamable-http, sse, stdio)",
        ),
        (
            'url = "http://a/"\ntransport = "stdio"',
            "3:13: mcpServers.x.transport is stdio, but the server has a url "
            "(remove transport, or give a command)",
        ),
        (
            'command = "x"\ntype = "http"',
            "3:8: mcpServers.x.type is http, but the server has a command "
            "(remove type, or give a url)",
        ),
        (
            'command = "x"\nprotocol = "2025-06-19"',
            "3:12: mcpServers.x.protocol cannot be '2025-06-19' (did you mean 2025-06-18?)",
        ),
        (
            'command = "x"\nprotocol = 2025-06-18',
            "3:12: mcpServers.x.protocol must be a string, not a date or time",
        ),
        (
            'command = "x"\nscope = "sesion"',
            "3:9: mcpServers.x.scope cannot be 'sesion' (did you mean session?)",
        ),
        (
            'command = "x"\ntimeout = 0',
            "3:11: mcpServers.x.timeout must be between 0.1 and 3,600 seconds",
        ),
        (
            'command = "x"\ntimeout = 60000',
            "3:11: mcpServers.x.timeout must be between 0.1 and 3,600 seconds",
        ),
        (
            'command = "x"\ntimeout = "5s"',
            "3:11: mcpServers.x.timeout must be a number, not a string "
            "(in seconds, such as 60, without quotes and unit)",
        ),
        (
            'command = "x"\nmaxMessageBytes = 268435457',
            "3:19: mcpServers.x.maxMessageBytes must be between 65,536 and 268,435,456",
        ),
        (
            'command = "x"\nmaxMessageBytes = 1e6',
            "3:19: mcpServers.x.maxMessageBytes must be a whole number, not a decimal number",
        ),
        (
            'command = "x"\npermitEnv = "PATH"',
            "3:13: mcpServers.x.permitEnv must be an array of strings, not a string "
            '(such as ["one", "two"])',
        ),
        (
            'command = "x"\ndisabled = "yes"',
            "3:12: mcpServers.x.disabled must be true or false, not a string",
        ),
    ],
)
def test_what_a_server_cannot_say(tmp_path: Path, lines: str, message: str) -> None:
    assert refusals(tmp_path, lines) == [message]


def test_an_env_file_stands_beside_the_file_and_yields_to_env(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=from-file\nB=hunter2\n")
    found = server(tmp_path, 'command = "x"\nenvFile = ".env"\nenv = { A = "from-entry" }')
    assert found.env == {"A": "from-entry", "B": SECRET}
    assert SECRET in found.secrets
    assert SECRET not in repr(found)


def test_an_env_file_cannot_smuggle_what_decides_code(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("LD_PRELOAD=/evil.so\n")
    [reason] = server(tmp_path, 'command = "x"\nenvFile = ".env"').unresolved
    assert reason.startswith("sets LD_PRELOAD")


def test_arguments_reach_the_server_as_they_are_written(tmp_path: Path) -> None:
    found = server(tmp_path, """command = "x"\nargs = ["; rm -rf /", "$(id)", "a b", "`x`", "*"]""")
    assert found.args == ("; rm -rf /", "$(id)", "a b", "`x`", "*")


@pytest.mark.parametrize(
    ("written", "proxy"),
    [
        ("none", "none"),
        ("env", "env"),
        ("http://proxy.example:3128", "http://proxy.example:3128"),
        ("http://[::1]:3128/", "http://[::1]:3128/"),
        ("http://${env:WORD}:3128", "http://htps:3128"),
    ],
)
def test_a_server_may_be_behind_a_proxy(tmp_path: Path, written: str, proxy: str) -> None:
    found = server(tmp_path, f'url = "https://a.example"\nproxy = "{written}"')
    assert found.proxy == proxy
    assert found.unresolved == ()


@pytest.mark.parametrize(
    "written",
    [
        "None",
        "proxy:3128",
        "https://p.example:1",
        "socks5://p:1",
        "http://u:hunter2@p:1",
        "http://p/x",
    ],
)
def test_what_is_no_proxy_is_refused(tmp_path: Path, written: str) -> None:
    assert refusals(tmp_path, f'url = "https://a.example"\nproxy = "{written}"') == [
        '3:9: mcpServers.x.proxy must be "none", "env" or "http://host:port"'
    ]


def test_a_proxy_from_the_environment_that_is_none_keeps_the_server_from_starting(
    tmp_path: Path,
) -> None:
    found = server(tmp_path, 'url = "https://a.example"\nproxy = "${env:TOKEN}"')
    assert found.unresolved == ('proxy must be "none", "env" or "http://host:port"',)
    assert SECRET not in repr(found)
    missing = server(tmp_path, 'url = "https://a.example"\nproxy = "${env:NONE}"')
    assert missing.unresolved == ("proxy needs the environment variable NONE, which is not set",)


def test_a_command_has_no_proxy(tmp_path: Path) -> None:
    assert refusals(tmp_path, 'command = "x"\nproxy = "env"') == [
        "3:1: proxy needs a url, and this server has a command (remove proxy)"
    ]
