"""What happened: events, their append-only journal, and the index for questions about them."""
