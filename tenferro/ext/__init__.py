"""Extension families that are part of tenferro. They use only the public extension API."""
