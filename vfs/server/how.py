"""Says how contents are served over HTTP: a value that goes to the process of the server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from vfs.model.command_options import ServeOptions


@dataclass(frozen=True, kw_only=True)
class ServeHow:
    """Says how to serve. `vfs.model.command_options.ServeOptions` describes what has the same name there.

    Attributes:
        sources: the file that names each data set, for `vfs mounts`.
    """

    host: str = "127.0.0.1"
    port: int | None = None
    token: str | None = None
    tokens: str | None = None
    cors: Sequence[str] = ()
    allow_host: Sequence[str] = ()
    embed: Sequence[str] = ()
    trust_proxy: Sequence[str] = ()
    cache_control: str | None = None
    access_log: str | None = None
    allow_describe: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    workers: int | None = None
    no_native: bool = False
    sources: Sequence[str] = ()

    @classmethod
    def of(cls, options: ServeOptions, sources: Sequence[str]) -> ServeHow:
        """Return what options say, with names of files made absolute."""

        def absolute(name: str | None) -> str | None:
            return None if name is None else os.path.abspath(name)

        return cls(
            host=options.host,
            port=options.port,
            token=options.token if options.token == "none" else absolute(options.token),
            tokens=absolute(options.tokens),
            cors=tuple(options.cors or ()),
            allow_host=tuple(options.allow_host or ()),
            embed=tuple(options.embed or ()),
            trust_proxy=tuple(options.trust_proxy or ()),
            cache_control=options.cache_control,
            access_log=absolute(options.access_log),
            allow_describe=options.allow_describe,
            tls_cert=absolute(options.tls_cert),
            tls_key=absolute(options.tls_key),
            workers=options.workers,
            no_native=options.no_native,
            sources=tuple(sources),
        )

    @property
    def name(self) -> str:
        """Host and port, for messages."""
        return f"{self.host}, port {self.port or 'any'}"
