"""The OpenAPI document: every path with its parameters and responses.

There is one row per path; schemas are generated from the types of `schemas.py`. Tests compare the
rows with the routes, and responses with their schemas.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, get_args

import msgspec

from anyport import __version__
from anyport.gateway.api import schemas
from anyport.gateway.api.schemas import MEDIA_TYPE
from anyport.gateway.explain import Why
from anyport.gateway.local.gateway_tools import EVENTS_LIMIT_DEFAULT, EVENTS_LIMIT_MAX
from anyport.record.event import EventType, Status

JSON: Final = "application/json"
TEXT: Final = "text/plain"
EVENT_STREAM: Final = "text/event-stream"

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParameter:
    """A parameter in the path or in the query."""

    name: str
    meaning: str
    schema: Schema
    location: str = "query"
    required: bool = False
    """Whether it is required; one in the path always is."""

    def describe(self) -> Schema:
        return {
            "name": self.name,
            "in": self.location,
            "required": self.required or self.location == "path",
            "description": self.meaning,
            "schema": self.schema,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The operation of a path."""

    name: str
    summary: str
    method: str = "GET"
    answer: type[msgspec.Struct] | None = None
    """The schema of the response; None if it is not JSON, or not ours."""
    media: str = JSON
    parameters: tuple[ApiParameter, ...] = ()
    problems: Mapping[int, str] | None = None
    """Error statuses, with their meanings."""
    unready: bool = False
    """Whether it responds with 503 and the same schema while the gateway drains."""


_TEXT: Final[Schema] = {"type": "string"}
_PROFILE: Final = ApiParameter(
    name="profile", meaning="The slug of a profile.", schema=_TEXT, location="path"
)
_SERVER: Final = ApiParameter(
    name="server", meaning="The slug of a server.", schema=_TEXT, location="path"
)
_ID: Final = ApiParameter(
    name="id",
    meaning="The id of an exchange, a frame or a trace, or its first digits.",
    schema=_TEXT,
    location="path",
)
_FILTER: Final = ApiParameter(
    name="filter",
    meaning="Only events that match, such as `server:github status:error dur:>1s`.",
    schema=_TEXT,
)
_LIMIT: Final = ApiParameter(
    name="limit",
    meaning=f"The number of events, the newest ones; {EVENTS_LIMIT_MAX} at most.",
    schema={"type": "integer", "default": EVENTS_LIMIT_DEFAULT},
)
_CURSOR: Final = ApiParameter(
    name="cursor",
    meaning="Only older events: the next_cursor of an earlier response.",
    schema=_TEXT,
)
_EVENTS: Final = (
    _FILTER,
    ApiParameter(
        name="trace_id",
        meaning="Only this trace; with or without the dashes of a UUID.",
        schema=_TEXT,
    ),
    ApiParameter(
        name="event_type",
        meaning="Only this type.",
        schema={"type": "string", "enum": list(get_args(EventType))},
    ),
    ApiParameter(
        name="status",
        meaning="Only this status.",
        schema={"type": "string", "enum": list(get_args(Status))},
    ),
    ApiParameter(
        name="since",
        meaning="Only since then: an age such as 15m, 24h or 7d, or an ISO time.",
        schema=_TEXT,
    ),
    _LIMIT,
    _CURSOR,
)
_UNKNOWN_PROFILE: Final = {404: "There is no such profile."}
_QUERY_PROBLEMS: Final = {
    400: "A parameter is invalid; the detail marks the fault in a filter.",
    503: "Another process uses the index of the journal; ask again in a moment.",
}
_STREAM_PROBLEMS: Final = {
    400: "The filter is invalid; the detail marks the fault.",
    503: "There are too many followers.",
}

