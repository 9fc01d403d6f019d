"""Doors of other tools, a file for each. The tool finds it by an entry point, or a user by its name.

Nothing else imports them, but for methods of `vfs.api` that make what a tool shows.
"""
