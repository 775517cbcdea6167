"""Configuration: reads files into frozen types, or reports every fault in them.

Supports TOML and JSON with comments, and reads the files of MCP clients unchanged.
"""

from anyport.config.addresses import explain_exposure
from anyport.config.faults import ConfigError, ConfigFault
from anyport.config.load import demo_config, find_config, load
from anyport.config.model import (
    DEFAULT_PROFILE,
    REVISIONS,
    Config,
    GatewayConfig,
    ProfileConfig,
    ServerConfig,
    Token,
    UnknownProfile,
)

__all__ = [
    "DEFAULT_PROFILE",
    "REVISIONS",
    "Config",
    "ConfigError",
    "ConfigFault",
    "GatewayConfig",
    "ProfileConfig",
    "ServerConfig",
    "Token",
    "UnknownProfile",
    "demo_config",
    "explain_exposure",
    "find_config",
    "load",
]
