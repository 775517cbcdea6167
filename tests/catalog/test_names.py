"""Public names: always usable, never two alike, and the same tomorrow."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyport.catalog.names import (
    NAME_MAX,
    NAMES_PER_SERVER_MAX,
    NameConflict,
    NameOwners,
    Naming,
    Prefix,
    assign_names,
)

USABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")
SLUGS = st.from_regex(r"[a-z][a-z0-9-]{0,31}", fullmatch=True)
NATIVES = (
    st.sampled_from(["x", "X", "get_x", "get.x", "get/x", "Get_X", "a__b", "__", "", "ünïcode"])
    | st.text("abAB_-./ é\0", max_size=6)
    | st.text("ab.", min_size=50, max_size=80)
    | st.text(max_size=10).filter(lambda text: text.isascii() or text.isprintable())
)
SERVERS = st.lists(
    st.tuples(SLUGS, st.lists(NATIVES, max_size=6)),
    max_size=4,
    unique_by=lambda server: server[0],
)
SEPARATORS = st.sampled_from(["__", "-", ":", "/", "."])
STRICT = st.sampled_from(["__", "-"])
PREFIXES = st.sampled_from(["always", "on-conflict", "never"])

Offered = Sequence[tuple[str, Sequence[str]]]


def named(offered: Offered, prefix: Prefix = "always", separator: str = "__") -> dict[str, str]:
    """`slug native` to public name."""
    naming = Naming(prefix=prefix, separator=separator)
    return {
        f"{slug} {native}": name for (slug, native), name in assign_names(naming, offered).items()
    }


@given(SERVERS, PREFIXES, SEPARATORS, st.lists(NATIVES, max_size=2))
@settings(max_examples=60)
def test_no_two_offers_have_one_name_even_when_case_is_ignored(
    servers: Offered, prefix: Prefix, separator: str, reserved: list[str]
) -> None:
    naming = Naming(prefix=prefix, separator=separator)

    public = assign_names(naming, servers, reserved)

    assert set(public) == {(slug, native) for slug, natives in servers for native in natives}
    # A server that is shown as it is may tell names apart by case alone.
    fold = str if prefix == "never" else str.casefold
    assert len({fold(name) for name in public.values()}) == len(public)
    assert not {name.casefold() for name in public.values()} & {n.casefold() for n in reserved}


@given(SERVERS, STRICT)
@settings(max_examples=60)
def test_with_a_strict_separator_every_name_can_be_used_everywhere(
    servers: Offered, separator: str
) -> None:
    for prefix in ("always", "on-conflict"):
        naming = Naming(prefix=prefix, separator=separator)
        for name in assign_names(naming, servers).values():
            assert USABLE.fullmatch(name), name


@given(SERVERS, SEPARATORS, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_a_prefixed_name_depends_on_no_order_and_on_no_other_server(
    servers: Offered, separator: str, random: object
) -> None:
    naming = Naming(prefix="always", separator=separator)
    together = assign_names(naming, servers)

    backwards = [(slug, list(reversed(natives))) for slug, natives in reversed(servers)]
    assert assign_names(naming, backwards) == together
    alone = [assign_names(naming, [server]) for server in servers]
    assert {key: name for names in alone for key, name in names.items()} == together


@given(SERVERS, SERVERS, PREFIXES, STRICT)
@settings(max_examples=60)
def test_a_server_added_at_the_end_renames_nothing(
    servers: Offered, more: Offered, prefix: Prefix, separator: str
) -> None:
    known = {slug for slug, _ in servers}
    added = [server for server in more if server[0] not in known]
    naming, owners = Naming(prefix=prefix, separator=separator), NameOwners()

    before = assign_names(naming, servers, owners=owners)

    assert before.items() <= assign_names(naming, [*servers, *added], owners=owners).items()


@given(st.lists(SERVERS, min_size=2, max_size=4), PREFIXES, SEPARATORS)
@settings(max_examples=60)
def test_a_name_never_changes_its_server_whatever_they_offer_and_in_whatever_order(
    rounds: list[Offered], prefix: Prefix, separator: str
) -> None:
    naming, owners = Naming(prefix=prefix, separator=separator), NameOwners()
    everybody = {slug for offered in rounds for slug, _ in offered}
    slugs: dict[str, str] = {}
    for offered in rounds:
        silent = sorted(everybody - {slug for slug, _ in offered})
        servers = [*offered, *((slug, ()) for slug in silent)]
        for (slug, _), name in assign_names(naming, servers, owners=owners).items():
            assert slugs.setdefault(naming.conflict_key(name), slug) == slug


@pytest.mark.parametrize("prefix", ["on-conflict", "never"])
def test_a_later_claimant_gets_the_longer_name_wherever_it_stands(prefix: Prefix) -> None:
    naming, owners = Naming(prefix=prefix, separator="__"), NameOwners()

    assert assign_names(naming, [("a", []), ("b", ["x"])], owners=owners) == {("b", "x"): "x"}
    both = {("a", "x"): "a__x", ("b", "x"): "x"}
    assert assign_names(naming, [("a", ["x"]), ("b", ["x"])], owners=owners) == both
    assert assign_names(naming, [("a", ["x"]), ("b", [])], owners=owners) == {("a", "x"): "a__x"}
    assert owners.take_conflicts() == [
        NameConflict(slug="a", name="x", owner="b", public="a__x")
    ], "it is told once"
    assert owners.take_conflicts() == []


def test_a_name_waits_for_the_servers_that_stand_before_its_own() -> None:
    naming, owners = Naming(prefix="on-conflict", separator="__"), NameOwners()
    offered = [("a", ["x"]), ("b", []), ("c", ["x", "y"]), ("d", [])]

    def named_while(*awaited: str) -> dict[tuple[str, str], str]:
        return assign_names(naming, offered, owners=owners, awaited=awaited)

    assert named_while("b", "d") == {("a", "x"): "x", ("c", "x"): "c__x"}
    assert named_while("d") == {("a", "x"): "x", ("c", "x"): "c__x", ("c", "y"): "y"}
    assert named_while("b") == named_while("d"), "what was given out stays"


def test_what_a_server_owns_is_bounded_and_the_rest_is_prefixed() -> None:
    naming, owners = Naming(prefix="never", separator="__"), NameOwners()
    for number in range(NAMES_PER_SERVER_MAX):
        assert owners.claim(f"{number}", "evil")
    natives = ["0", "new", "x" * 1_000_000]

    public = assign_names(naming, [("evil", natives), ("good", ["new"])], owners=owners)

    assert public["evil", "0"] == "0"
    assert public["evil", "new"] == "evil__new"
    assert public["evil", natives[2]].startswith("evil__x")
    assert public["good", "new"] == "new"
    assert assign_names(naming, [("evil", natives)], owners=owners)["evil", "0"] == "0"
    assert len(naming.conflict_key(natives[2])) <= NAME_MAX


def test_a_lone_server_is_shown_as_it_is_however_many_names_it_has_had() -> None:
    naming, owners = Naming(prefix="never", separator="__"), NameOwners()
    for number in range(NAMES_PER_SERVER_MAX):
        owners.claim(f"{number}", "a")

    assert assign_names(naming, [("a", ["new"])], owners=owners) == {("a", "new"): "new"}


def test_what_a_removed_server_owned_is_free_again() -> None:
    naming, owners = Naming(prefix="on-conflict", separator="__"), NameOwners()
    assign_names(naming, [("a", ["x"]), ("b", ["x", "y"])], owners=owners)

    kept = owners.restricted_to(["b", "c"])

    public = assign_names(naming, [("c", ["x", "y"]), ("b", ["y"])], owners=kept)
    assert public == {("c", "x"): "x", ("c", "y"): "c__y", ("b", "y"): "y"}
    assert owners.owner_of("x") == "a", "the other one is as it was"


@pytest.mark.parametrize(
    ("separator", "name"),
    [
        ("__", "my-server__get_x"),
        ("-", "my_server-get_x"),
        (":", "my-server:get_x"),
        ("/", "my-server/get_x"),
        (".", "my-server.get_x"),
    ],
)
def test_a_name_that_fits_is_the_server_the_separator_and_the_native_name(
    separator: str, name: str
) -> None:
    assert named([("my-server", ["get_x"])], separator=separator) == {"my-server get_x": name}


def test_names_that_look_alike_when_split_are_told_apart() -> None:
    public = named([("a", ["b__c", "_b"]), ("b", ["c"])])
    dashed = named([("a-b", ["c"]), ("a", ["b-c"])], separator="-")

    assert public == {"a b__c": "a__b__c", "a _b": "a___b", "b c": "b__c"}
    assert dashed == {"a-b c": "a_b-c", "a b-c": "a-b-c"}


@pytest.mark.parametrize("native", ["get.x", "get x", "get/x", "gét", "", "x" * 62])
def test_a_name_that_does_not_fit_is_cut_and_marked_with_a_hash(native: str) -> None:
    (name,) = named([("srv", [native])]).values()

    assert re.fullmatch(r"srv__[A-Za-z0-9_-]*_[0-9a-f]{8}", name)
    assert len(name) <= NAME_MAX


def test_long_names_that_begin_alike_stay_apart() -> None:
    public = named([("srv", ["x" * 70 + "1", "x" * 70 + "2"])])

    assert len(set(public.values())) == 2
    assert {len(name) for name in public.values()} == {NAME_MAX}


def test_the_exact_name_is_kept_whichever_a_server_lists_first() -> None:
    for natives in (["get_x", "get.x"], ["get.x", "get_x"]):
        public = named([("srv", natives)])

        assert public["srv get_x"] == "srv__get_x"
        assert public["srv get.x"].startswith("srv__get_x_")


def test_with_prefixes_only_on_conflict_the_first_server_keeps_the_bare_name() -> None:
    public = named([("a", ["x", "y"]), ("b", ["x", "Y", "z", "q.r"])], "on-conflict")

    assert public["a x"] == "x"
    assert public["a y"] == "y"
    assert public["b x"] == "b__x"
    assert public["b Y"] == "b__Y"
    assert public["b z"] == "z"
    assert re.fullmatch("q_r_[0-9a-f]{8}", public["b q.r"])


def test_without_prefixes_names_stay_native_until_they_meet() -> None:
    public = named([("a", ["get.x", "x" * 100]), ("b", ["get.x", "other"])], "never")

    assert public["a get.x"] == "get.x"
    assert public["a " + "x" * 100] == "x" * 100
    assert public["b other"] == "other"
    assert public["b get.x"].startswith("b__get_x_")


def test_a_loose_separator_leaves_bare_names_as_they_are() -> None:
    assert named([("a", ["get.x"])], "on-conflict", ":") == {"a get.x": "get.x"}


@pytest.mark.parametrize("prefix", ["on-conflict", "never"])
def test_the_gateways_own_tools_keep_their_names(prefix: Prefix) -> None:
    naming = Naming(prefix=prefix, separator="__")

    public = assign_names(
        naming, [("a", ["gateway_status", "Get_Events"])], ["gateway_status", "get_events"]
    )

    assert public["a", "gateway_status"] == "a__gateway_status"
    assert public["a", "Get_Events"] == "a__Get_Events"


def test_a_server_shown_as_it_is_may_tell_names_apart_by_case() -> None:
    assert named([("a", ["Get", "get"])], "never") == {"a Get": "Get", "a get": "get"}


def test_a_name_listed_twice_is_one_name() -> None:
    assert named([("a", ["x", "x"])]) == {"a x": "a__x"}


def test_a_server_that_calls_its_tools_like_anothers_public_names_takes_none_of_them() -> None:
    """Each name that is given out is claimed by the first server in the next round."""
    claims: list[str] = ["x"]
    for _ in range(6):
        public = named([("evil", claims), ("good", ["x"])], "never")
        assert len(set(public.values())) == len(public)
        claims.append(public["good x"])

    assert public["good x"] == "good__x"
    assert public["evil good__x"] == "evil__good__x"
    assert USABLE.fullmatch(public["good x"])
