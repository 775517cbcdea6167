"""A server's form, put to a person."""

import asyncio
import io
import os
import pty
import subprocess
import sys
import threading
from typing import Any

import pytest

from anyport.cli.elicitation_prompt import (
    FormField,
    InvalidAnswer,
    fill_in_form,
    is_interactive,
    read_line,
)
from tests.cli.running import Running
from tests.cli.stage import Stage
from tests.harness import WAIT_SECONDS


def answered(schema: dict[str, Any], *lines: str | None) -> tuple[dict[str, Any], list[str]]:
    """The result, and everything the person saw."""
    typed = iter(lines)
    seen: list[str] = []

    async def read(prompt: str) -> str | None:
        seen.append(prompt)
        return next(typed)

    question = {"message": "Please", "requestedSchema": schema}
    result = asyncio.run(fill_in_form(question, read, seen.append))
    assert next(typed, "all were used") == "all were used"
    return result, seen


def form(required: tuple[str, ...] = (), **fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required)}


def test_each_field_is_asked_for_and_given_back_with_its_type() -> None:
    schema = form(
        ("name",),
        name={"type": "string", "title": "Your name"},
        age={"type": "integer"},
        weight={"type": "number"},
        member={"type": "boolean"},
    )

    result, seen = answered(schema, "", "Ada", "36", "61.5", "y")

    content = {"name": "Ada", "age": 36, "weight": 61.5, "member": True}
    assert result == {"action": "accept", "content": content}
    assert seen[0] == "The server asks: Please"
    assert seen[2:] == [
        "  Your name (string): ",
        "  age (integer, optional): ",
        "  weight (number, optional): ",
        "  member (yes or no, optional): ",
    ]


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        (["d"], "decline"),
        (["n"], "decline"),
        (["c"], "cancel"),
        ([None], "cancel"),
        (["y", None], "cancel"),
    ],
)
def test_a_person_may_refuse(lines: list[str | None], action: str) -> None:
    result, _ = answered(form(name={"type": "string"}), *lines)
    assert result == {"action": action}


@pytest.mark.parametrize("word", ["Ada", "yesterday", "dunno", "1"])
def test_whether_to_answer_is_asked_again_until_that_is_clear(word: str) -> None:
    result, seen = answered(form(name={"type": "string"}), word, "YES", "Ada")

    assert result == {"action": "accept", "content": {"name": "Ada"}}
    assert seen[2] == "    answer y, d or c; the form comes next"
    assert seen[1] == seen[3] == "  Answer? [Y]es, [d]ecline, [c]ancel: "


def test_an_answer_that_does_not_fit_is_asked_for_again() -> None:
    schema = form(
        ("pin",),
        pin={"type": "string", "minLength": 4, "maxLength": 4},
        age={"type": "integer", "minimum": 18, "maximum": 99},
    )

    result, seen = answered(schema, "y", "", "123", "12345", "1234", "1.5", "17", "100", "18")

    assert result["content"] == {"pin": "1234", "age": 18}
    assert [line.strip() for line in seen if line.startswith("    ")] == [
        "an answer is required; press Ctrl-D to cancel",
        "at least 4 characters",
        "at most 4 characters",
        "answer with an integer",
        "at least 18",
        "at most 99",
    ]


def test_nothing_leaves_an_optional_field_out_and_takes_a_default() -> None:
    schema = form(
        ("size",),
        note={"type": "string", "description": "Anything else?"},
        size={"type": "integer", "default": 3},
    )

    result, seen = answered(schema, "y", "", "")

    assert result["content"] == {"size": 3}
    assert "  Anything else?" in seen
    assert "  size (integer, Enter for 3): " in seen


CHOICES = [
    {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
    {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
]


@pytest.mark.parametrize("schema", CHOICES)
@pytest.mark.parametrize("line", ["g", "Green", "2"])
def test_a_choice_is_made_by_value_name_or_number(schema: dict[str, Any], line: str) -> None:
    result, seen = answered(form(colour=schema), "y", "blue", line)

    assert result["content"] == {"colour": "g"}
    assert seen[2:4] == ["    1. Red (r)", "    2. Green (g)"]


def test_several_can_be_chosen() -> None:
    schema = form(("tags",), tags={"type": "array", "items": {"enum": ["a", "b", "c"]}})

    assert answered(schema, "y", "a, 3")[0]["content"] == {"tags": ["a", "c"]}
    assert answered(schema, "y", "")[0]["content"] == {"tags": []}


def test_a_switch_takes_yes_and_no_only() -> None:
    field = FormField(name="x", schema={"type": "boolean"}, required=True)
    assert field.parse("No") is False
    with pytest.raises(InvalidAnswer):
        field.parse("maybe")


class Typed(io.StringIO):
    """A standard input that is a pipe, and says that it is a terminal."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return True


def test_lines_are_read_one_by_one_until_the_input_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(sys, "stdin", Typed(reading))

    async def converse() -> list[str | None]:
        os.write(writing, b" Ada \n")
        first = await read_line("Name\x1b[2J: ")
        os.close(writing)
        return [first, await read_line("More: ")]

    assert asyncio.run(converse()) == ["Ada", None]
    os.close(reading)
    assert capsys.readouterr().err == "Name: More: \n"


def test_somebody_is_there_only_if_both_ends_are_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", Typed(0))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not is_interactive()
    monkeypatch.setattr(sys, "stderr", Typed(2))
    assert is_interactive()
    monkeypatch.setattr(sys, "stdin", None)
    assert not is_interactive()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_person_answers_what_a_server_asks(stage: Stage, there: Running, elsewhere: bool) -> None:
    stage.configure()
    terminal, its_end = pty.openpty()
    command = [sys.executable, "-m", "anyport", "call", "tiny__ask"]
    command += ["--url", there.url] if elsewhere else []
    with subprocess.Popen(
        command, stdin=its_end, stderr=its_end, stdout=subprocess.PIPE, env=dict(os.environ)
    ) as process:
        os.close(its_end)
        watchdog = threading.Timer(WAIT_SECONDS, process.kill)
        watchdog.start()
        for prompt, line in (
            ("ancel: ", "y"),
            ("name (", "Ada"),
            ("age (", "many"),
            ("age (", "36"),
        ):
            seen = ""
            while prompt not in seen or not seen.endswith(": "):
                seen += os.read(terminal, 4096).decode()
            os.write(terminal, line.encode() + b"\n")
        assert process.stdout is not None
        answer = process.stdout.read()
        code = process.wait(WAIT_SECONDS)
        watchdog.cancel()
    os.close(terminal)

    assert code == 0
    assert b'"content": {"name": "Ada", "age": 36}' in answer
