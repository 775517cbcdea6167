"""Servers that are stopped when nobody uses them, and only then, and are back on the next use."""

import sys
from pathlib import Path

import pytest

from tests.harness import DEMO, Message
from tests.journeys.clients import META, ModernClient, SessionClient, names
from tests.journeys.http_gateway import serving
from tests.journeys.scripts import Scripted, eventually, result, rule, said, text, tools
from tests.peers.http_driver import HttpDemo
from tests.rig.idle_servers import (
    ELICITATION,
    FORM_ANSWER,
    IDLE_SECONDS,
    backend,
    clock,
    lazily,
    outlast,
    resting,
    wait_for,
)
from tests.upstream.processes import marked, new_mark


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("--modern-only",),
        ("--legacy-only", "--transport", "streamable"),
        ("--legacy-only", "--transport", "sse"),
    ],
)
def test_a_connection_to_a_server_behind_a_url_is_closed_and_opened_again(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with HttpDemo(*options) as demo:
        path = "sse" if "sse" in options else "mcp"
        url = f"http://127.0.0.1:{demo.port}/{path}"
        servers = {"it": {"url": url, "start": "first-use", "idleSeconds": IDLE_SECONDS}}
        with serving(tmp_path, servers) as site:
            client = ModernClient(site)
            known = names(client)
            for number in range(3):
                wait_for(client, "it", "idle")
                assert names(client) == known
                assert said(client.call("it__echo", {"text": f"{number}"})) == f"{number}"
            assert backend(client, "it")["restarts"] == 0


@pytest.mark.slow
def test_a_session_over_http_is_asked_by_a_server_that_its_call_has_started(
    tmp_path: Path,
) -> None:
    servers = {
        "it": lazily([*DEMO, "--legacy-only"], idleSeconds=IDLE_SECONDS),
        "clock": clock(tmp_path),
    }
    with serving(tmp_path, servers) as site:
        client = SessionClient(site, capabilities=ELICITATION)
        names(client)
        wait_for(client, "it", "idle")

        asking = client.start("tools/call", {"name": "it__elicit", "arguments": {}})
        asked = asking.wait_method("elicitation/create")
        outlast(SessionClient(site))  # A person takes their time.
        assert backend(client, "it")["status"] == "running"
        client.reply(asked, FORM_ANSWER)

        assert "Ada" in said(asking.ending())
        wait_for(client, "it", "idle")


@pytest.mark.slow
@pytest.mark.parametrize("era", ["--legacy-only", "--modern-only"])
def test_a_server_is_not_stopped_while_a_modern_client_fetches_an_answer(
    tmp_path: Path, era: str
) -> None:
    mark = new_mark()
    it = lazily([*DEMO, era], idleSeconds=IDLE_SECONDS, env={"MARK": mark})
    with serving(tmp_path, {"it": it, "clock": clock(tmp_path)}) as site:
        client = ModernClient(site, **{f"{META}clientCapabilities": ELICITATION})
        names(client)
        wait_for(client, "it", "idle")
        eventually(lambda: not marked(mark), "the end of the process that listed")
        params: Message = {"name": "it__elicit", "arguments": {}}

        needs = client.request("tools/call", params)["result"]
        assert needs["resultType"] == "input_required"
        during = marked(mark)
        outlast(SessionClient(site))
        assert during & marked(mark) == during, "what it knows of the call, it has in memory"
        (key,) = needs["inputRequests"]
        answers = {"inputResponses": {key: FORM_ANSWER}, "requestState": needs["requestState"]}
        answer = client.request("tools/call", {**params, **answers})

        assert "Ada" in said(answer)


@pytest.mark.slow
@pytest.mark.parametrize("era", ["--legacy-only", "--modern-only"])
def test_who_follows_a_resource_has_its_server_running(tmp_path: Path, era: str) -> None:
    servers = {"it": lazily([*DEMO, era], idleSeconds=IDLE_SECONDS), "clock": clock(tmp_path)}
    counter = {"uri": "demo://counter"}
    with serving(tmp_path, servers) as site:
        client = SessionClient(site)
        names(client)
        wait_for(client, "it", "idle")

        assert "result" in client.request("resources/subscribe", counter)
        outlast(client)
        assert backend(client, "it")["status"] == "running"
        stream = client.listen()
        client.call("it__touch")
        assert stream.wait_method("notifications/resources/updated")["params"] == counter
        client.request("resources/unsubscribe", counter)
        wait_for(client, "it", "idle")

        listening = ModernClient(site).listen(resourceSubscriptions=[counter["uri"]])
        assert listening.wait_method("notifications/subscriptions/acknowledged")["params"][
            "notifications"
        ] == {"resourceSubscriptions": [counter["uri"]]}
        assert backend(client, "it")["status"] == "running"
        outlast(client)
        client.call("it__touch")
        updated = listening.wait_method("notifications/resources/updated")["params"]
        assert updated["uri"] == counter["uri"]
        listening.close()
        wait_for(client, "it", "idle")


@pytest.mark.slow
def test_a_server_is_not_stopped_while_it_works_on_a_call_or_a_task(tmp_path: Path) -> None:
    slow = Scripted(tmp_path / "slow", tools("wait"), rule("tools/call"))
    task = [*DEMO, "--modern-only", "--tasks"]
    servers = {"slow": resting(slow.command), "task": resting(task), "clock": clock(tmp_path)}
    with serving(tmp_path, servers) as site:
        knows_tasks: Message = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        client = ModernClient(site, **{f"{META}clientCapabilities": knows_tasks})
        names(client)
        brewing = client.call("task__brew", {"cups": 1, "hold": True})["result"]
        waiting = client.start("tools/call", {"name": "slow__wait", "arguments": {}}, id=1)
        slow.wait_heard("tools/call")

        outlast(SessionClient(site))

        assert backend(client, "slow")["status"] == "running"
        assert backend(client, "task")["status"] == "running"
        waiting.close()
        client.request("tasks/cancel", {"taskId": brewing["taskId"]})
        wait_for(client, "slow", "idle")
        client.request("tasks/get", {"taskId": brewing["taskId"]})
        wait_for(client, "task", "idle")


@pytest.mark.slow
def test_a_lazy_server_that_crashes_is_left_alone_until_the_next_call(tmp_path: Path) -> None:
    servers = {"it": lazily([*DEMO, "--legacy-only"])}
    with serving(tmp_path, servers) as site:
        client = SessionClient(site)
        names(client)
        client.call("it__exit", {"code": 7})

        eventually(
            lambda: "on the next use" in backend(client, "it").get("reason", ""), "left alone"
        )
        report = backend(client, "it")
        assert report["status"] == "failed"
        assert report["reason"].startswith("exit code 7")
        assert report["list"] == "last known"

        # Who calls now does not get the crash of another for an answer.
        assert said(client.call("it__echo", {"text": "here"})) == "here"
        assert backend(client, "it")["restarts"] == 1


@pytest.mark.slow
def test_a_lazy_server_that_cannot_start_costs_one_attempt_a_use(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    work = tools("work")
    good = Scripted(tmp_path / "server", work, rule("tools/call", result(text("done"))))
    switch = tmp_path / "broken"
    source = (
        f"import os, sys\nif os.path.exists({str(switch)!r}):\n"
        f"    open({str(starts)!r}, 'a').write('.')\n    sys.exit(3)\n"
        f"os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-I", "-S", "-c", source, *good.command]
    with serving(tmp_path, {"it": lazily(command, idleSeconds=IDLE_SECONDS)}) as site:
        client = SessionClient(site)
        names(client)
        wait_for(client, "it", "idle")
        switch.touch()

        answer = client.call("it__work")
        assert "exit code 3" in answer["error"]["message"]
        eventually(
            lambda: "on the next use" in backend(client, "it").get("reason", ""), "left alone"
        )
        attempts = starts.stat().st_size
        assert attempts <= 4, "two processes each: one may have died of the probe"

        switch.unlink()
        assert said(client.call("it__work")) == "done"
        assert starts.stat().st_size == attempts
