"""click commands with Anyport's help pages, hints for mistakes, shared options and filters."""

import os
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from anyport import __version__
from anyport.cli import options as option_list
from anyport.config.faults import find_nearest

NEXT_STEPS: Final = (
    ("anyport check", "shows the configuration: at first, a demo server"),
    ("anyport tools", "lists the tools that a client sees"),
    ("anyport serve", "serves them over HTTP, and prints how to add them to a client"),
    ("anyport stdio", "serves them on stdin and stdout, for a client's configuration"),
)

_F = TypeVar("_F", bound=Callable[..., Any])
_Decorator = Callable[[_F], _F]

_NEGATED_TERM: Final = re.compile(r"-[A-Za-z_]+:")


class ExampleCommand(click.Command):
    """A command whose help begins with an example."""

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
            # Imported here: only help needs it.
            from anyport.cli.setup import describe_default_paths  # noqa: PLC0415

            formatter.write_paragraph()
            formatter.write_text(
                f"Without {option_list.CONFIG.name}: {describe_default_paths(os.environ)}."
            )


class CommandGroup(click.Group):
    """All commands; the help lists them, with the next steps for a new user."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = find_nearest(name, self.commands)
            hint = f"Did you mean '{near}'?" if near else "'anyport --help' lists all commands."
            ctx.fail(f"There is no command '{name}'. {hint}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["help"]:
            command = [word for word in args[1:2] if word != "help" and not word.startswith("-")]
            args = [*command, "--help"]
        name = args[0].partition("=")[0] if args else ""
        if name in {option.name for option in option_list.SHARED_OPTIONS}:
            ctx.fail(f"{name} must follow the command, as in: anyport tools {name} ...")
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write("Example: anyport tools\n\n")
        formatter.write(f"Anyport {__version__}: many MCP servers behind one endpoint.\n")
        with formatter.section("Commands"):
            each = self.commands.items()
            formatter.write_dl([(name, page.get_short_help_str(80)) for name, page in each])
        with formatter.section("Next steps"):
            formatter.write_dl(list(NEXT_STEPS))
        formatter.write("\n'anyport help COMMAND' shows the help of a command.\n")


class ServingCommand(ExampleCommand):
    """A command that takes the command of a server after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        plain, command = option_list.split_command(args)
        rest = super().parse_args(ctx, list(plain))
        if command == ():
            ctx.fail(
                f"{option_list.COMMAND_SEPARATOR} must be followed by the command of a server."
            )
        ctx.params["command"] = command or ()
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), f"[{option_list.COMMAND_SEPARATOR} COMMAND...]"]


class FilterCommand(ExampleCommand):
    """A command with a filter: `-server:github` is a negated term and not an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Terms may have any order, so those that look like options are moved behind `--`.
        end = args.index("--") if "--" in args else len(args)
        terms = [word for word in args[:end] if _NEGATED_TERM.match(word)]
        others = [word for word in args[:end] if not _NEGATED_TERM.match(word)]
        return super().parse_args(ctx, [*others, "--", *terms, *args[end + 1 :]])


def with_shared_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of all commands, passed as the first argument."""
    return _with_options(command, option_list.SHARED_OPTIONS)


def with_serving_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add these, and those of commands that serve clients."""
    return _with_options(command, (*option_list.SHARED_OPTIONS, option_list.TRANSPARENT), "command")


def with_remote_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add these, and those of commands that can use a running gateway."""
    return _with_options(command, (*option_list.REMOTE_OPTIONS, *option_list.SHARED_OPTIONS))


def _with_options(
    command: Callable[..., int],
    option_definitions: tuple[option_list.Option, ...],
    *extra_names: str,
) -> Callable[..., int]:
    """`extra_names` are members of `SharedOptions` that are not options."""
    names = [option.name.removeprefix("--").replace("-", "_") for option in option_definitions]
    names += extra_names

    @wraps(command)
    def with_options(**values: Any) -> int:
        options = option_list.SharedOptions(**{name: values.pop(name) for name in names})
        return command(options, **values)

    decorated: Callable[..., int] = with_options
    for option in reversed(option_definitions):
        if option.metavar:
            paths = option in (option_list.CONFIG, option_list.STATE_DIR)
            decorate: _Decorator[Callable[..., int]] = click.option(
                option.name,
                metavar=option.metavar,
                multiple=option.repeatable,
                type=click.Path(path_type=Path) if paths else str,
                help=option.help,
            )
        else:
            decorate = click.option(option.name, is_flag=True, help=option.help)
        decorated = decorate(decorated)
    return decorated
