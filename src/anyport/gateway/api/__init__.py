"""Around the endpoint: health, metrics, and what the gateway knows, for programs."""
