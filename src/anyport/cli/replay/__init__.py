"""`anyport replay`: recorded calls, made again and compared."""
