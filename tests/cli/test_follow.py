"""New lines of the journal."""

from pathlib import Path

from anyport.cli.follow import Tail
from tests.record.story import Story, numbers


def test_only_what_is_new_comes_and_each_line_once(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.call(1)
    tail = Tail(tmp_path)

    assert list(tail.new_lines()) == []
    story.call(2)
    story.call(3)
    assert numbers(list(tail.new_lines())) == [2, 3]
    assert list(tail.new_lines()) == []


def test_a_line_comes_when_it_is_whole(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.call(1)
    tail = Tail(tmp_path)
    whole = story.file.read_bytes()

    with story.file.open("ab") as file:
        file.write(whole[:20])
        file.flush()
        assert list(tail.new_lines()) == []
        file.write(whole[20:])
    assert numbers(list(tail.new_lines())) == [1]


def test_a_new_month_is_read_from_its_beginning(tmp_path: Path) -> None:
    story = Story(tmp_path)
    tail = Tail(tmp_path)
    story.call(1)
    story.clock.now += 40 * 86_400
    story.call(2)

    assert numbers(list(tail.new_lines())) == [1, 2]


def test_a_file_that_was_replaced_is_read_anew_and_one_that_is_gone_is_no_matter(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path)
    story.call(1)
    story.call(2)
    tail = Tail(tmp_path)
    first = story.file.read_bytes().splitlines(keepends=True)[0]

    story.file.write_bytes(first)
    assert numbers(list(tail.new_lines())) == [1]
    story.file.unlink()
    assert list(tail.new_lines()) == []


def test_a_file_that_gets_a_number_is_read_to_its_end_and_the_next_from_its_beginning(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path)
    story.call(1)
    tail = Tail(tmp_path)
    story.call(2)
    story.file.rename(story.file.with_name("events-0001.jsonl"))
    story.clock.now += 5  # Then the journal looks where its file is.
    story.call(3)

    assert numbers(list(tail.new_lines())) == [2, 3]
    assert list(tail.new_lines()) == []
