"""The built-in demonstration server: a complete MCP server to try a gateway against.

It stands alone. It imports nothing from the rest of Anyport, so that a mistake in the gateway's
reading of the protocol cannot be repeated here and go unnoticed.
"""
