"""Rules about results, other than those of tools."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from anyport.protocol.method import LISTS
from anyport.protocol.revision import FIRST_CONTENT, LATER_CONTENT, Era, find_revision
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
    hears,
    legacy,
    list_of,
    objects,
)

COMPLETION_VALUES_MAX: Final = 100
"""So many suggestions may be returned at once (server/utilities/completion)."""

LISTED: Final[Mapping[str, str]] = {method: kind.value for kind, method in LISTS.items()}
"""What each list is a list of."""
_LOUD: Final = frozenset(
    {"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
)
_EMPTY: Final = ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
_WITH_CONTENT: Final = ("tools/call", "prompts/get")
_CONTENT: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
    "resource": (),
}
"""Kinds of content, and the texts that each must have."""


def _object(leg: Leg) -> Faults:
    if leg.answer is not None and shapes.kind_of_payload(leg.answer) != shapes.OBJECT:
        yield Fault(leg=leg, frame=leg.answer, words="the result is no object")


def _empty(leg: Leg) -> Faults:
    if leg.answer is None:
        return
    more = sorted(shapes.members_of(leg.answer).keys() - {"_meta"})
    if more:
        yield Fault(leg=leg, frame=leg.answer, words=f"it has {', '.join(more)}")


def _list(leg: Leg) -> Faults:
    if leg.answer is None or leg.method is None:
        return
    member = LISTED[leg.method]
    if shapes.members_of(leg.answer).get(member) != shapes.LIST:
        yield Fault(leg=leg, frame=leg.answer, words=f"{member} is no list")


def _cursor(leg: Leg) -> Faults:
    if leg.answer is None:
        return
    kind = shapes.members_of(leg.answer).get("nextCursor")
    if kind not in (None, shapes.STRING):
        words = "nextCursor is null" if kind == shapes.NULL else "nextCursor is no string"
        yield Fault(leg=leg, frame=leg.answer, words=words)


def _contents(leg: Leg) -> Faults:
    if not leg.complete:
        return
    contents = leg.result.get("contents")
    if not isinstance(contents, list):
        yield Fault(leg=leg, frame=leg.answer, words="contents is no list")
    for place, each in enumerate(objects(contents)):
        if not isinstance(each.get("uri"), str):
            yield Fault(leg=leg, frame=leg.answer, words=f"contents[{place}] has no uri")
        if ("text" in each) == ("blob" in each):
            words = f"contents[{place}] has not exactly one of text and blob"
            yield Fault(leg=leg, frame=leg.answer, words=words)


def _messages(leg: Leg) -> Faults:
    if not leg.complete:
        return
    for place, each in enumerate(list_of(leg.result.get("messages"))):
        role = each.get("role") if isinstance(each, dict) else None
        if role not in ("user", "assistant"):
            words = f"messages[{place}].role is neither user nor assistant"
            yield Fault(leg=leg, frame=leg.answer, words=words)
    if not isinstance(leg.result.get("messages"), list):
        yield Fault(leg=leg, frame=leg.answer, words="messages is no list")


def _completion(leg: Leg) -> Faults:
    completion = leg.result.get("completion")
    values = completion.get("values") if isinstance(completion, dict) else None
    if not isinstance(values, list):
        yield Fault(leg=leg, frame=leg.answer, words="completion.values is no list")
    elif len(values) > COMPLETION_VALUES_MAX:
        yield Fault(leg=leg, frame=leg.answer, words=f"it has {len(values)} values")


def _handshake(leg: Leg) -> Faults:
    if leg.answer is None:
        return
    found = shapes.members_of(leg.answer)
    wanted = {
        "protocolVersion": shapes.STRING,
        "capabilities": shapes.OBJECT,
        "serverInfo": shapes.OBJECT,
    }
    for member, kind in wanted.items():
        if found.get(member) != kind:
            words = f"{member} is missing" if member not in found else f"{member} is of no use"
            yield Fault(leg=leg, frame=leg.answer, words=words)


def _negotiated(leg: Leg) -> Faults:
    named = leg.result.get("protocolVersion")
    revision = find_revision(named) if isinstance(named, str) else None
    if isinstance(named, str) and (revision is None or revision.era is not Era.LEGACY):
        words = f"{named!r} is no revision with a handshake"
        yield Fault(leg=leg, frame=leg.answer, words=words)


def _blocks(leg: Leg) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The content of a result, with where it stands."""
    for place, block in enumerate(objects(leg.result.get("content"))):
        yield f"content[{place}]", block
    for place, message in enumerate(objects(leg.result.get("messages"))):
        if isinstance(message.get("content"), dict):
            yield f"messages[{place}].content", message["content"]


