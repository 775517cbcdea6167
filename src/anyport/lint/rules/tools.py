"""Rules about tools: their lists and their results."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from anyport.lint import shapes
from anyport.lint.model import (
    Depth,
    Faults,
    Leg,
    LintFault,
    Rule,
    Severity,
    all_of,
    is_legacy,
    is_modern,
    objects_in,
    results_of,
)
from anyport.protocol.headers import read_annotations

_LIST: Final = "tools/list"
_CALL: Final = "tools/call"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FAILURE_TEXT: Final = re.compile(r"(?:error|failed|exception|traceback)\b", re.IGNORECASE)


def _listed_tools(leg: Leg) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for tool in objects_in(leg.result.get("tools")):
        yield str(tool.get("name")), tool


def _name(leg: Leg) -> Faults:
    for name, _ in _listed_tools(leg):
        if not _NAME.fullmatch(name):
            yield LintFault(leg=leg, frame=leg.answer, message=f"{name!r} is not such a name")


def _unique_names(leg: Leg) -> Faults:
    for name, count in Counter(name for name, _ in _listed_tools(leg)).items():
        if count > 1:
            yield LintFault(leg=leg, frame=leg.answer, message=f"{name!r} is listed {count} times")


def _annotation(leg: Leg) -> Faults:
    for name, tool in _listed_tools(leg):
        found = read_annotations(msgspec.json.encode(tool.get("inputSchema")))
        if isinstance(found, str):
            yield LintFault(leg=leg, frame=leg.answer, message=f"{name}: {found}")


def _hints(leg: Leg) -> Faults:
    for name, tool in _listed_tools(leg):
        hints = tool.get("annotations")
        if (
            isinstance(hints, dict)
            and hints.get("readOnlyHint") is hints.get("destructiveHint") is True
        ):
            message = f"{name} is said to be read-only and destructive"
            yield LintFault(leg=leg, frame=leg.answer, message=message)


def _order(legs: Sequence[Leg]) -> Faults:
    known: dict[bytes, list[str]] = {}
    for leg in legs:
        names = [name for name, _ in _listed_tools(leg)]
        page = msgspec.json.encode(leg.params.get("cursor"))
        before = known.get(page, names)
        if before != names and sorted(before) == sorted(names):
            yield LintFault(
                leg=leg, frame=leg.answer, message="the same tools come in another order"
            )
        known[page] = names


def _is_error_elsewhere(leg: Leg) -> Faults:
    if leg.answer is not None and "isError" in shapes.member_types(leg.answer):
        message = f"the result of {leg.method} has isError"
        yield LintFault(leg=leg, frame=leg.answer, message=message)


def _quiet_failure(leg: Leg) -> Faults:
    if leg.result.get("isError") is True or "structuredContent" in leg.result:
        return
    texts = [block.get("text") for block in objects_in(leg.result.get("content"))]
    if len(texts) == 1 and isinstance(texts[0], str) and _FAILURE_TEXT.match(texts[0]):
        message = f"its text begins with {texts[0].split(maxsplit=1)[0]!r}"
        yield LintFault(leg=leg, frame=leg.answer, message=message)


def _structured_in_old_revision(leg: Leg) -> Faults:
    if leg.answer is None or leg.revision is None or leg.revision.structured:
        return
    if "structuredContent" in shapes.member_types(leg.answer):
        message = f"{leg.revision.name} has no structuredContent"
        yield LintFault(leg=leg, frame=leg.answer, message=message)


def _structured_text(leg: Leg) -> Faults:
    if "structuredContent" in leg.result and not any(
        block.get("type") == "text" for block in objects_in(leg.result.get("content"))
    ):
        yield LintFault(leg=leg, frame=leg.answer, message="no text says the same")


def _structured_missing(legs: Sequence[Leg]) -> Faults:
    promised: set[str] = set()
    for leg in legs:
        if leg.method == _LIST:
            for name, tool in _listed_tools(leg):
                (promised.add if "outputSchema" in tool else promised.discard)(name)
        elif leg.complete and str(leg.params.get("name")) in promised:
            result = leg.result
            if result.get("isError") is not True and "structuredContent" not in result:
                message = f"{leg.params['name']} has an outputSchema and gave no structuredContent"
                yield LintFault(leg=leg, frame=leg.answer, message=message)


def _may_be_structured(leg: Leg) -> bool:
    return leg.method in (_LIST, _CALL) and (leg.revision is None or leg.revision.structured)


def _is_other_result(leg: Leg) -> bool:
    return leg.method not in (None, _CALL, "tasks/result", "tasks/get") and leg.succeeded


_list_results: Final = results_of(_LIST)
_call_results: Final = results_of(_CALL)

RULES: Final = (
    Rule(
        id="tool-name",
        title="A tool's name has 1 to 64 letters, digits, underscores and dashes.",
        source="MCP 2025-11-25, server/tools; what models accept",
        advice="Rename it: MCP allows dots and 128 characters, but many clients do not.",
        severity=Severity.WARNING,
        needs=Depth.FULL,
        applies_to=_list_results,
        check_leg=_name,
    ),
    Rule(
        id="tool-name-unique",
        title="No two tools of a list have one name.",
        source="MCP, server/tools",
        advice="Rename one of them: only one can be called.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=_list_results,
        check_leg=_unique_names,
    ),
    Rule(
        id="input-schema",
        title="Every tool has an inputSchema of the type object.",
        source="MCP, server/tools",
        advice='Write {"type": "object"} for a tool without arguments: one that lacks it makes '
        "strict clients refuse the whole list.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=_list_results,
        schema=r"tools/list result\.tools\[\d+\]\.inputSchema(\.type)?:\w+",
    ),
    Rule(
        id="output-schema",
        title="With a handshake, an outputSchema has the type object.",
        source="MCP 2025-06-18, server/tools",
        advice="Wrap lists and plain values in an object.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=all_of(is_legacy, _list_results),
        schema=r"tools/list result\.tools\[\d+\]\.outputSchema(\.type)?:\w+",
    ),
    Rule(
        id="header-annotation",
        title="x-mcp-header is on a plain property, with a valid name that is not used twice.",
        source="MCP 2026-07-28, server/tools",
        advice="Correct the annotation: clients leave a tool out that has a wrong one.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=all_of(is_modern, _list_results),
        check_leg=_annotation,
    ),
    Rule(
        id="tool-hints",
        title="A tool that only reads destroys nothing.",
        source="MCP, schema, ToolAnnotations",
        advice="Set readOnlyHint or destructiveHint, as it is.",
        severity=Severity.NOTE,
        needs=Depth.FULL,
        applies_to=_list_results,
        check_leg=_hints,
    ),
    Rule(
        id="tool-order",
        title="The same tools are listed in the same order.",
        source="MCP 2026-07-28, server/tools",
        advice="Sort them: a prompt that changes its order is paid for anew.",
        severity=Severity.WARNING,
        needs=Depth.FULL,
        applies_to=_list_results,
        check_conversation=_order,
    ),
    Rule(
        id="tool-content",
        title="The result of a call has content, a list, even if it is empty.",
        source="MCP, server/tools",
        advice='Send "content": [] at least; a text is better.',
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        applies_to=_call_results,
        schema=r"tools/call result\.content:\w+",
    ),
    Rule(
        id="is-error-boolean",
        title="isError is true or false.",
        source="MCP, server/tools",
        advice="Send a boolean, or leave it out where the call went well.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        applies_to=_call_results,
        schema=r"tools/call result\.isError:\w+",
    ),
    Rule(
        id="is-error-elsewhere",
        title="Only calls of tools report a failure with isError.",
        source="MCP, schema",
        advice="Answer other requests that fail with an error.",
        severity=Severity.WARNING,
        needs=Depth.SHAPE,
        applies_to=_is_other_result,
        check_leg=_is_error_elsewhere,
    ),
    Rule(
        id="failure-as-success",
        title="A call that failed has isError true.",
        source="MCP, server/tools",
        advice="Set isError, if this text tells of a failure: clients and models look at it.",
        severity=Severity.NOTE,
        needs=Depth.FULL,
        applies_to=_call_results,
        check_leg=_quiet_failure,
    ),
    Rule(
        id="structured-object",
        title="With a handshake, structuredContent is an object.",
        source="MCP 2025-06-18, server/tools",
        advice="Wrap lists and plain values in an object.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        applies_to=all_of(is_legacy, _call_results),
        schema=r"tools/call result\.structuredContent:\w+",
    ),
    Rule(
        id="structured-of-other-revision",
        title="structuredContent came with 2025-06-18.",
        source="MCP 2025-06-18, server/tools",
        advice="Older clients read the text only: see that it says everything.",
        severity=Severity.NOTE,
        needs=Depth.SHAPE,
        applies_to=all_of(is_legacy, _call_results),
        check_leg=_structured_in_old_revision,
    ),
    Rule(
        id="structured-text",
        title="What is in structuredContent is in a text, too.",
        source="MCP 2025-06-18, server/tools",
        advice="Add it as JSON in a text, for clients that know no better.",
        severity=Severity.NOTE,
        needs=Depth.FULL,
        applies_to=_call_results,
        check_leg=_structured_text,
    ),
    Rule(
        id="structured-missing",
        title="A tool with an outputSchema gives structuredContent back.",
        source="MCP 2025-06-18, server/tools",
        advice="Fill it in, or take the outputSchema away: clients refuse such results.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=_may_be_structured,
        check_conversation=_structured_missing,
    ),
)
