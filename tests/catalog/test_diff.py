"""What clients see differently between two catalogs."""

from anyport.catalog.catalog import Catalog
from anyport.catalog.diff import CatalogDiff, diff_catalogs
from anyport.protocol.methods import OfferKind
from tests.gateway.fakes import FakeServer, profile_of


def catalog(*offers: tuple[str, str], prefix: str = "always") -> Catalog:
    """With these tools, each of a server."""
    slugs = list(dict.fromkeys(slug for slug, _ in offers))
    servers = [FakeServer(slug) for slug in slugs]
    for server in servers:
        server.offer(OfferKind.TOOLS, *(name for owner, name in offers if owner == server.slug))
    return profile_of(*servers, prefix=prefix, gateway_tools=False).catalog


def test_the_same_catalogs_differ_in_nothing() -> None:
    one, two = catalog(("a", "x")), catalog(("a", "x"))
    assert diff_catalogs({"default": one}, {"default": two}) == ()


def test_tools_that_come_and_go_are_told_by_their_public_names() -> None:
    before, after = catalog(("a", "x"), ("a", "y")), catalog(("a", "y"), ("b", "z"))
    assert diff_catalogs({"default": before}, {"default": after}) == (
        CatalogDiff(profile="default", kind=OfferKind.TOOLS, added=("b__z",), removed=("a__x",)),
    )


def test_a_tool_under_another_name_is_the_same_tool() -> None:
    before, after = catalog(("a", "x")), catalog(("a", "x"), prefix="never")
    [shift] = diff_catalogs({"default": before}, {"default": after})
    assert (shift.renamed, shift.added, shift.removed) == ((("a__x", "x"),), (), ())


def test_a_profile_that_comes_or_goes_takes_its_tools_along() -> None:
    one = catalog(("a", "x"))
    [come] = diff_catalogs({}, {"new": one})
    [gone] = diff_catalogs({"old": one}, {})
    assert (come.profile, come.added) == ("new", ("a__x",))
    assert (gone.profile, gone.removed) == ("old", ("a__x",))
