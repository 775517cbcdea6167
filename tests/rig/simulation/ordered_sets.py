"""Sets that keep their order, in the place of the gateway's own, for as long as a world lasts.

A set of objects is walked through in the order of their addresses in memory, which differs from
run to run: nobody relies on it, but what comes first in a simulation must come first in its
repetition, too.
"""

import sys
from collections.abc import Iterable, Iterator, MutableSet
from contextlib import contextmanager
from importlib import import_module
from types import GenericAlias
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

LATE: Final = (
    "anyport.gateway.local.query_params",
    "anyport.record.tamper.checkpoints",
    "anyport.record.index.index",
    "anyport.record.retention",
    "anyport.upstream.http.transport",
)
"""Modules that the gateway imports when it first needs them; here they are all there at first."""


class Ordered(MutableSet[_T]):
    """A set that is walked through in the order in which it was filled."""

    __slots__ = ("_kept",)

    def __init__(self, members: Iterable[_T] = ()) -> None:
        self._kept = dict.fromkeys(members)

    def __class_getitem__(cls, kind: Any) -> GenericAlias:
        return GenericAlias(cls, kind)

    def __contains__(self, member: object) -> bool:
        return member in self._kept

    def __iter__(self) -> Iterator[_T]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"Ordered({list(self._kept)})"

    def add(self, value: _T) -> None:
        self._kept[value] = None

    def discard(self, value: _T) -> None:
        self._kept.pop(value, None)

    def update(self, *others: Iterable[_T]) -> None:
        for other in others:
            self._kept.update(dict.fromkeys(other))

    def difference_update(self, *others: Iterable[_T]) -> None:
        for other in others:
            for member in other:
                self.discard(member)

    def union(self, *others: Iterable[_T]) -> "Ordered[_T]":
        joined = Ordered(self)
        joined.update(*others)
        return joined

    def difference(self, *others: Iterable[_T]) -> "Ordered[_T]":
        rest = Ordered(self)
        rest.difference_update(*others)
        return rest

    def copy(self) -> "Ordered[_T]":
        return Ordered(self)


@contextmanager
def ordered_sets() -> Iterator[None]:
    """Have the gateway's modules make such sets."""
    for name in LATE:
        import_module(name)
    modules = [module for name, module in sys.modules.items() if name.startswith("anyport.")]
    for module in modules:
        vars(module)["set"] = Ordered
    try:
        yield
    finally:
        for module in modules:
            del vars(module)["set"]
