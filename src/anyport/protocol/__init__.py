"""The MCP protocol: revisions, methods, sessions, adapters between eras, errors. No I/O, no
clock."""
