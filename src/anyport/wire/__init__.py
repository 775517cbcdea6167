"""Bytes to JSON-RPC frames and back. Knows JSON-RPC 2.0, not MCP; does no I/O."""
