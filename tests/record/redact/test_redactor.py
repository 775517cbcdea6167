import base64
import json
import re
import string
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.record.redact.budget import NESTED_MAX, RedactionBudget
from anyport.record.redact.redactor import KEY_LINES_MAX, MARK, WITHHELD, PemBlockRedactor, Redactor
from tests.record.adversarial_texts import PIECES, as_lines, as_text, filled, nested
from tests.record.adversarial_texts import PROSE as PROSE_LINE
from tests.record.planted_secrets import CODE, KINDS, NAMED, PROSE, harmless
from tests.record.story import CPU_SECONDS_MAX, cpu_seconds, repeated

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
        *PROSE,
        *CODE,
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
    text = repeated(piece, 300_000)
    assert cpu_seconds(lambda: Redactor([])(text)) < CPU_SECONDS_MAX


CLEAN = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=string.ascii_letters + "@")
)
"""Says nothing that could be taken for a name or a secret."""


def json_of(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | texts,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
        max_leaves=30,
    )


JSON = json_of(st.text())


def escaped(text: str) -> str:
    """The text in JSON with every letter by its number."""
    return "".join(f"\\u{ord(letter):04X}" for letter in text)


def wrapped(text: str) -> Iterator[bytes]:
    """The same text as payloads may have it."""
    yield json.dumps({"content": [{"type": "text", "text": text}], "isError": False}).encode()
    yield json.dumps({text: 1}, ensure_ascii=False).encode()
    yield f'{{"text":"{escaped(text)}"}}'.encode()
    yield json.dumps({"text": json.dumps({"inner": json.dumps([text])})}).encode()
    yield json.dumps({"text": text}).replace("/", "\\/").encode()
    yield json.dumps({"a": text})[:-1].encode() + b',"a":1}'
    yield b"no JSON: " + text.encode()


