"""Persons, each with a token of their own: the file that names them, what they reach, and how that ends."""

from __future__ import annotations

import base64
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.http.asking import ask, contents_of
from tests.http.support import Client, everything
from tests.waiting import eventually
from vfs.contents.rights import Rights
from vfs.errors import OptionError
from vfs.http import limits
from vfs.http import persons as module
from vfs.http.guard import Guard, RefusedError
from vfs.http.persons import Person, WatchedFile, read_persons
from vfs.http.proxies import network_of
from vfs.http.reads import Reads
from vfs.page.api import AT_ONCE
from vfs.server.application import AnswerHow, Application

ADA, BEN, GONE = (Person(name, f"{name}-token_of.letters~") for name in ("ada", "ben", "gone"))
NO_FOLDERS = ("/", "..", "a/../b", "%2e%2e/b", "a//b", "a/./b", "# left in May", "a?b", "a%00b")
VALUES = np.arange(40 * 6 * 8, dtype="u2").reshape(40, 6, 8)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.touch(0o600)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.save(tmp_path / "a.npy", VALUES)
    return tmp_path / "a.npy"


def written(*persons: Person) -> str:
    return "".join(f"{one.name} {one.token}\n" for one in persons)


def test_a_file_of_persons(file: Path) -> None:
    file.write_text(
        f"# our group\n\n{written(ADA)}  # left in May: {GONE.token}\r\nben\t{BEN.token}  \nada {GONE.token}"
    )
    assert read_persons(str(file)) == (ADA, BEN, Person("ada", GONE.token))
    assert ADA.token not in repr(ADA)
    file.write_text(f"ada {ADA.token} /a/b/ c%20%23/%C3%BC")
    assert read_persons(str(file)) == (Person("ada", ADA.token, Rights(frozenset(("a/b", "c #/\u00fc")))),)


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        (written(ADA), 0o640, r"others may read these tokens; chmod 600"),
        (written(ADA) + "ben short\n", 0o600, r"line 2: expected a token of at least 16 letters.*found 5 characters"),
        (written(ADA, BEN, Person("me", ADA.token)), 0o600, r"line 3: expected a token of its own; it is that of ada"),
        (
            "ada\n",
            0o600,
            "line 1: expected a name of at most 64 characters, a space, and a token, perhaps.*found 1 words",
        ),
        (f"ada b {ADA.token}", 0o600, "line 1: expected a token of at least 16 letters.*found 1 characters"),
        *((f"ada {ADA.token} {folder}\n", 0o600, "line 1: .*expected a folder below") for folder in NO_FOLDERS),
        (f"a\x07 {ADA.token}", 0o600, "line 1: expected a name"),
        (f"{'a' * 65} {ADA.token}", 0o600, "line 1: expected a name"),
        (f"ada {'a' * 4097}", 0o600, "found 4097 characters"),
        ("ada gr\u00fc\u00dfe-of-16-letters", 0o600, "not ASCII"),
        ("# nobody\n", 0o600, "expected a name and a token in each line, found none"),
        ("#" * (1 << 20) + "\n", 0o600, "expected at most 1,048,576 bytes"),
        (None, 0, "expected a file with names and tokens: No such file"),
    ],
)
def test_files_of_persons_that_will_not_do(file: Path, text: str | None, mode: int, message: str) -> None:
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
        file.chmod(mode)
    with pytest.raises(OptionError, match=message) as refused:
        read_persons(str(file))
    assert str(refused.value).isprintable()
    assert ADA.token not in str(refused.value)


def test_each_person_has_a_path_and_a_login_of_their_own() -> None:
    guard = Guard((ADA, BEN), logins=True)
    for one, other in ((ADA, BEN), (BEN, ADA)):
        path = f"/t/{one.token}/a/".encode()
        login = base64.b64encode(f"{other.name}:{one.token}".encode())  # who it is, the token says
        assert guard.place(path) == ("a", True, one)
        assert guard.base_of(path) == f"/t/{one.token}/"
        for said in (b"Basic " + login, b"Bearer " + one.token.encode()):
            assert guard.place(b"/a", "GET", {b"authorization": said}) == ("a", False, one)
    assert guard.base == guard.base_of(b"/a") == "/"
    for path in (f"/t/{GONE.token}/a", f"/t/{ADA.token[:-1]}/a", f"/t/{ADA.token}x/a", "/t//a", "/a", f"/{ADA.token}"):
        with pytest.raises(RefusedError) as refused:
            guard.place(path.encode(), "GET", {b"authorization": f"Bearer {GONE.token}".encode()})
        assert refused.value.status == 401
    with pytest.raises(RefusedError, match="expected a slash"):
        guard.place(f"/t/{BEN.token}".encode())
    with pytest.raises(RefusedError, match="stands twice"):
        guard.place(f"/t/{BEN.token}/{BEN.token}".encode())


