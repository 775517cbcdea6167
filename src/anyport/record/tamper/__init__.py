"""Tamper evidence: hash chain, signed checkpoints, and their verification."""
