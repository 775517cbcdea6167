import json

import pytest

from anyport.record.tamper.chain import (
    INITIAL_HASH,
    Chain,
    Link,
    is_linked_to,
    parse_link,
    strip_link,
)

LINES = [b'{"n":1}\n', b'{"n":2,"metadata":{"writer":"00000000"}}\n', b'{"n":3}\n']


def test_a_linked_record_is_the_same_record_with_its_place() -> None:
    for number, (line, linked) in enumerate(
        zip(LINES, Chain("0badcafe").link(LINES), strict=True), 1
    ):
        assert linked.endswith(b'"}\n')
        event = json.loads(linked)
        assert (event.pop("writer"), event.pop("seq")) == ("0badcafe", number)
        assert len(event.pop("hash")) == 32
        assert event == json.loads(line)
        assert strip_link(linked[:-1]) == line[:-1]


def test_the_hash_covers_the_one_before_it_and_every_byte() -> None:
    one, two, three = (line[:-1] for line in Chain("0badcafe").link(LINES))
    first, second = parse_link(one), parse_link(two)
    assert first is not None
    assert second is not None
    assert is_linked_to(one, first, INITIAL_HASH)
    assert is_linked_to(two, second, first.hash)
    assert not is_linked_to(two, second, INITIAL_HASH)
    for at in range(len(two) - len('"}') - 32 - len(',"hash":"')):
        changed = two[:at] + bytes([two[at] ^ 1]) + two[at + 1 :]
        assert not is_linked_to(changed, second, first.hash)
    assert not is_linked_to(three, second, first.hash)


def test_links_go_on_where_they_ended() -> None:
    whole = Chain("0badcafe").link(LINES)
    chain = Chain("0badcafe")
    assert [*chain.link(LINES[:1]), *chain.link([]), *chain.link(LINES[1:])] == whole


def test_a_link_is_told_as_people_keep_it() -> None:
    assert str(Link("0badcafe", 7, b"a" * 32)) == "0badcafe:7:" + "a" * 32


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"not JSON",
        b'{"n":1}',
        b'{"metadata":{"writer":"0badcafe"}}',
        b'{"n":1,"writer":"0badcafe","seq":0,"hash":"' + b"0" * 32 + b'"}',
        b'{"n":1,"writer":"0badcafe","seq":1,"hash":"' + b"0" * 31 + b'"}',
        b'{"n":1,"writer":"0BADCAFE","seq":1,"hash":"' + b"0" * 32 + b'"}',
        b'{"n":1,"writer":"0badcafe","seq":1,"hash":"' + b"0" * 32 + b'"} ',
        b'{"n":1,"writer":"0badcafe","seq":' + b"9" * 5000 + b',"hash":"' + b"0" * 32 + b'"}',
    ],
)
def test_a_line_without_a_place_is_left_alone(line: bytes) -> None:
    assert parse_link(line) is None
    assert strip_link(line) == line
