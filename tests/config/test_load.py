"""Files together: which are looked for, how they are laid over one another, all faults at once."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anyport.config import Config, ConfigError, ConfigFault, demo_config, find_config, load
from anyport.config.client_entries import (
    KEY_ALIASES,
    NEGATED_KEYS,
    SERVER_KEYS,
    VARIABLE_NAMING_KEYS,
)
from anyport.config.faults import FAULTS_MAX
from anyport.config.gateway import GATEWAY_KEYS, PROFILE_KEYS

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(
        [
            "",
            "x",
            "a\0b",
            "${A}",
            "${",
            "http://a",
            "http://[",
            "auto",
            "stdio",
            "~",
            "*",
            "127.0.0.1:1",
        ]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["", "a", "A=", "path", "args", "allow"]), inner)
    ),
    max_leaves=6,
)
ENTRIES = st.dictionaries(
    st.sampled_from(
        [*SERVER_KEYS, *KEY_ALIASES, *NEGATED_KEYS, *VARIABLE_NAMING_KEYS, "source", "other"]
    ),
    VALUES,
    max_size=5,
)
PROFILES = st.dictionaries(st.sampled_from([*PROFILE_KEYS, "other"]), VALUES, max_size=4)
GATEWAYS = st.dictionaries(st.sampled_from([*GATEWAY_KEYS, "other"]), VALUES, max_size=2)


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def faults(*files: Path) -> list[ConfigFault]:
    with pytest.raises(ConfigError) as caught:
        load(files, {})
    return list(caught.value.faults)


def overlaid(folder: Path, *texts: str) -> Config:
    files = [write(folder, f"layer{n}.toml", text) for n, text in enumerate(texts)]
    return load(files, {})


def test_the_directorys_file_comes_before_the_users(tmp_path: Path) -> None:
    here, user = tmp_path / "here", tmp_path / "user"
    assert find_config(here, user) is None
    in_order = [
        write(user, "anyport.json", "{}"),
        write(user, "anyport.toml", ""),
        write(here, "anyport.json", "{}"),
        write(here, "anyport.toml", ""),
    ]
    for file in reversed(in_order):
        assert find_config(here, user) == file
        file.unlink()


def test_a_directory_is_not_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "anyport.toml").mkdir()
    assert find_config(tmp_path, tmp_path) is None


def test_nothing_configured_runs_the_demo() -> None:
    config = demo_config()
    server = config.servers["demo"]
    assert (server.command, server.args) == (sys.executable, ("-m", "anyport", "demo-server"))
    assert server.unresolved == ()
    assert config.profile().servers == ("demo",)


@pytest.mark.parametrize(("name", "text"), [("anyport.toml", ""), ("anyport.json", "{}")])
def test_an_empty_file_is_a_gateway_without_servers(tmp_path: Path, name: str, text: str) -> None:
    config = load([write(tmp_path, name, text)], {})
    assert config.servers == {}
    assert config.profile().servers == ()


def test_both_syntaxes_say_the_same(tmp_path: Path) -> None:
    toml = write(
        tmp_path,
        "anyport.toml",
        '[gateway]\nlisten = "[::1]:1"\n[mcpServers.a]\ncommand = "./x"\nenv = { A = "b" }\n'
        '[profiles.dev]\nservers = ["a"]\ntools.deny = ["x*"]\n',
    )
    value = {
        "gateway": {"listen": "[::1]:1"},
        "mcpServers": {"a": {"command": "./x", "env": {"A": "b"}}},
        "profiles": {"dev": {"servers": ["a"], "tools": {"deny": ["x*"]}}},
    }
    jsonc = write(tmp_path, "anyport.json", "// the same\n" + json.dumps(value))
    one, other = load([toml], {}), load([jsonc], {})
    assert (one.gateway, one.servers, one.profiles) == (
        other.gateway,
        other.servers,
        other.profiles,
    )


def test_the_sources_and_the_renamed_are_told(tmp_path: Path) -> None:
    text = '[mcpServers."My Server"]\ncommand = "x"\n[mcpServers.plain]\ncommand = "y"\n'
    file = write(tmp_path, "anyport.toml", text)
    config = load([file], {})
    assert config.sources == (str(file),)
    assert config.renamed == {"My Server": "my-server"}
    assert config.servers["my-server"].name == "My Server"


def test_a_later_file_wins_key_by_key(tmp_path: Path) -> None:
    config = overlaid(
        tmp_path,
        '[gateway]\nlisten = "127.0.0.1:1"\nlistSeconds = 5\n'
        '[mcpServers.a]\ncommand = "x"\nargs = ["y"]\nenv = { A = "1", B = "1" }\n'
        '[profiles.dev]\nprefix = "never"\nerrors = "verbatim"\n',
        '[gateway]\nlisten = "127.0.0.1:2"\n'
        '[mcpServers.a]\ndisabled = true\nenv = { B = "2" }\n[mcpServers.b]\ncommand = "z"\n'
        '[profiles.dev]\nprefix = "always"\n',
    )
    assert (config.gateway.port, config.gateway.list_seconds) == (2, 5)
    a = config.servers["a"]
    assert (a.command, a.args, a.disabled) == ("x", ("y",), True)
    assert a.env == {"A": "1", "B": "2"}
    profile = config.profile("dev")
    assert (profile.prefix, profile.errors) == ("always", "verbatim")
    assert profile.servers == ("a", "b")


def test_an_overlay_permits_what_a_client_file_sets(tmp_path: Path) -> None:
    client = write(
        tmp_path, "mcp.json", '{"mcpServers": {"A B": {"command": "x", "env": {"PATH": "/opt"}}}}'
    )
    overlay = write(tmp_path, "anyport.toml", '[mcpServers.a-b]\npermitEnv = ["PATH"]\n')
    assert load([client], {}).servers["a-b"].unresolved
    server = load([client, overlay], {}).servers["a-b"]
    assert server.unresolved == ()
    assert server.name == "A B"


def test_a_new_command_does_not_inherit_the_secrets_of_the_old(tmp_path: Path) -> None:
    config = overlaid(
        tmp_path,
        '[mcpServers.a]\ncommand = "x"\nenv = { TOKEN = "hunter2" }\n',
        '[mcpServers.a]\ncommand = "evil"\n',
    )
    assert config.servers["a"].env == {}


def test_a_relative_path_belongs_to_the_file_that_says_it(tmp_path: Path) -> None:
    base = write(tmp_path, "base/a.json", '{"mcpServers": {"a": {"command": "./x"}}}')
    overlay = write(tmp_path, "over/anyport.toml", '[mcpServers.a]\ncwd = "w"\n')
    server = load([base, overlay], {}).servers["a"]
    assert server.command == str(tmp_path / "base" / "x")
    assert server.cwd == str(tmp_path / "over" / "w")


def test_all_faults_of_all_files_come_at_once(tmp_path: Path) -> None:
    one = write(tmp_path, "one.toml", '[gateway]\nlisen = 1\n[mcpServers.a]\ncomand = "x"\n')
    two = write(tmp_path, "two.json", '{"mcpServers": {"b": {"command": 1}}')
    three = write(tmp_path, "three.toml", '[profiles.p]\nservers = ["z"]\nprefix = "no"\n')
    assert [(Path(fault.file).name, fault.line) for fault in faults(one, two, three)] == [
        ("one.toml", 2),
        ("one.toml", 3),
        ("one.toml", 4),
        ("two.json", 1),
        # That server z is missing is not told: it may stand in the file that cannot be read.
        ("three.toml", 3),
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "anyport.toml",
            "[mcpServer.x]",
            "1:2: unknown key 'mcpServer' (did you mean mcpServers?)",
        ),
        ("anyport.json", '{"gatway": {}}', "1:2: unknown key 'gatway' (did you mean gateway?)"),
        (
            "my.json",
            '{"profiles": {},\n "theme": 1}',
            "2:2: unknown key 'theme' (valid here: "
            "gateway, record, telemetry, mcpServers, profiles, hooks)",
        ),
        (
            "my.json",
            '{"mcpServers": {},\n "profile": {}}',
            "2:2: unknown key 'profile' (did you mean profiles?)",
        ),
        (
            "my.json",
            '{"mcpservers": {}}',
            "1:2: unknown key 'mcpservers' (did you mean mcpServers?)",
        ),
        (
            "my.json",
            '{"theme": "dark"}',
            "1:1: the file defines no servers (servers are defined under mcpServers)",
        ),
        ("my.json", '{"mcpServers": []}', "1:16: mcpServers must be a table, not an array"),
        (
            "my.json",
            '{"mcpServers": {"a": "x"}}',
            "1:22: mcpServers.a must be a table, not a string",
        ),
        ("anyport.toml", "gateway = 1", "1:11: gateway must be a table, not a number"),
        (
            "my.json",
            '{"mcpServers": {"a b": {"command": "x"},\n "A-B": {"command": "y"}}}',
            "2:2: servers 'a b' and 'A-B' both become 'a-b' (rename one of them)",
        ),
        (
            "my.json",
            '{"mcpServers": {"a": {"command": "x"}},\n "servers": {"a": {"command": "y"}}}',
            "2:14: servers 'a' and 'a' both become 'a' (rename one of them)",
        ),
    ],
)
def test_what_a_file_cannot_say(tmp_path: Path, name: str, text: str, message: str) -> None:
    file = write(tmp_path, name, text)
    assert [str(fault) for fault in faults(file)] == [f"{file}:{message}"]


def test_two_names_with_one_slug_in_two_files_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path, "one.json", '{"mcpServers": {"A b": {"command": "x"}}}')
    two = write(tmp_path, "two.json", '{"mcpServers": {"a B": {"command": "y"}}}')
    [fault] = faults(one, two)
    assert fault.file == str(two)


def test_a_file_of_a_megabyte_is_read_and_one_of_wrong_keys_refused(tmp_path: Path) -> None:
    servers = {f"s{n}": {"command": "x", "args": ["y" * 1000]} for n in range(1000)}
    good = write(tmp_path, "good.json", json.dumps({"mcpServers": servers}))
    assert len(load([good], {}).servers) == 1000
    wrong = {f"wrong{n}": n for n in range(50_000)}
    bad = write(tmp_path, "bad.json", json.dumps({"gateway": wrong}))
    assert len(faults(bad)) == FAULTS_MAX


def test_nothing_secret_is_in_faults_or_in_the_configurations_repr(tmp_path: Path) -> None:
    text = (
        '{"mcpServers": {"a": {"command": "x", "env": {"T": "hunter2"}, '
        '"args": ["${TOKEN}"]}, "b": {"url": "https://a/", "headers": {"T": "hunter2"}}}}'
    )
    config = load([write(tmp_path, "a.json", text)], {"TOKEN": "hunter2"})
    assert "hunter2" not in repr(config)
    broken = write(
        tmp_path,
        "b.json",
        '{"mcpServers": {"a": {"command": "x", "env": ["hunter2"], "args": {"t": "hunter2"}}, '
        '"b": {"url": "hunter2", "headers": {"A": "hunter2\\n"}}, '
        '"c": {"command": "x", "env": {"A": "hunter2\\u0000"}}}}',
    )
    found = faults(broken)
    assert len(found) == 5
    assert "hunter2" not in " ".join(f"{fault} {fault!r}" for fault in found)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.fixed_dictionaries(
        {"mcpServers": st.dictionaries(st.sampled_from(["a", "A", "b c", ""]), ENTRIES | VALUES)},
        optional={
            "gateway": GATEWAYS | VALUES,
            "profiles": st.dictionaries(st.sampled_from(["p", "P"]), PROFILES | VALUES) | VALUES,
        },
    )
)
def test_whatever_a_file_says_is_a_configuration_or_faults(tmp_path: Path, value: object) -> None:
    file = write(tmp_path, "any.json", json.dumps(value))
    try:
        config = load([file], {"A": "hunter2"})
    except ConfigError as error:
        assert error.faults
    else:
        assert all(profile.slug for profile in config.profiles.values())
