"""May it happen? Pure decisions with reasons."""
