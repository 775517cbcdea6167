"""Every rule, in the order of the report."""

from typing import Final

from anyport.lint.model import Rule
from anyport.lint.rules import errors, jsonrpc, methods, modern, results, sessions, tools

RULES: Final[tuple[Rule, ...]] = (
    *jsonrpc.RULES,
    *methods.RULES,
    *errors.RULES,
    *results.RULES,
    *tools.RULES,
    *sessions.RULES,
    *modern.RULES,
)
