"""Serves over HTTP in the main thread of a process. `main` runs the process that `vfs.serve` starts."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from vfs.contents.contents import Contents
from vfs.errors import DependencyError, OptionError, ServeError, extra, printable
from vfs.http.access_log import TICK, AccessLog
from vfs.http.answers import NO_CACHE
from vfs.http.conditions import caching_of
from vfs.http.guard import Guard, choose_token, framer_of, is_loopback, name_of, origin_of
from vfs.http.persons import Person, WatchedFile, read_persons
from vfs.http.proxies import network_of
from vfs.model.wording import option, option_names
from vfs.page.computing import passed
from vfs.server.accepting import Acceptor, more_descriptors
from vfs.server.how import ServeHow
from vfs.server.listening import address, given, listening
from vfs.serving.child import Ready, run
from vfs.serving.entry import Entry
from vfs.serving.failures import Failures
from vfs.serving.logs import TO_STDERR, LogHow
from vfs.serving.status import ENDING, Reporter, ServerStatus, asked
from vfs.sources.names import absolute

if TYPE_CHECKING:
    from vfs.server.application import Application
    from vfs.server.connection import Shared

log = logging.getLogger("vfs.http")

BACKLOG = 2048  # connections that may wait to be accepted
PATIENCE = 5  # seconds that responses have to end when the server ends
WORKERS = max(4, os.cpu_count() or 1)
"""The default number of reads that are answered from sources at once."""
SOURCES = WARNINGS = 100  # at most so many are named in a status


def serve(
    contents: Contents,
    how: ServeHow,
    *,
    ready: Callable[[str, str], None] | None = None,
    watch: Callable[[ServerStatus], None] | None = None,
    log_how: LogHow = TO_STDERR,
) -> ServerStatus:
    """Serve contents over HTTP until SIGINT or SIGTERM ends it, or SIGHUP if there is nothing to be read again.

    SIGHUP reads the certificate with its key, and the file of tokens, again. It ends a server whose terminal is gone.

    This must run in the main thread.

    Args:
        contents: what is served. Its arrays should use the buffered backend: a source that shrinks
            kills a process that reads its map.
        how: how to serve.
        ready: called once with (address, URL with the token) when the server answers.
        watch: called with the status after `ready`, about once a second if something changed, and at
            the end.
        log_how: how the server logs.

    Returns: the last status.

    Raises:
        ServeError: serving cannot work; the message says why and what to do.
        OptionError: an option does not fit.
        DependencyError: no web server is installed.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ServeError(errno.EPERM, "a server runs in the main thread; vfs.serve() starts a process for it")
    if how.workers is not None and how.workers < 1:
        raise OptionError(f"{option(workers=how.workers)}: expected a number, at least 1")
    more_descriptors()
    taken = given()
    if taken is not None:
        name = taken.getsockname()
        how = replace(how, host=name[0], port=name[1])
    secret = _secret(how, contents)
    origins, names = tuple(map(origin_of, how.cors)), tuple(map(name_of, how.allow_host))
    if "*" in names and not secret:
        raise OptionError(f"{option(allow_host='*')} goes only with a token, which is the secret then")
    web = _web_server()
    encryption = _encryption(how.tls_cert, how.tls_key)
    with taken or listening(how.host, how.port) as listener:
        where = address(listener, how.host, encryption is not None)
        logins = encryption is not None or is_loopback(how.host)
        guard = Guard(secret, how.host, names, origins, tuple(map(framer_of, how.embed)), logins)
        run = _Run(contents, guard, where, how, ready, watch, log_how)
        return asyncio.run(run.run(web, listener, encryption))


def _secret(how: ServeHow, contents: Contents) -> str | tuple[Person, ...]:
    """Return the token of a server, "" for none; or the persons who have one each.

    Raises:
        OptionError: their file cannot be used, or both are asked for; or it names folders, and none are served.
    """
    if how.tokens is None:
        return choose_token(how.token, how.host)
    if how.token is not None:
        raise OptionError(f"{option_names('token', 'tokens')}: expected one of them")
    persons = read_persons(how.tokens)
    if contents.faces and any(person.rights is not None for person in persons):
        raise OptionError(f"{printable(how.tokens)}: names folders, which goes only with {option(tree=True)}")
    return persons


def _web_server() -> Any:
    """Return uvicorn.

    Raises:
        DependencyError: it is not installed.
    """
    try:
        import httptools  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise DependencyError(f"serving needs uvicorn and httptools: {extra('serve')} ({error})") from None
    return uvicorn


