"""The pages are true: their links lead somewhere, their examples work, their numbers are ours."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import click
import pytest

from anyport.catalog.names import Naming
from anyport.catalog.uris import qualify
from anyport.cli.main import commands
from anyport.config import load
from anyport.demo.command import argument_parser
from anyport.protocol.errors import Situation
from anyport.upstream.stdio.process import INHERITED, INHERITED_PREFIXES

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src" / "anyport"
PAGES: Final = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "bench/*.md", "tests/*/*.md")
    for path in ROOT.glob(pattern)
)
FENCE: Final = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)

GLOSSARY: Final = (
    "slug", "profile", "principal", "revision", "era", "frame", "payload", "exchange", "ending",
    "question", "call", "parked call", "fast path", "connection", "lease", "offer",
    "catalog", "native name", "public name", "event", "journal", "index", "capture", "row", "head",
)  # fmt: skip
GLOSSARY_ENTRIES_MAX: Final = 42


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def prose_of(page: str) -> str:
    return FENCE.sub("", text_of(page))


def fences(page: str, *languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(text_of(page)) if language in languages]


@cache
def anchors(page: str) -> frozenset[str]:
    """The names by which the headings of a page can be linked to."""
    headings = re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return frozenset(heading.replace(" ", "-") for heading in plain)


def found_in_prose(pattern: str) -> list[tuple[str, str]]:
    """Every page with every match of a pattern on it."""
    return [(page, match) for page in PAGES for match in re.findall(pattern, prose_of(page))]


def leads_somewhere(page: str, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = ((ROOT / page).parent / file).resolve() if file else ROOT / page
    if not target.exists():
        return False
    return not anchor or anchor in anchors(str(target.relative_to(ROOT)))


def test_links_lead_somewhere() -> None:
    links = found_in_prose(r"\]\((?![a-z]+:)([^)\s]+)\)")
    assert links
    assert not [(page, link) for page, link in links if not leads_somewhere(page, link)]


def test_files_of_python_that_a_page_names_are_there() -> None:
    named = found_in_prose(r"`([\w/.-]*\w\.py)`")
    assert named
    assert not [
        (page, file)
        for page, file in named
        if not any((at / file).is_file() for at in (ROOT, PACKAGE, (ROOT / page).parent))
    ]


def test_every_page_can_be_reached_from_the_map() -> None:
    linked = {
        str((ROOT / "docs" / link).resolve().relative_to(ROOT))
        for link in re.findall(r"\]\(([^)#\s]+)\)", text_of("docs/index.md"))
    }
    pages = {page for page in PAGES if page.startswith("docs/")}
    assert pages - {"docs/index.md"} <= linked


# Commands.


def shell_lines() -> Iterator[tuple[str, str]]:
    """Every use of `anyport` in a shell example, options and all."""
    for page in PAGES:
        for body in fences(page, "sh", "console", "bash"):
            for line in body.replace("\\\n", " ").splitlines():
                found = re.search(r"(?:^\$? ?|[|;&] *)(anyport .*)", line)
                if found:
                    yield page, found[1].split(" # ")[0]


def used_in(line: str) -> tuple[str, set[str]]:
    """The command of a line, and its options."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = [word for word in lexer if word not in ("[", "]")]
    until = next((at for at, word in enumerate(words) if word in ("|", ";", "&&", ">")), len(words))
    # `-server:github` is a term of a filter.
    used = {
        word.split("=")[0] for word in words[1:until] if re.fullmatch(r"--?[a-z][^:]*(=.*)?", word)
    }
    return words[1], used


def test_a_command_in_an_example_exists_with_its_options() -> None:
    lines = list(shell_lines())
    assert lines
    for page, line in lines:
        command, used = used_in(line)
        assert used <= options_of(command), f"{page}: {line}"


