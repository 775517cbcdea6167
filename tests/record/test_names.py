import pytest

from anyport.record.names import NAME_CHARS_MAX, REMEMBERED_MAX, Names, Weight
from tests.record.plants import NAMED


@pytest.mark.parametrize("name", [*NAMED, "DB-PASSWORD", "x_auth_token", "idToken", "auth", "pass"])
def test_names_of_secrets_hide_text(name: str) -> None:
    assert Names().weigh(name) in (Weight.TEXT, Weight.ALL)


@pytest.mark.parametrize(
    "name",
    [
        *("progressToken", "nextCursor", "max_tokens", "maxTokens", "next_page_token", "nextToken"),
        *("key", "name", "author", "tokenizer", "token_type", "password_hash_rounds", "keys"),
        *("secretary", "compass", "", "sort_key", "primaryKey", "public_key", "completionTokens"),
    ],
)
def test_other_names_hide_nothing(name: str) -> None:
    assert Names().weigh(name) is Weight.NOTHING


def test_a_password_may_be_a_number_and_tokens_may_be_counted() -> None:
    assert Names().weigh("passcode") is Weight.ALL
    assert Names().weigh("tokens") is Weight.TEXT


def test_the_configuration_can_add_names() -> None:
    names = Names(["Patient_Name", "IBAN"])
    assert names.weigh("patientName") is Weight.ALL
    assert names.weigh("iban") is Weight.ALL
    assert names.weigh("my_iban") is Weight.NOTHING


def test_the_memory_of_names_is_bounded() -> None:
    names = Names()
    for n in range(REMEMBERED_MAX + 10):
        names.weigh(f"name {n}")
    assert len(names._remembered) <= REMEMBERED_MAX
    assert names.weigh("x" * NAME_CHARS_MAX + "password") is Weight.NOTHING
