"""The document and what it describes are one."""

import json
import re
from typing import Any

import jsonschema_rs
import pytest

from anyport.gateway.api.app import Api
from anyport.gateway.api.openapi import JSON, OPERATIONS, document
from anyport.gateway.api.router import ApiRouter
from tests.gateway.api.fakes import FakeGateway
from tests.record.recorded import SPAN, exchange, frame, payload_line, write_events, write_payloads

DOCUMENT: Any = json.loads(document())
EXAMPLES = {"{profile}": "default", "{server}": "docs", "{id}": SPAN}
QUERIES = {"/api/v1/why": "?name=docs__read"}


def filled(path: str) -> str:
    """The path with names that exist, and with the parameters it needs."""
    return re.sub(r"\{\w+\}", lambda found: EXAMPLES[found[0]], path) + QUERIES.get(path, "")


def schema_of(path: str, status: int, media: str) -> Any:
    """What the document says of an answer, with all that it refers to."""
    responses = DOCUMENT["paths"][path][OPERATIONS[path].method.lower()]["responses"]
    response = responses.get(str(status), responses["default"])
    return {**response["content"][media]["schema"], "components": DOCUMENT["components"]}


def closed(schema: Any) -> Any:
    """The same schema, but nothing may be in an answer that it does not name."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    tight = {key: closed(value) for key, value in schema.items()}
    return {**tight, "additionalProperties": False} if "properties" in tight else tight


def test_every_route_is_described_and_every_description_has_its_route(
    gateway: FakeGateway,
) -> None:
    assert {*ApiRouter(gateway).shortcuts, *Api(gateway).endpoints} == set(OPERATIONS)
    assert set(DOCUMENT["paths"]) == set(OPERATIONS)


def test_the_document_is_served_as_it_is(gateway: FakeGateway) -> None:
    reply = gateway.get("/api/v1/openapi.json")

    assert reply.json == DOCUMENT
    assert DOCUMENT["openapi"] == "3.1.0"


@pytest.mark.parametrize("path", [path for path, row in OPERATIONS.items() if row.media == JSON])
def test_an_answer_has_the_shape_that_the_document_says(gateway: FakeGateway, path: str) -> None:
    for number in range(2):
        gateway.journal.record(
            "gateway.tool_call",
            "failure",
            trace_id=f"{number:032x}",
            metadata={"tool": "read"},
            duration_ms=1.5,
            error_code=-32602,
            error_message="no",
        )
    gateway.journal.flush()
    write_events(gateway.events.state_dir, exchange(), frame())
    write_payloads(gateway.events.state_dir, payload_line())
    reply = gateway.get(filled(path), OPERATIONS[path].method)

    schema = schema_of(path, reply.status, JSON)
    assert reply.status == 200
    if OPERATIONS[path].answer is not None:
        schema = closed(schema)
    jsonschema_rs.validator_for(schema).validate(reply.json)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/mcp/{profile}/info", "/mcp/x/info"),
        ("/api/v1/servers/{server}", "/api/v1/servers/x"),
        ("/api/v1/profiles/{profile}", "/api/v1/profiles/x"),
        ("/api/v1/events", "/api/v1/events?limit=many"),
        ("/api/v1/events/stream", "/api/v1/events/stream?filter=x:"),
        ("/api/v1/traffic", "/api/v1/traffic?filter=x:"),
        ("/api/v1/traffic/stream", "/api/v1/traffic/stream?filter=x:"),
        ("/api/v1/traffic/{id}", "/api/v1/traffic/0123"),
    ],
)
def test_a_problem_has_the_shape_that_the_document_says(
    gateway: FakeGateway, path: str, target: str
) -> None:
    reply = gateway.get(target)

    assert str(reply.status) in DOCUMENT["paths"][path]["get"]["responses"]
    schema = schema_of(path, reply.status, "application/problem+json")
    jsonschema_rs.validator_for(closed(schema)).validate(reply.json)


def test_a_gateway_that_drains_says_so_in_the_shape_of_the_document(gateway: FakeGateway) -> None:
    gateway.draining = True
    reply = gateway.get("/readyz")

    jsonschema_rs.validator_for(schema_of("/readyz", 503, JSON)).validate(reply.json)


def test_what_is_no_json_has_the_type_that_the_document_says(gateway: FakeGateway) -> None:
    for path, row in OPERATIONS.items():
        if row.media != JSON:
            reply = gateway.get(filled(path), "HEAD")
            assert reply.fields["content-type"].startswith(row.media)


def test_every_shape_is_a_sound_schema() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        assert jsonschema_rs.meta.is_valid(schema)


def test_every_reference_leads_somewhere() -> None:
    references = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT))

    assert references
    assert set(references) <= DOCUMENT["components"]["schemas"].keys()


def test_every_name_in_a_path_is_a_parameter_of_it() -> None:
    operations = {path: next(iter(row.values())) for path, row in DOCUMENT["paths"].items()}
    names = [operation["operationId"] for operation in operations.values()]
    assert len(names) == len(set(names))
    for path, operation in operations.items():
        said = {row["name"] for row in operation["parameters"] if row["in"] == "path"}
        assert said == set(re.findall(r"\{(\w+)\}", path))
