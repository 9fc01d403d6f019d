"""Writes files that appear when they are whole, and goes on with what was interrupted."""
