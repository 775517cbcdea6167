"""Configuration: files in, frozen types or a list of faults out.

Two syntaxes, TOML and JSON with comments, and the files of MCP clients as they are.
"""

from anyport.config.address import exposure
from anyport.config.faults import ConfigError, Fault
from anyport.config.load import demo_config, find, load
from anyport.config.schema import (
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
    "Fault",
    "GatewayConfig",
    "ProfileConfig",
    "ServerConfig",
    "Token",
    "UnknownProfile",
    "demo_config",
    "exposure",
    "find",
    "load",
]