OPERATIONS: Final[Mapping[str, Operation]] = {
    "/healthz": Operation(
        name="health", summary="Whether the gateway is alive", answer=schemas.Health
    ),
    "/readyz": Operation(
        name="readiness",
        summary="Whether the gateway accepts new work",
        answer=schemas.Health,
        unready=True,
    ),
    "/metrics": Operation(name="metrics", summary="Metrics for Prometheus", media=TEXT),
    "/mcp/{profile}/info": Operation(
        name="profileInfo",
        summary="A profile: its servers, tools, resources and prompts",
        answer=schemas.ProfileDetail,
        parameters=(_PROFILE,),
        problems=_UNKNOWN_PROFILE,
    ),
    "/api/v1": Operation(name="contents", summary="The paths of the API", answer=schemas.Contents),
    "/api/v1/openapi.json": Operation(name="openapi", summary="This document"),
    "/api/v1/status": Operation(
        name="status",
        summary="The state of the gateway, its servers and its profiles",
        answer=schemas.StatusAnswer,
    ),
    "/api/v1/servers": Operation(name="servers", summary="All servers", answer=schemas.Servers),
    "/api/v1/servers/{server}": Operation(
        name="server",
        summary="One server",
        answer=schemas.ServerAnswer,
        parameters=(_SERVER,),
        problems={404: "There is no such server."},
    ),
    "/api/v1/profiles": Operation(
        name="profiles", summary="All profiles", answer=schemas.ProfilesAnswer
    ),
    "/api/v1/profiles/{profile}": Operation(
        name="profile",
        summary="One profile: its servers, tools, resources and prompts",
        answer=schemas.ProfileDetail,
        parameters=(_PROFILE,),
        problems=_UNKNOWN_PROFILE,
    ),
    "/api/v1/why": Operation(
        name="why",
        summary="Why a tool, prompt, resource or server is visible in a profile, or is not",
        answer=Why,
        parameters=(
            ApiParameter(
                name="name",
                meaning="A public or native name, a URI, `server/tool`, or a server.",
                schema=_TEXT,
                required=True,
            ),
            ApiParameter(
                name="profile",
                meaning="The slug of a profile; by default `default`, or the only one.",
                schema=_TEXT,
            ),
        ),
        problems={
            400: "The name is missing, or the profile is ambiguous.",
            **_UNKNOWN_PROFILE,
        },
    ),
    "/api/v1/reload": Operation(
        name="reload",
        summary="Read the configuration again, and apply what has changed",
        method="POST",
        answer=schemas.ReloadAnswer,
        parameters=(
            ApiParameter(
                name="preview",
                meaning="Only show what would change, in the lists of clients, too.",
                schema={"type": "boolean", "default": False},
            ),
        ),
        problems={422: "The configuration cannot be used, and nothing has changed."},
    ),
    "/api/v1/events": Operation(
        name="events",
        summary="The newest events that match, oldest first",
        answer=schemas.EventsAnswer,
        parameters=_EVENTS,
        problems=_QUERY_PROBLEMS,
    ),
    "/api/v1/events/stream": Operation(
        name="eventStream",
        summary="Every event from now on that matches, as server-sent events",
        media=EVENT_STREAM,
        parameters=(_FILTER,),
        problems=_STREAM_PROBLEMS,
    ),
    "/api/v1/traffic": Operation(
        name="traffic",
        summary="The newest exchanges and frames that match, oldest first",
        answer=schemas.RowsAnswer,
        parameters=(_FILTER, _LIMIT, _CURSOR),
        problems=_QUERY_PROBLEMS,
    ),
    "/api/v1/traffic/stream": Operation(
        name="trafficStream",
        summary="Every exchange and frame from now on that matches, as server-sent events",
        media=EVENT_STREAM,
        parameters=(_FILTER,),
        problems=_STREAM_PROBLEMS,
    ),
    "/api/v1/traffic/{id}": Operation(
        name="trafficDetail",
        summary="Everything recorded of one exchange, frame or trace",
        answer=schemas.DetailsAnswer,
        parameters=(_ID,),
        problems={
            404: "Nothing has this id, or several ids begin with these digits.",
            503: _QUERY_PROBLEMS[503],
        },
    ),
}
"""All paths that are not MCP."""


@cache
def document() -> bytes:
    shapes = [row.answer for row in OPERATIONS.values() if row.answer is not None]
    _, components = msgspec.json.schema_components(
        [*dict.fromkeys(shapes), schemas.Problem], ref_template="#/components/schemas/{name}"
    )
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Anyport",
                "version": __version__,
                "description": "The management API of an Anyport gateway. Every GET also works"
                " as HEAD.",
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
    responses: Schema = {"200": _response("The response.", row.media, row.answer)}
    if row.unready:
        responses["503"] = _response("The gateway is draining.", row.media, row.answer)
    for status, meaning in (row.problems or {}).items():
        responses[str(status)] = _response(meaning, MEDIA_TYPE, schemas.Problem)
    responses["default"] = _response("An error.", MEDIA_TYPE, schemas.Problem)
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
