"""One call, from its admission to its answer."""
