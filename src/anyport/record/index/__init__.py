"""The SQLite index of the journal, and queries on it."""