def test_who_is_taken_out_is_known_no_more() -> None:
    guard = Guard((ADA, GONE))
    assert guard.place(GONE.base + b"a").person == GONE
    guard.renew((ADA, BEN))
    assert [guard.knows(one) for one in (ADA, BEN, GONE, Person("eve", ADA.token))] == [True, True, False, False]
    with pytest.raises(RefusedError):
        guard.place(GONE.base + b"a")
    assert guard.place(BEN.base + b"a").person == BEN


def test_the_bound_of_computations_is_that_of_a_person(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them come through one proxy, from one address."""
    monkeypatch.setattr(limits, "SECONDS", 0.0)
    application = Application(contents_of(data), Guard((ADA, BEN)), Reads(2))

    def asked(person: Person) -> int:
        return ask(application, f"/t/{person.token}/api/frame/a.zarr/data?at=3").status

    assert asked(ADA) == 200
    with ExitStack() as under_way:
        for _ in range(AT_ONCE["frame"]):
            under_way.enter_context(application.api._at_once.counted("frame", ADA.name))
        assert [asked(one) for one in (ADA, BEN)] == [429, 200]
    assert asked(ADA) == 200


@pytest.mark.parametrize("trusted", [True, False])
def test_the_bound_is_that_of_a_user_whom_a_proxy_names(
    data: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    """All users have the token of the proxy."""
    monkeypatch.setattr(limits, "SECONDS", 0.0)
    how = AnswerHow((network_of("127.0.0.1"),)) if trusted else None
    application = Application(contents_of(data), Guard((ADA,)), Reads(2), how=how)

    def asked(user: str) -> int:
        return ask(application, f"/t/{ADA.token}/api/frame/a.zarr/data?at=3", x_remote_user=user).status

    with ExitStack() as under_way:
        for _ in range(AT_ONCE["frame"]):
            under_way.enter_context(application.api._at_once.counted("frame", "eve" if trusted else ADA.name))
        assert [asked(user) for user in ("eve", "ben")] == ([429, 200] if trusted else [429, 429])


def test_a_file_is_looked_at_again_and_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.01)
    told: list[int] = []
    watch = WatchedFile(str(file), lambda: told.append(len(told)))
    file.write_text(written(ADA))
    assert eventually(lambda: told)
    many = len(told)
    file.unlink()
    assert eventually(lambda: len(told) > many)
    watch.end()


def test_a_token_that_is_taken_out_is_refused_at_once(
    data: Path, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file.write_text(written(ADA, GONE))
    with vfs.serve(data, port=0, tokens=str(file)) as server:
        assert (server.url, server.token) == (server.address, "")
        with Client(f"{server.url}t/{ADA.token}/") as ada, Client(f"{server.url}t/{GONE.token}/") as gone:
            assert [one.ask("a.npy").status for one in (ada, gone)] == [200, 200]
            said = ada.ask("", "PROPFIND", depth="1").body.decode()
            assert f"/t/{ADA.token}/a.npy<" in said
            assert GONE.token not in said
            file.write_text("garbled")
            heard: list[str] = []
            assert eventually(lambda: heard.append(capfd.readouterr().err) or "what was read before" in "".join(heard))
            sockets = [one.connection.sock for one in (ada, gone)]
            assert gone.ask("a.npy").status == 200
            assert [one.connection.sock for one in (ada, gone)] == sockets
            file.write_text(written(ADA, BEN))
            assert everything(sockets[1]) == b""  # it breaks
            gone.connection.close()
            assert [one.ask("a.npy").status for one in (ada, gone)] == [200, 401]
            assert ada.connection.sock is sockets[0]
            with Client(f"{server.url}t/{BEN.token}/") as ben:
                assert ben.ask("a.npy").status == 200
