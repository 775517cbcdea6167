"""Adapters for clients and servers of both eras, and translations between the eras."""
