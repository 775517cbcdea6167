import base64
import json
import re
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.record.redact import MARK, Redactor

SECRET = 'p@ss "wörd"/42\n+x'


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        quote(SECRET, safe=""),
        re.sub("%..", lambda code: code[0].lower(), quote(SECRET, safe="")),
        quote_plus(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
    ],
)
def test_a_configured_secret_is_found_in_every_form(form: str) -> None:
    redact = Redactor([SECRET])
    assert redact(f"before {form} after") == f"before {MARK} after"


@pytest.mark.parametrize("user", ["", "a", "ab", "abc", "alice"])
def test_a_secret_within_base64_of_something_longer_is_found(user: str) -> None:
    secret = "correct-horse-battery"
    basic = base64.b64encode(f"{user}:{secret}@host".encode()).decode()
    shown = Redactor([secret])(f"sent {basic}")
    assert MARK in shown
    left = shown.removeprefix("sent ").split(MARK)
    assert max(map(len, left)) < len(basic) / 2


@given(st.lists(st.text(min_size=4), min_size=1), st.text())
def test_no_configured_secret_survives(secrets: list[str], text: str) -> None:
    # Alone the mark itself, or a part of it, may be what somebody chose as a secret.
    secrets = [secret for secret in secrets if secret not in MARK]
    shown = Redactor(secrets)(f"{text} ".join(secrets))
    assert not [secret for secret in secrets if secret in shown.replace(MARK, "\0")]


def test_the_longer_of_two_secrets_goes_first() -> None:
    assert Redactor(["abcd", "abcdefgh"])("abcdefgh abcd") == f"{MARK} {MARK}"


def test_a_value_too_short_to_be_a_secret_is_left_alone() -> None:
    assert Redactor(["abc", ""])("abc of it") == "abc of it"


@pytest.mark.parametrize(
    "token",
    [
        "Bearer abc.def-123",
        "bearer ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "Authorization: Basic YTpi",
        "ghp_0123456789abcdefABCD0123456789abcdef",
        "github_pat_11ABCDEFG0123456789_abcdef",
        "glpat-abcdefghij0123456789",
        "sk-proj-abcdefghijklmnop0123",
        "sk_live_abcdefghij0123",
        "xoxb-123456789012-abcdefABCDEF",
        "AKIAIOSFODNN7EXAMPLE",
        "AIza" + "a1B2c" * 7,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4\n\nMIIE\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIE, cut off",
    ],
)
def test_a_token_nobody_told_us_of_is_known_by_its_shape(token: str) -> None:
    assert Redactor([])(f"({token}") == f"({MARK}"


def test_the_password_of_an_address_is_hidden_and_the_host_is_not() -> None:
    assert Redactor([])("postgres://me:hunter2@db:5432/x") == f"postgres://{MARK}@db:5432/x"


@pytest.mark.parametrize(
    "text",
    [
        "Bearer authentication required",
        "the task-management-and-planning tool",
        "https://example.com:8080/path?user=a@b.c",
        "-----BEGIN CERTIFICATE-----",
        "AKIA is a prefix",
        "4bf92f3577b34da6a3ce929d0e0e4736",
    ],
)
def test_harmless_text_is_left_alone(text: str) -> None:
    assert Redactor(["another secret"])(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        "eyJ",
        "eyJaaaaaaaa.",
        "sk-",
        "bearer ",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN " + "A" * 39,
        "://a:",
        "-",
        "authorization: ",
    ],
)
def test_no_text_makes_the_patterns_slow(piece: str) -> None:
    text = piece * (300_000 // len(piece))
    before = time.process_time()
    Redactor([])(text)
    # Linear takes well under a second; quadratic would take minutes.
    assert time.process_time() - before < 10
