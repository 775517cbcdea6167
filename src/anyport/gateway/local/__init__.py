"""Methods that the gateway answers itself: lists, discovery, subscriptions, its own tools."""
