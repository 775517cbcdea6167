"""What is not MCP finds its answer, and costs nobody else anything."""

import json
import subprocess
import sys

import pytest

from tests.gateway.api.fakes import FakeGateway, FakeReply, Visit, until

LEAN = """
import sys
import anyport.gateway.api.router
heavy = [name for name in sys.modules if name.split(".")[0] in ("starlette", "prometheus_client")]
sys.exit(str(heavy) if heavy else 0)
"""


def test_a_gateway_that_runs_is_healthy_and_ready(gateway: FakeGateway) -> None:
    for path in ("/healthz", "/readyz", "/healthz?verbose"):
        reply = gateway.get(path)

        assert (reply.status, reply.json) == (200, {"status": "ok"})
        assert reply.fields["content-type"] == "application/json"
        assert reply.fields["cache-control"] == "no-store"


def test_a_gateway_that_drains_is_alive_but_not_ready(gateway: FakeGateway) -> None:
    gateway.draining = True

    assert gateway.get("/healthz").status == 200
    reply = gateway.get("/readyz")
    assert (reply.status, reply.json) == (503, {"status": "draining"})


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/api/v1/servers"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_everything_can_only_be_read(gateway: FakeGateway, path: str, method: str) -> None:
    reply = gateway.get(path, method)

    assert reply.status == 405
    assert reply.fields["allow"] == "GET, HEAD"
    assert reply.fields["content-type"] == "application/problem+json"
    assert reply.json["detail"] == "This can only be read: use GET, HEAD"


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/api/v1/servers"])
def test_a_head_request_is_answered_like_a_get(gateway: FakeGateway, path: str) -> None:
    reply, full = gateway.get(path, "HEAD"), gateway.get(path)

    assert (reply.status, reply.fields) == (full.status, full.fields)


def test_metrics_are_text_that_prometheus_reads(gateway: FakeGateway) -> None:
    reply = gateway.get("/metrics")

    assert reply.status == 200
    assert reply.fields["content-type"].startswith("text/plain; version=0.0.4")
    assert b"anyport_server_up" in reply.body


def test_who_asked_for_metrics_and_left_is_not_answered(gateway: FakeGateway) -> None:
    replies: list[FakeReply] = []

    async def scene(visit: Visit) -> None:
        reply = visit.begin("/metrics")
        reply.leave()
        replies.append(reply)

    gateway.play(scene)

    assert [reply.answers for reply in replies] == [0]


def test_metrics_that_cannot_be_made_are_an_error_without_its_reason(
    gateway: FakeGateway,
) -> None:
    def broken() -> int:
        raise RuntimeError("secret reason")

    gateway.metrics.count_streams = broken

    reply = gateway.get("/metrics")

    assert reply.status == 500
    assert b"secret" not in reply.body
    assert [str(error) for error in gateway.reported] == ["secret reason"]


def test_requests_that_come_while_the_application_is_loaded_are_answered(
    gateway: FakeGateway,
) -> None:
    async def scene(visit: Visit) -> None:
        replies = [visit.begin("/api/v1") for _ in range(3)]
        await until(lambda: all(reply.finished for reply in replies))
        assert {reply.status for reply in replies} == {200}
        assert (await visit.get("/api/v1")).status == 200

    gateway.play(scene)


@pytest.mark.parametrize("path", ["/", "/api/v2", "/api/v1/", "/healthz/", "/mcp/default/else"])
def test_an_address_where_nothing_is_says_where_something_is(
    gateway: FakeGateway, path: str
) -> None:
    reply = gateway.get(path)

    assert reply.status == 404
    assert json.loads(reply.body) == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "There is nothing at this path; /api/v1 lists what there is",
    }


@pytest.mark.slow
def test_nobody_pays_for_frameworks_that_are_not_used() -> None:
    subprocess.run([sys.executable, "-c", LEAN], check=True)
