"""Describes data sets for `vfs info`, as text or JSON."""
