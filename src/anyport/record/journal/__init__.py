"""The journal: append-only files of JSON Lines, and payload files beside them."""
