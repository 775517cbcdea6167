"""One module for each command of `anyport`."""
