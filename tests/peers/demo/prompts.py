"""Prompts, and completion of their arguments and of templates."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tests.peers.demo import content
from tests.peers.demo.calls import Call
from tests.peers.demo.faults import INVALID_PARAMS, Fault, object_member, string_member
from tests.peers.demo.paging import page
from tests.peers.demo.resources import ITEM_IDS, ITEM_TEMPLATE
from tests.peers.demo.revisions import Json

STYLES: Final = ("formal", "friendly", "pirate")


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    descriptor: Json
    write: Callable[[dict[str, str]], list[Json]]
    """The blocks of the prompt, each of which the user says."""


def _greet(given: dict[str, str]) -> list[Json]:
    style = given.get("style", "friendly")
    return [content.text(f"Greet {given['name']} in a {style} manner.")]


def _review(given: dict[str, str]) -> list[Json]:
    snippet = {"uri": "demo://review/snippet", "mimeType": "text/plain", "text": given["code"]}
    return [content.text("Please review this code."), content.embedded(snippet)]


_PROMPTS: Final[Mapping[str, Prompt]] = {
    "greet": Prompt(
        descriptor={
            "name": "greet",
            "title": "Greet somebody",
            "description": "Asks for a greeting.",
            "arguments": [
                {
                    "name": "name",
                    "title": "Name",
                    "description": "Whom to greet.",
                    "required": True,
                },
                {"name": "style", "description": f"One of {', '.join(STYLES)}."},
            ],
        },
        write=_greet,
    ),
    "review": Prompt(
        descriptor={
            "name": "review",
            "title": "Review code",
            "description": "Asks for a review of code, which travels as an embedded resource.",
            "arguments": [{"name": "code", "description": "The code.", "required": True}],
        },
        write=_review,
    ),
}

_COMPLETIONS: Final[Mapping[tuple[str, str, str], tuple[str, ...]]] = {
    ("ref/prompt", "greet", "name"): (),
    ("ref/prompt", "greet", "style"): STYLES,
    ("ref/prompt", "review", "code"): (),
    ("ref/resource", ITEM_TEMPLATE, "id"): ITEM_IDS,
}
"""All that could be typed, by kind of reference, its target and the argument's name."""


def list_prompts(call: Call, params: Json) -> Json:
    revision = call.revision
    entries = []
    for prompt in _PROMPTS.values():
        entry = revision.trim("prompt", prompt.descriptor)
        entry["arguments"] = [revision.trim("argument", a) for a in entry["arguments"]]
        entries.append(entry)
    return page(call.server_state.options, "prompts", entries, params)


def get_prompt(call: Call, params: Json) -> Json:
    name = string_member(params, "name")
    prompt = _PROMPTS.get(name)
    if prompt is None:
        raise Fault(INVALID_PARAMS, f"Unknown prompt: {name}")
    given = object_member(params, "arguments", default={})
    for argument in prompt.descriptor["arguments"]:
        if argument["name"] in given:
            string_member(given, argument["name"])
        elif argument.get("required"):
            raise Fault(INVALID_PARAMS, f"The argument '{argument['name']}' is missing")
    messages = [{"role": "user", "content": block} for block in prompt.write(given)]
    return {"description": prompt.descriptor["description"], "messages": messages}


def complete(_call: Call, params: Json) -> Json:
    ref = object_member(params, "ref")
    argument = object_member(params, "argument")
    kind = string_member(ref, "type")
    target = string_member(ref, "uri" if kind == "ref/resource" else "name")
    name, typed = string_member(argument, "name"), string_member(argument, "value")
    known = _COMPLETIONS.get((kind, target, name))
    if known is None:
        raise Fault(INVALID_PARAMS, f"Nothing to complete: '{name}' of '{target}'")
    values = [value for value in known if value.startswith(typed)]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}
