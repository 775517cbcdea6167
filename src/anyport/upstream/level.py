"""How talkative the server of a session is to be.

It keeps to what it was last told, over each connection, whoever wanted it.
"""

from collections.abc import Callable

from anyport.protocol.legacy_front import LOG_LEVELS
from anyport.protocol.revision import Era
from anyport.upstream.call import Lost
from anyport.upstream.connection import Connection
from anyport.wire import members


def set_level(connection: Connection, level: str, then: Callable[[], None] = lambda: None) -> None:
    """Tell a server the level, if it logs at all; then go on, whatever it says to that."""
    peer, sent = connection.peer, None
    if peer is not None and peer.revision.era is Era.LEGACY and peer.offers("logging"):
        connection.level = level
        params = members.join([("level", members.text(level))])
        sent = connection.call("logging/setLevel", params, lambda _: then())
    if sent is None or isinstance(sent, Lost):
        then()


def raise_level(connection: Connection, level: str, then: Callable[[], None]) -> None:
    """See that a server says no less than this; then go on."""
    told = connection.level
    if told is not None and LOG_LEVELS.index(told) <= LOG_LEVELS.index(level):
        then()
    else:
        set_level(connection, level, then)
