"""Describes a set of files with values: stored arrays, layouts, decoders, regions, options.

Nothing here reads pixels.
"""
