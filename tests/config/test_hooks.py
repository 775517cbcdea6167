"""Hooks in a configuration: what each can say, and what is refused with its line."""

from pathlib import Path

import pytest

from anyport.config import Config, ConfigError, load
from anyport.config.hooks import HOOKS_MAX
from anyport.config.model import HookConfig
from anyport.gateway.hooks.filters import check_hook_filter

ENVIRON = {"TOKEN": "s3cret-token", "SPACED": "a b", "EMPTY": ""}
SERVERS = '[mcpServers."Git Hub"]\ncommand = "x"\n[mcpServers.slack]\ncommand = "y"\n'


def loaded(folder: Path, hooks: str, servers: str = SERVERS) -> Config:
    file = folder / "anyport.toml"
    file.write_text(f"{hooks}\n{servers}")
    return load([file], ENVIRON, check_hook_filter)


def hook(folder: Path, body: str) -> HookConfig:
    config = loaded(folder, f'[[hooks]]\nname = "a"\non = "status:error"\n{body}')
    [only] = config.hooks
    return only


def refusals(folder: Path, hooks: str, servers: str = SERVERS) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, hooks, servers)
    assert "s3cret-token" not in str(caught.value)
    return [str(fault).removeprefix(f"{folder}/anyport.toml:") for fault in caught.value.faults]


def refusals_of(folder: Path, body: str) -> list[str]:
    return refusals(folder, f'[[hooks]]\nname = "a"\non = "status:error"\n{body}')


def test_no_hooks_are_the_default(tmp_path: Path) -> None:
    config = loaded(tmp_path, "")

    assert config.hooks == ()
    assert config.gateway.hooks_match == "all"


def test_a_hook_that_posts(tmp_path: Path) -> None:
    found = hook(
        tmp_path,
        'post = "https://example.com/events?k=${env:TOKEN}"\n'
        'headers = { Authorization = "Bearer ${env:TOKEN}", X-Team = "ops" }\n'
        'body = { text = "{{ metadata.server }} failed", deep = [{ n = 1 }] }',
    )

    assert found.post == "https://example.com/events?k=s3cret-token"
    assert dict(found.headers) == {"Authorization": "Bearer s3cret-token", "X-Team": "ops"}
    assert found.body == {"text": "{{ metadata.server }} failed", "deep": [{"n": 1}]}
    assert {"s3cret-token", "Bearer s3cret-token", "ops"} <= found.secrets
    assert "s3cret" not in repr(found)


def test_a_hook_that_runs_a_command(tmp_path: Path) -> None:
    assert hook(tmp_path, 'run = ["notify", "a b", "${env:TOKEN}"]').run == (
        *("notify", "a b", "s3cret-token"),
    )


def test_a_command_with_a_slash_is_relative_to_the_file(tmp_path: Path) -> None:
    assert hook(tmp_path, 'run = ["./bin/notify", "./x"]').run == (
        *(f"{tmp_path}/bin/notify", "./x"),
    )


def test_a_hook_that_calls_a_tool_names_the_server_in_any_way(tmp_path: Path) -> None:
    found = hook(tmp_path, 'call = "Git Hub/create/issue"\narguments = { title = "{{ status }}" }')

    assert found.call == ("git-hub", "create/issue")
    assert found.arguments == {"title": "{{ status }}"}


def test_json_has_hooks_too(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"hooks": [{"name": "a", "on": "status:error", "run": ["x"]}]}')

    [found] = load([file], ENVIRON).hooks

    assert found.run == ("x",)


def test_the_first_match_alone_can_be_wanted(tmp_path: Path) -> None:
    config = loaded(tmp_path, '[gateway]\nhooksMatch = "first"')

    assert config.gateway.hooks_match == "first"


def test_hooks_of_a_later_file_are_added_and_replace_those_of_the_same_name(tmp_path: Path) -> None:
    one, two = tmp_path / "anyport.toml", tmp_path / "two.json"
    one.write_text(
        '[[hooks]]\nname = "a"\non = "x"\nrun = ["1"]\n[[hooks]]\nname = "b"\non = "x"\nrun = ["2"]'
    )
    two.write_text(
        '{"hooks": [{"name": "b", "on": "y", "run": ["3"]}, '
        '{"name": "c", "on": "y", "run": ["4"]}]}'
    )

    found = load([one, two], ENVIRON).hooks

    assert [(each.name, each.on, each.run) for each in found] == [
        *(("a", "x", ("1",)), ("b", "y", ("3",)), ("c", "y", ("4",))),
    ]


