"""Where a request goes: names, catalogs, merged lists. Pure decisions, no I/O."""
