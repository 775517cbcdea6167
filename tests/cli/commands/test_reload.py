"""`anyport reload`: a running gateway takes over its files, and says what that changed."""

import json
from typing import Any

from anyport.cli.commands.reload import diff_lines
from anyport.gateway.api.schemas import ListShift, ReloadAnswer
from tests.cli.running import Running, running
from tests.cli.stage import Stage, tiny_entry


def configure(
    stage: Stage, *slugs: str, more: dict[str, Any] | None = None, **gateway: object
) -> None:
    entries = {slug: tiny_entry(stage.notes) for slug in slugs}
    content = {"gateway": {"watch": False, **gateway}, "mcpServers": entries, **(more or {})}
    (stage.folder / "anyport.json").write_text(json.dumps(content))


def test_a_running_gateway_takes_over_its_files_when_asked(stage: Stage) -> None:
    configure(stage, "one")
    with running() as there:
        configure(stage, "one", "two")
        ran = stage.run("reload", "--url", there.url)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == "the configuration was reloaded: added two; profiles default\n"

        again = stage.run("reload", "--url", there.url, "--json")
        assert again.json["added"] == []
        assert again.json["settings"] == []


def test_the_gateway_of_this_configuration_is_meant_if_none_is_named(stage: Stage) -> None:
    configure(stage, "one")
    with running() as there:
        configure(stage, "one", "two", listen=there.url.removeprefix("http://"))
        ran = stage.run("reload")
        assert ran.code == 0
        assert "added two" in ran.out
        assert "restart the gateway to apply: gateway.listen" in ran.out


def test_files_that_cannot_be_used_change_nothing_and_the_faults_are_told(stage: Stage) -> None:
    configure(stage, "one")
    with running() as there:
        configure(stage, "one", lissen="x")
        ran = stage.run("reload", "--url", there.url)
        assert ran.code == 1
        assert "stays as it is" in ran.err
        assert "did you mean listen?" in ran.err
        assert there.get("/api/v1/servers")[1]["servers"][0]["slug"] == "one"


def test_without_a_gateway_it_says_how_to_start_one(stage: Stage) -> None:
    configure(stage, "one", listen="127.0.0.1:1")
    ran = stage.run("reload")
    assert ran.code == 1
    assert "cannot connect to http://127.0.0.1:1" in ran.err


def test_a_broken_file_does_not_say_where_the_gateway_is(stage: Stage) -> None:
    (stage.folder / "anyport.json").write_text("{")
    ran = stage.run("reload")
    assert ran.code == 1
    assert "pass --url" in ran.err


def servers(there: Running) -> set[str]:
    return {server["slug"] for server in there.get("/api/v1/servers")[1]["servers"]}


def test_tools_that_would_come_and_go_are_told_and_nothing_is_taken_over(stage: Stage) -> None:
    configure(stage, "one", "two")
    with running() as there:
        configure(stage, "one", "three")
        ran = stage.run("check", "--diff", "--url", there.url)
        assert ran.code == 1
        assert "+ server three\n- server two\n" in ran.out
        assert "  + three__add\n" in ran.out
        assert "  - two__add\n" in ran.out
        assert "one__add" not in ran.out
        assert servers(there) == {"one", "two"}


def test_tools_that_would_be_called_otherwise_are_told_so(stage: Stage) -> None:
    configure(stage, "one")
    with running() as there:
        configure(
            stage, "one", more={"profiles": {"default": {"servers": ["one"], "prefix": "never"}}}
        )
        ran = stage.run("check", "--diff", "--url", there.url, "--json")
        [tools] = [each for each in ran.json["lists"] if each["kind"] == "tools"]
        assert ["one__add", "add"] in tools["renamed"]


def test_nothing_is_told_as_that_with_exit_code_0(stage: Stage) -> None:
    configure(stage, "one")
    with running() as there:
        ran = stage.run("check", "--diff", "--url", there.url)
        assert (ran.code, ran.out) == (0, "nothing would change\n")


def test_files_that_cannot_be_used_are_told_with_their_faults(stage: Stage) -> None:
    configure(stage, "one")
    with running() as there:
        configure(stage, "one", more={"profils": {}})
        ran = stage.run("check", "--diff", "--url", there.url)
        assert ran.code == 1
        assert "did you mean profiles?" in ran.err


def test_a_gateway_is_only_asked_for_the_difference(stage: Stage) -> None:
    configure(stage, "one")
    ran = stage.run("check", "--url", "http://127.0.0.1:1")
    assert ran.code == 2
    assert "--diff" in ran.err


def test_what_holds_from_the_next_start_on_is_told_as_that() -> None:
    found = ReloadAnswer(
        added=(),
        removed=(),
        changed=(),
        profiles=("dev",),
        settings=("gateway.listen",),
        at_start=("gateway.listen",),
        lists=(
            ListShift(
                profile="dev", kind="tools", added=(), removed=(), renamed=(), changed=("x",)
            ),
        ),
    )
    assert list(diff_lines(found)) == [
        "~ profile dev",
        "~ setting gateway.listen (after a restart)",
        "",
        "tools of profile dev:",
        "  ~ x has another description",
    ]


def test_a_name_that_a_server_gave_cannot_steer_the_terminal() -> None:
    shift = ListShift(
        profile="dev",
        kind="resources",
        added=("file:///a\x1b[2J\u202e",),
        removed=("b\nc",),
        renamed=(("d\u200b", "e"),),
        changed=(),
    )
    found = ReloadAnswer(
        added=("one",),
        removed=(),
        changed=(),
        profiles=(),
        settings=(),
        at_start=(),
        lists=(shift,),
    )
    assert list(diff_lines(found))[-3:] == [
        "  + file:///a\N{REPLACEMENT CHARACTER}",
        "  - b↵c",
        "  ~ d\N{REPLACEMENT CHARACTER} is renamed to e",
    ]
