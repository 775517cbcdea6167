import time
from random import Random

import pytest

from anyport.record.names import Names
from anyport.record.phrases import JOINTS, hinted, phrases
from tests.record.plants import CODE, KINDS, PROSE

SAID = (
    *("aws-secret", "basic", "bearer", "cookie", "set-cookie", "address", "connection-string"),
    *("assignment", "quoted-assignment", "json-in-text", "twice-quoted", "yaml", "ini", "query"),
    *("flag", "curl", "netrc", "xml", "header-key", "azure-account-key", "azure-shared-signature"),
    *("pem-rsa", "pem-openssh", "pgp"),
)


def found(text: str) -> list[str]:
    return [text[start:end] for start, end in phrases(text, text.lower(), Names())]


def may_have(text: str) -> bool:
    raw = text.encode()
    return hinted(raw.lower().translate(None, JOINTS).decode("latin-1"), raw)


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


@pytest.mark.parametrize(
    "piece",
    [
        *("password=", 'password="', "password='\\", "token", "token ", "secret-", "api_key: "),
        *(
            "authorization: ",
            "authorization: bearer ",
            "cookie: a=",
            "bearer ",
            "basic ",
            "basic a",
        ),
        *(
            "bearer a",
            "://a:",
            "://",
            "://a",
            "login a password ",
            "login ",
            "curl -u ",
            "curl -u a:",
        ),
        *(
            "sig=",
            "-----BEGIN PRIVATE KEY-----",
            "-----BEGIN " + "A" * 39,
            "-",
            "--password ",
            "pass:",
        ),
        *("password" + "\\" * 64, "<password>", "key", "auth:", "x.self.", "password=self."),
    ],
)
def test_twice_the_text_takes_about_twice_the_time(piece: str) -> None:
    def seconds(chars: int) -> float:
        text = (piece * (chars // len(piece) + 1))[:chars]
        best = 60.0
        for _ in range(3):
            before = time.process_time()
            found(text)
            may_have(text)
            best = min(best, time.process_time() - before)
        return best

    # Quadratic would be sixteen times as much; a little is granted for what does not grow.
    assert seconds(32_000) < 10 * seconds(8_000) + 0.01
