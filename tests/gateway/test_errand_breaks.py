"""What breaks on the way back from a server: its caller is told, and nobody else notices."""

from pathlib import Path

import pytest

from anyport.gateway.endings import Endings
from anyport.protocol.errors import BROKE, UNREMEMBERED
from tests.gateway.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_what_breaks_on_the_way_back_is_answered_too_and_harms_no_other_call(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = scene.begin(), scene.begin()
    monkeypatch.setattr(Endings, "of", lambda *_: 1 / 0)

    scene.server.connection.end("exit code 1")

    assert (first.ending, second.ending) == (BROKE, BROKE)
    assert len(scene.broken) == 2
    assert scene.at_rest()


def test_an_answer_for_which_there_is_no_memory_is_told_so_and_nothing_broke(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = scene.begin()

    def scarce(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Endings, "of", scarce)
    scene.answer(result={})

    assert asked.ending == UNREMEMBERED
    assert scene.broken == []
    assert scene.at_rest()
