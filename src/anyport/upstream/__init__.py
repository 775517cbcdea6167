"""Connections out: the servers behind the gateway, and the processes of those that need one."""
