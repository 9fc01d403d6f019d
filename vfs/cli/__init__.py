"""The command line. Heavy imports are inside the commands."""
