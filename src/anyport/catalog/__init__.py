"""Catalog of a profile: public names and URIs, merged lists, routing and paging."""
