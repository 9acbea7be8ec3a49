"""The portable operators, which the runtime always has; importing this package has no effect."""
