"""What all servers of a gateway share: time, tasks, and how they are introduced."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from anyport.config.schema import ServerConfig
from anyport.upstream.road import Surroundings
from anyport.upstream.shelf import Shelf


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all servers of a gateway share."""

    surroundings: Callable[[ServerConfig], Surroundings]
    spawn: Callable[[Coroutine[Any, Any, None], str], None]
    """Runs a task that someone waits for."""
    later: Callable[[float, Callable[[], None]], object]
    """Runs something after some seconds."""
    client_info: bytes
    clock: Callable[[], float]
    sole: bool = True
    """There is one client: what it opens first serves for everything."""
    shelf: Shelf = field(default_factory=Shelf)
    """What servers allow to be said again."""
