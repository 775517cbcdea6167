"""The OpenAPI document: every path, what may be asked of it, and what it answers.

One row for each path; the shapes are those of `answers.py`. A test holds the rows against the
routes, and the answers against the shapes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, get_args

import msgspec

from anyport import __version__
from anyport.gateway.api import answers
from anyport.gateway.api.problem import MEDIA_TYPE
from anyport.gateway.tools import EVENTS_LIMIT_DEFAULT, EVENTS_LIMIT_MAX
from anyport.gateway.why import Why
from anyport.record.event import EventType, Status

JSON: Final = "application/json"
TEXT: Final = "text/plain"
EVENT_STREAM: Final = "text/event-stream"

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """What a caller may say in the path or in the query."""

    name: str
    meaning: str
    schema: Schema
    place: str = "query"
    needed: bool = False
    """Whether nothing can be answered without it; what stands in a path always is."""

    def describe(self) -> Schema:
        return {
            "name": self.name,
            "in": self.place,
            "required": self.needed or self.place == "path",
            "description": self.meaning,
            "schema": self.schema,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What can be read at a path."""

    name: str
    summary: str
    method: str = "GET"
    answer: type[msgspec.Struct] | None = None
    """The shape of the answer; None for what is not JSON of ours."""
    media: str = JSON
    parameters: tuple[Parameter, ...] = ()
    problems: Mapping[int, str] | None = None
    """Statuses besides 200 that are answered with a problem."""
    unready: bool = False
    """Whether it answers 503, in the same shape, while the gateway drains."""


_TEXT: Final[Schema] = {"type": "string"}
_PROFILE: Final = Parameter(
    name="profile", meaning="The slug of a profile.", schema=_TEXT, place="path"
)
_SERVER: Final = Parameter(
    name="server", meaning="The slug of a server.", schema=_TEXT, place="path"
)
_ID: Final = Parameter(
    name="id",
    meaning="The id of an exchange or a frame, or that of a trace; its first digits will do.",
    schema=_TEXT,
    place="path",
)
_FILTER: Final = Parameter(
    name="filter",
    meaning="Only what matches, such as `server:github status:error dur:>1s`.",
    schema=_TEXT,
)
_LIMIT: Final = Parameter(
    name="limit",
    meaning=f"At most so many, the newest; more than {EVENTS_LIMIT_MAX} are never given.",
    schema={"type": "integer", "default": EVENTS_LIMIT_DEFAULT},
)
_CURSOR: Final = Parameter(
    name="cursor",
    meaning="Only what is before this place: the next_cursor of an earlier answer.",
    schema=_TEXT,
)
_EVENTS: Final = (
    _FILTER,
    Parameter(
        name="trace_id",
        meaning="Only this trace; with or without the dashes of a UUID.",
        schema=_TEXT,
    ),
    Parameter(
        name="event_type",
        meaning="Only this type.",
        schema={"type": "string", "enum": list(get_args(EventType))},
    ),
    Parameter(
        name="status",
        meaning="Only this status.",
        schema={"type": "string", "enum": list(get_args(Status))},
    ),
    Parameter(
        name="since",
        meaning="Not before: a span such as 15m, 24h or 7d, or an ISO time.",
        schema=_TEXT,
    ),
    _LIMIT,
    _CURSOR,
)
_NO_PROFILE: Final = {404: "There is no such profile."}
_ASKED: Final = {
    400: "A parameter cannot be used; of a filter the detail marks the fault.",
    503: "Another process uses the index of the journal; ask again in a moment.",
}
_FOLLOWED: Final = {
    400: "The filter cannot be used; the detail marks the fault.",
    503: "Too many follow the events already.",
}

