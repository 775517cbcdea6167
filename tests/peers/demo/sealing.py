"""Seals `requestState`, which a client carries from one round of a request to the next.

The seal holds a deadline and is bound to its request: a client can neither alter it, nor use it for
another request, nor keep it for later.
"""

import hmac
from collections.abc import Callable
from typing import Final

STATE_SECONDS_MAX: Final = 600  # A person may take a while to answer; a forgotten state expires.


class Seal:
    """Makes states with one key and knows them again."""

    def __init__(self, key: bytes, now: Callable[[], float]) -> None:
        self._key = key
        self._now = now

    def state_for(self, bound: bytes) -> str:
        return self._state(int(self._now()) + STATE_SECONDS_MAX, bound)

    def fits(self, state: str, bound: bytes) -> bool:
        """Whether `state` was made here, for `bound`, and has not expired."""
        deadline = state.partition(".")[0]
        if not (deadline.isascii() and deadline.isdecimal()):
            return False
        genuine = self._state(int(deadline), bound)
        same = hmac.compare_digest(genuine.encode(), state.encode())
        return same and self._now() < int(deadline)

    def _state(self, deadline: int, bound: bytes) -> str:
        proof = hmac.digest(self._key, b"%d." % deadline + bound, "sha256")
        return f"{deadline}.{proof.hex()}"
