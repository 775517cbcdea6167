import base64
import time
from random import Random

import pytest

from anyport.record.secrets import BLOB_CHARS_MIN, LONG_RUN, TOKENS, runs_of, suspects
from tests.record.plants import CODE, KINDS, PROSE, Plant
from tests.record.test_phrases import SAID

SHAPED = sorted(KINDS.keys() - {*SAID, "google-service-account", "pem-encrypted"})


def left(text: str) -> str:
    for _, expression in suspects(text.encode()):
        for match in expression.findall(text):
            text = text.replace(match, "")
    return text


@pytest.mark.parametrize("kind", SHAPED)
def test_a_token_is_known_by_its_shape(kind: str) -> None:
    chance = Random(kind)
    for _ in range(50):
        plant: Plant = KINDS[kind](chance)
        assert LONG_RUN in runs_of(plant.text.encode())
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
    assert suspects(picture.encode()) == []
    assert left(f"{picture} {token} {picture}") == f"{picture}  {picture}"


@pytest.mark.parametrize("pattern", TOKENS, ids=lambda pattern: pattern.prefix)
def test_twice_the_text_takes_about_twice_the_time(pattern: tuple[str, object]) -> None:
    prefix = pattern[0]

    def seconds(piece: str, chars: int) -> float:
        text = (piece * (chars // len(piece) + 1))[:chars]
        best = 60.0
        for _ in range(3):
            before = time.process_time()
            left_alone = suspects(text.encode())
            for _, expression in left_alone:
                expression.sub("", text)
            best = min(best, time.process_time() - before)
        return best

    for piece in (prefix, f"-{prefix}", f"{prefix}aaaaaaaaaaaaaaaA1.", f"{prefix}a "):
        # Quadratic would be sixteen times as much; a little is granted for what does not grow.
        assert seconds(piece, 32_000) < 10 * seconds(piece, 8_000) + 0.01
