"""The one script that is made of the page's modules."""

from __future__ import annotations

import pytest

from vfs.page.pages import script

MAIN = 'import { twice as double } from "./inner.js";\nimport * as inner from "./inner.js";\n'


def test_modules_run_once_and_before_those_that_import_them() -> None:
    made = script(
        {
            "main.js": MAIN + 'import {\n  one,\n} from "./other.js";\nconst sum = double(one) + inner.ONE;\n',
            "other.js": 'import { ONE } from "./inner.js";\nexport const one = ONE;\nexport class Two {}\n',
            "inner.js": "export const ONE = 1;\nexport async function* none() {}\nexport function twice(n) {}\n",
        }
    )
    assert [made.count(f'modules["{name}.js"] = (() =>') for name in ("inner", "other", "main")] == [1, 1, 1]
    assert (
        made.index('modules["inner.js"] =') < made.index('modules["other.js"] =') < made.index('modules["main.js"] =')
    )
    assert "return { ONE, none, twice };" in made
    assert "return { one, Two };" in made
    assert 'const { twice: double } = modules["inner.js"];' in made
    assert 'const inner = modules["inner.js"];' in made
    assert 'const {\n  one,\n} = modules["other.js"];' in made


@pytest.mark.parametrize(
    ("modules", "found"),
    [
        ({"main.js": 'import { a } from "./none.js";\n'}, "main.js -> none.js"),
        ({"main.js": 'import * as a from "./a.js";\n', "a.js": 'import * as b from "./main.js";\n'}, "-> a.js -> main"),
        ({"main.js": 'import a from "./a.js";\n', "a.js": "export default 1;\n"}, "main.js: expected imports"),
        ({"main.js": "const a = 1;\nexport { a };\n"}, "main.js: expected imports"),
        ({"main.js": "export let a = 1;\n"}, "main.js: expected imports"),
    ],
)
def test_modules_of_another_form_are_refused(modules: dict[str, str], found: str) -> None:
    with pytest.raises(ValueError, match=found):
        script(modules)
