"""Progress that a server reports, written as nearly all servers write it."""

from typing import Final

import msgspec

from anyport.wire import codec


class _Params(msgspec.Struct, gc=False, rename={"token": "progressToken"}):
    token: int
    """It is always one of ours, and those are numbers."""


_read_params: Final = msgspec.json.Decoder(_Params).decode
_OPENING: Final = b'{"jsonrpc":"2.0","method":"notifications/progress","params":'
_OPENING_BYTES: Final = len(_OPENING)


def read_report(raw: bytes) -> tuple[int, bytes] | None:
    """The token and the params of a message, if it is such progress; None says nothing."""
    if not (raw.startswith(_OPENING) and raw.endswith(b"}}") and codec.is_modest(raw)):
        return None
    params = raw[_OPENING_BYTES:-1]
    try:
        return _read_params(params).token, params
    except (msgspec.DecodeError, RecursionError):
        return None
