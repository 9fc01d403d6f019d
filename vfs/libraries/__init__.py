"""Reads files with libraries that others keep, each in a process of its own (`vfs.helper`).

What such a library does to its process (a crash, a hang, any amount of memory) is one line here. For each set there is
a fork that keeps what the library made of it, and answers until nobody asked for some seconds.

    library.py   this process: a library, and the forks that answer for it
    arrays.py    this process: the arrays of a set, whose blocks the library makes when they are read
    server.py    the fork: limits, which files it may open, and the loop that answers
    wire.py      the messages between them
    signals.py   the fork: arrays as a library has them, and what is told of them

A kept reader is a format (`vfs.formats.Format`, found by its entry point) with a `Library`, and a class that runs in
the fork: see `vfs.formats.rosettasciio`.
"""
