"""What a set of files is, as values: stored arrays, layouts, decoders, regions, which scan positions are stored.

Nothing here reads pixels.
"""
