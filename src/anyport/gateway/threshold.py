"""Who is let in over HTTP, and to what, as the configuration says, also after it has changed.

Whoever is no longer let in, or comes for what is no longer there, is parted from in good order.
"""

from anyport.config.schema import Config, UnknownProfile
from anyport.ingress.http.door import Door
from anyport.ingress.http.server import HttpIngress
from anyport.ingress.http.visit import Reception


def door(config: Config, host: str) -> Door:
    """The door of a gateway that listens on `host`."""
    gateway = config.gateway
    return Door(
        hosts=(host, *gateway.allowed_hosts), origins=gateway.allowed_origins, tokens=gateway.tokens
    )


def default_profile(config: Config) -> str | None:
    """The profile at `/mcp` itself; None if nobody can tell which one is meant."""
    try:
        return config.profile().slug
    except UnknownProfile:
        return None


class Threshold:
    """Keeps an ingress to the configuration."""

    def __init__(self, host: str, reception: Reception, ingress: HttpIngress) -> None:
        self._host = host
        self._reception = reception
        self._ingress = ingress

    def take(self, config: Config) -> None:
        """The configuration has changed."""
        self._reception.door = entrance = door(config, self._host)
        self._reception.default = default_profile(config)
        self._ingress.heads.forget()  # They were judged by the door that was.
        endpoint = self._ingress.endpoint
        endpoint.sessions.sessions_max = config.gateway.sessions_max
        endpoint.sessions.idle_seconds = config.gateway.session_idle_seconds
        endpoint.older.sessions_max = config.gateway.sessions_max
        for exchange in list(endpoint.modern.listening):
            caller = exchange.caller
            if caller.profile not in config.profiles or not entrance.knows(caller.principal):
                endpoint.modern.part(exchange)
        for session in (*endpoint.sessions, *endpoint.older):
            if session.profile not in config.profiles or not entrance.knows(session.principal):
                endpoint.part(session)
