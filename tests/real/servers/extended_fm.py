"""A server on FastMCP 4 that serves the skills of a directory, its only argument."""

import sys

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension

server = FastMCP("extended")
provider = SkillsDirectoryProvider(sys.argv[1], experimental_skills=True)
server.add_provider(provider)
server.add_extension(SkillsExtension(providers=[provider]))

if __name__ == "__main__":
    server.run("stdio", show_banner=False)