def options_of(name: str) -> set[str]:
    if name == "demo-server":
        return set(re.findall(r"--[a-z][a-z-]*", argument_parser().format_help()))
    if name.startswith("-"):
        return {option for parameter in commands.params for option in parameter.opts} | {"--help"}
    command = commands.get_command(click.Context(commands), name)
    assert command is not None, name
    return {option for parameter in command.params for option in parameter.opts} | {"--help"}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_targets_of_make_that_a_page_names_exist(page: str) -> None:
    targets = re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE)
    named = re.findall(r"`make ([a-z-]+)`", prose_of(page))
    assert named
    assert set(named) <= set(targets)


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/get-started/first-steps.md",
        "docs/get-started/clients.md",
        "docs/guides/servers.md",
        "docs/guides/names.md",
    ],
)
def test_the_configurations_of_a_page_load(page: str, tmp_path: Path) -> None:
    examples = [("toml", body) for body in fences(page, "toml")]
    examples += [("json", body) for body in fences(page, "json")]
    assert examples
    for number, (syntax, body) in enumerate(examples):
        file = tmp_path / f"{number}.{syntax}"
        file.write_text(body)
        assert load([file], {"GITHUB_TOKEN": "x"}).servers


def test_the_layers_on_the_page_are_those_of_the_contracts() -> None:
    contracts = tomllib.loads(text_of("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    checked = [
        [{*re.findall(r"\w+", layer)} for layer in contract["layers"]]
        for contract in contracts
        if contract["type"] == "layers"
    ]
    shown = [
        [{*re.split(r" · ", re.split(r"  +", line)[0])} for line in body.splitlines()]
        for body in fences("CONTRIBUTING.md", "")
    ]
    assert shown == checked


# Words, names, errors.


def test_the_glossary_has_the_words() -> None:
    glossary = text_of("docs/contributing/glossary.md")
    assert not [word for word in GLOSSARY if f"| **{word}** |" not in glossary]


def test_the_glossary_is_short() -> None:
    """Textbook words need no entry; a new coinage needs a good reason."""
    entries = re.findall(r"^\| \*\*", text_of("docs/contributing/glossary.md"), re.MULTILINE)
    assert len(entries) <= GLOSSARY_ENTRIES_MAX


def test_the_public_names_on_the_page_are_the_real_ones() -> None:
    page = text_of("docs/guides/names.md")
    naming = Naming(prefix="always", separator="__")
    rows = re.findall(r"^\| `([\w-]+)` \| `([^`]+)` \| `([^`]+)` \|$", page, re.MULTILINE)
    assert len(rows) == 3
    for slug, native, public in rows:
        assert naming.prefixed_name(slug, native) == public


def test_the_separators_on_the_page_are_the_real_ones() -> None:
    rows = re.findall(
        r'^\| `"(.+)"` \| `(my.docs.+)` \|', text_of("docs/guides/names.md"), re.MULTILINE
    )
    assert len(rows) == 5
    for separator, public in rows:
        naming = Naming(prefix="always", separator=separator)
        assert naming.prefixed_name("my-docs", "read") == public


def test_the_public_uris_on_the_page_are_the_real_ones() -> None:
    page = text_of("docs/guides/names.md")
    rows = re.findall(r"^\| `([^`]+)` of `docs` \| (?:`([^`]+)`|unchanged)", page, re.MULTILINE)
    assert len(rows) == 3
    for native, public in rows:
        assert qualify("docs", native) == (public or native)


@pytest.mark.parametrize("situation", Situation)
def test_the_codes_of_a_situation_are_on_the_page_about_errors(situation: Situation) -> None:
    page = text_of("docs/reference/errors.md")
    assert str(situation.legacy) in page
    assert str(situation.modern) in page


def test_the_variables_that_servers_are_said_to_see_are_handed_down() -> None:
    [listed] = re.findall(r"fixed list: (.*?)\n2\. ", text_of("docs/guides/servers.md"), re.DOTALL)
    for name in re.findall(r"`(\w+\*?)`", listed):
        prefix = name.removesuffix("*")
        if name == prefix:
            assert name in INHERITED
        else:
            assert prefix in INHERITED_PREFIXES or any(own.startswith(prefix) for own in INHERITED)
