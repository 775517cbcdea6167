"""Batches over HTTP: one revision has them, the others never did."""

import json
from typing import Any

import pytest

from tests.harness import Message
from tests.journeys.clients import KINDS, SessionClient, hello, request
from tests.journeys.http_gateway import HttpGateway
from tests.journeys.scripts import said

PING: Message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
LIST: Message = {"jsonrpc": "2.0", "id": "two", "method": "tools/list"}
INITIALIZE: Message = request("initialize", hello("2025-03-26"), 3)
READY: Message = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def test_a_batch_is_answered_in_the_revision_that_has_them(site: HttpGateway) -> None:
    session = SessionClient(site, "2025-03-26")
    answer = site.post([PING, LIST, READY], *session.fields)
    assert answer.status == 200
    answers = answer.rest()
    assert sorted(str(one["id"]) for one in answers) == ["1", "two"]
    (listed,) = [one for one in answers if one["id"] == "two"]
    assert listed["result"]["tools"]


def test_a_batch_without_a_session_is_one_of_that_revision(site: HttpGateway) -> None:
    answers = site.post([PING, LIST]).rest()
    assert sorted(str(one["id"]) for one in answers) == ["1", "two"]


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28", "junk"])
def test_a_batch_without_a_session_is_refused_under_any_other_version(
    site: HttpGateway, version: str
) -> None:
    answer = site.post([PING, LIST], ("MCP-Protocol-Version", version))
    assert answer.status == 400
    assert json.loads(answer.text())["error"]["code"] == -32600


def test_a_batch_of_notifications_has_no_answer(site: HttpGateway) -> None:
    session = SessionClient(site, "2025-03-26")
    answer = site.post([READY, READY], *session.fields)
    assert (answer.status, answer.text()) == (202, "")


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_a_batch_is_refused_in_the_revisions_that_have_none(
    site: HttpGateway, revision: str
) -> None:
    session = SessionClient(site, revision)
    answer = site.post([PING, LIST], *session.fields)
    assert answer.status == 400
    refusal = json.loads(answer.text())
    assert refusal["error"]["code"] == -32600
    assert session.request("ping")["result"] == {}


def test_a_handshake_in_a_batch_is_refused(site: HttpGateway) -> None:
    for fields in ([], SessionClient(site, "2025-03-26").fields):
        answer = site.post([INITIALIZE, PING], *fields)
        assert "Mcp-Session-Id" not in answer.fields
        by_id = {one["id"]: one for one in answer.rest()}
        assert by_id[3]["error"]["code"] == -32600
        assert by_id[1]["result"] == {}


@pytest.mark.parametrize(
    ("batch", "status", "code"),
    [
        ([], 400, -32600),
        ([PING] * 101, 400, -32600),
        (b"[", 400, -32700),
        (b"[1,", 400, -32700),
    ],
    ids=["none", "101", "cut", "cut later"],
)
def test_a_batch_has_at_least_one_message_and_at_most_a_hundred(
    site: HttpGateway, batch: Any, status: int, code: int
) -> None:
    session = SessionClient(site, "2025-03-26")
    answer = site.post(batch, *session.fields)
    assert answer.status == status
    refusal = json.loads(answer.text())
    assert refusal["error"]["code"] == code


def test_a_hundred_messages_are_a_batch(site: HttpGateway) -> None:
    session = SessionClient(site, "2025-03-26")
    batch = [{**PING, "id": n} for n in range(100)]
    answers = site.post(batch, *session.fields).rest()
    assert sorted(one["id"] for one in answers) == list(range(100))
    assert all(one["result"] == {} for one in answers)


def test_what_is_no_message_in_a_batch_is_refused_by_itself(site: HttpGateway) -> None:
    session = SessionClient(site, "2025-03-26")
    answers = site.post([PING, [PING], 7, {"jsonrpc": "2.0"}], *session.fields).rest()
    assert [one["error"]["code"] for one in answers if "error" in one] == [-32600] * 3
    assert [one["id"] for one in answers if "result" in one] == [1]


def test_a_batch_of_calls_to_several_servers_is_answered_together(site: HttpGateway) -> None:
    session = SessionClient(site, "2025-03-26")
    calls = [
        request("tools/call", {"name": f"{server}__echo", "arguments": {"text": server}}, server)
        for server in KINDS
    ]
    answers = site.post(calls, *session.fields).rest()
    assert {one["id"]: said(one) for one in answers} == {server: server for server in KINDS}