def _encryption(cert: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return what encrypts connections; None without a certificate.

    Raises:
        OptionError: certificate or key cannot be used.
    """
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise OptionError(f"{option_names('tls_cert', 'tls_key')} go together: a certificate and its key, as PEM files")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _certify(context, cert, key)
    return context


def _certify(context: ssl.SSLContext, cert: str, key: str) -> None:
    """Have connections that come show a certificate.

    Raises:
        OptionError: certificate or key cannot be used.
    """
    try:
        context.load_cert_chain(cert, key, password=lambda: "")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OptionError(f"{cert}, {key}: expected a certificate and its key, as PEM files: {reason}") from None


def _has_terminal() -> bool:
    """Return True if this process belongs to a terminal that is there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


class _Run:
    """A run of a server, with its entry and status.

    Attributes:
        since: time at which it began to answer, in seconds since 1970.
        caching: how documents and chunks are cached; access: the log of what is answered, None: there is none.
    """

    def __init__(
        self,
        contents: Contents,
        guard: Guard,
        address: str,
        how: ServeHow,
        ready: Callable[[str, str], None] | None,
        watch: Callable[[ServerStatus], None] | None,
        log_how: LogHow,
    ) -> None:
        self.contents = contents
        self.guard = guard
        self.address = address
        self.how = how
        self.sources = tuple(absolute(name) for name in how.sources[:SOURCES])
        self.ready = ready
        self.watch = watch
        self.log_how = log_how
        self.since = 0.0
        self.caching = NO_CACHE if how.cache_control is None else caching_of(how.cache_control)
        self.access = AccessLog(how.access_log) if how.access_log else None

    async def run(self, web: Any, listener: socket.socket, encryption: ssl.SSLContext | None) -> ServerStatus:
        """Serve until a signal comes, and return the last status."""
        from vfs.http.reads import Reads
        from vfs.server.application import AnswerHow, Application
        from vfs.server.connection import Shared

        reads = Reads(WORKERS if self.how.workers is None else self.how.workers)
        proxies = tuple(map(network_of, self.how.trust_proxy))
        application = Application(
            self.contents,
            self.guard,
            reads,
            debug=self.log_how.debug,
            natively=not self.how.no_native,
            allow_describe=self.how.allow_describe,
            how=AnswerHow(proxies, self.access, self.caching),
        )
        # The headers that the web server adds are made anew each second
        shared = Shared(
            application, lambda: b"".join(b"%s: %s\r\n" % each for each in server.server_state.default_headers)
        )
        config = _config(web, application, shared)
        server = web.Server(config)
        loop = asyncio.get_running_loop()
        if self.access is not None:
            self._write_log(loop, self.access, application)
        loop.set_exception_handler(partial(_unexpected, application.log.failures, self.log_how.debug))
        entry = self._entry()
        reporter = Reporter(lambda: self._status(application, entry), _writer(entry) if entry else None, self.watch)

        def end() -> None:
            if server.should_exit:  # a second signal does not wait
                server.force_exit = True
                for connection in list(server.server_state.connections):
                    connection.transport.abort()
            server.should_exit = True
            reads.end_early()
            application.api.end_early()

        began_in_terminal = _has_terminal()

        def hang_up() -> None:
            closed = began_in_terminal and not _has_terminal()
            if closed or not self._read_again(encryption, server.server_state.connections):
                end()

        def changed() -> None:
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(self._renew, server.server_state.connections)

        watch = WatchedFile(self.how.tokens, changed) if self.how.tokens else None

        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, hang_up if number == signal.SIGHUP else end)
        try:
            running = asyncio.ensure_future(server._serve([]))  # it accepts nothing itself
            while not server.started and not running.done():
                await asyncio.sleep(0.001)
            if server.started:
                accepting = _accepting(server, config, listener, encryption, application.log.failures)
                server.servers.append(accepting)  # so that it is closed first
                self._begin(entry, reporter)
                application.api.load()
            await running
        finally:
            for number in ENDING:
                loop.remove_signal_handler(number)
            if watch is not None:
                watch.end()
            reads.close()
            shared.close()
            if self.access is not None:
                self.access.close()
            application.api.close()
            application.log.failures.close()
            last = reporter.end()
            if entry:
                entry.end()
        return last

    def _read_again(self, encryption: ssl.SSLContext | None, connections: Iterable[Any]) -> bool:
        """Read the certificate and the tokens again, and open the access log again. What cannot be used stays.

        Returns: False if the server has none of these.
        """
        how = self.how
        chosen = how.tokens is not None or how.token not in (None, "none")
        if encryption is not None and how.tls_cert and how.tls_key:
            try:
                _certify(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), how.tls_cert, how.tls_key)
                _certify(encryption, how.tls_cert, how.tls_key)
            except OptionError as error:
                log.warning("%s; what was read before stays", error)
            else:
                log.info("read the certificate again")
        if chosen:
            self._renew(connections)
        if self.access is not None:
            try:
                self.access.reopen()
            except OptionError as error:
                log.warning("%s; lines go where they went before", error)
        return chosen or encryption is not None or self.access is not None

    def _write_log(self, loop: asyncio.AbstractEventLoop, access: AccessLog, application: Application) -> None:
        """Write the lines of the access log that wait, again and again."""
        if application.native is not None:
            application.native.write_notes()
        access.write()
        loop.call_later(TICK, self._write_log, loop, access, application)

    def _renew(self, connections: Iterable[Any]) -> None:
        """Read the file of tokens again, and break the connections of those whom it has no longer."""
        try:
            self.guard.renew(_secret(self.how, self.contents))
        except OptionError as error:
            log.warning("%s; what was read before stays", error)
            return
        log.info("read the tokens again")
        for connection in list(connections):
            if connection.person is not None and not self.guard.knows(connection.person):
                connection.transport.abort()

    def _begin(self, entry: Entry | None, reporter: Reporter[ServerStatus]) -> None:
        """Say that the server answers."""
        self.since = time.time()
        if self.log_how.to_file and entry:
            os.dup2(entry.log_fd, 1)
            os.dup2(entry.log_fd, 2)
        gc.freeze()  # present objects stay: the collector need not look at them
        log.info("%s: serving", printable(self.address))
        url = self.address.removesuffix("/") + self.guard.base
        reporter.start(None if self.ready is None else lambda: self.ready and self.ready(self.address, url))

    def _entry(self) -> Entry | None:
        """Return the entry of this server; None if there is no folder for it, unless its log belongs there."""
        try:
            return Entry(self.address, self.log_how.to_file)
        except ServeError as error:
            if self.log_how.to_file:
                raise
            log.warning("%s; `vfs mounts` will not know of it", error)
            return None

    def _status(self, application: Any, entry: Entry | None) -> ServerStatus:
        cache, tally = self.contents.cache, application.done
        return ServerStatus(
            address=self.address,
            computed=passed.nbytes,
            sources=self.sources,
            pid=os.getpid(),
            since=self.since,
            **vars(tally),
            hits=cache.hits,
            misses=cache.misses,
            cached=cache.held,
            cache_size=cache.limit,
            log=entry.log if entry else None,
            remote=asked(),
            warnings=tuple(map(printable, list(self.contents.warnings)[:WARNINGS])),
            live={name: one.said() for name, one in islice(self.contents.progress().items(), WARNINGS)},
        )


