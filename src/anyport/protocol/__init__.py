"""What MCP says about frames: revisions, methods, sessions, eras. No I/O and no clock."""
