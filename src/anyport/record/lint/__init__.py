"""Rules of the protocol, judged from recorded traffic."""
