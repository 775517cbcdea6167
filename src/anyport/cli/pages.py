"""What the pages of the command line have in common: help that begins with an example, hints for
slips, the options that all share, and filters as arguments. Knows no command.
"""

import os
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from anyport import __version__
from anyport.cli import options
from anyport.config.faults import nearest

NEXT_STEPS: Final = (
    ("anyport check", "says what is configured: at first, a demo server"),
    ("anyport tools", "lists the tools that a client would see"),
    ("anyport serve", "serves them over HTTP, and says what to tell your client"),
    ("anyport stdio", "is the command for a client that launches one"),
)

_F = TypeVar("_F", bound=Callable[..., Any])
_Decorator = Callable[[_F], _F]

_NEGATED: Final = re.compile(r"-[A-Za-z_]+:")


class Page(click.Command):
    """A command whose help begins with an example that works."""

    def __init__(self, *args: Any, example: str, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.example = example

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"Example: {self.example}\n")
        self.format_help_text(ctx, formatter)
        formatter.write_paragraph()
        self.format_usage(ctx, formatter)
        self.format_options(ctx, formatter)
        if any(parameter.name == "config" for parameter in self.params):
            # Late: only help tells where files are looked for.
            from anyport.cli.setup import default_places  # noqa: PLC0415

            formatter.write_paragraph()
            formatter.write_text(f"Without {options.CONFIG.name}: {default_places(os.environ)}.")


class Commands(click.Group):
    """All of them; alone, it says what there is and what to do next."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = nearest(name, self.commands)
            hint = f"Did you mean '{near}'?" if near else "'anyport --help' lists the commands."
            ctx.fail(f"There is no command '{name}'. {hint}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["help"]:
            about = [word for word in args[1:2] if word != "help" and not word.startswith("-")]
            args = [*about, "--help"]
        name = args[0].partition("=")[0] if args else ""
        if name in {option.name for option in options.SHARED}:
            ctx.fail(f"{name} goes after the command, as in: anyport tools {name} ...")
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write("Example: anyport tools\n\n")
        formatter.write(f"Anyport {__version__}: many MCP servers behind one endpoint.\n")
        with formatter.section("Commands"):
            each = self.commands.items()
            formatter.write_dl([(name, page.get_short_help_str(80)) for name, page in each])
        with formatter.section("Next steps"):
            formatter.write_dl(list(NEXT_STEPS))
        formatter.write("\n'anyport help COMMAND' explains a command.\n")


class FilterPage(Page):
    """A command that takes a filter: `-server:github` is a term of it and no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # The order of terms does not matter, so those that look like options go to the end.
        end = args.index("--") if "--" in args else len(args)
        terms = [word for word in args[:end] if _NEGATED.match(word)]
        others = [word for word in args[:end] if not _NEGATED.match(word)]
        return super().parse_args(ctx, [*others, "--", *terms, *args[end + 1 :]])


def shared(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options that all share, as its first argument."""
    return _with_given(command, options.SHARED)


def remote(command: Callable[..., int]) -> Callable[..., int]:
    """The same, for a command that can also ask a gateway that runs already."""
    return _with_given(command, (*options.REMOTE, *options.SHARED))


def _with_given(
    command: Callable[..., int], known: tuple[options.Option, ...]
) -> Callable[..., int]:
    names = [option.name.removeprefix("--").replace("-", "_") for option in known]

    @wraps(command)
    def with_given(**said: Any) -> int:
        given = options.Given(**{name: said.pop(name) for name in names})
        return command(given, **said)

    decorated: Callable[..., int] = with_given
    for option in reversed(known):
        if option.metavar:
            paths = option in (options.CONFIG, options.STATE_DIR)
            decorate: _Decorator[Callable[..., int]] = click.option(
                option.name,
                metavar=option.metavar,
                multiple=option.repeatable,
                type=click.Path(path_type=Path) if paths else str,
                help=option.explained,
            )
        else:
            decorate = click.option(option.name, is_flag=True, help=option.explained)
        decorated = decorate(decorated)
    return decorated
