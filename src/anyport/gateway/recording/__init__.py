"""What the gateway writes to the record about calls, messages and itself."""
