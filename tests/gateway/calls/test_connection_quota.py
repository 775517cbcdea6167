"""How many sessions have connections of their own, and whose is closed for another's."""

from dataclasses import replace

import pytest

from anyport.gateway.calls import connection_quota
from anyport.gateway.calls.connection_quota import ConnectionQuota, PrivateConnection
from anyport.gateway.calls.leases import ALL_IN_USE, EVICTED, ExclusiveConnection, Leases
from anyport.protocol.principal import Principal
from anyport.upstream.lease_key import SHARED, LeaseKey
from tests.gateway.fakes import FakeClock, FakeServer, caller, declared

GREEDY, MODEST = Principal("token", "greedy"), Principal("token", "modest")


def own(server: FakeServer, session: str, holder: Principal = GREEDY) -> PrivateConnection:
    return PrivateConnection(
        server, LeaseKey(owner=session, client_principal=holder, fallback=SHARED)
    )


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small numbers do as well."""
    rows = zip((3, 4, 5, 6), connection_quota._QUOTAS, strict=True)
    bounds = [(most, counts) for most, (_, counts) in rows]
    monkeypatch.setattr(connection_quota, "_QUOTAS", bounds)


def test_the_numbers_are_those_that_are_told() -> None:
    assert [most for most, _ in connection_quota._QUOTAS] == [
        connection_quota.PRIVATE_OF_PRINCIPAL_AT_SERVER_MAX,
        connection_quota.PRIVATE_OF_PRINCIPAL_MAX,
        connection_quota.PRIVATE_OF_SERVER_MAX,
        connection_quota.PRIVATE_CONNECTIONS_MAX,
    ]


@pytest.mark.usefixtures("few")
def test_one_principals_sessions_at_one_server_make_room_for_each_other() -> None:
    server, quotas = FakeServer("s"), ConnectionQuota()
    open = [own(server, f"{number}") for number in range(3)]
    assert quotas.choose_evictions(own(server, "new"), open[:2]) == []

    assert quotas.choose_evictions(own(server, "new", MODEST), open) == [], "that is another"
    assert quotas.choose_evictions(own(server, "new"), open) == [open[0]]


@pytest.mark.usefixtures("few")
def test_the_one_that_was_not_used_for_longest_is_given_up_and_none_that_is_in_use() -> None:
    server, quotas = FakeServer("s"), ConnectionQuota()
    open = [own(server, f"{number}") for number in range(3)]
    quotas.choose_evictions(own(server, "early"), open[:2])
    server.used[open[0].key] = 1

    assert quotas.choose_evictions(own(server, "new"), open) == [open[1]]
    server.busy.add(open[1].key)
    assert quotas.choose_evictions(own(server, "new"), open) == [open[0]]
    server.busy |= {one.key for one in open}
    assert quotas.choose_evictions(own(server, "new"), open) is None


@pytest.mark.usefixtures("few")
def test_what_the_greediest_has_is_given_up_first() -> None:
    server, other, quotas = FakeServer("s"), FakeServer("t"), ConnectionQuota()
    modest = [own(server, f"m{number}", MODEST) for number in range(2)]
    greedy = [own(server, f"g{number}") for number in range(3)]
    third = Principal("token", "third")

    assert quotas.choose_evictions(own(server, "new", third), [*modest, *greedy]) == [greedy[0]]
    assert quotas.choose_evictions(own(server, "new", MODEST), [*modest, *greedy]) == [greedy[0]]
    elsewhere = own(other, "g3")
    crowd = [*modest, *greedy, elsewhere]
    assert quotas.choose_evictions(own(other, "new", third), crowd) == [greedy[0]]
    assert quotas.choose_evictions(own(other, "new"), crowd) == [greedy[0]], "four of one principal"


@pytest.mark.usefixtures("few")
def test_what_waits_for_a_next_call_is_given_up_before_anybodys_own() -> None:
    server, quotas = FakeServer("s"), ConnectionQuota()
    open = [own(server, f"{number}") for number in range(3)]
    quotas.choose_evictions(own(server, "early"), open[:2])

    assert quotas.choose_evictions(own(server, "new"), open, spare=open[2:]) == [open[2]]
    assert quotas.choose_evictions(own(server, "new"), open, held=open[:1]) == [open[1]]
    assert quotas.choose_evictions(own(server, "new"), open, held=open) is None


@pytest.mark.usefixtures("few")
def test_connections_of_calls_and_of_principals_count_like_those_of_sessions() -> None:
    server = FakeServer("s")
    leases = Leases(FakeClock(), sole=False, servers=lambda: [server])
    modern = replace(caller(), capabilities=declared({"roots": {}}), principal=GREEDY)
    of_all = LeaseKey(owner="principal-token:greedy", principal=GREEDY)

    server.have(own(server, "session").key)
    assert leases.register_principal_lease(server, of_all) is None
    server.have(of_all)
    first = leases.acquire_exclusive(server, modern)
    assert isinstance(first, ExclusiveConnection)
    server.have(first.key)
    assert server.dropped == []

    second = leases.acquire_exclusive(server, modern)
    assert isinstance(second, ExclusiveConnection), "the session's is the idlest"
    assert (server.dropped, server.reasons) == (["session"], [EVICTED])
    del server.supervisors[own(server, "session").key]
    server.have(second.key)
    leases.release_exclusive(server, modern, second)
    assert leases.make_room(server, own(server, "new").key)
    assert server.dropped[1:] == [second.key.owner], "nobody has it now"

    del server.supervisors[second.key]
    server.have(own(server, "new").key)
    server.busy |= {own(server, "new").key, of_all}
    assert leases.acquire_exclusive(server, modern) == ALL_IN_USE
    assert leases.register_principal_lease(server, replace(of_all, owner="other")) == ALL_IN_USE
    assert not leases.make_room(server, own(server, "more").key)
    assert len(server.dropped) == 2, "a call has the other, though it has not been sent yet"
    server.busy.discard(of_all)
    assert leases.make_room(server, own(server, "more").key)
    assert server.dropped[2:] == [of_all.owner]


@pytest.mark.usefixtures("few")
def test_a_connection_that_is_given_up_is_closed_and_a_sole_client_needs_no_bound() -> None:
    server = FakeServer("s", None)
    for number in range(3):
        server.have(own(server, f"{number}").key)
    many = Leases(FakeClock(), sole=False, servers=lambda: [server])

    assert many.make_room(server, own(server, "1").key), "it is open"
    assert server.dropped == []
    assert many.make_room(server, own(server, "new").key)
    assert (server.dropped, server.reasons) == (["0"], [EVICTED])
    server.busy |= set(server.supervisors)
    assert not many.make_room(server, own(server, "new").key)
    assert Leases(FakeClock(), sole=True, servers=lambda: [server]).make_room(
        server, own(server, "x").key
    )
