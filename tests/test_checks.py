"""The tests themselves: each one checks something, whatever it is given, and none is a library of another.

And rules of the code: a name of a class means one thing, modules are short, functions take few parameters.
"""

from __future__ import annotations

import ast
import gc
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOP = Path(__file__).parents[1]
LONGEST = 70  # characters of the name of a test
LINES = 500  # of a module at most
PARAMETERS = 7
"""Of a function at most, without `self`; kernels may have more: they take arrays and numbers, and no values."""
OPTIONS_OF_PEOPLE = {
    "vfs/cli/describing.py info",
    "vfs/cli/serving.py serve",
    "vfs/formats/raw.py open",
}
"""Their parameters are what people name: flags of a command, `-o NAME=VALUE` of a format."""
WRITERS = {
    f"vfs/testing/{kind}.py {name}"
    for kind, names in {
        "writers": ["write_mib"],
        "frame_writers": ["write_seq", "write_tvips", "write_frms6"],
        "stack_writers": ["write_mrc"],
        "tiff_writers": ["write_tiff", "write_ome_tiff", "ome_xml"],
        "plane_writers": ["write_ndtiff"],
        "gatan_writers": ["write_dm", "write_k2is"],
        "detector_writers": ["write_sls"],
        "backscatter_writers": ["write_ebsp"],
        "microscope_writers": ["write_nd2", "write_czi"],
    }.items()
    for name in names
}
"""Each takes, by keyword, the fields of a header that a test may set."""
INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@cache  # not when the tests are collected: every worker collects all of them
def parsed(*folders: str) -> dict[str, ast.Module]:
    """The modules of some folders, of which the garbage collector does not look at a million nodes again and again."""
    gc.disable()
    try:
        return {
            str(path.relative_to(TOP)): ast.parse(path.read_text())
            for folder in folders
            for path in sorted((TOP / folder).rglob("*.py"))
        }
    finally:
        gc.freeze()
        gc.enable()


def files() -> dict[str, ast.Module]:
    return parsed("tests", "vfs/testing")


def code() -> dict[str, ast.Module]:
    return parsed("vfs")


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def of_pytest(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in functions(tree) if node.name.startswith("test_"))


def own(node: ast.AST, leave_out: tuple[type[ast.AST], ...] = ()) -> Iterator[ast.AST]:
    """What a node holds, without the functions inside it, and without what stands in nodes of some kinds."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*INNER, *leave_out)):
            yield child
            yield from own(child, leave_out)


def called(node: ast.AST) -> str:
    """The last part of the name that a call calls."""
    name = node.func if isinstance(node, ast.Call) else None
    return name.attr if isinstance(name, ast.Attribute) else name.id if isinstance(name, ast.Name) else ""


def is_check(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Assert | ast.Raise)
        or called(node) in {"raises", "warns", "fail"}
        or called(node).startswith("assert_")
    )


def checking() -> set[str]:
    """Names of functions that check something, themselves or in a function that they call."""
    inside: dict[str, set[str]] = {}
    found = set()
    for tree in files().values():
        for function in functions(tree):
            nodes = list(ast.walk(function))
            inside.setdefault(function.name, set()).update(filter(None, map(called, nodes)))
            if any(map(is_check, nodes)):
                found.add(function.name)
    while more := {name for name, names in inside.items() if name not in found and names & found}:
        found |= more
    return found


def test_no_test_returns_early() -> None:
    """Whether a test applies is decided when the tests are collected: then the list of tests says what is tested."""
    found = ((path, test) for path, tree in files().items() for test in of_pytest(tree))
    assert not [
        f"{path}:{node.lineno} {test.name}"
        for path, test in found
        for node in own(test)
        if isinstance(node, ast.Return)
    ]


def test_every_test_checks_something_whatever_it_finds() -> None:
    """What stands only in an `if` may never be asked."""
    known = checking()
    idle = []
    for path, tree in files().items():
        for test in of_pytest(tree):
            nodes = list(own(test, (ast.If,)))
            for node in own(test):
                if isinstance(node, ast.If) and node.orelse:
                    nodes += own(node)
            if not any(is_check(node) or called(node) in known for node in nodes):
                idle.append(f"{path}:{test.lineno} {test.name}")
    assert not idle


def test_what_is_waited_for_is_asserted() -> None:
    """`eventually` says whether it came; a test that does not ask goes on without it, after a long time."""
    assert not [
        f"{path}:{node.lineno}"
        for path, tree in files().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and called(node.value) == "eventually"
    ]


def test_no_test_module_imports_another() -> None:
    """What several need is in modules without tests: a test that moves or goes breaks no other."""
    imported = {
        f"{path}: {node.module}.{name.name}"
        for path, tree in files().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
        if ".test_" in f".{getattr(node, 'module', '')}.{name.name}"
    }
    assert not imported


def test_names_of_tests_are_short() -> None:
    assert not [
        f"{path}: {test.name}" for path, tree in files().items() for test in of_pytest(tree) if len(test.name) > LONGEST
    ]


def test_no_class_is_named_twice() -> None:
    named = Counter(node.name for tree in code().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert len(named) > 100
    assert [name for name, times in named.items() if times > 1] == []


def test_bounds_say_what_they_bound() -> None:
    """`MAX_FILE_BYTES`: neither a bare `MOST`, nor a second word for it."""
    bare = {"FEW", "FEWEST", "LEAST", "LONGEST", "MAX", "MIN", "MOST"}
    constants = {
        f"{path}: {name.id}"
        for path, tree in code().items()
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    }
    assert len(constants) > 1000
    names = ((constant, constant.rpartition(" ")[2].strip("_")) for constant in constants)
    assert [constant for constant, name in names if name in bare or name.startswith("MOST_")] == []


def test_modules_are_short() -> None:
    """A longer one has two ideas, of which one is a module."""
    modules = [path for ending in ("py", "js") for path in (TOP / "vfs").rglob(f"*.{ending}")]
    assert len(modules) > 600
    assert [str(path.relative_to(TOP)) for path in modules if path.read_bytes().count(b"\n") > LINES] == []


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many a function takes, without `self` and `cls`."""
    given = function.args
    named = [one.arg for one in (*given.posonlyargs, *given.args)]
    more = [one for one in (given.vararg, given.kwarg) if one]
    return len(named) - (named[:1] in (["self"], ["cls"])) + len(given.kwonlyargs) + len(more)


def test_functions_take_few_parameters() -> None:
    """More of them walk together, and are a value that has a name."""
    many = {
        f"{path} {function.name}"
        for path, tree in code().items()
        if not path.startswith("vfs/kernels/")
        for function in functions(tree)
        if parameters(function) > PARAMETERS
    }
    assert many == OPTIONS_OF_PEOPLE | WRITERS


def test_formats_open_no_file_by_themselves() -> None:
    """A format that opens a path by itself passes the boundary by, and reads files of this machine only."""
    past = []
    for path, tree in code().items():
        if not path.startswith("vfs/formats/"):
            continue
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        opening = [node for node in calls if ast.unparse(node.func) in {"open", "np.fromfile", "np.memmap", "np.load"}]
        past += [f"{path}:{node.lineno}" for node in opening]
    assert past == []
