"""Anyport: any MCP client, any MCP server, any protocol revision, any transport."""

__version__ = "0.1.0"
