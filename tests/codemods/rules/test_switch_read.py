"""Reads of the engine switch: folded where V1 is certain, left alone where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from v1_migrate.engine.tree import Tree

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
    pytest.param(OS, 'x = "VLLM_USE_V1" not in os.environ or y\n', "x = y\n", id="not in os.environ, or"),
    pytest.param(OS, 'x = bool(int(os.getenv("VLLM_USE_V1", "0")))\n', "x = True\n", id="bool of int"),
    pytest.param(OS, 'x = int(os.environ["VLLM_USE_V1"])\n', "x = 1\n", id="int"),
    pytest.param(OS, 'x = os.getenv("VLLM_USE_V1", "").lower() == "1"\n', "x = True\n", id="lowered first"),
    pytest.param("from os import environ\n", 'x = environ["VLLM_USE_V1"]\n', 'x = "1"\n', id="environ by name"),
    pytest.param("from os import getenv as g\n", 'x = g("VLLM_USE_V1")\n', 'x = "1"\n', id="getenv by another name"),
    pytest.param(ENVS, "x = not envs.VLLM_USE_V1\n", "x = False\n", id="not"),
    pytest.param(ENVS, "x = a and envs.VLLM_USE_V1\n", "x = a and True\n", id="the last of an and is its value"),
    pytest.param(ENVS, "if a and envs.VLLM_USE_V1:\n    b()\n", "if a:\n    b()\n", id="the last of an and as a test"),
    pytest.param(ENVS, "if f() or envs.VLLM_USE_V1:\n    b()\n", "if f() or True:\n    b()\n", id="a call still runs"),
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
    pytest.param(ENVS, "x = [i for i in y if envs.VLLM_USE_V1]\n", "x = [i for i in y]\n", id="comprehension, true"),
    pytest.param(
        ENVS, "x = [i for i in y if i if not envs.VLLM_USE_V1]\n", "x = [i for i in y if i if False]\n", id="and false"
    ),
    pytest.param(ENVS, 'x = f"{envs.VLLM_USE_V1}"\n', 'x = f"{True}"\n', id="f-string"),
    pytest.param(
        ENVS, """x = f"a{'.v1' if envs.VLLM_USE_V1 else ''}b"\n""", """x = f"a{'.v1'}b"\n""", id="choice in an f-string"
    ),
    pytest.param(OS, """x = f"{os.getenv('VLLM_USE_V1')}"\n""", """x = f"{'1'}"\n""", id="quotes in an f-string"),
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
