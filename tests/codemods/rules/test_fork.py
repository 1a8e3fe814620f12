"""What a fork of vLLM changed in files that the target removed, and patches against such files."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
from v1_migrate.discover import Kind
from v1_migrate.engine.tree import Tree
from v1_migrate.names import fork_hashes
from v1_migrate.names.fork_hashes import Module

from tests.codemods.rules.harness import Outcome, dedent, rewrite

MODULE = "vllm.worker.cpu_worker"
UPSTREAM = dedent(
    """
    import os

    def bind(a):
        return a


    class CPUWorker:
        speed = 1

        @property
        def cores(self):
            return 4

        def run(self, x):
            return x
    """
)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tree:
    """Two releases of one module, as `build` finds them in a folder, and a tree that is a fork."""
    for name, text in (("0.9.1", UPSTREAM.replace("4", "2")), ("0.9.2", UPSTREAM), ("0.32.0", "")):
        file = tmp_path / name / "vllm" / ("worker/cpu_worker.py" if text else "envs.py")
        file.parent.mkdir(parents=True)
        file.write_text(text)
    data = fork_hashes.build(tmp_path)
    found = {name: Module(tuple(data["releases"]), *parts) for name, parts in data["modules"].items()}  # type: ignore
    monkeypatch.setattr(fork_hashes, "modules", lambda: found)
    assert found.keys() == {MODULE}
    root = Path("/nowhere/vllm")
    return Tree(root.parent, (root,), {MODULE: root / "worker/cpu_worker.py"})


def look(text: str, tree: Tree) -> Outcome:
    outcome = rewrite(text, module=MODULE, tree=tree)
    assert outcome.text == text
    return outcome


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(UPSTREAM, id="byte by byte"),
        pytest.param(UPSTREAM.replace("\n\n\n", "\n"), id="other empty lines"),
        pytest.param(UPSTREAM.replace("\n", "\r\n"), id="other line ends"),
    ],
)
def test_an_unmodified_file_may_be_deleted(known: Tree, text: str) -> None:
    (finding,) = look(text, known).said("V1M701")
    assert "unchanged, as in 0.9.2" in finding.message
    assert "Delete it" in finding.advice


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param("return x", "return 2 * x", [(14, "changed `CPUWorker.run`")], id="a method"),
        pytest.param("return a", "return a + 1", [(3, "changed `bind`")], id="a function"),
        pytest.param("speed = 1", "speed = 2", [(7, "changed `CPUWorker`")], id="the class's own lines"),
        pytest.param("@property", "@cached", [(11, "changed `CPUWorker.cores`")], id="a decorator"),
        pytest.param("import os\n", "import os\ndef g(): ...\n", [(2, "added `g`")], id="a function of its own"),
        pytest.param("return 4", "return 2", [], id="a method as an earlier release has it"),
        pytest.param("import os", "import sys", [], id="nothing but an import"),
    ],
)
def test_a_modified_file_names_what_the_fork_did(known: Tree, old: str, new: str, said: list[tuple[int, str]]) -> None:
    head, *rest = look(UPSTREAM.replace(old, new), known).said("V1M701")
    assert head.line == 1
    assert "0.9.2" in head.message or "0.9.1" in head.message
    assert [(f.line, text in f.message) for f, (_, text) in zip(rest, said, strict=True)] == [
        (n, True) for n, _ in said
    ]
    assert all(f.advice for f in rest)


def test_what_the_fork_left_out_is_named(known: Tree) -> None:
    (head,) = look(UPSTREAM[: UPSTREAM.index("    def run")], known).said("V1M701")
    assert "leaves out 1" in head.message
    assert "CPUWorker.run" in head.advice


def test_outside_a_fork_nothing_is_said(known: Tree) -> None:
    assert not rewrite(UPSTREAM, module="plugin.worker.cpu_worker").said("V1M701")


def test_the_shipped_table_knows_the_cpu_modules() -> None:
    for module in ("vllm.worker.cpu_worker", "vllm.attention.backends.torch_sdpa", "vllm.worker.cpu_model_runner"):
        known = fork_hashes.modules()[module]
        assert known.definitions
        assert known.releases[-1] == "0.32.0"


@pytest.mark.wheels
@pytest.mark.skipif("V1_MIGRATE_SOURCES" not in os.environ, reason="needs the releases' source in V1_MIGRATE_SOURCES")
def test_a_release_is_unmodified() -> None:
    path = Path(os.environ["V1_MIGRATE_SOURCES"]) / "0.9.2" / "vllm/worker/cpu_worker.py"
    text = path.read_text("utf-8")
    known = fork_hashes.modules()["vllm.worker.cpu_worker"]
    assert "0.9.2" in known.same_file(fork_hashes.digest(text))
    found = fork_hashes.definitions(text, ast.parse(text))
    assert known.nearest(found) in known.same_file(fork_hashes.digest(text))
    assert all(map(known.upstream, found))


PATCHES = [
    pytest.param(
        Kind.PATCH, "--- a/vllm/worker/cpu_worker.py\n+++ b/vllm/worker/cpu_worker.py\n@@\n-a\n+b\n", 1, id="a patch"
    ),
    pytest.param(Kind.SHELL, "X=1 sed -i 's/a/b/' /opt/vllm/worker/cpu_worker.py\n", 1, id="sed"),
    pytest.param(Kind.DOCKER, "FROM x\nRUN cp mine.py $D/vllm/worker/cpu_worker.py\n", 2, id="a copy over it"),
    pytest.param(Kind.YAML, "run: |\n  patch vllm/worker/cpu_worker.py < x\n", 2, id="in a workflow"),
    pytest.param(
        Kind.PYTHON,
        "from pathlib import Path\np = Path('vllm/worker/cpu_worker.py')\np.write_text(p.read_text().replace('a', 'b'))\n",
        2,
        id="text replacement in Python",
    ),
    pytest.param(
        Kind.PYTHON, "import os\nos.system(\"sed -i 's/a/b/' vllm/worker/cpu_worker.py\")\n", 2, id="sed from Python"
    ),
]


@pytest.mark.parametrize(("kind", "text", "line"), PATCHES)
def test_patches_are_found(kind: Kind, text: str, line: int) -> None:
    outcome = rewrite(text, kind=kind)
    assert outcome.text == text
    assert outcome.lines("V1M702") == [line]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param(Kind.SHELL, "sed -i 's/a/b/' vllm/envs.py\n", id="a file that the target has"),
        pytest.param(Kind.SHELL, "cat vllm/worker/cpu_worker.py\n", id="a command that only reads"),
        pytest.param(Kind.SHELL, "sed -i 's/a/b/' my_vllm/worker/cpu_worker.py\n", id="another package"),
        pytest.param(Kind.PYTHON, "x = 'vllm/worker/cpu_worker.py'.replace('/', '.')\n", id="nothing is written"),
    ],
)
def test_other_commands_are_not(kind: Kind, text: str) -> None:
    assert not rewrite(text, kind=kind).said("V1M702")
