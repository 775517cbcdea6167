"""Quotas: limits in total and per principal, and whose items are evicted when one is reached."""

from collections.abc import Collection
from typing import Generic, NamedTuple, TypeVar

from anyport.protocol.principal import LOCAL, Principal

T = TypeVar("T")


class QuotaLimits(NamedTuple):
    total: int
    per_principal: int
    """Without tokens all clients are one principal, and share the total."""


class QuotaTable(Generic[T]):
    """Items by principal, oldest first."""

    def __init__(self, limits: QuotaLimits) -> None:
        self.limits = limits
        self._items: dict[Principal, dict[T, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, principal: Principal, item: T) -> None:
        """Add an item, or make it the newest."""
        items = self._items.setdefault(principal, {})
        self._count -= len(items)
        items.pop(item, None)
        items[item] = None
        self._count += len(items)

    def remove(self, principal: Principal, item: T) -> None:
        items = self._items.get(principal)
        if items is not None and item in items:
            del items[item]
            self._count -= 1
            if not items:
                del self._items[principal]

    def items_of(self, principal: Principal) -> Collection[T]:
        return self._items.get(principal) or ()

    def eviction_order(self, principal: Principal) -> list[Principal] | None:
        """Principals who can make room for one more item of this one, the largest first; None if
        there is room.

        Only principals with more items than this one, and this one itself, lose any.
        """
        count = len(self.items_of(principal))
        if principal != LOCAL and count >= self.limits.per_principal:
            return [principal]
        if self._count < self.limits.total:
            return None
        candidates = [
            other
            for other, items in self._items.items()
            if other == principal or len(items) > count
        ]
        return sorted(candidates, key=lambda other: (-len(self._items[other]), other != principal))
