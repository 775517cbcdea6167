"""The door: which tokens open it, and what those without one are told."""

import hashlib
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.config.schema import Token
from anyport.ingress.http import door as texts
from anyport.ingress.http.door import Denial, Door, accepts, post_media
from anyport.protocol.principal import LOCAL, Principal
from tests.ingress.http.heads import head, status

TOKEN = "c2VjcmV0LXRva2VuLW9mLWFsaWNl.~+/-_=="
OTHER = "another-token-of-bob-0123456789"


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


OPEN = Door(hosts=[], origins=[], tokens=[])
CLOSED = Door(
    hosts=["0.0.0.0"],
    origins=[],
    tokens=[
        Token(name="alice", digest=digest(TOKEN)),
        Token(name="bob", digest=digest(OTHER)),
    ],
)


MUTANTS = [
    "",
    "Bearer",
    "Bearer ",
    TOKEN,
    f"Basic {TOKEN}",
    f"Digest {TOKEN}",
    f"Negotiate {TOKEN}",
    f"DPoP {TOKEN}",
    f"Token {TOKEN}",
    f"token={TOKEN}",
    f"Bearer{TOKEN}",
    f"Bearer:{TOKEN}",
    f"Bearer: {TOKEN}",
    f"Bearer\t{TOKEN}",
    f"Bearer={TOKEN}",
    f"Bearer token={TOKEN}",
    f'Bearer "{TOKEN}"',
    f"Bearer '{TOKEN}'",
    f"Bearer <{TOKEN}>",
    f"Bearer {TOKEN},",
    f"Bearer {TOKEN};",
    f"Bearer {TOKEN} x",
    f"Bearer x {TOKEN}",
    f"Bearer {TOKEN} {TOKEN}",
    f"Bearer {TOKEN}, Bearer {TOKEN}",
    f"Bearer {TOKEN},{OTHER}",
    f"Bearer Bearer {TOKEN}",
    f"Basic x, Bearer {TOKEN}",
    f"Bearer {TOKEN.lower()}",
    f"Bearer {TOKEN.upper()}",
    f"Bearer {TOKEN.swapcase()}",
    f"Bearer {TOKEN[:-1]}",
    f"Bearer {TOKEN[1:]}",
    f"Bearer {TOKEN.rstrip('=')}",
    f"Bearer {TOKEN}=",
    f"Bearer {TOKEN}a",
    f"Bearer a{TOKEN}",
    f"Bearer {TOKEN}{OTHER}",
    f"Bearer {TOKEN[::-1]}",
    f"Bearer {TOKEN}\xa0",
    f"Bearer \xa0{TOKEN}",
    f"Bearer\xa0{TOKEN}",
    f"Bearer {TOKEN}\xe9",
    f"B\xe9arer {TOKEN}",
    f"Bearer {TOKEN.replace('c', chr(0xE7), 1)}",
    f"Bearer {TOKEN.replace('c', '%63', 1)}",
    f"Bearer sha256:{digest(TOKEN).hex()}",
    f"Bearer {digest(TOKEN).hex()}",
    "Bearer alice",
    f"Bearer alice:{TOKEN}",
    "Bearer null",
    "Bearer *",
    "Bearer ${env:TOKEN}",
    "Bearer " + "=" * 44,
    "Bearer " + "A" * 30_000,
    f"Bearer {TOKEN * 800}",
]


@pytest.mark.parametrize("value", MUTANTS, ids=lambda value: value[:60])
def test_a_mutant_of_the_token_is_refused(value: str) -> None:
    denial = CLOSED.admit(head(("Host", "localhost"), ("Authorization", value)))
    assert denial in (texts.NO_TOKEN, texts.BAD_TOKEN)


def test_there_are_enough_mutants() -> None:
    assert len(set(MUTANTS)) >= 40


