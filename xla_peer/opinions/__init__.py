"""Execution of StableHLO modules by other compilers; a short adapter for each compiler runs in a separate process."""

from xla_peer.opinions.environments import Environments
from xla_peer.opinions.executor import AdapterExecutor
from xla_peer.opinions.registry import Adapter, iree_adapter, jaxlib_adapter, register, registered

__all__ = [
    "Adapter",
    "AdapterExecutor",
    "Environments",
    "iree_adapter",
    "jaxlib_adapter",
    "register",
    "registered",
]
