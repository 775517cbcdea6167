"""Identity and capabilities of the server, and the methods both eras share."""

from collections.abc import Mapping
from typing import Final

from tests.peers.demo import apps, legacy_tasks, modern_tasks, skills
from tests.peers.demo.calls import Method
from tests.peers.demo.options import Options
from tests.peers.demo.prompts import complete, get_prompt, list_prompts
from tests.peers.demo.resources import list_resources, list_templates, read_resource
from tests.peers.demo.revisions import Json, Revision
from tests.peers.demo.tools import call_tool, list_tools

VERSION: Final = "1.0.0"

METHODS: Final[Mapping[str, Method]] = {
    "tools/list": list_tools,
    "tools/call": call_tool,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": read_resource,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
    "completion/complete": complete,
    "skills/list": skills.list_skills,
    "skills/get": skills.get_skill,
    "resources/directory/read": skills.read_directory,
}


def implementation(options: Options, revision: Revision) -> Json:
    full = {
        "name": options.name,
        "version": VERSION,
        "title": "Demonstration server",
        "description": "Shows every feature of the protocol, in every revision.",
    }
    return revision.trim("implementation", full)


def capabilities(options: Options, revision: Revision) -> Json:
    """Prompts and the list of resources never change, so nobody is promised notice of it."""
    able: Json = {"logging": {}, "prompts": {}, "resources": {}, "tools": {}}
    if options.style != "json":  # Without streams there is no way to give notice of anything.
        able["resources"] = {"subscribe": True}
        able["tools"] = {"listChanged": True}
    if revision.completions_capability:
        able["completions"] = {}
    if options.tasks and revision.tasks:
        able["tasks"] = legacy_tasks.CAPABILITY
    extensions: Json = {}
    if options.tasks and revision.enveloped:
        extensions[modern_tasks.EXTENSION] = {}
    if options.apps:
        extensions[apps.EXTENSION] = {}
    if options.skills:
        extensions[skills.EXTENSION] = skills.SETTINGS
    if extensions:
        able["extensions"] = extensions
    return able
