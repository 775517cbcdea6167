"""What was said before, said again, and compared."""
