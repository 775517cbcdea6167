"""Servers over HTTP: a client with kept-open connections, and MCP's two transports on it."""
