"""Ingress: connections of clients, over stdio and HTTP."""