def _content(leg: Leg) -> Faults:
    for where, block in _blocks(leg):
        kind = block.get("type")
        if not isinstance(kind, str) or kind not in FIRST_CONTENT | LATER_CONTENT:
            yield Fault(leg=leg, frame=leg.answer, words=f"{where}.type is {kind!r}")
            continue
        for member in _CONTENT[kind]:
            if not isinstance(block.get(member), str):
                yield Fault(leg=leg, frame=leg.answer, words=f"{where}.{member} is no text")
        if kind == "resource" and not isinstance(block.get("resource"), dict):
            yield Fault(leg=leg, frame=leg.answer, words=f"{where}.resource is no object")


def _later_content(leg: Leg) -> Faults:
    if leg.revision is None:
        return
    for where, block in _blocks(leg):
        if block.get("type") in leg.revision.lacks:
            words = f"{where} is of the type {block['type']}, which {leg.revision.name} has not"
            yield Fault(leg=leg, frame=leg.answer, words=words)


def _level(leg: Leg) -> Faults:
    for frame in leg.between:
        level = frame.fields.get("level")
        if frame.method == "notifications/message" and level not in _LOUD:
            yield Fault(leg=leg, frame=frame, words=f"the level is {level!r}")


def _is_list(leg: Leg) -> bool:
    return leg.method in LISTED and leg.succeeded


RULES: Final = (
    Rule(
        id="result-object",
        title="Every result of MCP is an object.",
        source="MCP, schema",
        advice="Put lists and texts into a member of an object.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        about=lambda leg: leg.succeeded,
        leg=_object,
    ),
    Rule(
        id="empty-result",
        title="What has nothing to say is answered with an empty object.",
        source="MCP, schema, EmptyResult",
        advice="Answer with {}: strict clients refuse anything else.",
        severity=Severity.WARNING,
        needs=Depth.SHAPE,
        about=both(legacy, answered(*_EMPTY)),
        leg=_empty,
    ),
    Rule(
        id="list-member",
        title="The answer to a list has the list under its name.",
        source="MCP, schema",
        advice="tools/list is answered with tools, resources/templates/list with "
        "resourceTemplates; an empty list is [].",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        about=_is_list,
        leg=_list,
    ),
    Rule(
        id="next-cursor",
        title="nextCursor is a string, and absent after the last page.",
        source="MCP, server/utilities/pagination",
        advice="Leave it out instead of sending null; an empty string is a cursor, too.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        about=_is_list,
        leg=_cursor,
    ),
    Rule(
        id="resource-contents",
        title="What is read has a uri, and either a text or a blob.",
        source="MCP, server/resources",
        advice="Send contents: [{uri, text}] or [{uri, blob}], blob in base64.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=answered("resources/read"),
        leg=_contents,
    ),
    Rule(
        id="prompt-messages",
        title="A prompt is a list of messages of user or assistant.",
        source="MCP, server/prompts",
        advice="There is no system role in MCP; begin with a message of the user.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=answered("prompts/get"),
        leg=_messages,
    ),
    Rule(
        id="completion-values",
        title="At most 100 values complete an argument.",
        source="MCP, server/utilities/completion",
        advice="Send the best 100, with hasMore and total.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=answered("completion/complete"),
        leg=_completion,
    ),
    Rule(
        id="handshake-result",
        title="The answer to initialize has protocolVersion, capabilities and serverInfo.",
        source="MCP, basic/lifecycle",
        advice="Send all three; capabilities may be {}.",
        severity=Severity.ERROR,
        needs=Depth.SHAPE,
        about=answered("initialize"),
        leg=_handshake,
    ),
    Rule(
        id="negotiated-revision",
        title="The handshake agrees on a dated revision that has one.",
        source="MCP, basic/lifecycle",
        advice="To an unknown revision, answer with the newest one that you speak.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=answered("initialize"),
        leg=_negotiated,
    ),
    Rule(
        id="content-block",
        title="Content is text, image, audio, resource_link or resource, each with its members.",
        source="MCP, schema, ContentBlock",
        advice="Send what is none of these as text, or as structuredContent.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=answered(*_WITH_CONTENT),
        leg=_content,
    ),
    Rule(
        id="content-of-other-revision",
        title="Content is of a kind that the revision has.",
        source="MCP, schema of each revision",
        advice="Send a text in its place: older clients fail on kinds that they do not know.",
        severity=Severity.WARNING,
        needs=Depth.FULL,
        about=answered(*_WITH_CONTENT),
        leg=_later_content,
    ),
    Rule(
        id="log-level",
        title="A log message has one of the eight levels of syslog.",
        source="MCP, server/utilities/logging",
        advice="debug, info, notice, warning, error, critical, alert or emergency.",
        severity=Severity.ERROR,
        needs=Depth.FULL,
        about=hears("notifications/message"),
        leg=_level,
    ),
)
