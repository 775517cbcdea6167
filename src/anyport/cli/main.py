"""The command line: every command, its options and its help, on one page.

What a command does stands in the file of its name, imported when it runs; so `anyport --help`
is quick. The options that all share come from `options.py`.
"""

import os
import sys
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from anyport import __version__
from anyport.cli import options
from anyport.cli.demo_server import EXAMPLE as DEMO_EXAMPLE
from anyport.cli.ending import GOOD, guarded
from anyport.config.faults import nearest

NEXT_STEPS: Final = (
    ("anyport check", "says what is configured: at first, a demo server"),
    ("anyport tools", "lists the tools that a client would see"),
    ("anyport serve", "serves them over HTTP, and says what to tell your client"),
    ("anyport stdio", "is the command for a client that launches one"),
)

_F = TypeVar("_F", bound=Callable[..., Any])
_Decorator = Callable[[_F], _F]


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
            from anyport.cli.setup import default_places

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


def main(argv: list[str]) -> int:
    """Run a command; the exit code."""
    return guarded(partial(_run, argv))


def _run(argv: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # What the locale cannot show is no reason to fail.
            stream.reconfigure(errors="replace")
    # Not `commands.main`, which has endings of its own for an interrupt and for a closed pipe.
    try:
        with commands.make_context("anyport", argv) as context:
            code = commands.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return code if isinstance(code, int) else GOOD


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


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="anyport %(version)s")
@click.pass_context
def commands(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@commands.command(cls=Page, example="anyport serve --port 8640")
@click.option(options.HOST.name, metavar=options.HOST.metavar, help=options.HOST.explained)
@click.option(
    options.PORT.name,
    metavar=options.PORT.metavar,
    type=click.IntRange(0, options.PORT_MAX),
    help=options.PORT.explained,
)
@shared
def serve(given: options.Given, host: str | None, port: int | None) -> int:
    """Serve clients over HTTP.

    Says where it listens and what to tell a client. With --profile only that profile is served.
    SIGTERM or Ctrl-C finishes what is open; a second one stops at once.
    """
    from anyport.cli.serve import serve

    return serve(given, options.Listening(host=host, port=port))


@commands.command(cls=Page, example="anyport stdio")
@shared
def stdio(given: options.Given) -> int:
    """Serve one client on stdin and stdout.

    This is the command to put into a client's configuration.
    """
    from anyport.cli.stdio import stdio

    return stdio(given)


@commands.command(cls=Page, example="anyport check")
@shared
def check(given: options.Given) -> int:
    """Say what is right and wrong with the configuration."""
    from anyport.cli.check import check

    return check(given)


@commands.command(cls=Page, example="anyport tools")
@click.argument("name", required=False)
@click.option("--server", metavar="SLUG", help="Only the tools of this server.")
@remote
def tools(given: options.Given, server: str | None, name: str | None) -> int:
    """List the tools that a client would see, or explain one.

    With NAME: what that tool does, which arguments it takes, and how to call it.
    """
    from anyport.cli.tools import tools

    return tools(given, server, name)


@commands.command(cls=Page, example="anyport call demo__add a=2 b=3")
@click.argument("name")
@click.argument("words", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--args", "document", metavar="JSON", help="Arguments as a JSON object.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the first picture or file of the result.",
)
@click.option("-v", "--verbose", count=True, help="Print progress and log messages; -vv: all logs.")
@remote
def call(given: options.Given, **wish: Any) -> int:
    """Call a tool and print its result.

    KEY=VALUE becomes what the tool's schema says; KEY:=JSON is taken as JSON, KEY=@FILE reads a
    file.
    """
    from anyport.cli.call import Wish, call

    return call(given, Wish(**wish))


@commands.command(cls=Page, example="anyport status")
@click.option("-f", "--follow", is_flag=True, help="Say it again every two seconds.")
@remote
def status(given: options.Given, follow: bool) -> int:
    """Start the servers and say how each is doing.

    With --url, those of a gateway that runs already. The exit code is 1 if one that is not
    disabled does not run.
    """
    from anyport.cli.status import status

    return status(given, follow=follow)


@commands.command(cls=Page, example="anyport events --since 24h")
@click.option("--type", "event_type", metavar="TYPE", help="Only this type, such as tool_call.")
@click.option(
    "--status", metavar="STATUS", help="Only pending, success, failure, cancelled or timeout."
)
@click.option("--since", metavar="WHEN", help="Not before: 15m, 24h, 7d, or an ISO time.")
@click.option("--trace", metavar="ID", help="Only this trace; its first digits will do.")
@click.option("--server", metavar="SLUG", help="Only this server.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=100,
    help="At most so many, the newest: 1 to 1000, by default 100.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with new events as they come.")
@remote
def events(given: options.Given, follow: bool, **wanted: Any) -> int:
    """Show what happened, from the journal; starts no gateway."""
    from anyport.cli.events import Wanted, events

    return events(given, Wanted(**wanted).judged(), follow=follow)


@commands.command(cls=Page, example="anyport trace 4bf92f3577b34da6a3ce929d0e0e4736")
@click.argument("trace_id", metavar="ID")
@remote
def trace(given: options.Given, trace_id: str) -> int:
    """Show everything that belongs to one trace.

    The first digits of ID will do, as 'anyport events' shows them.
    """
    from anyport.cli.trace import trace

    return trace(given, trace_id)


@commands.command(cls=Page, example="anyport stats --since 7d")
@click.option("--since", metavar="WHEN", help="Not before: 15m, 24h, 7d, or an ISO time.")
@click.option("--server", metavar="SLUG", help="Only this server.")
@remote
def stats(given: options.Given, since: str | None, server: str | None) -> int:
    """Count calls and failures, and how long calls took."""
    from anyport.cli.stats import stats

    return stats(given, since=since, server=server)


@commands.command(
    "demo-server",
    cls=Page,
    example=DEMO_EXAMPLE,
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
def demo_server(argv: tuple[str, ...]) -> int:
    """Run a small MCP server, for trying things out."""
    from anyport.cli.demo_server import demo_server

    return demo_server(list(argv))
