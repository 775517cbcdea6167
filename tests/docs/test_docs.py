"""The pages are true: their links lead somewhere, their examples work, their numbers are ours."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import click
import pytest

from anyport.cli.main import commands
from anyport.config import load
from anyport.demo.options import _parser
from anyport.protocol.errors import Situation
from anyport.routing.names import Naming
from anyport.routing.uris import qualified
from anyport.upstream.environment import INHERITED, INHERITED_PREFIXES

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src" / "anyport"
PAGES: Final = sorted(
    str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
)
FENCE: Final = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)

GLOSSARY: Final = (
    "gateway", "downstream", "client", "upstream", "server", "profile", "revision", "era",
    "frame", "payload", "session", "connection", "lease", "exchange", "park", "offer", "catalog",
    "native name", "public name", "verdict", "event", "journal",
)  # fmt: skip


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


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = ((ROOT / page).parent / file).resolve() if file else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(str(target.relative_to(ROOT))), link


@pytest.mark.parametrize("page", PAGES)
def test_files_of_python_that_a_page_names_are_there(page: str) -> None:
    for name in re.findall(r"`([\w/.-]*\w\.py)`", prose_of(page)):
        assert (ROOT / name).is_file() or (PACKAGE / name).is_file(), name


def test_every_page_can_be_reached_from_the_map() -> None:
    linked = {
        str((ROOT / "docs" / link).resolve().relative_to(ROOT))
        for link in re.findall(r"\]\(([^)#\s]+)\)", text_of("docs/index.md"))
    }
    pages = {page for page in PAGES if page.startswith("docs/")}
    assert pages - {"docs/index.md"} <= linked


# The tour.


@cache
def defined(file: str) -> frozenset[str]:
    """The functions of a file: `name` and `Class.name`."""
    names: set[str] = set()
    for node in ast.parse((PACKAGE / file).read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return frozenset(names)


def functions_of_the_tour() -> Iterator[tuple[str, str]]:
    """Every function with the file that was named last; `f()` of `file.py` names it after."""
    prose = prose_of("docs/life-of-a-message.md")
    prose = re.sub(r"`([\w.]+\(\))`\s+of\s+`([\w/]+\.py)`", r"`\2` `\1`", prose)
    file = ""
    for span in re.findall(r"`([\w/]+\.py|[\w.]+\(\))`", prose):
        if span.endswith(".py"):
            file = span
        else:
            yield file, span.removesuffix("()")


def test_the_tour_names_many_functions() -> None:
    assert len(list(functions_of_the_tour())) >= 40


@pytest.mark.parametrize(("file", "name"), sorted(set(functions_of_the_tour())))
def test_a_function_of_the_tour_is_in_its_file(file: str, name: str) -> None:
    assert name in defined(file)


# Commands.


def shell_lines() -> Iterator[tuple[str, str]]:
    """Every use of `anyport` in a shell example, options and all."""
    for page in PAGES:
        for body in fences(page, "sh", "console", "bash"):
            for line in body.replace("\\\n", " ").splitlines():
                found = re.search(r"(?:^\$? ?|[|;&] *)(anyport .*)", line)
                if found:
                    yield page, found[1].split(" # ")[0]


@pytest.mark.parametrize(("page", "line"), list(shell_lines()))
def test_a_command_in_an_example_exists_with_its_options(page: str, line: str) -> None:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = [word for word in lexer if word not in ("[", "]")]
    until = next((at for at, word in enumerate(words) if word in ("|", ";", "&&", ">")), len(words))
    # `-server:github` is a term of a filter.
    used = {
        word.split("=")[0] for word in words[1:until] if re.fullmatch(r"--?[a-z][^:]*(=.*)?", word)
    }
    assert used <= options_of(words[1])


def options_of(name: str) -> set[str]:
    if name == "demo-server":
        return set(re.findall(r"--[a-z][a-z-]*", _parser().format_help()))
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
    "page", ["README.md", "docs/clients.md", "docs/servers.md", "docs/names.md"]
)
def test_the_configurations_of_a_page_load(page: str, tmp_path: Path) -> None:
    examples = [("toml", body) for body in fences(page, "toml")]
    examples += [("json", body) for body in fences(page, "json")]
    assert examples
    for number, (syntax, body) in enumerate(examples):
        file = tmp_path / f"{number}.{syntax}"
        file.write_text(body)
        assert load([file], {"GITHUB_TOKEN": "x"}).servers


# Words, names, errors.


@pytest.mark.parametrize("word", GLOSSARY)
def test_the_glossary_has_the_word(word: str) -> None:
    assert f"| **{word}** |" in text_of("docs/glossary.md")


def test_the_public_names_on_the_page_are_the_real_ones() -> None:
    page = text_of("docs/names.md")
    naming = Naming(prefix="always", separator="__")
    rows = re.findall(r"^\| `([\w-]+)` \| `([^`]+)` \| `([^`]+)` \|$", page, re.MULTILINE)
    assert len(rows) == 3
    for slug, native, public in rows:
        assert naming.prefixed(slug, native) == public


def test_the_separators_on_the_page_are_the_real_ones() -> None:
    rows = re.findall(r'^\| `"(.+)"` \| `(my.docs.+)` \|', text_of("docs/names.md"), re.MULTILINE)
    assert len(rows) == 5
    for separator, public in rows:
        naming = Naming(prefix="always", separator=separator)
        assert naming.prefixed("my-docs", "read") == public


def test_the_public_uris_on_the_page_are_the_real_ones() -> None:
    page = text_of("docs/names.md")
    rows = re.findall(r"^\| `([^`]+)` of `docs` \| (?:`([^`]+)`|unchanged)", page, re.MULTILINE)
    assert len(rows) == 3
    for native, public in rows:
        assert qualified("docs", native) == (public or native)


@pytest.mark.parametrize("situation", Situation)
def test_the_codes_of_a_situation_are_on_the_page_about_errors(situation: Situation) -> None:
    page = text_of("docs/errors.md")
    assert str(situation.legacy) in page
    assert str(situation.modern) in page


def test_the_variables_that_servers_are_said_to_see_are_handed_down() -> None:
    [listed] = re.findall(r"fixed list: (.*?)\n2\. ", text_of("docs/servers.md"), re.DOTALL)
    for name in re.findall(r"`(\w+\*?)`", listed):
        prefix = name.removesuffix("*")
        if name == prefix:
            assert name in INHERITED
        else:
            assert prefix in INHERITED_PREFIXES or any(own.startswith(prefix) for own in INHERITED)