def test_the_hooks_of_a_client_are_not_ours(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(
        '{"hooks": {"Stop": [{"command": "x"}]}, "mcpServers": {"a": {"command": "x"}}}'
    )

    config = load([file], ENVIRON)

    assert config.hooks == ()
    assert list(config.servers) == ["a"]


def test_what_is_not_set_leaves_the_hook_without_work_and_warns(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        '[[hooks]]\nname = "a"\non = "x"\npost = "https://e.com/${env:NONE}"\n'
        'headers = { A = "${env:EMPTY}" }',
    )

    [found] = config.hooks
    assert found.unresolved == (
        "post needs the environment variable NONE, which is not set",
        "headers.A needs the environment variable EMPTY, which is empty",
    )
    assert [warning.line for warning in config.warnings] == [1, 1]
    assert "the hook 'a' will do nothing: post needs" in str(config.warnings[0])


def test_what_the_environment_says_wrongly_leaves_the_hook_without_work(tmp_path: Path) -> None:
    assert hook(tmp_path, 'post = "https://e.com/${env:SPACED}"').unresolved == (
        "post must be an address such as https://example.com/events",
    )


def test_a_bad_filter_is_shown_with_a_caret(tmp_path: Path) -> None:
    [told] = refusals(tmp_path, '[[hooks]]\nname = "a"\non = "status:eror x"\nrun = ["x"]')

    first, text, caret = told.splitlines()
    assert first.startswith("3:6: hooks[0].on: status: has no such value. Did you mean error?")
    assert text == "    status:eror x"
    assert caret == "           ^^^^"


def test_without_a_judge_filters_are_taken_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "anyport.toml"
    file.write_text('[[hooks]]\nname = "a"\non = "status:eror"\nrun = ["x"]')

    assert load([file], ENVIRON).hooks[0].on == "status:eror"


@pytest.mark.parametrize(
    ("hooks", "told"),
    [
        (
            "[hooks]\na = 1",
            "1:2: hooks must be an array of tables "
            "(write [[hooks]] in TOML, an array of objects in JSON)",
        ),
        ("hooks = [1]", "1:10: hooks[0] must be a table, not a number"),
        (
            '[[hooks]]\non = "x"\nrun = ["x"]',
            '1:3: hooks[0] has no name (such as name = "alarm")',
        ),
        (
            '[[hooks]]\nname = "A b"\non = "x"\nrun = ["x"]',
            "2:8: 'A b' cannot be the name of a hook (use a-b)",
        ),
        (
            '[[hooks]]\nname = "a"\nrun = ["x"]',
            "1:3: the hook 'a' has no filter (such as on = \"status:error\")",
        ),
        (
            '[[hooks]]\nname = "a"\non = " "\nrun = ["x"]',
            '3:6: hooks[0].on is empty (on = "type:*" is every event)',
        ),
        (
            '[[hooks]]\nname = "a"\non = "x"\nrunn = ["x"]\nrun = ["x"]',
            "4:1: unknown key 'runn' (did you mean run?)",
        ),
    ],
)
def test_a_hook_that_is_none_is_refused(tmp_path: Path, hooks: str, told: str) -> None:
    assert refusals(tmp_path, hooks) == [told]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("", "1:3: the hook 'a' does nothing (give it one of post, run, call)"),
        (
            'run = ["x"]\npost = "http://e.com"',
            "1:3: the hook 'a' has both post and run (give it one of post, run, call)",
        ),
        (
            'run = ["x"]\nheaders = { A = "b" }',
            "5:1: hooks[0].headers goes with post, not with run (remove it)",
        ),
        (
            'post = "http://e.com"\narguments = { a = "b" }',
            "5:1: hooks[0].arguments goes with call, not with post (remove it)",
        ),
        (
            'post = "ftp://e.com"',
            "4:8: hooks[0].post must be an address such as https://example.com/events",
        ),
        (
            'post = "http://user:pw@e.com"',
            "4:8: hooks[0].post must not hold a user or password; use headers",
        ),
        (
            'post = "http://e.com"\nheaders = { Host = "x" }',
            "5:13: 'Host' cannot be a header of a hook (remove it, or use another name)",
        ),
        (
            'post = "http://e.com"\nheaders = { A = "x\\ny" }',
            "5:17: hooks[0].headers.A has a character no header can carry",
        ),
        (
            "run = []",
            '4:7: hooks[0].run names no command (such as run = ["notify-send", "Anyport"])',
        ),
        (
            'run = "x"',
            '4:7: hooks[0].run must be an array of strings, not a string (such as ["one", "two"])',
        ),
        (
            'call = "slack"',
            "4:8: hooks[0].call must be server/tool "
            "(a server, a slash, and the tool as that server calls it)",
        ),
        ('call = "slak/post"', "4:8: there is no server 'slak' (did you mean slack?)"),
        (
            'call = "slack/post"\narguments = { text = "{{ stauts }}" }',
            "5:22: hooks[0].arguments.text refers to 'stauts', which no event has "
            "(did you mean status?)",
        ),
        (
            'call = "slack/post"\narguments = { at = 2026-01-01, n = inf }',
            "5:20: hooks[0].arguments.at must be something that JSON has",
        ),
    ],
)
def test_what_a_hook_cannot_do_is_refused_with_its_line(
    tmp_path: Path, body: str, told: str
) -> None:
    assert told in refusals_of(tmp_path, body)


