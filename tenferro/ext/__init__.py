"""Extension families that come with the package, built through the public extension door."""
