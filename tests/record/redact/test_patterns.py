import base64
from random import Random

import pytest

from anyport.record.redact.budget import RedactionBudget
from anyport.record.redact.patterns import (
    BLOB_CHARS_MIN,
    LONG_RUN,
    NAME_CHARS_MAX,
    NAME_SEPARATORS,
    REMEMBERED_MAX,
    TOKENS,
    Secrecy,
    SecretNames,
    find_phrases,
    mark_runs,
    may_have_phrase,
    suspected_patterns,
)
from tests.record.planted_secrets import CODE, KINDS, NAMED, PROSE, Plant
from tests.record.story import CPU_SECONDS_MAX, cpu_seconds, repeated

# Names


@pytest.mark.parametrize("name", [*NAMED, "DB-PASSWORD", "x_auth_token", "idToken", "auth", "pass"])
def test_names_of_secrets_hide_text(name: str) -> None:
    assert SecretNames().secrecy_of(name) in (Secrecy.TEXT, Secrecy.ALL)


@pytest.mark.parametrize(
    "name",
    [
        *("progressToken", "nextCursor", "max_tokens", "maxTokens", "next_page_token", "nextToken"),
        *("key", "name", "author", "tokenizer", "token_type", "password_hash_rounds", "keys"),
        *("secretary", "compass", "", "sort_key", "primaryKey", "public_key", "completionTokens"),
    ],
)
def test_other_names_hide_nothing(name: str) -> None:
    assert SecretNames().secrecy_of(name) is Secrecy.NOTHING


def test_a_password_may_be_a_number_and_tokens_may_be_counted() -> None:
    assert SecretNames().secrecy_of("passcode") is Secrecy.ALL
    assert SecretNames().secrecy_of("tokens") is Secrecy.TEXT


def test_the_configuration_can_add_names() -> None:
    names = SecretNames(["Patient_Name", "IBAN"])
    assert names.secrecy_of("patientName") is Secrecy.ALL
    assert names.secrecy_of("iban") is Secrecy.ALL
    assert names.secrecy_of("my_iban") is Secrecy.NOTHING


def test_the_memory_of_names_is_bounded() -> None:
    names = SecretNames()
    for n in range(REMEMBERED_MAX + 10):
        names.secrecy_of(f"name {n}")
    assert len(names._known_secrecy) <= REMEMBERED_MAX
    assert names.secrecy_of("x" * NAME_CHARS_MAX + "password") is Secrecy.NOTHING


# Tokens


SAID = (
    *("aws-secret", "basic", "bearer", "cookie", "set-cookie", "address", "connection-string"),
    *("assignment", "quoted-assignment", "json-in-text", "twice-quoted", "yaml", "ini", "query"),
    *("flag", "curl", "netrc", "xml", "header-key", "azure-account-key", "azure-shared-signature"),
    *("pem-rsa", "pem-openssh", "pgp"),
)

SHAPED = sorted(KINDS.keys() - {*SAID, "google-service-account", "pem-encrypted"})


def left(text: str) -> str:
    for _, expression in suspected_patterns(text.encode(), RedactionBudget(10**9)):
        for match in expression.findall(text):
            text = text.replace(match, "")
    return text


@pytest.mark.parametrize("kind", SHAPED)
def test_a_token_is_known_by_its_shape(kind: str) -> None:
    chance = Random(kind)
    for _ in range(50):
        plant: Plant = KINDS[kind](chance)
        assert LONG_RUN in mark_runs(plant.text.encode())
        assert plant.secret not in left(plant.text)
        assert plant.secret not in left("x" * 40 + f" {plant.text}")


@pytest.mark.parametrize(
    "text", [*PROSE, *CODE, "a task-management-and-planning tool", "AKIA it is"]
)
def test_harmless_text_has_no_token(text: str) -> None:
    assert left(text) == text


def test_a_token_within_a_word_is_none() -> None:
    assert left("xghp_0123456789abcdefABCD0123456789abcdef").startswith("xghp_")


def test_a_picture_is_not_read_but_what_stands_beside_it_is() -> None:
    picture = base64.b64encode(Random(1).randbytes(BLOB_CHARS_MIN)).decode()
    token = "ghp_0123456789abcdefABCD0123456789abcdef"
    assert suspected_patterns(picture.encode(), RedactionBudget()) == []
    assert left(f"{picture} {token} {picture}") == f"{picture}  {picture}"


