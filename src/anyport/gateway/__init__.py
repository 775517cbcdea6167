"""The gateway put together: the way of a message, the feed, and what owns them."""
