"""One tool, described for people."""

import pytest

from anyport.cli.sheet import out_sheet


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

    out_sheet({"name": "a__say", "description": "Says it.\n", "inputSchema": schema}, "server 'a'")

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
    out_sheet({"name": "odd name", "inputSchema": None}, "the gateway itself")

    assert capsys.readouterr().out == (
        "odd name, of the gateway itself\n\nIt takes no arguments.\n\n"
        "Example: anyport call 'odd name'\n"
    )