def test_no_text_makes_the_search_for_tokens_slow() -> None:
    def search_all() -> None:
        for pattern in TOKENS:
            for piece in (f"-{pattern.prefix}", f"{pattern.prefix}aaaaaaaaaaaaaaaA1."):
                text = repeated(piece, 50_000)
                for _, expression in suspected_patterns(text.encode(), RedactionBudget(10**9)):
                    expression.sub("", text)

    assert cpu_seconds(search_all) < CPU_SECONDS_MAX


# Phrases


def found(text: str) -> list[str]:
    return [
        text[start:end]
        for start, end in find_phrases(text, text.lower(), SecretNames(), RedactionBudget(10**9))
    ]


def may_have(text: str) -> bool:
    raw = text.encode()
    return may_have_phrase(raw.lower().translate(None, NAME_SEPARATORS).decode("latin-1"), raw)


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ("password=hunter2", ["hunter2"]),
        ("PASSWORD = 'correct horse'", ["correct horse"]),
        ('{"db_password": "a\\"b", "x": 1}', ['a\\"b']),
        ("pwd=x1;uid=y", []),  # Too short to be one.
        ("password='cut off\nnext line", ["cut off"]),
        ("DB_PASSWORD=hunter\nPORT=80", ["hunter"]),
        ("api key: a1b2c3d4", ["a1b2c3d4"]),
        ("secret => 's3cr3t'", ["s3cr3t"]),
        ("access_token%3Dabcd1234%26x", ["abcd1234%26x"]),
        ("--password hunter2 next", ["hunter2"]),
        ("--token=hunter", ["hunter"]),
        (
            "Proxy-Authorization: Digest username=x, response=y\r\n",
            ["Digest username=x, response=y"],
        ),
        ("authorization: s3cr3t-value", ["s3cr3t-value"]),
        ("Cookie: a=b; c=d\nAccept: x", ["a=b; c=d"]),
        ("Bearer abc.def-123", ["abc.def-123"]),
        ("bearer ABCDEFGHIJKLMNOPQRSTUVWXYZ", ["ABCDEFGHIJKLMNOPQRSTUVWXYZ"]),
        ("Authorization: Basic YTpi", ["Basic YTpi"]),
        ("sent Basic YWxpY2U6aHVudGVyMg==", ["YWxpY2U6aHVudGVyMg=="]),
        ("postgres://me:hunter2@db:5432/x", ["me:hunter2"]),
        ("https://0123456789abcdefghij@host/x", ["0123456789abcdefghij"]),
        ("<password>hunter2</password>", ["hunter2"]),
        (
            "-----BEGIN PRIVATE KEY-----\nMIIE, cut off",
            ["-----BEGIN PRIVATE KEY-----\nMIIE, cut off"],
        ),
    ],
)
def test_the_words_before_a_value_tell(text: str, secrets: list[str]) -> None:
    assert found(text) == secrets
    assert may_have(text) or not secrets


@pytest.mark.parametrize("kind", SAID)
def test_every_kind_that_is_told_by_words_is_found_and_hinted_at(kind: str) -> None:
    chance = Random(kind)
    for _ in range(20):
        text, secret = KINDS[kind](chance)
        assert may_have(text)
        left = text
        for part in found(text):
            left = left.replace(part, "")
        assert secret not in left


@pytest.mark.parametrize(
    "text",
    [
        *PROSE,
        *CODE,
        "token_type: bearer1234",
        "max_tokens=4096",
        "password: ${DB_PASSWORD}",
        "password=<your password>",
        'apiKey: ""',
        "--password PASSWORD",
        "token: 1234",
        "-----BEGIN CERTIFICATE-----",
        "see basic authentication",
    ],
)
def test_a_word_alone_is_not_enough(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "text", ["The fox, and the dog.", "progressToken: 5", "an author's work", "pass me the key"]
)
def test_harmless_text_is_not_even_read(text: str) -> None:
    assert not may_have(text)


ADVERSARIAL = (
    *("password=", 'password="', "password='\\", "token ", "secret-", "password" + "\\" * 64),
    *("authorization: bearer ", "cookie: a=", "bearer a", "basic a", "://a:", "login a password "),
    *("curl -u a:", "sig=", "-----BEGIN PRIVATE KEY-----", "-----BEGIN " + "A" * 39, "--password "),
)
"""Each is repeated."""


def test_no_text_makes_the_search_for_phrases_slow() -> None:
    def read_all() -> None:
        for piece in ADVERSARIAL:
            text = repeated(piece, 50_000)
            found(text)
            may_have(text)

    assert cpu_seconds(read_all) < CPU_SECONDS_MAX
