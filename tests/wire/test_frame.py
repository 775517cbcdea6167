"""Frames are values: equal by what they say, and never changed."""

import pytest

from anyport.wire.frame import BadFrame, Failure, Frame, Notification, Request, Result

FRAMES: list[Frame | BadFrame] = [
    Request(b"1", "ping"),
    Notification("notifications/initialized"),
    Result(b"1", b"{}"),
    Failure(None, b'{"code":1,"message":""}'),
    BadFrame(-32600, "Invalid Request"),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_a_frame_cannot_be_changed(frame: Frame | BadFrame) -> None:
    first = frame.__struct_fields__[0]

    with pytest.raises(AttributeError):
        setattr(frame, first, b"other")


def test_frames_that_say_the_same_are_equal_and_ids_keep_their_type() -> None:
    assert Request(b"1", "ping") == Request(b"1", "ping", None)
    assert Request(b"1", "ping") != Request(b'"1"', "ping")


def test_what_came_in_place_of_a_frame_is_answered_unless_said_otherwise() -> None:
    assert BadFrame(-32600, "Invalid Request").answerable
    assert BadFrame(-32600, "Invalid Request").id is None
