"""Extension families of the package, built on the public extension API."""
