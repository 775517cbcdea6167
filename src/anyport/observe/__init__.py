"""Metrics, trace context, and OpenTelemetry."""
