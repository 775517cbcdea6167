"""Tasks of servers, shown to clients of every revision."""
