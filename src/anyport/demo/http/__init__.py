"""The demonstration server over HTTP: Streamable HTTP of every revision, and HTTP+SSE before it."""
