"""Building blocks of the commands of `tenferro`; the commands themselves are in `xla_peer.cli`."""
