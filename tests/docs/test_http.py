"""What the pages say of HTTP is true: examples are answered so, statuses and numbers are ours."""

import re
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from anyport.cli.serve.banner import make_banner
from anyport.cli.serve.serve import DRAIN_SECONDS_MAX, LAME_DUCK_SECONDS
from anyport.cli.setup import describe_nothing_found
from anyport.config import demo_config, load
from anyport.gateway.api.stream import FOLLOWERS_MAX
from anyport.gateway.calls.deadline import SLOW_CALL_SECONDS
from anyport.ingress.http.connection import (
    BODY_BYTES_MAX,
    BODY_SECONDS_MAX,
    HEAD_SECONDS_MAX,
    KEEP_ALIVE_SECONDS,
    STALLED_SECONDS_MAX,
    STREAM_UNSENT_BYTES_MAX,
)
from anyport.ingress.http.sessions import STREAM_AFTER_PRIMED_SECONDS, STREAM_AFTER_SECONDS
from anyport.ingress.http.streams import EVENT_BYTES_KEPT_MAX, EVENTS_KEPT_MAX, RETRY_MS
from anyport.protocol.errors import TOO_MANY_REQUESTS, UNAVAILABLE
from anyport.upstream.http.streamable import HANDSHAKE_SECONDS_MAX
from anyport.wire.http1 import HEAD_BYTES_MAX, HEAD_FIELDS_MAX
from tests.cli.running import Running, running
from tests.docs.test_docs import FENCE, PACKAGE, PAGES, text_of

DOCUMENTED: Final = "http://127.0.0.1:8640"
MIB: Final = 1024 * 1024

NUMBERS: Final = [
    (
        "docs/reference/http.md",
        f"longer than {STREAM_AFTER_SECONDS:g} s, {STREAM_AFTER_PRIMED_SECONDS:g} s in a session",
    ),
    ("docs/reference/http.md", f"comment every {KEEP_ALIVE_SECONDS:g} s keeps"),
    ("docs/reference/http.md", f"last {EVENTS_KEPT_MAX} events of a session are kept"),
    ("docs/reference/http.md", f"and {EVENT_BYTES_KEPT_MAX // MIB} MiB of them"),
    ("docs/reference/http.md", f"a `retry` of {({1000: 'one'})[RETRY_MS]} second"),
    ("docs/reference/http.md", f"lets {STREAM_UNSENT_BYTES_MAX // MIB} MiB of a stream wait"),
    ("docs/reference/http.md", f"reads nothing for {STALLED_SECONDS_MAX:g} s"),
    (
        "docs/reference/http.md",
        f"{HEAD_SECONDS_MAX:g} s for the header, {BODY_SECONDS_MAX:g} s for the body",
    ),
    ("docs/reference/http.md", f"a body of more than {BODY_BYTES_MAX // MIB} MiB"),
    (
        "docs/reference/http.md",
        f"more than {HEAD_BYTES_MAX // 1024} KiB or {HEAD_FIELDS_MAX} fields",
    ),
    ("docs/guides/servers.md", f"Each attempt may take {HANDSHAKE_SECONDS_MAX:g} seconds"),
    ("docs/reference/commands/serve.md", f"up to {LAME_DUCK_SECONDS:g} s others"),
    ("docs/reference/commands/serve.md", f"and {DRAIN_SECONDS_MAX:g} s later"),
    ("docs/reference/api.md", f"At most {FOLLOWERS_MAX} can follow"),
    ("docs/reference/events.md", f"takes longer than {({1.0: 'a second'})[SLOW_CALL_SECONDS]}"),
]
"""What stands in a sentence and comes from a constant."""


@pytest.mark.parametrize(("page", "words"), NUMBERS)
def test_a_number_in_a_sentence_is_that_of_the_code(page: str, words: str) -> None:
    assert words in re.sub(r"\s+", " ", text_of(page))


# Statuses and codes.


def statuses_in_the_code() -> set[str]:
    sources = [*(PACKAGE / "ingress" / "http").glob("*.py"), PACKAGE / "wire" / "http1.py"]
    text = "".join(source.read_text("utf-8") for source in sources)
    text = re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
    given = r"(?:status=|BadMessage\(|refuse\(|answer\(|frame\.id, |request_id, |: )([1-5]\d\d)\b"
    return set(re.findall(given, text)) - {"100"}


def test_every_status_is_on_the_page() -> None:
    listed = set(re.findall(r"^\| (\d{3}) \|", text_of("docs/reference/http.md"), re.MULTILINE))
    turned_away = {str(UNAVAILABLE), str(TOO_MANY_REQUESTS)}
    assert statuses_in_the_code() | {"200"} | turned_away == listed


def test_the_statuses_of_modern_errors_are_on_the_page() -> None:
    source = "".join(path.read_text("utf-8") for path in (PACKAGE / "ingress/http").glob("*.py"))
    [table] = re.findall(r"MODERN_STATUSES: Final = \{(.*?)\}", source, re.DOTALL)
    rows = re.findall(
        r"^\| (-32\d{3}) \| (\d{3}) \|", text_of("docs/reference/http.md"), re.MULTILINE
    )
    assert sorted(rows) == sorted(re.findall(r"(-32\d{3}): (\d{3})", table))


# What goes wrong with servers behind a URL.

VARIABLE: Final = re.compile(
    r"it <refusal>|HTTP (?:\d+|<status>)|<[^>]*>|\d{4}-\d\d-\d\d|\d+|Server 'x'|the server "
)
"""What is filled in."""


