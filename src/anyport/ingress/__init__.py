"""Connections in: where clients' bytes come from and go to."""
