"""Says what a mount and a server show at each path: sets, also while they grow."""
