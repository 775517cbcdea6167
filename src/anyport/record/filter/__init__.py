"""The filter language: parser, keys and matching."""
