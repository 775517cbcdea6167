"""Every input that was ever worth keeping: none of them breaks anything."""

import pytest

from tests.fuzz import corpus
from tests.fuzz.targets import TARGETS, hold


@pytest.mark.parametrize("target", TARGETS)
def test_no_kept_input_breaks_anything(target: str) -> None:
    kept = corpus.read(target)
    assert kept, "a corpus that is empty shows nothing"
    for raw in kept:
        hold(target, raw)


@pytest.mark.parametrize("target", TARGETS)
def test_a_corpus_is_written_as_it_was_read(
    target: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept, before = corpus.read(target), corpus.file_of(target).read_bytes()
    monkeypatch.setattr(corpus, "FOLDER", tmp_path_factory.mktemp("corpus"))
    corpus.write(target, kept)
    assert corpus.file_of(target).read_bytes() == before


def test_every_corpus_has_its_target() -> None:
    assert {file.stem for file in corpus.FOLDER.iterdir()} == set(TARGETS)


@pytest.mark.parametrize("raw", [b"", b"'", b"\\", b"\n\r\x00", b"\xff\xfe", bytes(range(256))])
def test_any_bytes_can_be_kept(
    raw: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr(corpus, "FOLDER", tmp_path_factory.mktemp("corpus"))
    corpus.write("x", [raw])
    assert corpus.read("x") == [raw]
