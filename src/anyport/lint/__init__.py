"""Checks recorded traffic against protocol rules."""
