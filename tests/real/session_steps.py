"""What is said in a session that is held twice, directly and through the gateway."""

from __future__ import annotations

from typing import Any, TypeAlias

from tests.harness import Message

Step: TypeAlias = tuple[str, dict[str, Any]]
Said: TypeAlias = tuple[str, str]
"""What it was (an answer, or the method of something the server said on its own), and the raw
result, error or params."""

CAPABILITIES: dict[str, Any] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
ANSWERS = {
    "roots/list": {"roots": [{"uri": "file:///tmp/canned"}]},
    "sampling/createMessage": {
        "role": "assistant",
        "model": "canned",
        "content": {"type": "text", "text": "canned"},
    },
    "elicitation/create": {"action": "decline"},
}
LISTS = {
    "tools": "tools/list",
    "resources": "resources/list",
    "resources/templates": "resources/templates/list",
    "prompts": "prompts/list",
}
REFUSED: list[Step] = [
    ("tools/call", {"name": "no_such_tool", "arguments": {}}),
    ("resources/read", {"uri": "nobody://nothing"}),
    ("prompts/get", {"name": "no_such_prompt"}),
    ("resources/subscribe", {"uri": "nobody://nothing"}),
]
"""What a server refuses in its own words, whichever server it is."""


def call(name: str, **arguments: Any) -> Step:
    return "tools/call", {"name": name, "arguments": arguments}


def slow() -> dict[str, Any]:
    arguments = {"duration": 0.2, "steps": 2}
    meta = {"progressToken": "a token", "vendor/own": [1.0]}
    return {"name": "trigger-long-running-operation", "arguments": arguments, "_meta": meta}


def completion(prompt: str, argument: str, value: str) -> dict[str, Any]:
    reference = {"type": "ref/prompt", "name": prompt}
    return {"ref": reference, "argument": {"name": argument, "value": value}}


def lists_of(declared: Message) -> list[Step]:
    """The lists of what a server has; of what it has not, the gateway has an empty one."""
    return [(LISTS[kind], {}) for kind in LISTS if kind.split("/")[0] in declared]


DOCUMENT = "demo://resource/static/document/features.md"
EVERYTHING: list[Step] = [
    call("echo", message="h\u00e9llo \U0001f30d"),
    call("echo", message=12),
    call("get-sum", a=1e100, b=-0.0),
    call("get-tiny-image"),
    call("get-structured-content", location="Chicago"),
    call("get-annotated-message", messageType="error", includeImage=True),
    call("get-resource-reference", resourceType="Text", resourceId=0),
    call("get-resource-links", count=3),
    call("trigger-sampling-request", prompt="Hello", maxTokens=7),
    call("trigger-elicitation-request"),
    call("trigger-url-elicitation", url="http://[::1]/", elicitationId="one"),
    call("get-roots-list"),
    ("tools/call", slow()),
    ("resources/read", {"uri": DOCUMENT}),
    ("resources/read", {"uri": "demo://resource/dynamic/text/none"}),
    ("resources/subscribe", {"uri": DOCUMENT}),
    call("toggle-subscriber-updates"),
    ("resources/unsubscribe", {"uri": DOCUMENT}),
    ("prompts/get", {"name": "args-prompt", "arguments": {"city": "Bonn"}}),
    ("prompts/get", {"name": "args-prompt", "arguments": {}}),
    ("completion/complete", completion("completable-prompt", "department", "E")),
    ("completion/complete", completion("no-such-prompt", "department", "E")),
    ("logging/setLevel", {"level": "error"}),
]
