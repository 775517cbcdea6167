"""What breaks on the way back from a server: its caller is told, and nobody else notices."""

from pathlib import Path

import pytest

from anyport.gateway.calls.answers import AnswerTranslator
from anyport.protocol.errors import INTERNAL_ERROR_MESSAGE, OUT_OF_MEMORY_MESSAGE
from tests.gateway.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_what_breaks_on_the_way_back_is_answered_too_and_harms_no_other_call(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = scene.begin(), scene.begin()
    monkeypatch.setattr(AnswerTranslator, "translate", lambda *_: 1 / 0)

    scene.server.connection.end("exit code 1")

    assert (first.ending, second.ending) == (INTERNAL_ERROR_MESSAGE, INTERNAL_ERROR_MESSAGE)
    assert len(scene.broken) == 2
    assert scene.at_rest()


def test_an_answer_for_which_there_is_no_memory_is_told_so_and_nothing_broke(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = scene.begin()

    def scarce(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(AnswerTranslator, "translate", scarce)
    scene.answer(result={})

    assert asked.ending == OUT_OF_MEMORY_MESSAGE
    assert scene.broken == []
    assert scene.at_rest()
