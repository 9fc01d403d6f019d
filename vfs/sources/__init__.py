"""Where the bytes of files come from. Formats ask sources, and nothing else, for files.

`vfs.model.sources.Sources` is what sources can do: five verbs. `local` has the files of this machine, within a
`boundary`; `vfs.testing.memory_sources` has files that exist only in memory, with URLs for names. `names` works with
the names of files, and `globs` finds files by patterns.
"""
