"""Access rules: pure decisions with reasons."""
