"""Reads of the engine switch: folded where V1 is certain, left alone where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from v1_migrate.engine.tree import Tree
from v1_migrate.findings import Severity

from .harness import dedent, rewrite

ENVS = "from vllm import envs\n"
OS = "import os\n"

# (before, after) without the import that the before needs; the import goes when nothing else uses it
FOLDED = [
    pytest.param(ENVS, "x = envs.VLLM_USE_V1\n", "x = True\n", id="a plain read becomes true"),
    pytest.param("import vllm\n", "x = f(vllm.envs.VLLM_USE_V1)\n", "x = f(True)\n", id="through the package"),
    pytest.param("import vllm.envs as e\n", "x = e.VLLM_USE_V1\n", "x = True\n", id="through an alias"),
    pytest.param("from vllm.envs import VLLM_USE_V1\n", "x = [VLLM_USE_V1]\n", "x = [True]\n", id="the name itself"),
    pytest.param("from vllm.envs import VLLM_USE_V1 as V\n", "assert V\n", "", id="an assertion that holds goes"),
    pytest.param(ENVS, 'x = envs.is_set("VLLM_USE_V1") and y\n', "x = y\n", id="is_set is true, and goes from an and"),
    pytest.param(ENVS, 'x = getattr(envs, "VLLM_USE_V1", False)\n', "x = True\n", id="getattr with a default"),
    pytest.param(OS, 'x = os.environ["VLLM_USE_V1"]\n', 'x = "1"\n', id="the raw text"),
    pytest.param(OS, 'x = os.environ.get("VLLM_USE_V1", "0") == "1"\n', "x = True\n", id="compared with 1"),
    pytest.param(OS, 'x = os.getenv("VLLM_USE_V1") == "0"\n', "x = False\n", id="compared with 0"),
    pytest.param(OS, 'x = "0" != os.getenv("VLLM_USE_V1")\n', "x = True\n", id="compared the other way round"),
    pytest.param(OS, 'x = os.getenv("VLLM_USE_V1") in ("1", "true")\n', "x = True\n", id="looked up in a tuple"),
    pytest.param(OS, 'x = os.getenv("VLLM_USE_V1") not in {"0"}\n', "x = True\n", id="looked up in a set"),
    pytest.param(OS, 'x = os.getenv("VLLM_USE_V1") is None\n', "x = False\n", id="asked for being set"),
    pytest.param(OS, 'x = "VLLM_USE_V1" in os.environ\n', "x = True\n", id="in os.environ"),
    pytest.param(OS, 'x = "VLLM_USE_V1" in os.environ.keys()\n', "x = True\n", id="in its keys"),
    pytest.param(OS, 'x = "VLLM_USE_V1" not in os.environ or y\n', "x = y\n", id="not in os.environ, or"),
    pytest.param(OS, 'x = bool(int(os.getenv("VLLM_USE_V1", "0")))\n', "x = True\n", id="bool of int"),
    pytest.param(OS, 'x = int(os.environ["VLLM_USE_V1"])\n', "x = 1\n", id="int"),
    pytest.param(
        OS,
        'from mine import int\nx = int(os.environ["VLLM_USE_V1"])\n',
        'from mine import int\nx = int("1")\n',
        id="int by somebody else is called as before",
    ),
    pytest.param(OS, 'x = os.getenv("VLLM_USE_V1", "").lower() == "1"\n', "x = True\n", id="lowered first"),
    pytest.param("from os import environ\n", 'x = environ["VLLM_USE_V1"]\n', 'x = "1"\n', id="environ by name"),
    pytest.param("from os import getenv as g\n", 'x = g("VLLM_USE_V1")\n', 'x = "1"\n', id="getenv by another name"),
    pytest.param(ENVS, "x = not envs.VLLM_USE_V1\n", "x = False\n", id="not"),
    pytest.param(ENVS, "x = a and envs.VLLM_USE_V1\n", "x = a and True\n", id="the last of an and is its value"),
    pytest.param(ENVS, "if a and envs.VLLM_USE_V1:\n    b()\n", "if a:\n    b()\n", id="the last of an and as a test"),
    pytest.param(ENVS, "if f() or envs.VLLM_USE_V1:\n    b()\n", "f()\nb()\n", id="a call still runs"),
    pytest.param(
        ENVS,
        "if f() or envs.VLLM_USE_V1:\n    b()\nelse:\n    # V0\n    c()\nd()\n",
        "f()\nb()\nd()\n",
        id="a call still runs before the arm that stays",
    ),
    pytest.param(
        ENVS,
        "if f() and not envs.VLLM_USE_V1:\n    b()\nelse:\n    # why\n    c()\n",
        "f()\n# why\nc()\n",
        id="a call still runs before the else that stays",
    ),
    pytest.param(ENVS, "if f() and not envs.VLLM_USE_V1:\n    b()\nd()\n", "f()\nd()\n", id="a call is all that stays"),
    pytest.param(ENVS, "assert f() or envs.VLLM_USE_V1\n", "f()\n", id="a call in an assertion still runs"),
    pytest.param(
        ENVS,
        "def g():\n    if f() or envs.VLLM_USE_V1:\n        return 1\n    return 2\n",
        "def g():\n    f()\n    return 1\n",
        id="a call still runs before a return",
    ),
    pytest.param(
        ENVS, "if f() or envs.VLLM_USE_V1: b()\n", "if f() or True: b()\n", id="a call and its block on one line stay"
    ),
    pytest.param(
        ENVS,
        "if a:\n    b()\nelif f() or envs.VLLM_USE_V1:\n    c()\n",
        "if a:\n    b()\nelif f() or True:\n    c()\n",
        id="a call in an elif stays",
    ),
    pytest.param(ENVS, "if a or envs.VLLM_USE_V1:\n    b()\n", "b()\n", id="a name has no effect and goes"),
    pytest.param(ENVS, "x = envs.VLLM_USE_V1 or f()\n", "x = True\n", id="what was never called goes"),
    pytest.param(
        ENVS, "x = a and not envs.VLLM_USE_V1 and f()\n", "x = a and False\n", id="short-circuit in the middle"
    ),
    pytest.param(ENVS, "x = (envs.VLLM_USE_V1 and a) or b\n", "x = (a) or b\n", id="parentheses stay"),
    pytest.param(ENVS, "x = 1 if envs.VLLM_USE_V1 else f()\n", "x = 1\n", id="conditional expression, first arm"),
    pytest.param(
        ENVS, "x = 1 if not envs.VLLM_USE_V1 else (f())\n", "x = (f())\n", id="conditional expression, second arm"
    ),
    pytest.param(ENVS, 'x = """a\n""" if envs.VLLM_USE_V1 else "b"\n', 'x = """a\n"""\n', id="an arm of several lines"),
    pytest.param(ENVS, "x = 'a' if envs.VLLM_USE_V1 else 'b'\n", "x = 'a'\n", id="an arm keeps its quotes"),
    pytest.param(
        ENVS,
        'def f():\n    x = "a\\n" if envs.VLLM_USE_V1 else "b"\n    g(x)\n',
        "def f():\n    g('a\\n')\n",
        id="an escape in a value that is handed on",
    ),
    pytest.param(
        ENVS,
        "def f(p):\n    if p:\n        n = not envs.VLLM_USE_V1\n    else:\n        pass\n    print(n)\n",
        "def f(p):\n    if p:\n        pass\n    else:\n        pass\n    print(False)\n",
        id="the only statement of an arm, unused after the fold",
    ),
    pytest.param(
        ENVS,
        "def f(p):\n    with p:\n        n = 1 if not envs.VLLM_USE_V1 else 2\n    print(n)\n",
        "def f(p):\n    with p:\n        pass\n    print(2)\n",
        id="the only statement of a with, unused after the fold",
    ),
    pytest.param(ENVS, "x = [i for i in y if envs.VLLM_USE_V1]\n", "x = [i for i in y]\n", id="comprehension, true"),
    pytest.param(
        ENVS, "x = [i for i in y if i if not envs.VLLM_USE_V1]\n", "x = [i for i in y if i if False]\n", id="and false"
    ),
    pytest.param(ENVS, 'x = f"{envs.VLLM_USE_V1}"\n', 'x = f"{True}"\n', id="f-string"),
    pytest.param(
        ENVS, """x = f"a{'.v1' if envs.VLLM_USE_V1 else ''}b"\n""", """x = "a.v1b"\n""", id="choice in an f-string"
    ),
    pytest.param(OS, """x = f"{os.getenv('VLLM_USE_V1')}"\n""", """x = "1"\n""", id="quotes in an f-string"),
    pytest.param(
        ENVS,
        """x = [f"{y}{'b' if envs.VLLM_USE_V1 else ''}", f"{{z}}{'b' if envs.VLLM_USE_V1 else ''}"]\n""",
        """x = [f"{y}b", f"{{z}}b"]\n""",
        id="what must stay an f-string",
    ),
    pytest.param(
        ENVS,
        """x = (f'a{".v1" if envs.VLLM_USE_V1 else ""}'\\\n    "b" F"c")\n""",
        """x = ('a.v1'\\\n    "b" "c")\n""",
        id="a text in several pieces",
    ),
    pytest.param(
        ENVS,
        """x = f"{'a' if envs.VLLM_USE_V1 else ''!r}{'{' if envs.VLLM_USE_V1 else '':>3}"\n""",
        """x = f"{'a'!r}{'{':>3}"\n""",
        id="what is formatted, or no plain text",
    ),
    pytest.param(ENVS, "def f(v=envs.VLLM_USE_V1): ...\n", "def f(v=True): ...\n", id="default argument"),
    pytest.param(ENVS, "x = lambda: envs.VLLM_USE_V1\n", "x = lambda: True\n", id="lambda"),
    pytest.param(ENVS, "while not envs.VLLM_USE_V1:\n    f()\ng()\n", "g()\n", id="a loop that never runs"),
    pytest.param(ENVS, "while envs.VLLM_USE_V1:\n    f()\n", "while True:\n    f()\n", id="a loop that always runs"),
    pytest.param(ENVS, "envs.VLLM_USE_V1\n", "", id="an expression that stands alone"),
    pytest.param(ENVS, "if not envs.VLLM_USE_V1: raise E\nf()\n", "f()\n", id="one line, never"),
    pytest.param(ENVS, "if envs.VLLM_USE_V1: f(); g()\n", "f(); g()\n", id="one line, always"),
    pytest.param(ENVS, "if envs.VLLM_USE_V1: f()\nelse: g()\n", "f()\n", id="two one-line arms, the first"),
    pytest.param(ENVS, "if not envs.VLLM_USE_V1: f()\nelse: g()\n", "g()\n", id="two one-line arms, the second"),
    pytest.param(
        ENVS, "def f():\n    if not envs.VLLM_USE_V1:\n        g()\n", "def f():\n    pass\n", id="an empty body passes"
    ),
    pytest.param(
        ENVS,
        "if a:\n    b()\nelif envs.VLLM_USE_V1:\n    c()\nelif d:\n    e()\nelse:\n    f()\n",
        "if a:\n    b()\nelse:\n    c()\n",
        id="an elif that always holds becomes the else",
    ),
    pytest.param(
        ENVS,
        "if not envs.VLLM_USE_V1:\n    a()\nelif b:\n    c()\nelse:\n    d()\n",
        "if b:\n    c()\nelse:\n    d()\n",
        id="a first arm that never holds gives its if away",
    ),
    pytest.param(
        ENVS,
        "if a:\n    b()\nelif not envs.VLLM_USE_V1:\n    c()\n# about d\nelif d:\n    e()\n",
        "if a:\n    b()\n# about d\nelif d:\n    e()\n",
        id="an elif that never holds goes, comments of the next stay",
    ),
    pytest.param(
        ENVS,
        "if a:\n    b()\nelse:\n    if envs.VLLM_USE_V1:\n        c()\n    else:\n        d()\n",
        "if a:\n    b()\nelse:\n    c()\n",
        id="inside an else",
    ),
    pytest.param(
        ENVS,
        "if envs.VLLM_USE_V1:\n    if a:\n        if not envs.VLLM_USE_V1:\n            b()\n"
        "        else:\n            c()\n",
        "if a:\n    c()\n",
        id="nested folds move a block twice",
    ),
    pytest.param(
        ENVS,
        'if envs.VLLM_USE_V1:\n    # first\n    x = """\n    as it is\n  """\n\n'
        "    f(a,\n      b)\n    # last\n\ny = 1\n",
        '# first\nx = """\n    as it is\n  """\n\nf(a,\n  b)\n# last\n\ny = 1\n',
        id="comments move, the inside of a string does not",
    ),
    pytest.param(ENVS, "if envs.VLLM_USE_V1:\n\tif a:\n\t\tb()\n\tc()\n", "if a:\n\tb()\nc()\n", id="tabs"),
    pytest.param(
        ENVS,
        "if (envs.VLLM_USE_V1\n        and a  # why\n        and b):\n    f()\n",
        "if (a  # why\n        and b):\n    f()\n",
        id="a condition over several lines",
    ),
    pytest.param(
        ENVS, "if envs.VLLM_USE_V1 and \\\n        a:\n    f()\n", "if a:\n    f()\n", id="a continuation line"
    ),
    pytest.param(
        ENVS,
        "def f():\n    v1 = envs.VLLM_USE_V1\n    return 1 if v1 else 2\n",
        "def f():\n    return 1\n",
        id="a local flag is followed",
    ),
    pytest.param(
        ENVS,
        "class P:\n    def get_attn_backend_cls(self, use_v1, use_mla):\n        if use_v1 and use_mla:\n"
        "            return 1\n        if use_v1:\n            return 2\n        return 3\nx = envs.VLLM_USE_V1\n",
        "class P:\n    def get_attn_backend_cls(self, use_v1, use_mla):\n        if use_mla:\n"
        "            return 1\n        return 2\nx = True\n",
        id="the platform method is only called with use_v1=True",
    ),
    pytest.param(
        ENVS,
        "match a:\n    case 1 if envs.VLLM_USE_V1:\n        b()\n",
        "match a:\n    case 1 if True:\n        b()\n",
        id="a guard of a case",
    ),
]


@pytest.mark.parametrize("imported, before, after", FOLDED)
def test_folded(imported: str, before: str, after: str) -> None:
    outcome = rewrite(imported + before, "0.11.2", folds=True)
    assert outcome.text == after
    assert outcome.said("V1M201")
    assert all(finding.fixed for finding in outcome.said("V1M201"))


LEFT_ALONE = [
    pytest.param(ENVS + "x = envs.VLLM_USE_V2_MODEL_RUNNER\n", 0, id="another variable"),
    pytest.param('import os\nx = os.getenv("VLLM_CPU_KVCACHE_SPACE")\n', 0, id="another environment variable"),
    pytest.param("from mine import envs\nx = envs.VLLM_USE_V1\n", 0, id="somebody else's envs"),
    pytest.param("def f(envs):\n    return envs.VLLM_USE_V1\n", 0, id="an argument called envs"),
    pytest.param('x = {}.get("VLLM_USE_V1")\n', 0, id="a dict that is not the environment"),
    pytest.param('x = "set VLLM_USE_V1=1 first"\n', 0, id="a text that mentions it"),
    pytest.param("def f(use_v1):\n    return 1 if use_v1 else 2\n", 0, id="a public function's argument"),
    pytest.param(ENVS + 'x = f"{envs.VLLM_USE_V1=}"\n', 1, id="an f-string that prints the expression"),
    pytest.param(ENVS + 'if hasattr(envs, "VLLM_USE_V1") and envs.VLLM_USE_V1:\n    f()\n', 1, id="probed first"),
    pytest.param(
        "import os\nfrom vllm import envs\nos.environ['VLLM_USE_V1'] = '0'\nif envs.VLLM_USE_V1:\n    f()\n",
        1,
        id="the file asks for V0",
    ),
    pytest.param(
        ENVS
        + "def test_a(monkeypatch):\n    monkeypatch.setenv('VLLM_USE_V1', '0')\n    assert not envs.VLLM_USE_V1\n",
        1,
        id="the function asks for V0",
    ),
    pytest.param(
        "try:\n    from vllm.envs import VLLM_USE_V1\nexcept ImportError:\n    VLLM_USE_V1 = True\n"
        "x = 1 if VLLM_USE_V1 else 2\n",
        1,
        id="a guarded import with a value of its own",
    ),
]


@pytest.mark.parametrize("text, said", LEFT_ALONE)
def test_left_alone(text: str, said: int) -> None:
    outcome = rewrite(text, "0.11.2")
    assert outcome.text == text
    assert len([f for f in outcome.said("V1M201") if not f.fixed]) >= said
    assert said or not outcome.said("V1M201")


REBOUND = [
    pytest.param(
        ENVS + "def f():\n    x = envs.VLLM_USE_V1\n    def g():\n        nonlocal x\n        x = False\n    g()\n"
        "    return x\n",
        "def f():\n    x = True\n    def g():\n        nonlocal x\n        x = False\n    g()\n    return x\n",
        id="an inner function assigns it, nonlocal",
    ),
    pytest.param(
        ENVS + "def f():\n    def g():\n        nonlocal x\n        x = False\n    x = envs.VLLM_USE_V1\n    g()\n"
        "    if x:\n        h()\n",
        "def f():\n    def g():\n        nonlocal x\n        x = False\n    x = True\n    g()\n    if x:\n        h()\n",
        id="an inner function above it does",
    ),
    pytest.param(
        ENVS + "def f():\n    x = envs.VLLM_USE_V1\n    def g():\n        def h():\n            nonlocal x\n"
        "            for x in y:\n                pass\n        return h\n    return x, g\n",
        "def f():\n    x = True\n    def g():\n        def h():\n            nonlocal x\n"
        "            for x in y:\n                pass\n        return h\n    return x, g\n",
        id="a loop two functions further in does",
    ),
    pytest.param(
        ENVS + "x = envs.VLLM_USE_V1\ndef g():\n    global x\n    x = False\ng()\nprint(x)\n",
        "x = True\ndef g():\n    global x\n    x = False\ng()\nprint(x)\n",
        id="a function assigns it, global",
    ),
    pytest.param(
        "def f():\n    from vllm.envs import VLLM_USE_V1 as V\n    def g():\n        nonlocal V\n        V = 0\n    g()\n"
        "    return V\n",
        None,
        id="an imported name",
    ),
]


@pytest.mark.parametrize("before, after", REBOUND)
def test_a_name_that_an_inner_function_binds_again_is_no_constant(before: str, after: str | None) -> None:
    outcome = rewrite(before, "0.11.2", folds=True)
    assert outcome.text == (before if after is None else after)
    assert {finding.fixed for finding in outcome.said("V1M201")} == {after is not None}


def test_a_result_that_parses_but_does_not_compile_is_given_up() -> None:
    text = "def f():\n    from vllm.envs import VLLM_USE_V1 as V\n    def g():\n        nonlocal V\n        return V\n    return g\n"
    outcome = rewrite(text, "0.11.2", check=False)
    assert outcome.text == text
    assert "would not compile" in outcome.said("V1M902")[0].message


def test_the_raw_text_is_folded_as_it_was_meant_and_the_finding_says_so() -> None:
    text = 'import os\nif os.getenv("VLLM_USE_V1"):\n    from a import E\nelse:\n    from b import E\n'  # B4
    outcome = rewrite(text, folds=True)
    assert outcome.text == "from a import E\n"
    assert "the text 0" in outcome.said("V1M201")[0].advice


def test_is_set_and_the_attribute_are_one_family() -> None:
    text = ENVS + 'if envs.is_set("VLLM_USE_V1") and envs.VLLM_USE_V1:\n    f()\n'  # A11
    assert rewrite(text, folds=True).text == "f()\n"


def test_a_conjunction_keeps_its_other_part() -> None:
    text = dedent(
        """
        import os
        import pytest
        from vllm.platforms import current_platform

        def test_window():
            if current_platform.is_cpu() and os.environ.get("VLLM_USE_V1", "0") == "1":
                pytest.skip("CPU V1 doesn't support sliding window")
        """
    )  # B8
    after = rewrite(text, "0.11.2", folds=True).text
    assert "    if current_platform.is_cpu():\n        pytest.skip(" in after
    assert "import os" not in after


@pytest.mark.parametrize(
    "rel, text, folded",
    [
        pytest.param("worker.py", ENVS + "x = envs.VLLM_USE_V1\n", False, id="no sign of a CPU"),
        pytest.param("cpu_worker.py", ENVS + "x = envs.VLLM_USE_V1\n", True, id="the file is called after it"),
        pytest.param("cpu/worker.py", ENVS + "x = envs.VLLM_USE_V1\n", True, id="the folder is called after it"),
        pytest.param("a.py", ENVS + "class CPUWorker:\n    x = envs.VLLM_USE_V1\n", True, id="the class is"),
        pytest.param(
            "a.py",
            ENVS + "from vllm.platforms import current_platform as p\nif p.is_cpu():\n    x = envs.VLLM_USE_V1\n",
            True,
            id="behind a test for it",
        ),
        pytest.param(
            "a.py",
            ENVS + "from vllm.platforms import current_platform as p\nif not p.is_cpu():\n    x = envs.VLLM_USE_V1\n",
            False,
            id="behind a test against it",
        ),
    ],
)
def test_a_release_with_v0_for_other_devices_folds_only_what_is_for_cpus(rel: str, text: str, folded: bool) -> None:
    outcome = rewrite(text, "0.10.0", rel=rel, folds=True)
    assert ("= True" in outcome.text) is folded
    assert bool([finding for finding in outcome.said("V1M201") if finding.fixed]) is folded
    assert outcome.said("V1M201")


@pytest.mark.parametrize("newline", ["\r\n", "\n"])
def test_line_ends_stay(newline: str) -> None:
    text = newline.join(["from vllm import envs", "if envs.VLLM_USE_V1:", "    a()", "", "    b()", "c()", ""])
    assert rewrite(text, folds=True).text == newline.join(["a()", "", "b()", "c()", ""])


def test_an_import_that_something_else_uses_stays() -> None:
    text = 'import os\nx = os.getenv("VLLM_USE_V1")\ny = os.sep\n'  # A14
    assert rewrite(text, folds=True).text == 'import os\nx = "1"\ny = os.sep\n'


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('import os\n__all__ = ["os"]\nx = os.getenv("VLLM_USE_V1")\n', id="listed in __all__"),
        pytest.param('import os\nx = os.getenv("VLLM_USE_V1")\ndef f(a: "os.PathLike"): ...\n', id="quoted annotation"),
        pytest.param('import os\nx = os.getenv("VLLM_USE_V1")\ny = f()  # type: os.PathLike\n', id="type comment"),
        pytest.param('import os\nx = os.getenv("VLLM_USE_V1")\nglobals()["os"]\n', id="named by a string"),
    ],
)
def test_an_import_that_is_only_mentioned_stays(text: str) -> None:
    assert "import os\n" in rewrite(text, folds=True).text


def test_a_package_keeps_what_others_may_import_from_it() -> None:
    text = 'import os\nx = os.getenv("VLLM_USE_V1")\n'
    assert rewrite(text, folds=True, rel="pkg/__init__.py").text == 'import os\nx = "1"\n'


def test_a_suppression_keeps_the_switch_of_the_file() -> None:
    text = ENVS + "x = envs.VLLM_USE_V1  # v1: ignore[V1M201] both engines\n"
    assert rewrite(text).text == text


def test_an_import_that_another_file_takes_from_here_stays(tmp_path: Path) -> None:
    text = "import os\nimport json\nfrom vllm import envs\nx = os.sep if not envs.VLLM_USE_V1 else 1\n"
    text += "y = json if not envs.VLLM_USE_V1 else 2\n"
    (tmp_path / "plugin").mkdir()
    files = {"__init__.py": "", "module.py": text, "other.py": "from .module import (json,  # why\n    x)\n"}
    for name, content in files.items():
        (tmp_path / "plugin" / name).write_text(content)
    tree = Tree.of(tmp_path, sorted((tmp_path / "plugin").iterdir()))
    outcome = rewrite(text, folds=True, rel="plugin/module.py", tree=tree)
    assert outcome.text == "import json\nx = 1\ny = 2\n"


PATCHERS = [
    pytest.param("import a\ndef test_a(monkeypatch):\n    monkeypatch.setattr(a, 'USE', 0)\n", id="setattr"),
    pytest.param("def test_a(monkeypatch):\n    monkeypatch.setattr('plugin.module.USE', 0)\n", id="setattr by path"),
    pytest.param("@mock.patch(\n    'plugin.module.USE', False)\ndef test_a(): ...\n", id="patch"),
    pytest.param("with patch.object(module, 'USE', False):\n    f()\n", id="patch.object"),
    pytest.param("from plugin import module\nmodule.USE = False\n", id="an assignment"),
]
HOLDERS = [
    pytest.param("from vllm import envs\nUSE = envs.VLLM_USE_V1\n", "USE = True\n", id="an attribute"),
    pytest.param('import os\nUSE = os.getenv("VLLM_USE_V1") == "1"\n', "USE = True\n", id="a comparison"),
    pytest.param("from vllm.envs import VLLM_USE_V1 as USE\n", None, id="an imported name"),
]


@pytest.mark.parametrize("other", PATCHERS)
@pytest.mark.parametrize("before, after", HOLDERS)
def test_a_name_that_another_file_sets_is_no_constant(
    tmp_path: Path, before: str, after: str | None, other: str
) -> None:
    body = "def f():\n    if USE:\n        return 1\n    return 2\n"
    files = {"__init__.py": "", "module.py": before + body, "test_a.py": other}
    (tmp_path / "plugin").mkdir()
    for name, content in files.items():
        (tmp_path / "plugin" / name).write_text(content)
    tree = Tree.of(tmp_path, sorted((tmp_path / "plugin").iterdir()))
    outcome = rewrite(before + body, folds=True, rel="plugin/module.py", tree=tree)
    assert outcome.text == (before if after is None else after) + body
    assert [f.line for f in outcome.said("V1M201") if not f.fixed and "another file" in f.advice] == [
        outcome.text.splitlines().index("    if USE:") + 1
    ]


def test_a_name_that_no_other_file_sets_is_folded(tmp_path: Path) -> None:
    text = "from vllm import envs\nUSE = envs.VLLM_USE_V1\nx = 1 if USE else 2\n"
    (tmp_path / "module.py").write_text(text)
    (tmp_path / "other.py").write_text("self.USE = 1\nprint(a.USE == 1, 'USE')\n")
    tree = Tree.of(tmp_path, sorted(tmp_path.iterdir()))
    assert rewrite(text, folds=True, tree=tree).text == "USE = True\nx = 1\n"


def test_a_test_that_stays_for_its_call_says_why() -> None:
    outcome = rewrite(ENVS + "while f() or envs.VLLM_USE_V1:\n    b()\n", "0.11.2", folds=True)
    assert outcome.text == "while f() or True:\n    b()\n"
    assert "may do something else" in outcome.said("V1M201")[0].advice


MORE = [
    pytest.param(
        'if not os.environ.get("VLLM_USE_V1", False):\n    env["VLLM_USE_V1"] = "1"\n    env["PROFILE"] = "0"\n',
        "does more",
        id="an arm that chooses V1 and sets something else",
    ),
    pytest.param(
        'if os.getenv("VLLM_USE_V1") == "1":\n    pass\nelse:\n    os.environ["VLLM_USE_V1"] = "1"\n    prepare()\n',
        "does more",
        id="an else that chooses V1 and calls",
    ),
    pytest.param(
        'if "VLLM_USE_V1" not in os.environ:\n    prepare()\n', "is not", id="work for a switch that is not set"
    ),
    pytest.param('if os.getenv("VLLM_USE_V1") is not None:\n    show()\n', "is not", id="work for one that is"),
]
DEFAULT = 'if "VLLM_USE_V1" not in os.environ:\n    logger.info("V1")\n    os.environ["VLLM_USE_V1"] = "1"\n'


@pytest.mark.parametrize(("body", "why"), MORE)
def test_what_a_run_without_the_switch_does_is_not_taken_away(body: str, why: str) -> None:
    outcome = rewrite(OS + body)
    assert outcome.text == OS + body
    assert all(why in found.advice and "every run" in found.advice for found in outcome.said("V1M201"))
    assert outcome.said("V1M201")


def test_a_default_and_a_message_about_it_go() -> None:
    assert rewrite(OS + DEFAULT + "print(os.sep)\n", folds=True).text == OS + "print(os.sep)\n"


PLATFORM = """
    import vllm.envs as envs
    from vllm.platforms.interface import Platform

    class Mine(Platform):
        @classmethod
        def get_attn_backend_cls(cls, *args):
            if not envs.VLLM_USE_V1:
                return "plugin.attention.{}"
            return "plugin.attention.Used"
