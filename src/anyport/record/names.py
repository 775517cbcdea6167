"""Which names say that what they name is a secret: keys of JSON, variables, header fields.

Names are compared in small letters and without what joins words: `API-Key`, `api_key` and
`apiKey` are one. This file knows nothing of values.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

NAME_CHARS_MAX: Final = 128
"""A longer key is no name."""

REMEMBERED_MAX: Final = 4096
"""Names whose verdict is remembered; then all are forgotten at once."""

_PASSWORDS: Final = ("password", "passwd", "passphrase", "passcode", "pwd")
_SECRETS: Final = (
    *("secret", "secrets", "token", "tokens", "credential", "credentials", "authorization"),
    *("apikey", "accesskey", "privatekey", "secretkey", "accountkey", "signingkey"),
    *("encryptionkey", "masterkey", "authkey", "cookie", "cookies", "sessionid"),
    "connectionstring",
)
"""Endings of names, like those above."""

_WHOLE: Final = frozenset(("pass", "auth"))
_INNOCENT: Final = (
    *("progresstoken", "pagetoken", "nexttoken", "continuationtoken", "synctoken", "stoptoken"),
    *("maxtokens", "totaltokens", "inputtokens", "outputtokens", "prompttokens"),
    "completiontokens",
)
"""Endings of names that belong to paging, progress and the counting of words."""

_JOINTS: Final = str.maketrans("", "", "-_ .")


class Weight(IntEnum):
    """What a name hides of its value."""

    NOTHING = 0
    TEXT = 1
    ALL = 2
    """Also a number: a password may be one; `tokens` and `secrets` are counted."""


class Names:
    """Knows the names of secrets, the built-in ones and those of the configuration."""

    def __init__(self, further: Iterable[str] = ()) -> None:
        self.further = frozenset(squeezed(name) for name in further)
        self._remembered: dict[str, Weight] = {}

    def weigh(self, name: str) -> Weight:
        """What the value of a member of this name is."""
        weight = self._remembered.get(name)
        if weight is None:
            weight = self._weigh(squeezed(name)) if len(name) <= NAME_CHARS_MAX else Weight.NOTHING
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            if len(name) <= NAME_CHARS_MAX:
                self._remembered[name] = weight
        return weight

    def _weigh(self, name: str) -> Weight:
        if name in self.further or name.endswith(_PASSWORDS):
            return Weight.ALL
        if (name in _WHOLE or name.endswith(_SECRETS)) and not name.endswith(_INNOCENT):
            return Weight.TEXT
        return Weight.NOTHING


def squeezed(name: str) -> str:
    """The name as names are compared."""
    return name.lower().translate(_JOINTS)
