"""Sessions that two processes serve for a while: what these tell each other about them.

While a gateway finishes what is open and its successor serves the rest, a client of both may be
talking to either. It answers a question that the older one asked, and the answer arrives at the
newer; it wishes for something on a connection to the older one, and the newer one must know.
Who has no such kin does nothing here. How they are connected is not known here.
"""

from typing import Final

from anyport.ingress.http.handover import Line, Note
from anyport.ingress.http.sessions import HttpSession, Sessions
from anyport.wire import codec
from anyport.wire.frame import Failure, Notification, Result

PASSED_BACK: Final = frozenset({"notifications/cancelled", "notifications/progress"})
"""Notifications that are about something which may be under way in the older process."""


class Kin:
    """The processes before and after this one, as far as they are there."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._older: Line | None = None
        self._newer: Line | None = None
        sessions.on_changed = self._changed
        sessions.on_said = self._said

    def follow(self, line: Line) -> None:
        """There is an older one."""
        self._older = line

    def precede(self, line: Line) -> None:
        """There is a newer one."""
        self._newer = line

    def lost(self, line: Line) -> None:
        """One of them has gone."""
        if line is self._older:
            self._older = None
        elif line is self._newer:
            self._newer = None

    def heard(self, line: Line, note: Note) -> None:
        """One of them tells something; the other may have to know it too."""
        other = self._older if line is self._newer else self._newer
        if other is not None:
            other.say(note)
        session = self._sessions.known.get(note.session)
        if session is None:
            return
        if note.frame:
            session.conversation.take(codec.decode(note.frame.encode()), session)
        else:
            self._sessions.look_again(session)

    def _changed(self, id: str) -> None:
        """The register says something new of a session."""
        for line in (self._older, self._newer):
            if line is not None:
                line.say(Note(session=id))

    def _said(self, session: HttpSession, frame: Notification | Result | Failure) -> None:
        """A client said what may be an answer to the older process."""
        if self._older is None:
            return
        match frame:
            case Result():
                raw = codec.result(frame.id, frame.result)
            case Failure():
                raw = codec.failure(frame.id, frame.error)
            case Notification():
                if frame.method not in PASSED_BACK:
                    return
                raw = codec.notification(frame.method, frame.params)
        self._older.say(Note(session=session.id, frame=raw.decode()))
