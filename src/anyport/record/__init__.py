"""The record: events, journal, index, filters, redaction, tamper evidence and export."""
