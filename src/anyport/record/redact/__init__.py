"""Redaction of secrets, and outlines of payloads."""
