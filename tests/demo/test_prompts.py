"""Prompts and completion, in every revision."""

from collections.abc import Iterator

import pytest

from tests.demo.driver import REVISIONS, Demo, Json, Speaker


@pytest.fixture(scope="module", params=REVISIONS)
def ask(request: pytest.FixtureRequest) -> Iterator[Speaker]:
    with Demo() as demo:
        yield demo.speak(request.param)


def test_both_prompts_are_listed_with_their_arguments(ask: Speaker) -> None:
    prompts = ask("prompts/list")["result"]["prompts"]

    names = {prompt["name"]: [a["name"] for a in prompt["arguments"]] for prompt in prompts}
    assert names == {"greet": ["name", "style"], "review": ["code"]}


def test_greet_fills_in_name_and_style(ask: Speaker) -> None:
    params = {"name": "greet", "arguments": {"name": "Ann", "style": "pirate"}}

    (message,) = ask("prompts/get", params)["result"]["messages"]

    assert message["content"]["text"] == "Greet Ann in a pirate manner."


def test_review_embeds_the_code(ask: Speaker) -> None:
    params = {"name": "review", "arguments": {"code": "x = 1"}}

    _, message = ask("prompts/get", params)["result"]["messages"]

    assert message["content"]["resource"]["text"] == "x = 1"


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"name": "unknown"},
        {"name": "greet"},
        {"name": "greet", "arguments": {"name": 1}},
        {"name": "greet", "arguments": []},
    ],
)
def test_a_prompt_that_cannot_be_written_is_refused(ask: Speaker, params: Json) -> None:
    assert ask("prompts/get", params)["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("ref", "name", "typed", "values"),
    [
        ({"type": "ref/prompt", "name": "greet"}, "style", "f", ["formal", "friendly"]),
        ({"type": "ref/prompt", "name": "greet"}, "style", "x", []),
        ({"type": "ref/prompt", "name": "greet"}, "name", "A", []),
        ({"type": "ref/resource", "uri": "demo://items/{id}"}, "id", "ap", ["apple", "apricot"]),
    ],
)
def test_what_begins_as_typed_is_offered(
    ask: Speaker, ref: Json, name: str, typed: str, values: list[str]
) -> None:
    params = {"ref": ref, "argument": {"name": name, "value": typed}}

    completion = ask("completion/complete", params)["result"]["completion"]

    assert completion == {"values": values, "total": len(values), "hasMore": False}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"ref": {"type": "ref/prompt", "name": "greet"}},
        {"ref": {"type": "ref/tool", "name": "echo"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "style"}},
    ],
)
def test_what_cannot_be_completed_is_refused(ask: Speaker, params: Json) -> None:
    assert ask("completion/complete", params)["error"]["code"] == -32602
