"""Large events of a call's stream share the room for large messages."""

from anyport.protocol.errors import Situation
from anyport.protocol.room import LARGE_BYTES
from tests.upstream.http.asked import STREAM
from tests.upstream.http.test_channel import Bench, bench


def test_a_large_event_takes_up_room_while_it_comes() -> None:
    def scene(at: Bench) -> None:
        room = at.connection.room
        at.post.opened(STREAM)
        at.post.portion(b"data: " + b"x" * (2 * LARGE_BYTES))
        assert room.taken_bytes > 2 * LARGE_BYTES

        at.post.portion(b"\n\n")
        assert room.taken_bytes == 0
        at.post.portion(b"data: " + b"x" * (2 * LARGE_BYTES))
        at.post.closed(None)

        assert room.taken_bytes == 0

    bench(scene, 1 << 20)


def test_a_large_event_for_which_there_is_no_room_is_told_as_that() -> None:
    def scene(at: Bench) -> None:
        at.connection.room.bytes_max = LARGE_BYTES
        at.post.opened(STREAM)
        at.post.portion(b'data: {"jsonrpc":"2.0","id":1,"result":{"a":"' + b"x" * 2 * LARGE_BYTES)
        assert at.connection.room.taken_bytes == 0

        at.post.portion(b'"}}\n\n')

        assert at.lost.situation is Situation.OVERLOADED

    bench(scene, 1 << 20)
