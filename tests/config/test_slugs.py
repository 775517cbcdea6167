"""Any name becomes a slug, always the same one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.config.slugs import is_slug, slugify


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("github", "github"),
        ("my-server-2", "my-server-2"),
        ("a--b", "a--b"),
        ("GitHub", "github"),
        ("My Server", "my-server"),
        ("@scope/pkg_name", "scope-pkg-name"),
        ("  spaced  ", "spaced"),
        ("7zip", "s-7zip"),
        ("Größe", "gr-e"),
    ],
)
def test_names_become_slugs(name: str, slug: str) -> None:
    assert slugify(name) == slug


def test_long_names_that_begin_alike_stay_apart() -> None:
    one, other = slugify("x" * 40 + "1"), slugify("x" * 40 + "2")
    assert one != other
    assert len(one) == len(other) == 32


def test_names_without_latin_letters_stay_apart() -> None:
    assert slugify("天気") != slugify("地図")


@given(st.text(min_size=1))
def test_every_name_has_a_slug_and_a_slug_is_its_own(name: str) -> None:
    slug = slugify(name)
    assert is_slug(slug)
    assert slugify(slug) == slug


@pytest.mark.parametrize("name", ["", "A", "1a", "-a", "a_b", "a" * 33, "a\n"])
def test_what_is_no_slug(name: str) -> None:
    assert not is_slug(name)
