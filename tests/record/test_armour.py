from random import Random

import pytest

from anyport.record.armour import KEY_LINES_MAX, Armour
from anyport.record.redact import MARK
from tests.record.plants import KINDS


@pytest.mark.parametrize("kind", ["pem-rsa", "pem-openssh", "pem-encrypted", "pgp"])
def test_a_key_that_is_told_line_by_line_is_hidden(kind: str) -> None:
    text, secret = KINDS[kind](Random(kind))
    armour = Armour()
    shown = [armour(line) for line in ("before", *text.split("\n"), "after")]
    assert secret not in "\n".join(shown)
    assert shown[0] == "before"
    assert shown[2:-1] == [MARK] * (len(shown) - 3)
    assert shown[-1] == "after"
    assert not armour.is_open


def test_what_is_no_private_key_is_shown() -> None:
    armour = Armour()
    lines = ["-----BEGIN CERTIFICATE-----", "MIIE", "-----END CERTIFICATE-----", "-----", "BEGIN"]
    assert [armour(line) for line in lines] == lines


def test_a_key_on_one_line_hides_nothing_after_it() -> None:
    armour = Armour()
    line = "-----BEGIN PRIVATE KEY----- x -----END PRIVATE KEY-----"
    assert armour(line) == line  # Redaction knows this one by itself.
    assert armour("after") == "after"


def test_a_key_that_never_ends_does_not_hide_everything() -> None:
    armour = Armour()
    armour("-----BEGIN PRIVATE KEY-----")
    assert armour.is_open
    shown = [armour(f"line {n}") for n in range(KEY_LINES_MAX + 5)]
    assert shown.count(MARK) == KEY_LINES_MAX
    assert shown[-1] == f"line {KEY_LINES_MAX + 4}"
