"""A journal that tells a story, and the index of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from anyport.record.index.index import Index
from tests.record.story import Story


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    story = Story(tmp_path)
    yield story
    story.journal.close()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(tmp_path)
    yield index
    index.close()
