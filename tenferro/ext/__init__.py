"""Extension families that are part of tenferro; they use the public extension API."""
