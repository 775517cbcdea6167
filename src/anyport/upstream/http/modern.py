"""Streamable HTTP without sessions: every request says everything, and closing it cancels it."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec

from anyport.protocol.errors import HEADER_MISMATCH, error_code
from anyport.protocol.headers import (
    NAMED_BY,
    PARAM_PREFIX,
    Annotations,
    encode_value,
    param_fields,
)
from anyport.protocol.revision import Revision
from anyport.upstream.call import Call, Fields
from anyport.upstream.connection import Connection
from anyport.upstream.http.channel import HttpChannel, Post
from anyport.upstream.http.client import Client
from anyport.upstream.http.outgoing import Outgoing, field, trace_lines
from anyport.upstream.road import Catalogue
from anyport.wire import codec, members
from anyport.wire.frame import Failure
from anyport.wire.http import ReplyHead

HEADS_MAX: Final = 1024
"""Heads that are kept ready: one for each tool, prompt or resource that is asked for."""
HEAD_BYTES_KEPT_MAX: Final = 2048
"""A longer one has a URI that is hardly asked for twice."""


class ModernChannel(HttpChannel):
    """Calls to a modern server."""

    def __init__(
        self,
        client: Client,
        outgoing: Outgoing,
        revision: Revision,
        catalogue: Catalogue,
        on_over: Callable[[Connection, str], None],
    ) -> None:
        super().__init__(client, outgoing, on_over)
        self._catalogue = catalogue
        self._version = version_field(revision)
        self._heads: dict[tuple[str, str | None], bytes] = {}

    def send(self, frame: bytes, call: Call | None) -> None:
        """Send a call, or something that is not answered."""
        if not isinstance(call, Post):
            self.note(self.outgoing.post(self._version), frame)
            return
        call.channel = self
        call.frame = frame
        self._send(call)

    def cancel(self, call: Call) -> bool:
        """Closing the reply is how a modern server is told."""
        super().cancel(call)
        return True

    def excused(self, post: Post, reply: ReplyHead, body: bytes) -> bool:
        """A complaint about header fields may be due to an outdated schema of the tool."""
        if post.retried or not _complains_of_fields(post, reply, body):
            return False
        post.retried = True
        self._catalogue.refresh(lambda: self._send_again(post))
        return True

    def _send_again(self, post: Post) -> None:
        if self.connection.waits_for(post):
            post.form = None  # It may be outdated, too.
            self._send(post)

    def _send(self, call: Post) -> None:
        method, name = call.method, call.name
        if name is None and method in NAMED_BY:
            call.name = name = _name(method, call.frame)
        head = self._heads.get((method, name)) or self._head(method, name)
        # What was called before in the same form has no annotations: those would be in its form.
        if call.form is None and method == "tools/call" and name is not None:
            annotated = self._catalogue.annotations(name)
            if annotated or call.fields:
                head += _param_lines(annotated, call.fields, call.frame)
        elif call.fields:
            head += trace_lines(call.fields)
        call.head = head
        self.client.request(head, call.frame, call)

    def _head(self, method: str, name: str | None) -> bytes:
        fields = self._version + field("Mcp-Method", method)
        if name is not None and method in NAMED_BY:
            fields += field("Mcp-Name", encode_value(name))
        head = self.outgoing.post(fields)
        if len(head) <= HEAD_BYTES_KEPT_MAX:
            if len(self._heads) >= HEADS_MAX:
                self._heads.clear()
            self._heads[(method, name)] = head
        return head


def version_field(revision: Revision) -> bytes:
    """The field that says which revision is spoken."""
    return field("MCP-Protocol-Version", revision.name)


def _complains_of_fields(post: Post, reply: ReplyHead, body: bytes) -> bool:
    if post.method != "tools/call" or reply.status != HTTPStatus.BAD_REQUEST:
        return False
    frame = codec.decode(body, codec.OUTBOUND)
    return isinstance(frame, Failure) and error_code(frame.error) == HEADER_MISMATCH


def _param_lines(annotated: Annotations, sent: Fields, frame: bytes | None) -> bytes:
    """`Mcp-Param-*` made anew from the arguments, and those of the client that nobody defined.

    An intermediary must pass on what it does not recognise; what it does, it must not trust.
    """
    params = _params(frame) if annotated else {}
    arguments = params.get("arguments")
    made = param_fields(annotated, b"" if arguments is None else bytes(arguments))
    known = {(PARAM_PREFIX + name).lower() for name in annotated}
    lines = [field(name, value) for name, value in made]
    lines += [field(name, value, "latin-1") for name, value in sent if name.lower() not in known]
    return b"".join(lines)


def _name(method: str, frame: bytes | None) -> str | None:
    return members.string(_params(frame).get(NAMED_BY[method]))


def _params(frame: bytes | None) -> dict[str, msgspec.Raw]:
    if frame is None:
        return {}
    params = members.members(frame).get("params")
    return {} if params is None else members.members(params)
