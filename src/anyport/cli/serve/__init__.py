"""`anyport serve`: listen, reload, hand over, stop."""
