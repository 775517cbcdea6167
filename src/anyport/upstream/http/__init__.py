"""Servers behind a URL: Streamable HTTP and HTTP+SSE."""
