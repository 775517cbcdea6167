"""Laying a track: what the next call like this one needs, worked out once, when one was answered.

How calls travel on it is told in `track`.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from anyport.gateway.describe import IDENTITY
from anyport.gateway.ledger import Habit
from anyport.gateway.profile import Profile
from anyport.gateway.track import BARE, COMPLETE_OPENING, Track
from anyport.protocol import meta
from anyport.protocol.exchange import Exchange
from anyport.protocol.modern_front import complete
from anyport.protocol.reading import CALL, PlainCall, split_token
from anyport.protocol.revision import Era
from anyport.upstream.call import Form
from anyport.upstream.connection import Connection
from anyport.upstream.server import Server
from anyport.wire import codec, members

TRACKS_MAX: Final = 512
"""Names that are remembered for one caller, with how their calls travel."""

_NO_TOKEN: Final = b'"progressToken":0'
_INSIDE: Final = b'"arguments":{}'
_ANSWERED: Final = b'"content":[]'


class Way(msgspec.Struct, frozen=True):
    """Where a call went."""

    profile: Profile
    server: Server
    native: str
    connection: Connection


def remember(exchange: Exchange, way: Way, habit: Callable[[Exchange, str, str], Habit]) -> None:
    """Let the next call of that name take the track that this one leaves."""
    memory = exchange.caller.memory
    if exchange.context or len(memory) >= TRACKS_MAX:
        return
    key = (exchange.name, exchange.progress_token is None)
    known: Track | None = memory.get(key)
    catalog = way.profile.catalog
    if known is not None and known.connection is way.connection and known.catalog is catalog:
        about = exchange.found.get("_meta")
        if known.about == (b"" if about is None else split_token(bytes(about))[0]):
            return
    track = track_of(exchange, way, habit(exchange, way.server.slug, way.native))
    if track is not None:
        memory[key] = track


def track_of(exchange: Exchange, errand: Way, habit: Habit) -> Track | None:
    """The track on which a caller's next call like this one can travel, if there is one.

    What has to be changed on the way is not worked out again here, but read off a sample that is
    sent through the ordinary way.
    """
    caller, peer, raw = exchange.caller, errand.connection.peer, exchange.found.get("_meta")
    catalog, server = errand.profile.catalog, errand.server
    modern_server = peer is not None and peer.revision.era is Era.MODERN
    # What a session's server logs may have to be set before each call.
    sets_level = caller.log_level is not None and not modern_server
    strange = caller.revision.lacks or (caller.session is None and raw is None) or exchange.lease
    if (
        peer is None
        or sets_level
        or strange
        or catalog.public_uris
        or server.annotations(errand.native)
    ):
        return None
    about, token = (b"", None) if raw is None else split_token(bytes(raw))
    form = _form(exchange, errand, about) if token == exchange.progress_token else None
    if form is None:
        return None
    plain = PlainCall(0, b"0", exchange.name, Raw(b""), about, None)
    stamps = [b"}", b"}"]
    if caller.revision.era is Era.MODERN:
        samples = (COMPLETE_OPENING + _ANSWERED, b"{" + _ANSWERED)
        stamps = [complete(exchange, s + b"}", IDENTITY).removeprefix(s) for s in samples]
    return Track(
        caller=caller,
        catalog=catalog,
        profile=errand.profile,
        server=server,
        native=errand.native,
        public=exchange.name,
        about=about,
        connection=errand.connection,
        breaker=server.guard.breaker,
        share=exchange.share,
        habit=habit,
        form=form,
        modern_server=modern_server,
        stamp=stamps[0],
        whole_stamp=stamps[1],
        stamped=stamps[0] != b"}",
        legacy=caller.revision if caller.revision.era is Era.LEGACY else None,
        params_bytes=len(plain.params) - (token is not None),
        sent_bytes=len(form.fill(0, b"")) - len(BARE) - form.reports,
    )


def _form(exchange: Exchange, way: Way, about: bytes) -> Form | None:
    """What a server is sent when such a call is made."""
    peer, reports = way.connection.peer, exchange.progress_token is not None
    if peer is None:
        return None
    opening = b'{"name":%b,' % members.text(way.native)
    closing = b',"_meta":%b}' % about if about else b"}"
    raw = Raw(about) if about else None
    sent = peer.back.params(opening + _INSIDE + closing, raw, exchange.caller)
    if reports:
        sent = meta.restamp(sent, {meta.PROGRESS_TOKEN: b"0"})
    closing = sent.removeprefix(opening + _INSIDE).replace(b"%", b"%%")
    if (reports and closing.count(_NO_TOKEN) != 1) or not sent.startswith(opening + _INSIDE):
        return None
    if reports:
        closing = closing.replace(_NO_TOKEN, b'"progressToken":%d')
    opening = opening.replace(b"%", b"%%")
    params = b'%b"arguments":%%b%b' % (opening, closing)
    return Form(way.native, codec.request(b"%d", CALL, params), reports)
