"""Rules about tools: how they are listed, and what a call gives back."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from anyport.protocol.headers import annotations
from anyport.record.lint import shapes
from anyport.record.lint.model import (
    Depth,
    Fault,
    Faults,
    Leg,
    Rule,
    Severity,
    answered,
    both,
    legacy,
    modern,
    objects,
)

_LIST: Final = "tools/list"
_CALL: Final = "tools/call"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_IN_ITS_PLACE: Final = frozenset({"task", "taskId", "inputRequests", "requestState", "toolResult"})
"""What a call may give back in place of content; the last is what the first servers called it."""
_FAILURE: Final = re.compile(r"(?:error|failed|exception|traceback)\b", re.IGNORECASE)


def _listed(leg: Leg) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for tool in objects(leg.result.get("tools")):
        yield str(tool.get("name")), tool


def _name(leg: Leg) -> Faults:
    for name, _ in _listed(leg):
        if not _NAME.fullmatch(name):
            yield Fault(leg=leg, frame=leg.answer, words=f"{name!r} is not such a name")


def _unique(leg: Leg) -> Faults:
    for name, count in Counter(name for name, _ in _listed(leg)).items():
        if count > 1:
            yield Fault(leg=leg, frame=leg.answer, words=f"{name!r} is listed {count} times")


def _input_schema(leg: Leg) -> Faults:
    for name, tool in _listed(leg):
        schema = tool.get("inputSchema")
        if not isinstance(schema, dict):
            yield Fault(leg=leg, frame=leg.answer, words=f"{name} has no inputSchema")
        elif schema.get("type") != "object":
            words = f"the inputSchema of {name} has not the type object"
            yield Fault(leg=leg, frame=leg.answer, words=words)


def _output_schema(leg: Leg) -> Faults:
    for name, tool in _listed(leg):
        schema = tool.get("outputSchema")
        if isinstance(schema, dict) and schema.get("type") != "object":
            words = f"the outputSchema of {name} has not the type object"
            yield Fault(leg=leg, frame=leg.answer, words=words)


def _annotation(leg: Leg) -> Faults:
    for name, tool in _listed(leg):
        found = annotations(msgspec.json.encode(tool.get("inputSchema")))
        if isinstance(found, str):
            yield Fault(leg=leg, frame=leg.answer, words=f"{name}: {found}")


def _hints(leg: Leg) -> Faults:
    for name, tool in _listed(leg):
        hints = tool.get("annotations")
        if (
            isinstance(hints, dict)
            and hints.get("readOnlyHint") is hints.get("destructiveHint") is True
        ):
            words = f"{name} is said to be read-only and destructive"
            yield Fault(leg=leg, frame=leg.answer, words=words)


def _order(legs: Sequence[Leg]) -> Faults:
    known: dict[bytes, list[str]] = {}
    for leg in legs:
        names = [name for name, _ in _listed(leg)]
        page = msgspec.json.encode(leg.params.get("cursor"))
        before = known.get(page, names)
        if before != names and sorted(before) == sorted(names):
            yield Fault(leg=leg, frame=leg.answer, words="the same tools come in another order")
        known[page] = names


def _content(leg: Leg) -> Faults:
    if leg.answer is None or not leg.complete:
        return
    found = shapes.members_of(leg.answer)
    if found.get("content") != shapes.LIST and not found.keys() & _IN_ITS_PLACE:
        yield Fault(leg=leg, frame=leg.answer, words="content is no list")


def _is_error(leg: Leg) -> Faults:
    if leg.answer is None:
        return
    kind = shapes.members_of(leg.answer).get("isError")
    if kind not in (None, shapes.BOOLEAN):
        yield Fault(leg=leg, frame=leg.answer, words="isError is neither true nor false")


def _is_error_elsewhere(leg: Leg) -> Faults:
    if leg.answer is not None and "isError" in shapes.members_of(leg.answer):
        words = f"the result of {leg.method} has isError"
        yield Fault(leg=leg, frame=leg.answer, words=words)


def _quiet_failure(leg: Leg) -> Faults:
    if leg.result.get("isError") is True or "structuredContent" in leg.result:
        return
    texts = [block.get("text") for block in objects(leg.result.get("content"))]
    if len(texts) == 1 and isinstance(texts[0], str) and _FAILURE.match(texts[0]):
        words = f"its text begins with {texts[0].split(maxsplit=1)[0]!r}"
        yield Fault(leg=leg, frame=leg.answer, words=words)


def _structured_kind(leg: Leg) -> Faults:
    if leg.answer is None:
        return
    kind = shapes.members_of(leg.answer).get("structuredContent")
    if kind not in (None, shapes.OBJECT):
        yield Fault(leg=leg, frame=leg.answer, words="structuredContent is no object")


def _structured_early(leg: Leg) -> Faults:
    if leg.answer is None or leg.revision is None or leg.revision.structured:
        return
    if "structuredContent" in shapes.members_of(leg.answer):
        words = f"{leg.revision.name} has no structuredContent"
        yield Fault(leg=leg, frame=leg.answer, words=words)


def _structured_text(leg: Leg) -> Faults:
    if "structuredContent" in leg.result and not any(
        block.get("type") == "text" for block in objects(leg.result.get("content"))
    ):
        yield Fault(leg=leg, frame=leg.answer, words="no text says the same")


def _structured_missing(legs: Sequence[Leg]) -> Faults:
    promised: set[str] = set()
    for leg in legs:
        if leg.method == _LIST:
            for name, tool in _listed(leg):
                (promised.add if "outputSchema" in tool else promised.discard)(name)
        elif leg.complete and leg.params.get("name") in promised:
            told = leg.result
            if told.get("isError") is not True and "structuredContent" not in told:
                words = f"{leg.params['name']} has an outputSchema and gave no structuredContent"
                yield Fault(leg=leg, frame=leg.answer, words=words)


def _may_be_structured(leg: Leg) -> bool:
    return leg.method in (_LIST, _CALL) and (leg.revision is None or leg.revision.structured)


def _no_call(leg: Leg) -> bool:
    return leg.method not in (None, _CALL, "tasks/result", "tasks/get") and leg.succeeded


_LISTS: Final = answered(_LIST)
_CALLS: Final = answered(_CALL)

RULES: Final = (
    Rule(
        id="tool-name",
        title="A tool's name has 1 to 64 letters, digits, underscores and dashes.",
        source="MCP 2025-11-25, server/tools; what models accept",
        advice="Rename it: MCP allows dots and 128 characters, but many clients do not.",
        severity=Severity.WARNING,
        needs=Depth.FULL,
        about=_LISTS,
        leg=_name,
    ),
    Rule(
        id="tool-name-unique",
        title="No two tools of a list have one name.",
        source="MCP, server/tools",
        advice="Rename one of them: only one can be called.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=_LISTS,
        leg=_unique,
    ),
    Rule(
        id="input-schema",
        title="Every tool has an inputSchema of the type object.",
        source="MCP, server/tools",
        advice='Write {"type": "object"} for a tool without arguments: one that lacks it makes '
        "strict clients refuse the whole list.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=_LISTS,
        leg=_input_schema,
    ),
    Rule(
        id="output-schema",
        title="With a handshake, an outputSchema has the type object.",
        source="MCP 2025-06-18, server/tools",
        advice="Wrap lists and plain values in an object.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=both(legacy, _LISTS),
        leg=_output_schema,
    ),
    Rule(
        id="header-annotation",
        title="x-mcp-header stands on a plain property, with a proper name that is not used twice.",
        source="MCP 2026-07-28, server/tools",
        advice="Correct the annotation: clients leave a tool out that has a wrong one.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=both(modern, _LISTS),
        leg=_annotation,
    ),
    Rule(
        id="tool-hints",
        title="A tool that only reads destroys nothing.",
        source="MCP, schema, ToolAnnotations",
        advice="Set readOnlyHint or destructiveHint, as it is.",
        severity=Severity.NOTE,
        needs=Depth.FULL,
        about=_LISTS,
        leg=_hints,
    ),
    Rule(
        id="tool-order",
        title="The same tools are listed in the same order.",
        source="MCP 2026-07-28, server/tools",
        advice="Sort them: a prompt that changes its order is paid for anew.",
        severity=Severity.WARNING,
        needs=Depth.FULL,
        about=_LISTS,
        conversation=_order,
    ),
    Rule(
        id="tool-content",
        title="The result of a call has content, a list, even if it is empty.",
        source="MCP, server/tools",
        advice='Send "content": [] at least; a text is better.',
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        about=_CALLS,
        leg=_content,
    ),
    Rule(
        id="is-error-boolean",
        title="isError is true or false.",
        source="MCP, server/tools",
        advice="Send a boolean, or leave it out where the call went well.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        about=_CALLS,
        leg=_is_error,
    ),
    Rule(
        id="is-error-elsewhere",
        title="Only calls of tools report a failure with isError.",
        source="MCP, schema",
        advice="Answer other requests that fail with an error.",
        severity=Severity.WARNING,
        needs=Depth.SHAPE,
        about=_no_call,
        leg=_is_error_elsewhere,
    ),
    Rule(
        id="failure-as-success",
        title="A call that failed has isError true.",
        source="MCP, server/tools",
        advice="Set isError, if this text tells of a failure: clients and models look at it.",
        severity=Severity.NOTE,
        needs=Depth.FULL,
        about=_CALLS,
        leg=_quiet_failure,
    ),
    Rule(
        id="structured-object",
        title="With a handshake, structuredContent is an object.",
        source="MCP 2025-06-18, server/tools",
        advice="Wrap lists and plain values in an object.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        about=both(legacy, _CALLS),
        leg=_structured_kind,
    ),
    Rule(
        id="structured-of-other-revision",
        title="structuredContent came with 2025-06-18.",
        source="MCP 2025-06-18, server/tools",
        advice="Older clients read the text only: see that it says everything.",
        severity=Severity.NOTE,
        needs=Depth.SHAPE,
        about=both(legacy, _CALLS),
        leg=_structured_early,
    ),
    Rule(
        id="structured-text",
        title="What is in structuredContent is in a text, too.",
        source="MCP 2025-06-18, server/tools",
        advice="Add it as JSON in a text, for clients that know no better.",
        severity=Severity.NOTE,
        needs=Depth.FULL,
        about=_CALLS,
        leg=_structured_text,
    ),
    Rule(
        id="structured-missing",
        title="A tool with an outputSchema gives structuredContent back.",
        source="MCP 2025-06-18, server/tools",
        advice="Fill it in, or take the outputSchema away: clients refuse such results.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=_may_be_structured,
        conversation=_structured_missing,
    ),
)
