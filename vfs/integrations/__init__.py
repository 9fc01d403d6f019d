"""Doors of other tools, a file for each. The tool finds it by an entry point, or a user by its name.

Nothing else in vfs imports them.
"""