def test_two_hooks_of_one_name_are_refused(tmp_path: Path) -> None:
    one = '[[hooks]]\nname = "a"\non = "x"\nrun = ["x"]\n'

    [told] = refusals(tmp_path, one + one)

    assert told.endswith("two hooks are called 'a' (rename one of them)")


def test_a_server_that_no_profile_has_cannot_be_called(tmp_path: Path) -> None:
    text = (
        '[[hooks]]\nname = "a"\non = "x"\ncall = "slack/post"\n[profiles.p]\nservers = ["git-hub"]'
    )

    [told] = refusals(tmp_path, text)

    assert "no profile has the server 'slack'" in told


def test_there_is_a_limit_to_hooks(tmp_path: Path) -> None:
    each = '[[hooks]]\nname = "h%d"\non = "x"\nrun = ["x"]\n'

    loaded(tmp_path, "".join(each % number for number in range(HOOKS_MAX)))
    [told] = refusals(tmp_path, "".join(each % number for number in range(HOOKS_MAX + 1)))

    assert "there are more than 64 hooks" in told


def test_every_fault_of_every_hook_is_told_at_once(tmp_path: Path) -> None:
    told = refusals(
        tmp_path,
        '[[hooks]]\non = "x"\npost = "ftp://e.com"\nrun = []\n'
        '[[hooks]]\nname = "A B"\non = "status:eror"\ncall = "slack"\n'
        '[[hooks]]\nname = "a"\ncall = "slak/post"\n'
        '[[hooks]]\nname = "a"\non = "x"\nrun = [""]\nheaders = { Host = "x" }\n',
    )

    places = [fault.partition(": ")[::2] for fault in told]
    expected = [
        ("1:3", "hooks[0] has no name"),
        ("1:3", "hooks[0] has both post and run"),
        ("3:8", "hooks[0].post must be an address"),
        ("4:7", "hooks[0].run names no command"),
        ("6:8", "'A B' cannot be the name of a hook"),
        ("7:6", "hooks[1].on: "),
        ("8:8", "hooks[1].call must be server/tool"),
        ("9:3", "the hook 'a' has no filter"),
        ("11:8", "there is no server 'slak'"),
        ("12:3", "two hooks are called 'a'"),
        ("15:7", "hooks[3].run names no command"),
        ("16:1", "hooks[3].headers goes with post, not with run"),
        ("16:13", "'Host' cannot be a header of a hook"),
    ]
    assert [place for place, _ in places] == [place for place, _ in expected]
    for (_, words), (_, beginning) in zip(places, expected, strict=True):
        assert words.startswith(beginning)


def test_what_cannot_be_resolved_is_kept_as_written_to_be_shown(tmp_path: Path) -> None:
    assert hook(tmp_path, 'post = "${env:ABSENT}"').post == "${env:ABSENT}"
    running = hook(tmp_path, 'run = ["${env:ABSENT}/x", "${env:TOKEN}"]')
    assert running.run == ("${env:ABSENT}/x", "s3cret-token")
    assert (running.action, bool(running.unresolved)) == ("run", True)


def test_a_filter_that_is_merely_unwise_is_a_warning(tmp_path: Path) -> None:
    config = loaded(tmp_path, '[[hooks]]\nname = "a"\non = "x since:1h"\nrun = ["x"]')

    [warning] = config.warnings
    assert "3:6: hooks[0].on: there is no use for since: in a hook" in str(warning)
