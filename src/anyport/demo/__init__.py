"""Built-in demo server for the first run, over stdio and Streamable HTTP.

A server like any other: of the gateway it uses only `wire`.
"""
