"""What the commands of `tenferro` are made of; the commands themselves are in `xla_peer.cli`."""
