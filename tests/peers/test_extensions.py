"""Optional features: views, skills, lists of many pages."""

import hashlib

import pytest

from tests.harness import Message
from tests.peers.demo.apps import MIME_TYPE, VIEW
from tests.peers.demo.skills import FILES, ROOT, SKILL
from tests.peers.demo.tools import TOOLS
from tests.peers.driver import KEY, Demo


def test_tools_name_their_view() -> None:
    with Demo("--apps") as demo:
        tools = {each["name"]: each for each in demo.ask_modern("tools/list")["result"]["tools"]}
        (page,) = demo.ask_modern("resources/read", {"uri": VIEW})["result"]["contents"]

    assert page["mimeType"] == MIME_TYPE
    about = tools["dice_again"]["_meta"]
    assert about["ui"] == {"resourceUri": VIEW, "visibility": ["app"]}
    assert about["ui/resourceUri"] == VIEW


# The methods of skills have no official schema, so the checks of the driver do not know them.
def test_a_skill_is_listed_with_the_digests_of_its_files() -> None:
    with Demo("--skills") as demo:
        demo.check = lambda message: None  # type: ignore[method-assign]
        declared = demo.handshake()["capabilities"]["extensions"]
        (entry,) = demo.ask("skills/list")["result"]["skills"]
        top = demo.ask("resources/directory/read", {"uri": ROOT})["result"]["resources"]

        assert f"{KEY}skills" in declared
        assert demo.ask("skills/get", {"uri": SKILL})["result"] == {"skill": entry}
        assert [child["name"] for child in top] == ["SKILL.md", "references"]
        assert {file["uri"] for file in entry["resources"]} == FILES.keys()
        for file in entry["resources"]:
            (contents,) = demo.ask("resources/read", {"uri": file["uri"]})["result"]["contents"]
            raw = contents["text"].encode()
            assert file["digest"] == f"sha256:{hashlib.sha256(raw).hexdigest()}"


@pytest.mark.parametrize("option", [[], ["--empty-cursor"]])
def test_a_client_that_follows_the_cursors_sees_every_tool(option: list[str]) -> None:
    with Demo("--page-size", "7", "--tools", "30", *option) as demo:
        demo.handshake()
        names: list[str] = []
        params: Message = {}
        while True:
            result = demo.ask("tools/list", params)["result"]
            names += [tool["name"] for tool in result["tools"]]
            if "nextCursor" not in result:
                break
            params = {"cursor": result["nextCursor"]}

        assert demo.ask("tools/list", {"cursor": "nonsense"})["error"]["code"] == -32602
        assert len(names) == len(set(names)) == len(TOOLS) + 30
        assert names[-1] == "tool_0029"
