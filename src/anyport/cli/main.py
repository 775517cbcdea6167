"""The command line: all commands with their options and help.

Each command is implemented in the module of its name, which is imported when the command runs, so
that `anyport --help` is fast.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from anyport import __version__
from anyport.cli import options as option_list
from anyport.cli.commands.demo_server import EXAMPLE as DEMO_EXAMPLE
from anyport.cli.exit_codes import SUCCESS, run_guarded
from anyport.cli.help_pages import (
    CommandGroup,
    ExampleCommand,
    FilterCommand,
    ServingCommand,
    with_remote_options,
    with_serving_options,
    with_shared_options,
)


def main(argv: list[str]) -> int:
    """Run a command and return the exit code."""
    return run_guarded(partial(_run, argv))


def _run(argv: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A character that the locale cannot encode must not end the command.
            stream.reconfigure(errors="replace")
    # Not `commands.main()`, which handles interrupts and closed pipes in its own way.
    try:
        with commands.make_context("anyport", argv) as context:
            code = commands.invoke(context)
    except click.exceptions.Exit as exit:
        return exit.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return code if isinstance(code, int) else SUCCESS


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="anyport %(version)s")
@click.pass_context
def commands(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@commands.command(cls=ServingCommand, example="anyport serve --port 8640")
@click.option(option_list.HOST.name, metavar=option_list.HOST.metavar, help=option_list.HOST.help)
@click.option(
    option_list.PORT.name,
    metavar=option_list.PORT.metavar,
    type=click.IntRange(0, option_list.PORT_MAX),
    help=option_list.PORT.help,
)
@click.option(option_list.UPGRADE.name, is_flag=True, help=option_list.UPGRADE.help)
@with_serving_options
def serve(
    options: option_list.SharedOptions, host: str | None, port: int | None, upgrade: bool
) -> int:
    """Run the gateway over HTTP.

    Prints the URL of each profile and how to add it to a client. With --profile, serves only that
    profile. With -- COMMAND, serves only the server that this command starts.
    SIGTERM or Ctrl-C lets open requests finish; a second one stops at once.
    """
    from anyport.cli.serve.serve import serve

    return serve(options, option_list.ListenOptions(host=host, port=port, upgrade=upgrade))


@commands.command(cls=ServingCommand, example="anyport stdio")
@with_serving_options
def stdio(options: option_list.SharedOptions) -> int:
    """Run the gateway on stdin and stdout, for one client.

    This is the command to put into a client's configuration. With -- COMMAND, serves only the
    server that this command starts.
    """
    from anyport.cli.commands.stdio import stdio

    return stdio(options)


@commands.command(cls=ExampleCommand, example="anyport check --diff")
@click.option(
    "--diff", is_flag=True, help="Show what a reload of the running gateway would change."
)
@with_remote_options
def check(options: option_list.SharedOptions, diff: bool) -> int:
    """Check the configuration.

    With --diff, asks the running gateway at --url, or at the configured address. The exit code is
    then 1 if a reload would change something.
    """
    if diff:
        from anyport.cli.commands.reload import preview_reload

        return preview_reload(options)
    from anyport.cli.commands.check import check

    return check(options)


@commands.command(cls=ExampleCommand, example="anyport doctor")
@click.option(
    "--server",
    "servers",
    metavar="SLUG",
    multiple=True,
    help="Start only this server; can be repeated.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also show what is OK.")
@with_shared_options
def doctor(options: option_list.SharedOptions, **selection: Any) -> int:
    """Find problems, and how to fix them.

    Checks this machine, the configuration, the listen address, the state directory and the
    configuration files of clients, and starts every server once. Changes nothing. The exit code
    is 1 if something does not work.
    """
    from anyport.cli.commands.doctor import DoctorOptions, doctor

    return doctor(options, DoctorOptions(**selection))


@commands.command(cls=ExampleCommand, example="anyport reload")
@with_remote_options
def reload(options: option_list.SharedOptions) -> int:
    """Make the running gateway reload its configuration.

    Without --url, this is the gateway at the configured address.
    """
    from anyport.cli.commands.reload import reload

    return reload(options)


@commands.command(cls=ExampleCommand, example="anyport tools")
@click.argument("name", required=False)
@click.option("--server", metavar="SLUG", help="Only the tools of this server.")
@with_remote_options
def tools(options: option_list.SharedOptions, server: str | None, name: str | None) -> int:
    """List the tools that a client sees, or describe one.

    With NAME, prints what the tool does, its arguments, and how to call it.
    """
    from anyport.cli.commands.tools import tools

    return tools(options, server, name)


@commands.command(cls=ExampleCommand, example="anyport call demo__add a=2 b=3")
@click.argument("name")
@click.argument("words", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--args", "document", metavar="JSON", help="Arguments as a JSON object.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the first image or file of the result to FILE.",
)
@click.option("-v", "--verbose", count=True, help="Print progress and log messages; -vv: all logs.")
@with_remote_options
def call(options: option_list.SharedOptions, **selection: Any) -> int:
    """Call a tool and print its result.

    KEY=VALUE is converted to the type in the tool's schema. KEY:=JSON passes JSON, and KEY=@FILE
    reads a file.
    """
    from anyport.cli.commands.call import CallOptions, call

    return call(options, CallOptions(**selection))


@commands.command(cls=ExampleCommand, example="anyport status")
@click.option("-f", "--follow", is_flag=True, help="Print the status again every two seconds.")
@with_remote_options
def status(options: option_list.SharedOptions, follow: bool) -> int:
    """Start the servers, and show the status of each.

    With --url, shows the servers of the running gateway. The exit code is 1 if a server that is
    not disabled does not run.
    """
    from anyport.cli.commands.status import status

    return status(options, follow=follow)


@commands.command(cls=ExampleCommand, example="anyport why demo__add")
@click.argument("name")
@with_remote_options
def why(options: option_list.SharedOptions, name: str) -> int:
    """Explain why a client sees a tool, or does not.

    NAME is a public or native name of a tool, prompt or resource, server/tool, or a server. The
    exit code is 1 if clients do not see it.
    """
    from anyport.cli.commands.why import why

    return why(options, name)


@commands.command(cls=FilterCommand, example="anyport events --since 24h")
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@click.option("--type", "event_type", metavar="TYPE", help="Only this type, such as tool_call.")
@click.option(
    "--status", metavar="STATUS", help="Only pending, success, failure, cancelled or timeout."
)
@click.option("--since", metavar="WHEN", help="Not older than 15m, 24h or 7d, or than an ISO time.")
@click.option("--trace", metavar="ID", help="Only this trace; the first digits are enough.")
@click.option("--server", metavar="SLUG", help="Only this server.")
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=100,
    help="Show at most the newest N, 1 to 1000; 100 by default.",
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new events.")
@with_remote_options
def events(options: option_list.SharedOptions, follow: bool, **selection: Any) -> int:
    """Show events from the journal."""
    from anyport.cli.commands.events import EventQuery, events

    return events(options, EventQuery(**selection).validated(), follow=follow)


@commands.command(cls=FilterCommand, example="anyport trace 4bf92f3577b34da6a3ce929d0e0e4736")
@click.argument("trace_id", metavar="ID")
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@with_remote_options
def trace(options: option_list.SharedOptions, trace_id: str, words: tuple[str, ...]) -> int:
    """Show all events of one trace.

    The first digits of ID are enough, as 'anyport events' shows them.
    """
    from anyport.cli.commands.trace import trace

    return trace(options, trace_id, words)


@commands.command(cls=FilterCommand, example="anyport stats --since 7d")
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@click.option("--since", metavar="WHEN", help="Not older than 15m, 24h or 7d, or than an ISO time.")
@click.option("--server", metavar="SLUG", help="Only this server.")
@with_remote_options
def stats(
    options: option_list.SharedOptions,
    words: tuple[str, ...],
    since: str | None,
    server: str | None,
) -> int:
    """Show call counts, failures and latencies."""
    from anyport.cli.commands.stats import stats

    return stats(options, words, since=since, server=server)


@commands.command(cls=FilterCommand, example="anyport traffic server:github status:error since:1h")
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=50,
    help="Show at most the newest N, 1 to 1000; 50 by default.",
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new traffic.")
@with_remote_options
def traffic(
    options: option_list.SharedOptions, words: tuple[str, ...], limit: int, follow: bool
) -> int:
    """Show every exchange between clients and servers.

    One line each: client and server, method, target, outcome, time in gateway, queue and server,
    and sizes.
    """
    from anyport.cli.commands.traffic import traffic

    return traffic(options, words, limit=limit, follow=follow)


@commands.command(cls=ExampleCommand, example="anyport show 00f067aa")
@click.argument("id", metavar="ID")
@click.option("--full", is_flag=True, help="Show whole payloads, however long.")
@with_remote_options
def show(options: option_list.SharedOptions, id: str, full: bool) -> int:
    """Show one exchange on both its sides, or a whole trace.

    The first digits of ID are enough, as 'anyport traffic' shows them.
    """
    from anyport.cli.commands.show import show

    return show(options, id, full=full)


@commands.command(cls=FilterCommand, example="anyport export since:24h --format har -o day.har")
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@click.option(
    "--format",
    "format",
    metavar="FORMAT",
    type=click.Choice(["jsonl", "har"]),
    default="jsonl",
    help="jsonl, or har with only what travelled over HTTP.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to FILE instead of standard output.",
)
@with_remote_options
def export(
    options: option_list.SharedOptions, words: tuple[str, ...], format: str, output: Path | None
) -> int:
    """Export recorded traffic for other programs."""
    from anyport.cli.commands.export import export

    return export(options, words, format=format, output=output)


@commands.command(cls=FilterCommand, example="anyport erase principal:alice --yes")
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@click.option("--yes", is_flag=True, help="Erase; without this, only show what would be erased.")
@with_shared_options
def erase(options: option_list.SharedOptions, words: tuple[str, ...], yes: bool) -> int:
    """Erase recorded payloads.

    Removes the payloads of all matching exchanges. Their events stay in the journal.
    """
    from anyport.cli.commands.erase import erase

    return erase(options, words, yes=yes)


@commands.command(cls=FilterCommand, example="anyport replay 00f067aa --set title=Again")
@click.argument("words", metavar="[ID | FILTER | PATH]...", nargs=-1)
@click.option(
    "--server", metavar="SLUG", help="Send to this server directly, not through a gateway."
)
@click.option("--set", "edits", metavar="KEY=VALUE", multiple=True, help="Change an argument.")
@click.option(
    "--args", "document", metavar="JSON", help="Use these arguments instead of the recorded ones."
)
@click.option("--expect", "strict", is_flag=True, help="Require every answer to be as expected.")
@click.option("--yes", is_flag=True, help="Do not ask before calling a tool that may do harm.")
@with_remote_options
def replay(options: option_list.SharedOptions, **selection: Any) -> int:
    """Send recorded requests again, and compare the answers.

    PATH is an export, or files with requests and expected answers. Requests go to the recorded
    server, or to --server, --profile or --url. The exit code is 1 if an answer differs.
    """
    from anyport.cli.commands.replay import ReplayOptions, replay

    return replay(options, ReplayOptions(**selection))


@commands.command(cls=FilterCommand, example="anyport lint server:github since:24h")
@click.argument("words", metavar="[FILTER | FILE]...", nargs=-1)
@with_remote_options
def lint(options: option_list.SharedOptions, words: tuple[str, ...]) -> int:
    """Find violations of the MCP specification in recorded traffic.

    FILE is an export, or a file with one JSON-RPC message per line. The exit code is 1 if there
    is an error.
    """
    from anyport.cli.commands.lint import lint

    return lint(options, words)


@commands.command(cls=ExampleCommand, example="anyport verify")
@click.option(
    "--head", metavar="HEAD", help="A record that must exist, as an earlier run printed it."
)
@click.option(
    "--key", metavar="KEY", help="The public key; by default the one in the state directory."
)
@with_shared_options
def verify(options: option_list.SharedOptions, head: str | None, key: str | None) -> int:
    """Verify that the journal was not changed.

    Reports the first record that was changed, removed or inserted. The exit code is then 1.
    """
    from anyport.cli.commands.verify import verify

    return verify(options, head=head, key=key)


@commands.command(
    "demo-server",
    cls=ExampleCommand,
    example=DEMO_EXAMPLE,
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
def demo_server(argv: tuple[str, ...]) -> int:
    """Run a small MCP server for trials."""
    from anyport.cli.commands.demo_server import demo_server

    return demo_server(list(argv))
