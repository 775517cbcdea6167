from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.quota import QuotaLimits, QuotaTable

ADA, BOB, CLEO = (Principal("token", name) for name in ("ada", "bob", "cleo"))


def shared(most: QuotaLimits, *whose: Principal) -> QuotaTable[int]:
    shares: QuotaTable[int] = QuotaTable(most)
    for number, principal in enumerate(whose):
        shares.add(principal, number)
    return shares


def test_nothing_is_evicted_below_the_limit() -> None:
    shares = shared(QuotaLimits(3, 2), ADA, ADA)
    assert shares.eviction_order(BOB) is None
    assert len(shares) == 2


def test_who_has_all_that_one_may_have_gives_it_back_first() -> None:
    assert shared(QuotaLimits(9, 2), ADA, ADA, BOB, BOB, BOB).eviction_order(ADA) == [ADA]


def test_at_the_total_limit_the_largest_are_evicted_first() -> None:
    shares = shared(QuotaLimits(6, 4), ADA, ADA, ADA, BOB, BOB, CLEO)
    assert shares.eviction_order(CLEO) == [ADA, BOB, CLEO]
    assert shares.eviction_order(BOB) == [ADA, BOB]
    assert shares.eviction_order(ADA) == [ADA]
    assert shares.eviction_order(LOCAL) == [ADA, BOB, CLEO]


def test_a_principal_with_as_many_items_is_not_evicted_for() -> None:
    shares = shared(QuotaLimits(4, 4), ADA, ADA, BOB, BOB)
    assert shares.eviction_order(ADA) == [ADA]


def test_without_tokens_the_total_limit_counts() -> None:
    shares = shared(QuotaLimits(3, 1), LOCAL, LOCAL)
    assert shares.eviction_order(LOCAL) is None
    shares.add(LOCAL, 2)
    assert shares.eviction_order(LOCAL) == [LOCAL]


def test_what_is_used_again_is_its_owners_newest() -> None:
    shares = shared(QuotaLimits(9, 9), ADA, ADA, ADA)
    shares.add(ADA, 0)
    assert list(shares.items_of(ADA)) == [1, 2, 0]
    assert len(shares) == 3


def test_what_is_gone_does_not_count() -> None:
    shares = shared(QuotaLimits(2, 2), ADA, BOB)
    for _ in range(2):
        shares.remove(ADA, 0)
    shares.remove(CLEO, 7)
    assert len(shares) == 1
    assert shares.eviction_order(CLEO) is None
    assert list(shares.items_of(ADA)) == []
