"""Header fields, and text in them."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.demo.headers import Headers, unwrap


def test_names_have_no_case_and_may_come_more_than_once() -> None:
    headers = Headers([("A", "1"), ("b", "2"), ("a", "3")])

    assert (headers.all("a"), headers.get("A"), headers.get("B")) == (["1", "3"], "1", "2")
    assert (headers.all("c"), headers.get("c")) == ([], None)


def test_a_list_may_be_spread_over_fields() -> None:
    headers = Headers([("Accept", "Text/Html;q=0.5 , */*"), ("accept", "a/b")])

    assert headers.listed("Accept") == ["text/html", "*/*", "a/b"]
    assert headers.listed("none") == [""]


@given(st.text())
def test_any_text_can_travel_wrapped(text: str) -> None:
    wrapped = f"=?base64?{base64.b64encode(text.encode()).decode()}?="

    assert unwrap(wrapped) == text


@pytest.mark.parametrize("value", ["", "plain text", "=?base64?YQ==", "=?other?YQ==?="])
def test_plain_text_travels_as_it_is(value: str) -> None:
    assert unwrap(value) == value


@pytest.mark.parametrize(
    "value",
    [
        "=?base64?!?=",
        "=?base64?YQ?=",
        "=?base64?YR==?=",
        "=?base64?Y Q==?=",
        "=?base64?/w==?=",
        "ü",
    ],
)
def test_text_that_was_wrapped_badly_is_none(value: str) -> None:
    assert unwrap(value) is None
