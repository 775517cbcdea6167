"""The command line, for people and for programs."""
