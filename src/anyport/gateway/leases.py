"""Which connection a caller's request uses. Pure.

A legacy server's questions do not say which call caused them, so a connection over which a
server may ask belongs to one session.
"""

from typing import Final

from anyport.protocol.exchange import Caller
from anyport.upstream.server import SHARED, LeaseKey
from anyport.wire import members

UNBRIDGED: Final = ("tasks", "extensions")
"""Client capabilities that add methods or results which the gateway does not carry."""


class Leases:
    """Remembers the keys of open sessions: they do not change from call to call."""

    def __init__(self, *, sole: bool) -> None:
        self._sole = sole
        self._keys: dict[tuple[str, str], LeaseKey] = {}

    def key(self, scope: str, caller: Caller) -> LeaseKey:
        """The key of the connection for one request."""
        if caller.session is None:
            return SHARED
        where = (caller.session.id, scope)
        key = self._keys.get(where)
        if key is None:
            key = self._keys[where] = lease_key(scope, caller, sole=self._sole)
        return key

    def forget(self, session_id: str) -> None:
        """A session has ended."""
        for where in [where for where in self._keys if where[0] == session_id]:
            del self._keys[where]


def lease_key(scope: str, caller: Caller, *, sole: bool) -> LeaseKey:
    """The key of the connection for one request.

    `sole` is said of a gateway that serves one client only, as on stdin and stdout: there a
    session of its own costs no second process.
    """
    session = caller.session
    if scope == "shared" or session is None:
        return SHARED
    if not (sole or scope == "session" or caller.capabilities.interactive):
        return SHARED
    declared = caller.capabilities.raw
    if any(b'"%b"' % name.encode() in declared for name in UNBRIDGED):
        declared = members.edit(declared, dict.fromkeys(UNBRIDGED))
    return LeaseKey(
        owner=session.id, capabilities=declared, interactive=caller.capabilities.interactive
    )
