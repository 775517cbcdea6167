"""Clients over HTTP: connections, sessions, streams, and the door they come through."""