OPERATIONS: Final[Mapping[str, Operation]] = {
    "/healthz": Operation(
        name="health", summary="Whether the gateway is alive", answer=answers.Health
    ),
    "/readyz": Operation(
        name="readiness",
        summary="Whether the gateway accepts new work",
        answer=answers.Health,
        unready=True,
    ),
    "/metrics": Operation(name="metrics", summary="Numbers for Prometheus", media=TEXT),
    "/mcp/{profile}/info": Operation(
        name="profileInfo",
        summary="A profile: its servers, tools, resources and prompts",
        answer=answers.ProfileDetail,
        parameters=(_PROFILE,),
        problems=_NO_PROFILE,
    ),
    "/api/v1": Operation(name="contents", summary="What there is", answer=answers.Contents),
    "/api/v1/openapi.json": Operation(name="openapi", summary="This document"),
    "/api/v1/status": Operation(
        name="status", summary="How everything is doing", answer=answers.StatusAnswer
    ),
    "/api/v1/servers": Operation(name="servers", summary="Every server", answer=answers.Servers),
    "/api/v1/servers/{server}": Operation(
        name="server",
        summary="One server",
        answer=answers.ServerAnswer,
        parameters=(_SERVER,),
        problems={404: "There is no such server."},
    ),
    "/api/v1/profiles": Operation(
        name="profiles", summary="Every profile", answer=answers.Profiles
    ),
    "/api/v1/profiles/{profile}": Operation(
        name="profile",
        summary="One profile: its servers, tools, resources and prompts",
        answer=answers.ProfileDetail,
        parameters=(_PROFILE,),
        problems=_NO_PROFILE,
    ),
    "/api/v1/why": Operation(
        name="why",
        summary="Why a tool, prompt, resource or server is there for a profile, or is not",
        answer=Why,
        parameters=(
            Parameter(
                name="name",
                meaning="A public or native name, a URI, `server/tool`, or a server.",
                schema=_TEXT,
                needed=True,
            ),
            Parameter(
                name="profile",
                meaning="The slug of a profile; else `default`, or the only one.",
                schema=_TEXT,
            ),
        ),
        problems={400: "There is no name, or no telling which profile is meant.", **_NO_PROFILE},
    ),
    "/api/v1/reload": Operation(
        name="reload",
        summary="Read the configuration again, and take over what has changed",
        method="POST",
        answer=answers.Reloaded,
        parameters=(
            Parameter(
                name="preview",
                meaning="Only tell what would change, in what clients see as well.",
                schema={"type": "boolean", "default": False},
            ),
        ),
        problems={422: "It cannot be used, and nothing has changed."},
    ),
    "/api/v1/events": Operation(
        name="events",
        summary="The newest events that match, oldest first",
        answer=answers.EventsAnswer,
        parameters=_EVENTS,
        problems=_ASKED,
    ),
    "/api/v1/events/stream": Operation(
        name="eventStream",
        summary="Every event from now on that matches, as server-sent events",
        media=EVENT_STREAM,
        parameters=(_FILTER,),
        problems=_FOLLOWED,
    ),
    "/api/v1/traffic": Operation(
        name="traffic",
        summary="The newest exchanges and frames that match, oldest first",
        answer=answers.RowsAnswer,
        parameters=(_FILTER, _LIMIT, _CURSOR),
        problems=_ASKED,
    ),
    "/api/v1/traffic/stream": Operation(
        name="trafficStream",
        summary="Every exchange and frame from now on that matches, as server-sent events",
        media=EVENT_STREAM,
        parameters=(_FILTER,),
        problems=_FOLLOWED,
    ),
    "/api/v1/traffic/{id}": Operation(
        name="trafficDetail",
        summary="One exchange or frame with all that is kept of it, or those of a trace",
        answer=answers.DetailsAnswer,
        parameters=(_ID,),
        problems={
            404: "Nothing has this id, or several begin with these digits.",
            503: _ASKED[503],
        },
    ),
}
"""Every path that is not MCP's own."""


@cache
def document() -> bytes:
    """The whole document as JSON."""
    shapes = [row.answer for row in OPERATIONS.values() if row.answer is not None]
    _, components = msgspec.json.schema_components(
        [*dict.fromkeys(shapes), answers.Problem], ref_template="#/components/schemas/{name}"
    )
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Anyport",
                "version": __version__,
                "description": "What an Anyport gateway tells about itself. What is read, is"
                " read with GET or HEAD.",
            },
            "paths": {
                path: {row.method.lower(): _operation(row)} for path, row in OPERATIONS.items()
            },
            "components": {
                "schemas": components,
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
            # A gateway on loopback needs no token unless its configuration has some.
            "security": [{}, {"token": []}],
        }
    )


def _operation(row: Operation) -> Schema:
    responses: Schema = {"200": _response("The answer.", row.media, row.answer)}
    if row.unready:
        responses["503"] = _response("The gateway is draining.", row.media, row.answer)
    for status, meaning in (row.problems or {}).items():
        responses[str(status)] = _response(meaning, MEDIA_TYPE, answers.Problem)
    responses["default"] = _response("What went wrong.", MEDIA_TYPE, answers.Problem)
    return {
        "operationId": row.name,
        "summary": row.summary,
        "parameters": [parameter.describe() for parameter in row.parameters],
        "responses": responses,
    }


def _response(meaning: str, media: str, answer: type[msgspec.Struct] | None) -> Schema:
    schema: Schema = {"type": "object"} if media == JSON else {"type": "string"}
    if answer is not None:
        schema = {"$ref": f"#/components/schemas/{answer.__name__}"}
    return {"description": meaning, "content": {media: {"schema": schema}}}
