"""Every rule, in the order in which they are told."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from anyport.record.lint import envelope, errors, modern, results, sessions, tools, words
from anyport.record.lint.model import Rule

RULES: Final[tuple[Rule, ...]] = (
    *envelope.RULES,
    *words.RULES,
    *errors.RULES,
    *results.RULES,
    *tools.RULES,
    *sessions.RULES,
    *modern.RULES,
)

BY_ID: Final[Mapping[str, Rule]] = MappingProxyType({rule.id: rule for rule in RULES})
