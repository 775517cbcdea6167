"""Ingress over HTTP: connections, access control, sessions, streams."""
