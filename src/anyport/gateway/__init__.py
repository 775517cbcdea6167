"""The gateway: calls, lists, sessions and servers put together. Start with `relay.py`."""