@given(st.text(alphabet=TOKEN + OTHER, min_size=1, max_size=60))
def test_no_other_token_is_let_in(token: str) -> None:
    admitted = CLOSED.admit(head(("Host", "localhost"), ("Authorization", f"Bearer {token}")))
    assert isinstance(admitted, Denial) == (token not in (TOKEN, OTHER))


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer   "])
def test_a_token_makes_its_sender_a_principal_of_that_name(scheme: str) -> None:
    for token, name in ((TOKEN, "alice"), (OTHER, "bob")):
        fields = ("Host", "localhost"), ("Authorization", f"{scheme} {token}")
        assert CLOSED.admit(head(*fields)) == Principal("token", name)


def test_a_token_is_sent_once() -> None:
    good, bad = f"Bearer {TOKEN}", "Bearer bad"
    for first, second in product([good, bad, f"Bearer {OTHER}", "Basic x", ""], repeat=2):
        fields = ("Host", "localhost"), ("Authorization", first), ("authorization", second)
        assert status(CLOSED, *fields) == 401


@pytest.mark.parametrize(
    "target",
    [
        f"/mcp?access_token={TOKEN}",
        f"/mcp?token={TOKEN}",
        f"/{TOKEN}",
        f"/mcp?Authorization={TOKEN}",
    ],
)
def test_a_token_in_the_address_opens_nothing(target: str) -> None:
    assert status(CLOSED, ("Host", "localhost"), target=target) == 401


@pytest.mark.parametrize(
    "name", ["X-Authorization", "Proxy-Authorization", "X-Api-Key", "Cookie", "Authorization-"]
)
def test_a_token_in_another_header_opens_nothing(name: str) -> None:
    assert status(CLOSED, ("Host", "localhost"), (name, f"Bearer {TOKEN}")) == 401


def test_who_sent_no_token_is_asked_for_one() -> None:
    for fields in ((), (("Authorization", "Basic eDp5"),)):
        denial = CLOSED.admit(head(("Host", "localhost"), *fields))
        assert isinstance(denial, Denial)
        assert denial.fields == (("www-authenticate", 'Bearer realm="anyport"'),)


def test_who_sent_a_wrong_token_is_told_that_it_is_wrong() -> None:
    denial = CLOSED.admit(head(("Host", "localhost"), ("Authorization", "Bearer wrong")))
    assert isinstance(denial, Denial)
    assert denial.fields == (("www-authenticate", 'Bearer realm="anyport", error="invalid_token"'),)


def test_a_token_does_not_excuse_a_foreign_host_or_origin() -> None:
    bearer = ("Authorization", f"Bearer {TOKEN}")
    assert status(CLOSED, ("Host", "evil.example"), bearer) == 421
    origin = ("Origin", "https://evil.example")
    assert status(CLOSED, ("Host", "localhost"), origin, bearer) == 403


def test_without_tokens_whatever_is_sent_is_the_local_user() -> None:
    bearer = ("Authorization", "Bearer anything")
    assert OPEN.admit(head(("Host", "localhost"), bearer)) == LOCAL


# What the refused are told.


def test_a_page_never_gets_leave_to_read_an_answer() -> None:
    denials = [each for each in vars(texts).values() if isinstance(each, Denial)]
    assert len(denials) >= 10
    for denial in denials:
        assert not [name for name, _ in denial.fields if name.startswith("access-control")]


@given(st.text(alphabet=st.characters(min_codepoint=0x21, max_codepoint=0xFF), min_size=6))
def test_no_refusal_repeats_what_was_sent(noise: str) -> None:
    noise = re.sub(r"[\x7f-\x9f]", "", f"zq9-{noise}")
    sent = [
        (("Host", noise),),
        (("Host", "localhost"), ("Origin", noise)),
        (("Host", "localhost"), ("Authorization", noise)),
        (("Host", "localhost"), ("Authorization", f"Bearer {noise}")),
    ]
    told: list[object] = [CLOSED.admit(head(*fields)) for fields in sent]
    told.append(post_media(head(("Content-Type", noise))))
    told.append(accepts(head(("Accept", noise)), json=True, stream=True))
    for denial in told:
        assert isinstance(denial, Denial)
        assert noise not in f"{denial.message} {denial.fields}"
        assert re.fullmatch(r"[\x20-\x7e]{1,120}", denial.message)
