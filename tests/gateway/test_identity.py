"""How the gateway presents itself."""

import json

from anyport.config.model import ProfileConfig
from anyport.gateway.identity import IDENTITY, INSTRUCTIONS_CHARACTERS_MAX, describe_gateway

CONFIG = ProfileConfig(slug="default", servers=("a", "b"))


def test_the_gateway_says_its_own_name() -> None:
    assert json.loads(IDENTITY)["name"] == "anyport"
    assert describe_gateway(CONFIG, {}, {}, transparent=False).server_info == IDENTITY


def test_instructions_are_merged_under_the_names_of_their_servers() -> None:
    described = describe_gateway(CONFIG, {"a": "Use me.", "b": None}, {}, transparent=False)

    assert described.instructions is not None
    assert described.instructions.endswith("\n\n## a\nUse me.")
    assert "server__name" in described.instructions


def test_without_any_there_are_none() -> None:
    assert (
        describe_gateway(CONFIG, {"a": None, "b": ""}, {}, transparent=False).instructions is None
    )


def test_names_without_a_prefix_need_no_explanation() -> None:
    config = ProfileConfig(slug="default", servers=("a", "b"), prefix="on-conflict")
    described = describe_gateway(config, {"a": "Use me."}, {}, transparent=False)

    assert described.instructions is not None
    assert "__" not in described.instructions


def test_what_does_not_fit_is_left_out_as_a_whole_section() -> None:
    long = "x" * (INSTRUCTIONS_CHARACTERS_MAX - 200)
    described = describe_gateway(CONFIG, {"a": long, "b": long}, {}, transparent=False)

    assert described.instructions is not None
    assert len(described.instructions) <= INSTRUCTIONS_CHARACTERS_MAX
    assert described.instructions.endswith(f"## a\n{long}")


def test_a_transparent_profile_speaks_with_the_words_of_its_server() -> None:
    config = ProfileConfig(slug="default", servers=("a",), prefix="never")

    assert (
        describe_gateway(config, {"a": "As I said."}, {}, transparent=True).instructions
        == "As I said."
    )


def test_what_its_servers_offer_is_part_of_it() -> None:
    for transparent in (True, False):
        described = describe_gateway(CONFIG, {}, {}, frozenset({"tools"}), transparent=transparent)
        assert described.offered == {"tools"}


def test_the_extensions_of_its_servers_are_part_of_it() -> None:
    for transparent in (True, False):
        described = describe_gateway(CONFIG, {}, {"x": b"{}"}, transparent=transparent)
        assert described.extensions == {"x": b"{}"}
