"""Validates messages against the official schema of their revision.

The location of an error is readable, such as `tools/list result.tools[0].inputSchema`; rules select
their errors by patterns for locations.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from anyport.lint.json_schema import Outlined, Path, Schema, SchemaError, Validator
from anyport.lint.model import ABSENT, CLIENT, SERVER, Depth, Frame, Leg, NotRecorded
from anyport.lint.shapes import member_types, payload_type
from anyport.protocol.revisions import NEWEST_LEGACY

_ANSWERS: Final = frozenset({"response", "client-response"})
_UNIONS: Final = {
    # Sender and kind, by the definition that is the union of these messages.
    "ClientRequest": (CLIENT, "request"),
    "ServerRequest": (SERVER, "request"),
    "ClientNotification": (CLIENT, "notification"),
    "ServerNotification": (SERVER, "notification"),
}
_OTHER_RESULT_MEMBERS: Final = frozenset(
    {"task", "taskId", "inputRequests", "requestState", "toolResult"}
)
"""Members of results that replace the usual one; `toolResult` is of the first servers."""
_PLAIN: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedError:
    """A schema error of a message."""

    frame: Frame
    location: str
    """Method, path and keyword: `tools/call result.content[0].text:required`."""
    message: str


@dataclass(frozen=True, slots=True)
class RevisionSchema:
    """The schema of one revision."""

    validator: Validator
    messages: Mapping[tuple[str, str], Mapping[str, str]]
    """Names of definitions by method, by sender and kind."""

    def definition(self, name: str) -> Schema:
        return self.validator.definitions.get(name, {})

    def call_of(self, method: str, kind: str) -> Schema:
        """The schema of a request or notification, for its params."""
        for definitions in self.messages.values():
            if method in definitions:
                return _member_schema(self.definition(definitions[method]), "params")
        if kind != "request":
            return {}
        # A method of an extension has at least the params of every request of the revision.
        params = self.definition("RequestParams")
        return {
            "properties": {"params": params},
            "required": ["params"] if "required" in params else [],
        }

    def result_of(self, method: str, result: Mapping[str, Any]) -> Schema:
        """The schema of a response, for its result."""
        kind = result.get("resultType", "complete")
        if kind == "input_required":
            name = "InputRequiredResult"
        elif isinstance(kind, str) and kind != "complete":
            name = "Result"
        elif result.keys() & _OTHER_RESULT_MEMBERS:
            name = "CreateTaskResult" if "task" in result else "Result"
        else:
            name = self._result_name(method)
        return {"properties": {"result": self.definition(name) or self.definition("Result")}}

    def _result_name(self, method: str) -> str:
        for (_, kind), definitions in self.messages.items():
            if kind == "request" and method in definitions:
                name = definitions[method].removesuffix("Request") + "Result"
                return name if self.definition(name) else "EmptyResult"
        return "Result"

    def error(self) -> Schema:
        """The schema of a response, for its error."""
        name = "JSONRPCError" if self.definition("JSONRPCError") else "JSONRPCErrorResponse"
        return _member_schema(self.definition(name), "error")


def _member_schema(schema: Schema, member: str) -> Schema:
    """A schema that covers one member only."""
    required = [name for name in schema.get("required", ()) if name == member]
    return {"properties": {member: schema["properties"].get(member, {})}, "required": required}


@cache
def schema_of(revision: str) -> RevisionSchema:
    """The schema of a revision, loaded once."""
    raw = files("anyport.lint").joinpath("mcp_schemas", f"{revision}.json").read_bytes()
    document = msgspec.json.decode(raw)
    definitions = document.get("$defs") or document["definitions"]
    messages = {
        who: dict(_methods(definitions, union))
        for union, who in _UNIONS.items()
        if union in definitions
    }
    return RevisionSchema(Validator(definitions), messages)


def _methods(definitions: Mapping[str, Schema], union: str) -> Iterator[tuple[str, str]]:
    references = definitions[union].get("anyOf", [{"$ref": union}])
    for reference in references:
        name = reference["$ref"].rpartition("/")[2]
        yield definitions[name]["properties"]["method"]["const"], name


def errors_of(leg: Leg) -> list[LocatedError]:
    """All schema errors of a leg, as far as it was recorded.

    Raises:
        NotRecorded: The answer or some of its members were not recorded, or it nests too deep.
    """
    schema = schema_of((leg.revision or NEWEST_LEGACY).name)
    try:
        return [error for frame in leg.frames for error in _frame_errors(leg, frame, schema)]
    except RecursionError:
        raise NotRecorded from None


def _frame_errors(leg: Leg, frame: Frame, schema: RevisionSchema) -> Iterator[LocatedError]:
    method = frame.method or (leg.method if frame is leg.answer else None) or "-"
    message, part = _checked_part(leg, frame, method, schema)
    for error in schema.validator.errors(part, message):
        if leg.revision is not None and _is_later(error, leg.revision.missing_content):
            continue  # Reported by the rule content-of-other-revision.
        path = _format_path(error.path)
        yield LocatedError(
            frame=frame,
            location=f"{method} {path}:{error.keyword}",
            message=f"{path}{_owner(message, error.path)} {error.expected}",
        )


def _checked_part(
    leg: Leg, frame: Frame, method: str, schema: RevisionSchema
) -> tuple[dict[str, Any], Schema]:
    """The part of a message that is checked, and its schema."""
    if frame.error is not ABSENT:
        return {"error": frame.error}, schema.error()
    if frame is leg.answer:
        result = _outlined(frame) if frame.payload is ABSENT else frame.payload
        known = result if isinstance(result, dict) else {}
        return {"result": result}, schema.result_of(method, known)
    if frame.kind in _ANSWERS or not frame.kind.endswith(("request", "notification")):
        return {}, {}
    if frame.payload is ABSENT:
        # Only in a file of messages is it known that there are no params.
        return {}, schema.call_of(method, frame.kind) if leg.depth is Depth.FRAMES else {}
    # The rules of JSON-RPC report params that are not an object.
    params = schema.call_of(method, frame.kind) if isinstance(frame.payload, dict) else {}
    return {"params": frame.payload}, params


def _outlined(frame: Frame) -> Outlined | dict[str, Outlined]:
    if payload_type(frame) != "object":
        return Outlined(payload_type(frame))
    return {name: Outlined(kind) for name, kind in member_types(frame).items()}


def _is_later(error: SchemaError, later: frozenset[str]) -> bool:
    return error.keyword == "anyOf" and isinstance(error.value, str) and error.value in later


def _format_path(path: Path) -> str:
    """A readable path: `result.tools[0].name`."""
    parts = (
        f".{part}"
        if isinstance(part, str) and _PLAIN.fullmatch(part)
        else f"[{msgspec.json.encode(part).decode()}]"
        for part in path
    )
    return "".join(parts).removeprefix(".")


def _owner(value: Any, path: Path) -> str:
    """The name of the list item that a path leads into, such as a tool."""
    name = ""
    for part in path[:-1]:
        value = value[part]
        if isinstance(part, int) and isinstance(value, dict) and isinstance(value.get("name"), str):
            name = f" of {value['name']}"
    return name
