"""Whether a message may be sent to a client of a revision at all.

The official schema of the revision says what a message looks like. It lets any member pass, so
what belongs to the other era is looked for by name.
"""

import json
from typing import Any, Final

from tests import schema
from tests.harness import Message
from tests.matrix.endpoints import MODERN, REVISIONS

META: Final = "io.modelcontextprotocol/"

_MODERN_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope", "inputRequests"})
_LEGACY: Final = frozenset(REVISIONS) - {MODERN}
_CODES: Final = {
    -32002: _LEGACY,
    -32042: frozenset({"2025-11-25"}),
    **dict.fromkeys((-32020, -32021, -32022), frozenset({MODERN})),
}
"""Errors that not every revision has."""
_EMPTY: Final = frozenset({"ping", "logging/setLevel", "resources/subscribe"})


def check(revision: str, method: str | None, message: Message) -> None:
    """Hold a message against the revision of its receiver; `method` is what it answers."""
    assert message["jsonrpc"] == "2.0"
    if "method" in message:
        _check_sent(revision, message)
    elif "error" in message:
        schema.check_error(revision, message)
        code = message["error"]["code"]
        known = code not in _CODES or revision in _CODES[code]
        assert known, f"{code} is not an error of {revision}: {message}"
    else:
        assert method is not None, f"an answer to nothing: {message}"
        _check_result(revision, method, message["result"])


def _check_sent(revision: str, message: Message) -> None:
    assert schema.knows(revision, message), f"{revision} has no {message['method']}: {message}"
    schema.check_sent(revision, message, strict=False)
    if revision == MODERN:
        assert "id" not in message, f"a client of {revision} cannot be asked: {message}"
    else:
        assert META not in json.dumps(message), f"words of {MODERN}: {message}"


def _check_result(revision: str, method: str, result: Any) -> None:
    schema.check_result(revision, method, result, strict=False)
    if revision == MODERN:
        return
    foreign = _MODERN_MEMBERS & result.keys()
    assert not foreign, f"{sorted(foreign)} in a result for {revision}: {result}"
    about = [key for key in result.get("_meta", {}) if key.startswith(META)]
    assert not about, f"{about} in a result for {revision}"
    assert method not in _EMPTY or result == {}, f"{method} is answered with {{}}, not {result}"
