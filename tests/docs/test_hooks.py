"""The page about hooks is true: its filters parse, its tables are those of the code."""

import json
import re
from pathlib import Path
from typing import Final

from anyport.config.hooks import ACTIONS, HOOK_KEYS
from anyport.config.templates import EVENT_FIELDS
from anyport.gateway.hooks.actions import HookEvent, hook_environment
from anyport.gateway.hooks.filters import check_hook_filter
from anyport.gateway.hooks.queue import idle_report

PAGE: Final = (Path(__file__).parents[2] / "docs" / "guides" / "hooks.md").read_text("utf-8")


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def first_cells(text: str) -> set[str]:
    rows = re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`([\w-]+)`", row)}


def test_every_filter_of_the_page_can_be_understood() -> None:
    filters = re.findall(r'^on = "(.*)"$', PAGE, re.MULTILINE)

    assert len(filters) >= 4
    assert [check_hook_filter(text) for text in filters] == [None] * len(filters)


def test_the_fault_on_the_page_is_the_one_that_is_found() -> None:
    objection = check_hook_filter("status:eror")

    assert objection is not None
    assert f"hooks[0].on: {objection.message}" in PAGE
    assert all(f"    {line}\n" in PAGE for line in objection.excerpt.splitlines())


def test_every_key_is_on_the_page_with_what_it_goes_with() -> None:
    assert first_cells(section("Keys")) == set(HOOK_KEYS)
    for action, keys in ACTIONS.items():
        for key in keys:
            assert f"| `{key}` | `{action}` |" in PAGE


def test_every_variable_of_a_command_is_on_the_page() -> None:
    event = {
        **dict.fromkeys(EVENT_FIELDS, "x"),
        "metadata": {"server": "s", "profile": "p", "tool": "t"},
    }
    found = hook_environment("h", HookEvent(json.dumps(event).encode(), "key", "b" * 16))

    assert first_cells(section("Run a command")) == set(found)


def test_every_field_of_an_event_is_on_the_page() -> None:
    told = section("Templates")

    assert all(f"`{field}`" in told for field in EVENT_FIELDS if field != "schema_version")


def test_every_member_of_a_report_is_on_the_page() -> None:
    code = (Path(__file__).parents[2] / "src/anyport/gateway/hooks/queue.py").read_text("utf-8")
    report = code.partition("def report(self)")[2].partition("return report")[0]

    told = {*idle_report("post", None), *re.findall(r'"(\w+)"[\]:]', report)}
    assert first_cells(section("Status")) == told
