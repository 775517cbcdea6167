"""The command line: every command, its options and its help, on one page.

What a command does stands in the file of its name, imported when it runs; so `anyport --help`
is quick. The options that all share come from `options.py`.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from anyport import __version__
from anyport.cli import options
from anyport.cli.demo_server import EXAMPLE as DEMO_EXAMPLE
from anyport.cli.ending import GOOD, guarded
from anyport.cli.pages import Commands, FilterPage, Page, remote, shared


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
@click.option(options.UPGRADE.name, is_flag=True, help=options.UPGRADE.explained)
@shared
def serve(given: options.Given, host: str | None, port: int | None, upgrade: bool) -> int:
    """Serve clients over HTTP.

    Says where it listens and what to tell a client. With --profile only that profile is served.
    SIGTERM or Ctrl-C finishes what is open; a second one stops at once.
    """
    from anyport.cli.serve import serve

    return serve(given, options.Listening(host=host, port=port, upgrade=upgrade))


@commands.command(cls=Page, example="anyport stdio")
@shared
def stdio(given: options.Given) -> int:
    """Serve one client on stdin and stdout.

    This is the command to put into a client's configuration.
    """
    from anyport.cli.stdio import stdio

    return stdio(given)


@commands.command(cls=Page, example="anyport check --diff")
@click.option("--diff", is_flag=True, help="What a reload of the running gateway would change.")
@remote
def check(given: options.Given, diff: bool) -> int:
    """Say what is right and wrong with the configuration.

    With --diff, the running gateway is asked, at --url or at the address that the configuration
    says; exit code 1 if a reload would change something.
    """
    if diff:
        from anyport.cli.diff import diff as compare

        return compare(given)
    from anyport.cli.check import check

    return check(given)


@commands.command(cls=Page, example="anyport doctor")
@click.option(
    "--server", "servers", metavar="SLUG", multiple=True, help="Start only this server; repeatable."
)
@click.option("-v", "--verbose", is_flag=True, help="Show also what is good.")
@shared
def doctor(given: options.Given, **wish: Any) -> int:
    """Look for what is wrong, and say what mends it.

    Looks at this machine, the configuration, the address to listen on, the state directory and
    the files of clients, and starts every server to see what becomes of it. Changes nothing. The
    exit code is 1 if something does not work.
    """
    from anyport.cli.doctor import Wish, doctor

    return doctor(given, Wish(**wish))


@commands.command(cls=Page, example="anyport reload")
@remote
def reload(given: options.Given) -> int:
    """Have a running gateway take over its changed configuration.

    Without --url: the gateway at the address that the configuration says.
    """
    from anyport.cli.reload import reload

    return reload(given)


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


@commands.command(cls=Page, example="anyport why demo__add")
@click.argument("name")
@remote
def why(given: options.Given, name: str) -> int:
    """Say why a tool is there for a client, or is not.

    NAME is a tool, prompt or resource as clients or its server know it, server/tool, or a server.
    The exit code is 1 if it is not there.
    """
    from anyport.cli.why import why

    return why(given, name)


@commands.command(cls=FilterPage, example="anyport events --since 24h")
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@click.option("--type", "event_type", metavar="TYPE", help="Only this type, such as tool_call.")
@click.option(
    "--status", metavar="STATUS", help="Only pending, success, failure, cancelled or timeout."
)
@click.option("--since", metavar="WHEN", help="Not before: 15m, 24h, 7d, or an ISO time.")
@click.option("--trace", metavar="ID", help="Only this trace; its first digits will do.")
@click.option("--server", metavar="SLUG", help="Only this server.")
@click.option(
    "-n",
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


@commands.command(cls=FilterPage, example="anyport trace 4bf92f3577b34da6a3ce929d0e0e4736")
@click.argument("trace_id", metavar="ID")
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@remote
def trace(given: options.Given, trace_id: str, words: tuple[str, ...]) -> int:
    """Show everything that belongs to one trace.

    The first digits of ID will do, as 'anyport events' shows them.
    """
    from anyport.cli.trace import trace

    return trace(given, trace_id, words)


@commands.command(cls=FilterPage, example="anyport stats --since 7d")
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@click.option("--since", metavar="WHEN", help="Not before: 15m, 24h, 7d, or an ISO time.")
@click.option("--server", metavar="SLUG", help="Only this server.")
@remote
def stats(
    given: options.Given, words: tuple[str, ...], since: str | None, server: str | None
) -> int:
    """Count calls and failures, and how long calls took."""
    from anyport.cli.stats import stats

    return stats(given, words, since=since, server=server)


@commands.command(cls=FilterPage, example="anyport traffic server:github status:error since:1h")
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=50,
    help="At most so many, the newest: 1 to 1000, by default 50.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with new traffic as it comes.")
@remote
def traffic(given: options.Given, words: tuple[str, ...], limit: int, follow: bool) -> int:
    """Show every exchange between clients and servers.

    One line for each: who asked whom for what, how that ended, how long it took and whose time
    that was, how much was said.
    """
    from anyport.cli.traffic import traffic

    return traffic(given, words, limit=limit, follow=follow)


@commands.command(cls=Page, example="anyport show 00f067aa")
@click.argument("asked", metavar="ID")
@click.option("--full", is_flag=True, help="All of every payload, however long.")
@remote
def show(given: options.Given, asked: str, full: bool) -> int:
    """Show one exchange with both its sides, or all of a trace.

    The first digits of ID will do, as 'anyport traffic' shows them.
    """
    from anyport.cli.show import show

    return show(given, asked, full=full)


@commands.command(cls=FilterPage, example="anyport export since:24h --format har -o day.har")
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@click.option(
    "--format",
    "form",
    metavar="FORMAT",
    type=click.Choice(["jsonl", "har"]),
    default="jsonl",
    help="jsonl, or har for what travelled over HTTP.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file; else to standard output.",
)
@remote
def export(given: options.Given, words: tuple[str, ...], form: str, output: Path | None) -> int:
    """Write what was recorded, for other programs."""
    from anyport.cli.export import export

    return export(given, words, form=form, output=output)


@commands.command(cls=FilterPage, example="anyport erase principal:alice --yes")
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@click.option("--yes", is_flag=True, help="Do it; without this it is only told.")
@shared
def erase(given: options.Given, words: tuple[str, ...], yes: bool) -> int:
    """Erase what was said, and keep that it was said.

    Takes the payloads of every exchange that matches out of the record. The journal stays whole.
    """
    from anyport.cli.erase import erase

    return erase(given, words, yes=yes)


@commands.command(cls=FilterPage, example="anyport replay 00f067aa --set title=Again")
@click.argument("words", metavar="[ID | FILTER | PATH]...", nargs=-1)
@click.option("--server", metavar="SLUG", help="Send it to this server, with no gateway between.")
@click.option("--set", "edits", metavar="KEY=VALUE", multiple=True, help="Change an argument.")
@click.option("--args", "document", metavar="JSON", help="Arguments in place of the recorded ones.")
@click.option("--expect", "strict", is_flag=True, help="Every answer must be as expected.")
@click.option("--yes", is_flag=True, help="Ask nothing before a tool is called that may do harm.")
@remote
def replay(given: options.Given, **wish: Any) -> int:
    """Send again what was recorded, and compare the answers.

    PATH is an export, or files of requests with the answers that are expected. Sent to the server
    that was asked before, or to --server, --profile or --url. The exit code is 1 if an answer is
    not the same.
    """
    from anyport.cli.replay import Wish, replay

    return replay(given, Wish(**wish))


@commands.command(cls=FilterPage, example="anyport lint server:github since:24h")
@click.argument("words", metavar="[FILTER | FILE]...", nargs=-1)
@remote
def lint(given: options.Given, words: tuple[str, ...]) -> int:
    """Say where recorded traffic breaks the rules of MCP.

    FILE is an export, or a file of JSON-RPC messages, one a line. The exit code is 1 if a rule is
    broken that must not be.
    """
    from anyport.cli.lint import lint

    return lint(given, words)


@commands.command(cls=Page, example="anyport verify")
@click.option("--head", metavar="HEAD", help="A record that must be there, as told here before.")
@click.option("--key", metavar="KEY", help="The public key of the signer; else the one kept here.")
@shared
def verify(given: options.Given, head: str | None, key: str | None) -> int:
    """Say whether the journal is as it was written.

    Names the first record that was changed, removed or put in. The exit code is 1 if there is
    one.
    """
    from anyport.cli.verify import verify

    return verify(given, head=head, key=key)


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
