"""Lines where the index says that they stand."""

import os
from pathlib import Path

from anyport.record.chain import without_link
from anyport.record.intake import PLACE_BITS, Found, Known
from anyport.record.lines import Lines
from tests.record.story import Story


def known(path: Path, number: int = 3) -> dict[int, Known]:
    fd = os.open(path, os.O_RDONLY)
    found = Found(path, fd)
    file = Known(
        number=number, path=found.name, inode=found.inode, head=found.head, indexed=found.size
    )
    os.close(fd)
    return {number: file}


def test_a_line_is_read_without_its_place_in_the_chain(story: Story) -> None:
    story.call(1)
    story.call(2)
    first, second = story.file.read_bytes().splitlines()
    with Lines(story.directory / "events", known(story.file)) as lines:
        place = 3 << PLACE_BITS
        assert lines.read(place, len(first)) == without_link(first)
        assert lines.read(place + len(first) + 1, len(second)) == without_link(second)
        assert lines.bytes_read == len(first) + len(second)
        assert lines.read(place + 1, len(first)) is None  # Nothing begins there.
        assert lines.read(4 << PLACE_BITS, len(first)) is None  # Nobody knows that file.


def test_a_file_is_found_under_another_name_and_another_is_not_taken_for_it(story: Story) -> None:
    story.call(1)
    files = known(story.file)
    text = story.file.read_bytes()
    numbered = story.file.rename(story.file.with_name("events-0001.jsonl"))
    story.file.write_bytes(text.replace(b'"n":1', b'"n":2'))
    with Lines(story.directory / "events", files) as lines:
        assert lines.read(3 << PLACE_BITS, len(text) - 1) == without_link(text[:-1])
    numbered.unlink()
    with Lines(story.directory / "events", files) as lines:
        assert lines.read(3 << PLACE_BITS, len(text) - 1) is None


def test_no_file_stays_open(story: Story) -> None:
    story.call(1)
    before = len(os.listdir("/proc/self/fd"))
    with Lines(story.directory / "events", known(story.file)) as lines:
        lines.read(3 << PLACE_BITS, 10)
    assert len(os.listdir("/proc/self/fd")) == before
