"""Connections to MCP servers: pool, supervision, lists and subscriptions."""