def _config(web: Any, application: Application, shared: Shared) -> Any:
    """Return the settings of the web server."""
    from vfs.server.connection import KEPT, Connection

    config = web.Config(
        application,
        http=partial(Connection, shared=shared),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEPT,
        timeout_graceful_shutdown=PATIENCE,
    )
    config.load()
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # it logs what clients do wrong; we log what we do
    return config


def _accepting(
    server: Any, config: Any, listener: socket.socket, encryption: ssl.SSLContext | None, failures: Failures
) -> Acceptor:
    """Begin to accept connections for a web server that has started."""
    made = partial(
        config.http_protocol_class, config=config, server_state=server.server_state, app_state=server.lifespan.state
    )
    return Acceptor(listener, BACKLOG, made, encryption, server.server_state.connections, failures)


def _writer(entry: Entry) -> Callable[[ServerStatus], None]:
    return lambda status: entry.write(status.document())


def _unexpected(failures: Failures, debug: bool, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what asyncio reports, as often as other failures: a client may cause it again and again."""
    error = context.get("exception")
    text = f"{context['message']}: {type(error).__name__}: {error}" if error is not None else context["message"]
    failures.add(text, printable(text))
    if debug:
        loop.default_exception_handler(context)


def main() -> None:
    """Run the process that `vfs.server.process` starts."""
    run(_served, "serve")


def _served(contents: Contents, *, ready: Ready, alone: Callable[[], bool], log_how: LogHow, how: ServeHow) -> str:
    """Serve for `vfs.serving.child.run`; return the last words for its log."""

    def tell(address: str, url: str) -> None:
        ready({"address": address, "url": url})

    last = serve(contents, how, ready=tell, log_how=log_how)
    return f"{last.address}: {last.summary()}"
