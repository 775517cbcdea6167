"""Wire formats: bytes to JSON-RPC frames and back, lines, event streams and HTTP/1.1 heads. No I/O,
no MCP."""
