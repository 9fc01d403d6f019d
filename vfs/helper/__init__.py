"""Asks a library in another process, since it may crash, hang, or ask for any amount of memory.

Libraries in C that parse files do so when a file is damaged. So none of them runs in the process that opens a file:
another process reads each file in a fork of its own with limits, so that none leaves anything for the next.

    process.py   this process: starts the other one, sends requests, and says how each answer ended
    server.py    the other process: a fork for each request
    budget.py    limits of a fork, which grow with what it really finds
    messages.py  what goes through the pipe: JSON and tables of integers; nothing that comes back is executed

A package that asks a library (`vfs.h5`) says what a fork does (`server.serve`), and what its answers mean.
"""