def sentences_about_urls() -> list[str]:
    page = text_of("docs/reference/errors.md")
    [section] = re.findall(r"^### Servers behind a URL$(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`.+?) \| ", section, re.MULTILINE)
    return [sentence for row in rows for sentence in re.findall(r"`([^`]+)`", row)]


@pytest.fixture(scope="module")
def wording() -> str:
    """The texts of the code that speaks with servers, with what is filled in left out."""
    files = sorted((PACKAGE / "upstream").rglob("*.py"))
    text = "".join(file.read_text("utf-8") for file in files)
    return re.sub(r'"\s*f?"', "", text)


@pytest.mark.parametrize("sentence", sentences_about_urls())
def test_a_sentence_about_a_url_can_be_said(sentence: str, wording: str) -> None:
    parts = [part.strip(" ()") for part in VARIABLE.split(sentence)]
    said = [part for part in parts if len(part) > 2]
    assert said
    for part in said:
        assert part in wording, part


# What a gateway says when it is ready.


@pytest.mark.parametrize("page", ["README.md", "docs/reference/commands/serve.md"])
def test_what_a_gateway_says_is_what_the_page_shows(page: str, tmp_path: Path) -> None:
    [shown] = [body for _, body in FENCE.findall(text_of(page)) if "is ready at" in body]
    config = demo_config()
    if "github" in shown:
        file = tmp_path / "anyport.toml"
        names = ("demo", "github", "docs")
        servers = "".join(f'[mcpServers.{name}]\ncommand = "x"\n' for name in names)
        profiles = (
            '[profiles.default]\nservers = ["demo"]\n[profiles.dev]\nservers = ["github","docs"]\n'
        )
        file.write_text(servers + profiles)
        config = load([file], {})
    told = "".join(
        f"{line}\n" for line in make_banner(config, "127.0.0.1", 8640).lines(colour=False)
    )
    before, _, _ = shown.partition("anyport 0.1.0")
    assert shown.removeprefix(before) == told
    if page == "README.md":
        vain = describe_nothing_found({"XDG_CONFIG_HOME": "/…/.venv"}).replace("/…", "…")
        assert before == f"anyport: {vain}; using the built-in demo server\n"
    else:
        assert not before


# Examples.


def test_the_configuration_behind_a_proxy_loads(tmp_path: Path) -> None:
    [body] = [
        body
        for syntax, body in FENCE.findall(text_of("docs/reference/http.md"))
        if syntax == "toml"
    ]
    file = tmp_path / "anyport.toml"
    file.write_text(body)
    gateway = load([file], {"TEAM_TOKEN": "x" * 32}).gateway
    assert gateway.allowed_hosts
    assert [token.name for token in gateway.tokens] == ["team"]


def examples() -> Iterator[tuple[str, str]]:
    """Every request with `curl` that goes to the documented address, and what is shown below."""
    fenced = re.compile(r"^```sh\n(.*?)^```\n(?:\n```(?:json|text)\n(.*?)^```$)?", re.M | re.S)
    for page in PAGES:
        for commands, shown in fenced.findall(text_of(page)):
            lines = commands.replace("\\\n", " ").splitlines()
            requests = [line for line in lines if line.startswith("curl ") and DOCUMENTED in line]
            for line in requests:
                yield line, shown if len(requests) == 1 else ""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway without a configuration: the demo server is behind it."""
    place = tmp_path_factory.mktemp("gateway")
    with running("--state-dir", str(place / "state"), XDG_CONFIG_HOME=str(place)) as there:
        yield there


def curl() -> ArgumentParser:
    parser = ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("-H", action="append", default=[], dest="fields")
    parser.add_argument("-X", default=None, dest="method")
    parser.add_argument("--json", default=None)
    parser.add_argument("-i", action="store_true", dest="head")
    parser.add_argument("-N", action="store_true", dest="stream")
    return parser


@pytest.mark.slow
@pytest.mark.parametrize(("line", "shown"), list(examples()))
def test_an_example_is_answered_as_the_page_shows(line: str, shown: str, gateway: Running) -> None:
    asked = curl().parse_args(shlex.split(line)[1:])
    status, answer = _answer(gateway, asked, events=max(1, shown.count("data: ")))
    assert status == (400 if "cursor=WzE3…" in line else 200), answer
    if shown:
        pattern = ".*".join(map(re.escape, shown.strip().split("…")))
        assert re.fullmatch(pattern, answer.strip(), re.DOTALL), answer


def _answer(gateway: Running, asked: Namespace, *, events: int) -> tuple[int, str]:
    """The status of a response, and what `curl` would print of it: the first events of a stream."""
    place = urlsplit(asked.url)
    fields = {"Accept": "*/*"}
    if asked.json is not None:
        fields = {"Content-Type": "application/json", "Accept": "application/json"}
    fields |= dict(re.split(r": *", field, maxsplit=1) for field in asked.fields)
    method = asked.method or ("GET" if asked.json is None else "POST")
    connection = gateway.connect()
    target = f"{place.path}?{place.query}" if place.query else place.path
    connection.request(method, target.replace("…", ""), asked.json, fields)
    response = connection.getresponse()
    if asked.stream:
        told = [b"".join(iter(response.readline, b"\n")) for _ in range(events)]
        return response.status, b"\n".join(told).decode()
    body = response.read().decode()
    if not asked.head:
        return response.status, body
    head = "".join(f"{name}: {value}\n" for name, value in response.getheaders())
    return response.status, f"HTTP/1.1 {response.status} {response.reason}\n{head}\n{body}"
