"""The management API, `/metrics` and the event stream."""
