"""The door: which bodies are read, and which answers a client takes."""

import pytest

from anyport.ingress.http import door as texts
from anyport.ingress.http.door import Acceptable, Denial, acceptable, accepts, post_media
from tests.ingress.http.heads import head

# Bodies.


@pytest.mark.parametrize(
    "media",
    [
        "application/json",
        "Application/JSON",
        "application/json;charset=utf-8",
        "application/json; charset=UTF-8",
        'application/json ; Charset="utf-8" ',
        "application/json; charset=utf8",
        "application/json; profile=x",
    ],
)
def test_a_body_of_json_is_read(media: str) -> None:
    assert post_media(head(("Host", "localhost"), ("Content-Type", media))) is None


@pytest.mark.parametrize(
    "media",
    [
        "",
        "text/plain",
        "text/plain;charset=UTF-8",
        "text/plain; application/json",
        "text/plain;x=application/json",
        "text/plain, application/json",
        "application/json, text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "multipart/form-data; boundary=application/json",
        "text/json",
        "application/jsonx",
        "application/json-rpc",
        "application/*",
        "*/*",
        "json",
        "application/json; charset=utf-16",
        "application/json; charset=latin-1",
        "application/json; charset=",
        "application/json; charset=utf-8; charset=utf-16",
    ],
)
def test_a_body_that_a_page_could_send_without_asking_is_refused(media: str) -> None:
    denial = post_media(head(("Host", "localhost"), ("Content-Type", media)))
    assert denial == texts.NOT_JSON
    assert texts.NOT_JSON.status == 415


def test_a_body_has_exactly_one_type() -> None:
    json = ("Content-Type", "application/json")
    assert post_media(head(("Host", "localhost"))) == texts.NOT_JSON
    assert post_media(head(json, json)) == texts.NOT_JSON
    assert post_media(head(json, ("Content-Type", "text/plain"))) == texts.NOT_JSON


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "identity, gzip", "x"])
def test_a_compressed_body_is_refused(coding: str) -> None:
    fields = ("Content-Type", "application/json"), ("Content-Encoding", coding)
    assert post_media(head(*fields)) == texts.ENCODED


def test_a_body_that_says_it_is_not_compressed_is_read() -> None:
    fields = ("Content-Type", "application/json"), ("Content-Encoding", "Identity")
    assert post_media(head(*fields)) is None


# Answers.

BOTH, JSON_ALONE, STREAM_ALONE, NEITHER = (
    Acceptable(json=True, stream=True),
    Acceptable(json=True, stream=False),
    Acceptable(json=False, stream=True),
    Acceptable(json=False, stream=False),
)


@pytest.mark.parametrize(
    ("accept", "taken"),
    [
        ("application/json, text/event-stream", BOTH),  # The official clients, on POST.
        ("text/event-stream, application/json", BOTH),
        ("Application/JSON,TEXT/Event-Stream", BOTH),
        ("text/event-stream", STREAM_ALONE),  # The official clients, on GET.
        ("*/*", BOTH),  # curl, fetch, requests, httpx.
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", BOTH),
        ("application/json", JSON_ALONE),
        ("application/json;charset=utf-8", JSON_ALONE),
        ("application/*", JSON_ALONE),
        ("text/*", STREAM_ALONE),
        ("*/*, text/event-stream;q=0", JSON_ALONE),
        ("text/event-stream; q=0.0, */*", JSON_ALONE),
        ("application/json;q=0.001, */*;q=0", JSON_ALONE),
        ("text/*;q=0, text/event-stream", STREAM_ALONE),
        ("text/plain", NEITHER),
        ("text/html,application/xhtml+xml", NEITHER),
        ("application/jsonx, text/event-streams", NEITHER),
        ("*/*;q=0", NEITHER),
        ("", NEITHER),
        (",;,", NEITHER),
    ],
)
def test_what_a_client_takes(accept: str, taken: Acceptable) -> None:
    assert acceptable(head(("Accept", accept))) == taken


def test_several_accept_headers_are_one_list() -> None:
    fields = ("Accept", "application/json"), ("Accept", "text/event-stream")
    assert acceptable(head(*fields)) == BOTH


def test_who_does_not_say_what_they_take_gets_nothing() -> None:
    for json, stream in ((True, True), (True, False), (False, True)):
        denial = accepts(head(("Host", "localhost")), json=json, stream=stream)
        assert denial is not None
        assert denial.status == 406


def test_a_client_needs_to_take_one_of_the_forms_that_are_possible() -> None:
    json, stream = head(("Accept", "application/json")), head(("Accept", "text/event-stream"))
    assert accepts(json, json=True, stream=True) is None
    assert accepts(stream, json=True, stream=True) is None
    assert accepts(json, json=False, stream=True) == Denial(
        status=406, message="Send Accept: text/event-stream"
    )
    assert accepts(stream, json=True, stream=False) == Denial(
        status=406, message="Send Accept: application/json"
    )
    assert accepts(head(("Accept", "text/plain")), json=True, stream=True) == Denial(
        status=406, message="Send Accept: application/json, text/event-stream"
    )
