"""`anyport tools`."""

import pytest

from anyport.cli.commands.tools import out_tool_help
from tests.cli.stage import Stage


def test_tools_are_listed_with_their_server_and_the_first_line_about_them(stage: Stage) -> None:
    stage.configure()

    ran = stage.run("tools")

    assert ran.code == 0
    assert ran.err == ""
    rows = [line.split(maxsplit=2) for line in ran.out.splitlines()]
    assert rows[0] == ["NAME", "SERVER", "DESCRIPTION"]
    assert ["tiny__add", "tiny", "Adds two numbers."] in rows
    assert rows[1][:2] == ["gateway_status", "(gateway)"]


def test_what_a_server_says_of_a_tool_cannot_reach_the_terminal_as_a_sequence(stage: Stage) -> None:
    stage.configure()

    for ran in (stage.run("tools"), stage.run("tools", "--json")):
        assert "\x1b" not in ran.out
    assert "Says red things." in stage.run("tools").out


def test_one_server_can_be_picked_and_json_is_the_tools_as_they_are(stage: Stage) -> None:
    stage.configure(off={"command": "nothing", "disabled": True})

    ran = stage.run("tools", "--server", "tiny", "--json")

    assert [tool["name"] for tool in ran.json][:2] == ["tiny__add", "tiny__say"]
    assert ran.json[0]["inputSchema"]["properties"]["b"] == {"type": "integer"}
    assert ran.err == ""


def test_a_server_that_is_not_configured_is_wrong_usage(stage: Stage) -> None:
    stage.configure()

    ran = stage.run("tools", "--server", "tony")

    assert (ran.code, ran.out) == (2, "")
    assert "there is no server 'tony' in this profile; the servers are: tiny" in ran.err


def test_a_server_that_does_not_start_is_named_with_the_reason_and_spoils_nothing(
    stage: Stage,
) -> None:
    stage.configure(broken={"command": str(stage.folder / "absent")})

    ran = stage.run("tools")

    assert ran.code == 0
    assert "tiny__add" in ran.out
    assert "server 'broken' is not running: " in ran.err


def test_one_tool_is_explained_with_its_arguments_and_an_example(stage: Stage) -> None:
    stage.configure()

    for name in ("tiny__add", "add"):
        ran = stage.run("tools", name)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("tiny__add, of server 'tiny'\nAdds two numbers.\nSlowly")
        assert "b         integer  no\n" in ran.out
        assert ran.out.endswith("\nExample: anyport call tiny__add a=1\n")

    assert stage.run("tools", "add", "--json").json["inputSchema"]["properties"]["b"]


def test_a_tool_that_is_not_there_is_answered_with_the_nearest(stage: Stage) -> None:
    stage.configure()

    ran = stage.run("tools", "tiny_ad")
    assert (ran.code, ran.out) == (1, "")
    assert "there is no tool 'tiny_ad'; did you mean tiny__add" in ran.err
    assert stage.run("tools", "add", "--server", "tiny").code == 2


def test_arguments_are_a_table_and_an_example_is_ready_to_paste(
    capsys: pytest.CaptureFixture[str],
) -> None:
    schema = {
        "properties": {
            "text": {"type": "string", "description": "What\nto \x1b[2Jsay."},
            "mood": {"enum": ["calm", 3], "default": "calm"},
            "count": {"type": ["integer", "null"], "default": 2},
        },
        "required": ["text"],
    }

    out_tool_help(
        {"name": "a__say", "description": "Says it.\n", "inputSchema": schema}, "server 'a'"
    )

    assert capsys.readouterr().out.splitlines() == [
        "a__say, of server 'a'",
        "Says it.",
        "",
        "ARGUMENT  TYPE             REQUIRED  DEFAULT  DESCRIPTION",
        "text      string           yes                What to say.",
        "mood      calm | 3         no        calm",
        "count     integer or null  no        2",
        "",
        "Example: anyport call a__say text=text",
    ]


def test_a_tool_may_take_nothing_and_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    out_tool_help({"name": "odd name", "inputSchema": None}, "the gateway itself")

    assert capsys.readouterr().out == (
        "odd name, of the gateway itself\n\nThis tool takes no arguments.\n\n"
        "Example: anyport call 'odd name'\n"
    )
