import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.record.redact.budget import RedactionBudget
from anyport.record.redact.json import KEYS_REMEMBERED_MAX, JsonRedactor
from anyport.record.redact.patterns import SecretNames

MARK = "##"


def redact(text: str, budget: RedactionBudget) -> str:
    return text.replace("BAD!", MARK)


def rewriting() -> JsonRedactor:
    return JsonRedactor(
        names=SecretNames(["pin"]),
        redact=redact,
        is_suspicious=lambda raw, _: b"BAD" in raw,
        mark=MARK,
    )


def rewritten(raw: str) -> str:
    return rewriting()(raw.encode(), RedactionBudget(10**9)).decode()


NAMES = SecretNames(["pin"])
# Hypothesis tries constants of the code under test, too, and names of secrets are among them.
TEXTS = st.text().filter(lambda text: "BAD!" not in text and not NAMES.secrecy_of(text))
HARMLESS_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=30,
)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('{"password":"x","user":"y"}', '{"password":"##","user":"y"}'),
        ('{ "Api-Key" : "x" , "n" : 1.50 }', '{ "Api-Key" : "##" , "n" : 1.50 }'),
        ('{"pass\\u0077ord":"x"}', '{"pass\\u0077ord":"##"}'),
        ('{"password":12345,"tokens":17}', '{"password":"##","tokens":17}'),
        (
            '{"password":null,"token":true,"secret":""}',
            '{"password":null,"token":true,"secret":""}',
        ),
        ('{"credentials":{"user":"a","n":1}}', '{"credentials":{"user":"##","n":1}}'),
        ('{"cookies":["a=b",{"x":["c"]}],"d":"e"}', '{"cookies":["##",{"x":["##"]}],"d":"e"}'),
        ('{"password":"x","password":"y"}', '{"password":"##","password":"##"}'),
        ('[{"name":"API_KEY","value":"x"}]', '[{"name":"API_KEY","value":"##"}]'),
        ('[{"value":"x","name":"Cookie"}]', '[{"value":"##","name":"Cookie"}]'),
        ('[{"value":"x","name":"Accept"}]', '[{"value":"x","name":"Accept"}]'),
        ('{"pin":1234}', '{"pin":"##"}'),
        ('"a BAD! b"', '"a ## b"'),
        ('{"a BAD! b":1}', '{"a ## b":1}'),
        ('["\\u0042AD! \\n"]', '["## \\n"]'),
        ("[1234,-1.5e9,true]", "[1234,-1.5e9,true]"),
    ],
)
def test_only_secrets_are_rewritten(raw: str, expected: str) -> None:
    assert rewritten(raw) == expected


def test_a_form_that_asks_for_a_password_is_left_alone() -> None:
    schema = {
        "properties": {
            "password": {
                "type": "string",
                "title": "Password",
                "description": "Yours",
                "minLength": 8,
            },
            "token": {"type": ["string", "null"], "format": "uuid"},
        },
        "required": ["password"],
    }
    assert json.loads(rewritten(json.dumps(schema))) == schema
    assert "hunter2" not in rewritten('{"password":{"type":"string","default":"hunter2"}}')


@given(HARMLESS_JSON)
def test_a_payload_without_secrets_keeps_every_byte(payload: Any) -> None:
    raw = json.dumps(payload)
    assert rewritten(raw) == raw


@given(st.lists(st.text(max_size=3) | st.just("BAD!")), st.booleans())
def test_the_result_is_json_with_the_same_strings_redacted(texts: list[str], ascii: bool) -> None:
    whole = "".join(texts)
    raw = json.dumps([whole, {whole: whole}], ensure_ascii=ascii)
    try:
        raw.encode()
    except UnicodeEncodeError:
        return
    shown = redact(whole, RedactionBudget())
    assert json.loads(rewritten(raw)) == [shown, {shown: shown}]


def test_depth_costs_no_recursion() -> None:
    deep = '{"password":' * 50_000 + '"x"' + "}" * 50_000
    assert '"x"' not in rewritten(deep)


def test_the_memory_of_keys_is_bounded() -> None:
    rewrite = rewriting()
    rewrite(
        json.dumps({f"k{n}": 1 for n in range(KEYS_REMEMBERED_MAX + 10)}).encode(),
        RedactionBudget(10**9),
    )
    rewrite(json.dumps({"k" * 1000: 1}).encode(), RedactionBudget())
    assert len(rewrite._redacted_keys) <= KEYS_REMEMBERED_MAX
    assert "k" * 1000 not in rewrite._redacted_keys
