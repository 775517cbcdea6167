"""The names of everything that ends because its time is over.

One name each, and the same one wherever it is seen: in `data.timeout` of an error, in the
`timeout` of an event, in the label of a metric. How long each of them is, and what ends then, is
known where the clock is; a call's fault is worded in `errors`.
"""

from enum import Enum


class Timeout(Enum):
    """Which time was over. The value is its name."""

    HEAD = "head"
    """A client had connected, or begun a request, and its header fields did not come."""
    BODY = "body"
    """The header fields had come, and the body did not."""
    IDLE = "idle"
    """A client did nothing with its connection: it asked for nothing, or read nothing."""
    QUEUE = "queue"
    """A call waited for a place with its server."""
    CONNECT = "connect"
    """No connection to a server came about."""
    HANDSHAKE = "handshake"
    """A server was started or reached, and did not get ready."""
    FIRST_BYTE = "first-byte"
    """A call was sent, and its reply did not begin."""
    STREAM_IDLE = "stream-idle"
    """A reply had begun, or a stream was open, and nothing more came."""
    TOTAL = "total"
    """A call took longer than a call may take without a sign of progress."""
    CAP = "cap"
    """A call took longer than it may, whatever progress it reports."""
    ANSWER = "answer"
    """A person was asked, and did not answer."""
    AGE = "age"
    """A connection had been in use for long enough, and was closed between two requests."""
    DRAIN = "drain"
    """The gateway was about to stop, and what was open did not end."""
    KILL = "kill"
    """A server's process was asked to end, and did not."""
