"""Hooks: commands, requests and tool calls that events cause."""