"""


@pytest.mark.parametrize(
    ("path", "others", "orphan"),
    [
        pytest.param("Backend", {}, True, id="named nowhere else"),
        pytest.param("Used", {}, False, id="named in the arm that stays"),
        pytest.param("Backend", {"plugin/use.py": "from .attention import Backend\n"}, False, id="imported elsewhere"),
        pytest.param("Backend", {"plugin/use.py": "class Backend: ...\n"}, True, id="a namesake elsewhere"),
        pytest.param("other.Backend", {}, False, id="no module of the tree"),
    ],
)
def test_what_only_a_dead_arm_named_is_said(tmp_path: Path, path: str, others: dict[str, str], orphan: bool) -> None:
    text = dedent(PLATFORM.format(path))
    files = {"__init__.py": "", "attention.py": "class Backend: ...\nclass Used: ...\n", "module.py": text}
    for name, content in ({f"plugin/{name}": content for name, content in files.items()} | others).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    tree = Tree.of(tmp_path, sorted(tmp_path.rglob("*.py")))
    outcome = rewrite(text, tree=tree, folds=True)
    assert "VLLM_USE_V1" not in outcome.text and "plugin.attention.Used" in outcome.text
    said = [finding.message for finding in outcome.open if finding.rule == "V1M201"]
    wanted = (
        f"`plugin.attention.{path}` is named in an arm that V1 never takes, and in no other Python file of the tree"
    )
    assert said == ([wanted] if orphan else [])


@pytest.mark.parametrize(
    ("body", "stays"),
    [
        pytest.param("if not envs.VLLM_USE_V1:\n    yield 1\n", True, id="the only yield"),
        pytest.param("if envs.VLLM_USE_V1:\n    return\nelse:\n    yield from a()\n", True, id="in an else"),
        pytest.param("if not envs.VLLM_USE_V1:\n    yield 1\nyield 2\n", False, id="another one is reached"),
        pytest.param(
            "def inner():\n    yield 1\n\nif not envs.VLLM_USE_V1:\n    a()\nreturn inner\n",
            False,
            id="an inner function's",
        ),
    ],
)
@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_a_function_that_only_v0_made_a_generator_stays_one(body: str, stays: bool, keyword: str) -> None:
    if keyword == "async def" and "yield from" in body:
        body = body.replace("yield from a()", "yield a()")
    lines = "".join(f"    {line}\n" if line else "\n" for line in body.splitlines())
    text = f"{ENVS}\n\n{keyword} f():\n{lines}"
    done = rewrite(text, folds=True)
    assert ("VLLM_USE_V1" in done.text) is stays
    assert any("put a `yield`" in finding.advice for finding in done.said("V1M201")) is stays


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("if envs.VLLM_USE_V1:  # why\n    a()\n", "# why\na()\n", id="behind the test"),
        pytest.param("if not envs.VLLM_USE_V1:\n    b()\nelse:  # why\n    a()\n", "# why\na()\n", id="behind else"),
        pytest.param("if envs.VLLM_USE_V1:  # V1 only\n    a()\n", "a()\n", id="of the engine, which goes"),
        pytest.param("if not envs.VLLM_USE_V1:  # why\n    b()\na()\n", "a()\n", id="of what goes"),
        pytest.param(
            "x = 1\nif envs.VLLM_USE_V1:  # why\n    a()  # b\n", "x = 1\n# why\na()  # b\n", id="and of what stays"
        ),
        pytest.param(
            "try:\n    if not envs.VLLM_USE_V1:\n        b()\nfinally:\n    pass\na()\n", "a()\n", id="a try of nothing"
        ),
        pytest.param(
            "try:\n    if not envs.VLLM_USE_V1:\n        b()\nfinally:\n    c()\n",
            "try:\n    pass\nfinally:\n    c()\n",
            id="a try that does something at its end",
        ),
    ],
)
def test_comments_of_what_stays_stay(before: str, after: str) -> None:
    outcome = rewrite("from vllm import envs\n" + before, "0.32.0", folds=True)
    assert outcome.text == after


GIVEN = [
    pytest.param(
        'os.getenv("VLLM_USE_V1", "0")', "gives `'0'`, and what is meant for V0 runs without a word", id="zero"
    ),
    pytest.param(
        'os.getenv("VLLM_USE_V1")', "gives `None`, and what is meant for V0 runs without a word", id="nothing"
    ),
    pytest.param('os.environ.get("VLLM_USE_V1", "1")', 'get("VLLM_USE_V1", "1")` gives `\'1\'`', id="one"),
    pytest.param('os.environ.get("VLLM_USE_V1", x)', "gives its default", id="a default of its own"),
    pytest.param('os.environ["VLLM_USE_V1"]', "fails", id="an entry"),
    pytest.param('("VLLM_USE_V1" in os.environ)', "is false", id="whether it is there"),
]


@pytest.mark.parametrize(("read", "words"), GIVEN)
def test_what_the_environment_gives_on_the_target_is_said(read: str, words: str) -> None:
    text = f"import os\n\nx = 0\ny = int({read})\n"
    (found,) = rewrite(text, "0.32.0", folds=True).said("V1M201")
    assert found.message.startswith("nothing sets `VLLM_USE_V1` on vLLM 0.32.0, which has only V1: `")
    assert found.message.endswith(words)
    assert found.severity is Severity.WARNING
    (found,) = rewrite(text, "0.11.0", folds=True).said("V1M201")
    assert "sets `VLLM_USE_V1` with its first engine; until then `" in found.message


def test_a_name_that_holds_the_text_is_no_name_of_vllm() -> None:
    text = 'import os\n\nV = os.getenv("VLLM_USE_V1", "0")\nif V == "1":\n    a()\n'
    findings = rewrite(text, "0.32.0", folds=True).said("V1M201")
    assert [found.severity for found in findings] == [Severity.WARNING, Severity.WARNING]


@pytest.mark.parametrize(("target", "words"), [("0.10.0", "has only V1 on CPUs"), ("0.32.0", "has only V1")])
def test_what_a_release_has_of_engines_is_said_in_one_way(target: str, words: str) -> None:
    text = dedent(
        """
        import pytest
        import vllm


        @pytest.mark.parametrize("use_v1", [True, False])
        def test_a(use_v1):
            run(use_v1, vllm.LLM("m"))  # not on V0
        """
    )
    outcome = rewrite(text, target, rel="tests/test_engines.py", folds=True)
    spoken = {found.rule: found.message for found in outcome.findings if "has only" in found.message}
    assert spoken.keys() >= {"V1M304", "V1M501"}
    assert all(message.endswith(words) for message in spoken.values())