def strings(value: Any) -> Iterator[str]:
    """Every string in a payload, and in what is JSON within it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value
        with suppress(ValueError):
            yield from strings(json.loads(value))


def stored(raw: bytes) -> str:
    """All that a payload says, besides its own bytes."""
    return "\n".join((raw.decode(), *strings(json.loads(raw))))


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_secret_passes_in_any_wrapping(kind: str) -> None:
    redact = Redactor(["some other secret"])
    chance = Random(kind)
    for _ in range(5):
        text, secret = KINDS[kind](chance)
        assert secret not in redact(text)
        assert secret not in redact(f"{'x' * 500}\n{text}\n{'y' * 500}")
        for raw in wrapped(text):
            assert secret not in stored(redact.redact_payload(raw)), raw


@pytest.mark.parametrize("name", NAMED)
def test_a_member_with_the_name_of_a_secret_is_hidden(name: str) -> None:
    redact = Redactor([])
    for raw in (
        json.dumps({"a": 1, name: "plain words"}).encode(),
        f'{{"{escaped(name)}" :\n"plain words"}}'.encode(),
        json.dumps({"text": json.dumps({name: "plain words"})}).encode(),
        json.dumps({"headers": [{"name": name, "value": "plain words"}]}).encode(),
        json.dumps({name: {"deeper": ["plain words"]}}).encode(),
    ):
        assert "plain words" not in stored(redact.redact_payload(raw))


def test_the_configuration_can_name_further_members() -> None:
    redact = Redactor([], ["patient-name", "Имя"])
    assert (
        redact.redact_payload(b'{"patientName":"Ann","n":1}')
        == b'{"patientName":"[redacted]","n":1}'
    )
    raw = '{"ИМЯ":"Анна"}'.encode()
    assert json.loads(redact.redact_payload(raw)) == {"ИМЯ": MARK}


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(b"alice:" + SECRET.encode()).decode(),
    ],
)
def test_a_configured_secret_is_found_in_a_payload_in_every_form(form: str) -> None:
    redact = Redactor([SECRET, "abcd"])
    for raw in wrapped(f"it is {form}, said he"):
        assert SECRET not in stored(redact.redact_payload(raw))
        assert form not in stored(redact.redact_payload(raw))


def test_a_configured_secret_beside_a_picture_or_within_one_is_found() -> None:
    secret = "correct-horse-battery"
    picture = base64.b64encode(bytes(3000) + secret.encode() + bytes(3000)).decode()
    raw = json.dumps({"blob": picture}).encode()
    assert Redactor([]).redact_payload(raw) == raw
    assert MARK in Redactor([secret]).redact_payload(raw).decode()


def test_a_configured_secret_that_is_json_or_a_number_is_found_as_such() -> None:
    document = '{"user":"bob","pin":[1,2]}'
    redact = Redactor([document, "31337000", "true"])
    assert redact.redact_payload(b'{"a":%b}' % document.encode()) == b'"[redacted]"'
    assert json.loads(redact.redact_payload(json.dumps({"a": document}).encode())) == {"a": MARK}
    assert redact.redact_payload(b'{"n":31337000,"m":1}') == b'{"n":"[redacted]","m":1}'
    assert redact.redact_payload(b'{"ok":true}') == b'{"ok":true}'


@given(json_of(CLEAN), st.booleans())
def test_a_clean_payload_keeps_every_byte(payload: Any, ascii: bool) -> None:
    raw = json.dumps(payload, ensure_ascii=ascii, indent=1).encode()
    assert Redactor(["never there at all"]).redact_payload(raw) == raw


@given(st.binary(max_size=300) | st.text().map(lambda text: text.encode("utf-8", "replace")))
def test_whatever_comes_what_is_stored_is_json(raw: bytes) -> None:
    json.loads(Redactor(["secret"]).redact_payload(raw))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", '""'),
        (b"hello", '"hello"'),
        (b'{"a": password=hunter2', '"{\\"a\\": password=[redacted]"'),
        (b'{"t":"\\u0067hp_0123456789abcdefABCD0123456789abcdef', '"{\\"t\\":\\"[redacted]"'),
        (b"\xff\xfe", '"\\ufffd\\ufffd"'),
        (b"[" * 100_000, '"[redacted]"'),
        (b'{"a":"\\ud800","n":1e999}', '{"a":"\\ud800","n":1e999}'),
        (b'{"a":"\\ud800","password":"x"}', '{"a":"\\ud800","password":"[redacted]"}'),
    ],
)
def test_what_is_no_ordinary_json_is_stored_safely(raw: bytes, expected: str) -> None:
    assert Redactor([]).redact_payload(raw).decode() == expected


def test_what_counts_and_what_pages_is_left_alone() -> None:
    raw = json.dumps(
        {
            "_meta": {"progressToken": "abc-123"},
            "nextCursor": "b2Zmc2V0OjEwMA",
            "max_tokens": 4096,
            "usage": {"tokens": 17, "inputTokens": 5, "secrets": 2},
            "nextPageToken": "CAUQAA",
            "key": "PROJ-17",
        }
    ).encode()
    assert Redactor([]).redact_payload(raw) == raw


@pytest.mark.slow
def test_of_ten_thousand_payloads_with_secrets_none_is_stored() -> None:
    redact = Redactor([])
    chance = Random(9)
    kinds = list(KINDS.values())
    for _ in range(10_000):
        text, secret = chance.choice(kinds)(chance)
        raw = chance.choice(list(wrapped(text)))
        assert secret not in stored(redact.redact_payload(raw)), raw


@pytest.mark.slow
def test_of_ten_thousand_harmless_payloads_hardly_any_is_touched() -> None:
    redact = Redactor(["correct-horse-battery", "hunter2hunter2"])
    chance = Random(10)
    payloads = [harmless(chance).encode() for _ in range(10_000)]
    touched = [raw for raw in payloads if redact.redact_payload(raw) != raw]
    assert len(touched) <= 100, touched[:10]


@pytest.mark.parametrize(
    "piece", ['{"password":', "[", '{"a":[', '"a\\', "\\u0041", '{"k":"token=",']
)
def test_no_payload_makes_redaction_slow(piece: str) -> None:
    text = repeated(piece, 200_000)
    for raw in (text.encode(), json.dumps({"text": text}).encode()):
        budget = RedactionBudget(10**9)
        assert cpu_seconds(partial(Redactor([]).redact_payload, raw, budget)) < CPU_SECONDS_MAX


@pytest.mark.parametrize("kind", ["assignments", "keys of code hosts", "addresses with passwords"])
def test_what_cannot_be_looked_through_is_withheld_as_a_whole(kind: str) -> None:
    text = filled(1_000_000, PIECES[kind])
    redact = Redactor([])
    assert redact(text) == WITHHELD
    for wrap in (as_text, as_lines):
        assert json.loads(redact.redact_payload(wrap(text))) == WITHHELD


@pytest.mark.parametrize("kind", KINDS)
def test_no_secret_passes_however_much_stands_before_and_behind_it(kind: str) -> None:
    redact, chance = Redactor([]), Random(kind)
    filling = filled(700, PIECES["assignments"])
    for count in (1, 40, 400, 800, 4000):
        text, secret = KINDS[kind](chance)
        lines = [filling] * (count // 2) + [text] + [filling] * (count // 2)
        assert secret not in redact("\n".join(lines))
        assert secret not in stored(redact.redact_payload(json.dumps(lines).encode()))


def test_a_secret_in_a_long_text_is_found_and_the_text_is_kept() -> None:
    text = filled(150_000, lambda _: PROSE_LINE) + " password=hunter2 "
    raw = as_text(text + filled(150_000, lambda _: PROSE_LINE))
    assert Redactor([]).redact_payload(raw) == raw.replace(b"hunter2", MARK.encode())


@pytest.mark.parametrize("count", [1, 40, 600])
def test_a_secret_among_many_strings_is_found_and_the_others_are_kept(count: int) -> None:
    raw = json.dumps([{"id": n, "text": f"{PROSE_LINE} {n}"} for n in range(count)]).encode()
    with_secret = raw[:-1] + b',"token=hunter2"]'
    assert Redactor([]).redact_payload(with_secret) == with_secret.replace(
        b"hunter2", MARK.encode()
    )


def test_a_payload_is_always_recorded_in_the_same_way() -> None:
    raw = as_text(filled(60_000, PIECES["assignments"]))
    redact = Redactor([])
    assert len({redact.redact_payload(raw) for _ in range(3)}) == 1


@pytest.mark.parametrize("depth", [1, NESTED_MAX - 1, NESTED_MAX, NESTED_MAX + 1, 60, 600])
def test_json_in_json_is_looked_into_to_a_depth_and_then_withheld(depth: int) -> None:
    shown = Redactor([]).redact_payload(nested(depth).encode())
    for _ in range(depth if depth <= NESTED_MAX else 0):
        shown = json.loads(shown)["t"].encode()
    assert json.loads(shown) == ({"password": MARK} if depth <= NESTED_MAX else WITHHELD)


def test_one_letter_is_two_when_it_is_made_small() -> None:
    assert [chr(n) for n in range(0x110000) if len(chr(n).lower()) != 1] == ["\u0130"]


def test_a_payload_costs_something_for_its_size_alone() -> None:
    raw = as_text(filled(100_000, lambda _: PROSE_LINE))
    budget = RedactionBudget(1000)
    assert Redactor([]).redact_payload(raw, budget) == raw
    assert 100 < budget.spent_steps < 1000

    short = RedactionBudget(100)
    assert json.loads(Redactor([]).redact_payload(raw, short)) == WITHHELD
    assert short.spent_steps == 0


# Private keys, line by line


@pytest.mark.parametrize("kind", ["pem-rsa", "pem-openssh", "pem-encrypted", "pgp"])
def test_a_key_that_is_told_line_by_line_is_hidden(kind: str) -> None:
    text, secret = KINDS[kind](Random(kind))
    redactor = PemBlockRedactor()
    shown = [redactor(line) for line in ("before", *text.split("\n"), "after")]
    assert secret not in "\n".join(shown)
    assert shown[0] == "before"
    assert shown[2:-1] == [MARK] * (len(shown) - 3)
    assert shown[-1] == "after"
    assert not redactor.is_inside_key


def test_what_is_no_private_key_is_shown() -> None:
    redactor = PemBlockRedactor()
    lines = ["-----BEGIN CERTIFICATE-----", "MIIE", "-----END CERTIFICATE-----", "-----", "BEGIN"]
    assert [redactor(line) for line in lines] == lines


def test_a_key_on_one_line_hides_nothing_after_it() -> None:
    redactor = PemBlockRedactor()
    line = "-----BEGIN PRIVATE KEY----- x -----END PRIVATE KEY-----"
    assert redactor(line) == line  # Redaction knows this one by itself.
    assert redactor("after") == "after"


def test_a_key_that_never_ends_does_not_hide_everything() -> None:
    redactor = PemBlockRedactor()
    redactor("-----BEGIN PRIVATE KEY-----")
    assert redactor.is_inside_key
    shown = [redactor(f"line {n}") for n in range(KEY_LINES_MAX + 5)]
    assert shown.count(MARK) == KEY_LINES_MAX
    assert shown[-1] == f"line {KEY_LINES_MAX + 4}"
