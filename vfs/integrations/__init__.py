"""Doors of other tools: a file for each, which that tool imports by an entry point or a user by its name; nothing else does."""
