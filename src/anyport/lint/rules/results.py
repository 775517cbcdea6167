"""Rules about results, other than those of tools."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from anyport.lint import shapes
from anyport.lint.model import (
    Depth,
    Faults,
    Leg,
    LintFault,
    Rule,
    Severity,
    all_of,
    as_list,
    has_message_of,
    is_legacy,
    objects_in,
    results_of,
)
from anyport.protocol.methods import LIST_METHODS
from anyport.protocol.revisions import Era, find_revision

COMPLETION_VALUES_MAX: Final = 100
"""Suggestions that one result may have (server/utilities/completion)."""

LIST_MEMBERS: Final[Mapping[str, str]] = {
    method: kind.value for kind, method in LIST_METHODS.items()
}
"""The member of each list result that holds the list."""
_EMPTY_RESULT_METHODS: Final = (
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
)
_CONTENT_METHODS: Final = ("tools/call", "prompts/get")


def _empty_result(leg: Leg) -> Faults:
    if leg.answer is None:
        return
    more = sorted(shapes.member_types(leg.answer).keys() - {"_meta"})
    if more:
        yield LintFault(leg=leg, frame=leg.answer, message=f"it has {', '.join(more)}")


def _skills(leg: Leg) -> Faults:
    # The list of an extension, which the schemas do not have.
    if leg.method != "skills/list" or leg.answer is None:
        return
    if shapes.member_types(leg.answer).get("skills") != "array":
        yield LintFault(leg=leg, frame=leg.answer, message="result.skills must be an array")


def _contents(leg: Leg) -> Faults:
    for index, each in enumerate(objects_in(leg.result.get("contents"))):
        if "text" in each and "blob" in each:
            message = f"result.contents[{index}] must have text or blob, not both"
            yield LintFault(leg=leg, frame=leg.answer, message=message)


def _completion(leg: Leg) -> Faults:
    completion = leg.result.get("completion")
    values = as_list(completion.get("values")) if isinstance(completion, dict) else []
    # The newest schema has the limit; those before have it in a description only.
    if len(values) > COMPLETION_VALUES_MAX and not leg.modern:
        message = f"result.completion.values must have at most 100 items, not {len(values)}"
        yield LintFault(leg=leg, frame=leg.answer, message=message)


def _negotiated_revision(leg: Leg) -> Faults:
    named = leg.result.get("protocolVersion")
    revision = find_revision(named) if isinstance(named, str) else None
    if isinstance(named, str) and (revision is None or revision.era is not Era.LEGACY):
        message = f"{named!r} is no revision with a handshake"
        yield LintFault(leg=leg, frame=leg.answer, message=message)


def _content_of_other_revision(leg: Leg) -> Faults:
    if leg.revision is None:
        return
    for where, block in _blocks(leg):
        if str(block.get("type")) in leg.revision.missing_content:
            message = f"{where} is of the type {block['type']}, which {leg.revision.name} has not"
            yield LintFault(leg=leg, frame=leg.answer, message=message)


def _blocks(leg: Leg) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The content of a result, with its location."""
    for index, block in enumerate(objects_in(leg.result.get("content"))):
        yield f"result.content[{index}]", block
    for index, message in enumerate(objects_in(leg.result.get("messages"))):
        if isinstance(message.get("content"), dict):
            yield f"result.messages[{index}].content", message["content"]


def _is_list(leg: Leg) -> bool:
    return leg.method in LIST_MEMBERS and leg.succeeded


RULES: Final = (
    Rule(
        id="result-object",
        title="Every result of MCP is an object.",
        source="MCP, schema",
        advice="Put lists and texts into a member of an object.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        applies_to=lambda leg: leg.succeeded,
        schema=r"\S+ result:\w+",
    ),
    Rule(
        id="empty-result",
        title="What has nothing to say is answered with an empty object.",
        source="MCP, schema, EmptyResult",
        advice="Answer with {}: strict clients refuse anything else.",
        severity=Severity.WARNING,
        needs=Depth.SHAPE,
        applies_to=all_of(is_legacy, results_of(*_EMPTY_RESULT_METHODS)),
        check_leg=_empty_result,
    ),
    Rule(
        id="list-member",
        title="The answer to a list has the list under its name.",
        source="MCP, schema",
        advice="tools/list is answered with tools, resources/templates/list with "
        "resourceTemplates; an empty list is [].",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        applies_to=_is_list,
        schema=r"\S+ result\.(tools|prompts|resources|resourceTemplates):\w+",
        check_leg=_skills,
    ),
    Rule(
        id="next-cursor",
        title="nextCursor is a string, and absent after the last page.",
        source="MCP, server/utilities/pagination",
        advice="Leave it out instead of sending null; an empty string is a cursor, too.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        applies_to=_is_list,
        schema=r"\S+ result\.nextCursor:\w+",
    ),
    Rule(
        id="resource-contents",
        title="What is read has a uri, and either a text or a blob.",
        source="MCP, server/resources",
        advice="Send contents: [{uri, text}] or [{uri, blob}], blob in base64.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=results_of("resources/read"),
        schema=r"resources/read result\.contents(\[\d+\](\.uri)?)?:\w+",
        check_leg=_contents,
    ),
    Rule(
        id="prompt-messages",
        title="A prompt is a list of messages of user or assistant.",
        source="MCP, server/prompts",
        advice="There is no system role in MCP; begin with a message of the user.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=results_of("prompts/get"),
        schema=r"prompts/get result\.messages(\[\d+\](\.role)?)?:\w+",
    ),
    Rule(
        id="completion-values",
        title="At most 100 values complete an argument.",
        source="MCP, server/utilities/completion",
        advice="Send the best 100, with hasMore and total.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=results_of("completion/complete"),
        schema=r"completion/complete result\.completion(\.values)?:\w+",
        check_leg=_completion,
    ),
    Rule(
        id="handshake-result",
        title="The answer to initialize has protocolVersion, capabilities and serverInfo.",
        source="MCP, basic/lifecycle",
        advice="Send all three; capabilities may be {}.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        applies_to=results_of("initialize"),
        schema=r"initialize result\.(protocolVersion|capabilities|serverInfo):\w+",
    ),
    Rule(
        id="negotiated-revision",
        title="The handshake agrees on a dated revision that has one.",
        source="MCP, basic/lifecycle",
        advice="To an unknown revision, answer with the newest one that you speak.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=results_of("initialize"),
        check_leg=_negotiated_revision,
    ),
    Rule(
        id="content-block",
        title="Content is text, image, audio, resource_link or resource, each with its members.",
        source="MCP, schema, ContentBlock",
        advice="Send what is none of these as text, or as structuredContent.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=results_of(*_CONTENT_METHODS),
        schema=r"\S+ result\.(content\[|messages\[\d+\]\.content).+",
    ),
    Rule(
        id="content-of-other-revision",
        title="Content is of a kind that the revision has.",
        source="MCP, schema of each revision",
        advice="Send a text in its place: older clients fail on kinds that they do not know.",
        severity=Severity.WARNING,
        needs=Depth.FULL,
        applies_to=results_of(*_CONTENT_METHODS),
        check_leg=_content_of_other_revision,
    ),
    Rule(
        id="log-level",
        title="A log message has one of the eight levels of syslog.",
        source="MCP, server/utilities/logging",
        advice="debug, info, notice, warning, error, critical, alert or emergency.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        applies_to=has_message_of("notifications/message"),
        schema=r"notifications/message params(\.level)?:\w+",
    ),
)
