"""Declares the functions of the C library that native code calls.

They are found by name when a kernel is loaded. Unlike ctypes pointers these may be cached on disk.
"""

from __future__ import annotations

from numba import types

madvise = types.ExternalFunction("madvise", types.int32(types.intp, types.intp, types.int32))
MADV_WILLNEED = 3
memcmp = types.ExternalFunction("memcmp", types.int32(types.intp, types.intp, types.intp))
memcpy = types.ExternalFunction("memcpy", types.intp(types.intp, types.intp, types.intp))
pread = types.ExternalFunction("pread", types.intp(types.int32, types.intp, types.intp, types.int64))
preadv = types.ExternalFunction("preadv", types.intp(types.int32, types.intp, types.int32, types.int64))
preadv2 = types.ExternalFunction("preadv2", types.intp(types.int32, types.intp, types.int32, types.int64, types.int32))
NO_WAIT = 8  # flag RWF_NOWAIT of preadv2(2)
read = types.ExternalFunction("read", types.intp(types.int32, types.intp, types.intp))
write = types.ExternalFunction("write", types.intp(types.int32, types.intp, types.intp))
statx = types.ExternalFunction("statx", types.int32(types.int32, types.intp, types.int32, types.uint32, types.intp))
"""statx(2). It is in the C library since 2018. Its struct is the same on all machines; struct stat is not."""

clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.intp))
"""clock_gettime(2). It writes a `Timespec` on machines on which both of its fields have 64 bits."""

epoll_wait = types.ExternalFunction("epoll_wait", types.int32(types.int32, types.intp, types.int32, types.int32))
epoll_ctl = types.ExternalFunction("epoll_ctl", types.int32(types.int32, types.int32, types.int32, types.intp))
recv = types.ExternalFunction("recv", types.intp(types.int32, types.intp, types.intp, types.int32))
sendmsg = types.ExternalFunction("sendmsg", types.intp(types.int32, types.intp, types.int32))
sched_yield = types.ExternalFunction("sched_yield", types.int32())
mincore = types.ExternalFunction("mincore", types.int32(types.intp, types.intp, types.intp))
malloc = types.ExternalFunction("malloc", types.intp(types.intp))
free = types.ExternalFunction("free", types.void(types.intp))
errno_location = types.ExternalFunction("__errno_location", types.intp())
