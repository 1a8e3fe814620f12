"""Code that serves two releases: imports get a guard, which a second run knows, and which can be folded away."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from v1_migrate.discover import Kind
from v1_migrate.engine.analyse import Analyser, Result
from v1_migrate.engine.context import Settings
from v1_migrate.engine.tree import Tree
from v1_migrate.findings import Safety
from v1_migrate.names.index import Index
from v1_migrate.session import Failure, Request, Session
from v1_migrate.source import Source

from tests.codemods.rules.harness import dedent

ALSO = "0.9.0.1"  # has neither vllm.logprobs nor most of V1's paths
FOLD = frozenset({"V1M601"})


def run(
    text: str,
    *,
    also: str = "",
    select: frozenset[str] = frozenset(),
    attention: str = "vllm",
    kind: Kind = Kind.PYTHON,
) -> Result:
    settings = Settings("0.32.0", attention, select=select, also=also)
    source = Source.from_bytes(text.encode(), "module.py", python=kind is Kind.PYTHON)
    return Analyser(Tree(Path("/nowhere")), settings).source(source, kind, "plugin.module", "plugin")


def guarded(text: str, **options: str) -> str:
    """The text after a run; a second run, and one without --also, must not change it again."""
    result = run(text, also=ALSO, **options)  # type: ignore[arg-type]
    assert "V1M902" not in {finding.rule for finding in result.findings}
    after = result.new_text or text
    ast.parse(after)
    assert run(after, also=ALSO, **options).new_text is None  # type: ignore[arg-type]
    assert run(after, **options).new_text is None  # type: ignore[arg-type]
    return after


CASES = [
    pytest.param(
        "from vllm.sequence import Logprob\n",
        """
        try:
            from vllm.logprobs import Logprob
        except ImportError:
            from vllm.sequence import Logprob
        """,
        id="a single name",
    ),
    pytest.param(
        "from vllm.sequence import Logprob as L  # noqa: F401\n",
        """
        try:
            from vllm.logprobs import Logprob as L  # noqa: F401
        except ImportError:
            from vllm.sequence import Logprob as L  # noqa: F401
        """,
        id="an alias and a remark for a linter",
    ),
    pytest.param(
        """
        def f():
            from vllm.sequence import (
                Logprob,  # one
                PromptLogprobs,
            )
            return Logprob
        """,
        """
        def f():
            try:
                from vllm.logprobs import (
                    Logprob,  # one
                    PromptLogprobs,
                )
            except ImportError:
                from vllm.sequence import (
                    Logprob,  # one
                    PromptLogprobs,
                )
            return Logprob
        """,
        id="several lines in a function",
    ),
    pytest.param(
        "from vllm.sequence import IntermediateTensors, Logprob\nx = 1\n",
        """
        from vllm.sequence import IntermediateTensors
        try:
            from vllm.logprobs import Logprob
        except ImportError:
            from vllm.sequence import Logprob
        x = 1
        """,
        id="a name that stays beside one that moved",
    ),
    pytest.param(
        """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from vllm.sequence import Logprob
        """,
        """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from vllm.logprobs import Logprob
        """,
        id="for type checkers only: the new path will do",
    ),
    pytest.param(
        """
        try:
            from vllm.sequence import Logprob
        except ImportError:
            Logprob = None
        """,
        """
        try:
            try:
                from vllm.logprobs import Logprob
            except ImportError:
                from vllm.sequence import Logprob
        except ImportError:
            Logprob = None
        """,
        id="inside a trial of another kind",
    ),
]


@pytest.mark.parametrize(("before", "after"), CASES)
def test_imports(before: str, after: str) -> None:
    assert guarded(dedent(before)) == dedent(after)


def test_a_path_that_both_releases_have_needs_no_guard() -> None:
    text = "from vllm.worker.worker_base import WorkerWrapperBase as W\n"
    new = "vllm.v1.worker.worker_base.WorkerWrapperBase"
    index = Index.load()
    older = next(r for r in reversed(index.releases) if not index.resolve(new, r).found)
    newer = next(r for r in index.releases if index.resolve(new, r).found)
    assert not (run(text, also=newer).new_text or "").startswith("try:")
    assert (run(text, also=older).new_text or "").startswith("try:")


def test_line_ends_and_tabs_stay() -> None:
    before = "def f():\r\n\tfrom vllm.sequence import Logprob\r\n\treturn Logprob\r\n"
    after = guarded(before)
    assert after.count("\r\n") == after.count("\n") == 6
    assert "\r\n\t\tfrom vllm.logprobs import Logprob\r\n\texcept ImportError:\r\n\t\tfrom vllm.sequence" in after


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("import vllm.sequence\nx = vllm.sequence.Logprob\n", id="a dotted use"),
        pytest.param('from unittest.mock import patch\npatch("vllm.sequence.Logprob")\n', id="a string"),
        pytest.param("x = 1; from vllm.sequence import Logprob\n", id="a line with two statements"),
    ],
)
def test_what_no_guard_can_serve_stays_and_is_reported(text: str) -> None:
    result = run(text, also=ALSO)
    assert result.new_text is None
    assert any(finding.open for finding in result.findings)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("import vllm.worker.worker_base as wb\nY = wb.WorkerWrapperBase\n", id="a module under a name"),
        pytest.param("import vllm.worker.worker_base as wb; Y = wb.WorkerWrapperBase\n", id="on one line"),
        pytest.param("from vllm.worker import worker_base\nY = worker_base.WorkerWrapperBase\n", id="from its package"),
        pytest.param(
            "import vllm.worker.worker_base\nY = vllm.worker.worker_base.WorkerWrapperBase\n", id="the whole path"
        ),
    ],
)
def test_a_module_moves_only_if_the_older_release_has_what_is_used_of_it(text: str) -> None:
    """0.9.2 has vllm.v1.worker.worker_base without WorkerWrapperBase: the import would succeed, the use fail."""
    assert run(text).new_text is not None
    assert run(text, also="0.11.1").new_text == run(text).new_text
    result = run(text, also="0.9.2")
    assert result.new_text is None
    wanted = "vLLM 0.9.2, which is to be served, too, has no `vllm.v1.worker.worker_base.WorkerWrapperBase`"
    assert any(finding.open and wanted in finding.advice for finding in result.findings)


def test_a_name_of_our_own_package_is_tried_last() -> None:
    text = "from vllm.attention.backends.torch_sdpa import TorchSDPABackend\n"
    after = guarded(text, attention="v1_cpu")
    assert after.splitlines()[0] == "try:"
    assert after.splitlines()[1].strip() == text.strip()
    assert "from v1_cpu" in after.splitlines()[3]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param(
            Kind.PYTHON, "import vllm.envs as envs\nif envs.VLLM_USE_V1:\n    a()\nelse:\n    b()\n", id="a fold"
        ),
        pytest.param(Kind.SHELL, "VLLM_USE_V1=1 vllm serve m --device cpu\n", id="a command"),
        pytest.param(Kind.YAML, "worker_cls: vllm.sequence.Logprob\n", id="a path in a file"),
    ],
)
def test_what_the_older_release_still_needs_is_not_edited(kind: Kind, text: str) -> None:
    assert run(text, kind=kind).new_text is not None
    result = run(text, kind=kind, also=ALSO)
    assert result.new_text is None
    assert result.findings


GUARD = """
# about the next
try:  # header
    # new
    from vllm.logprobs import (
        Logprob,  # kept
    )
except ImportError:
    from vllm.sequence import Logprob  # old
x = 1
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            GUARD,
            """
            # about the next
            # new
            from vllm.logprobs import (
                Logprob,  # kept
            )
            x = 1
            """,
            id="the first arm is the target's",
        ),
        pytest.param(
            """
            def f():
                try:
                    from vllm.sequence import Logprob
                except (ImportError, ModuleNotFoundError):
                    from vllm.logprobs import Logprob  # kept
                return Logprob
            """,
            """
            def f():
                from vllm.logprobs import Logprob  # kept
                return Logprob
            """,
            id="the second arm is the target's",
        ),
    ],
)
def test_guards_are_folded_when_the_rule_is_selected(before: str, after: str) -> None:
    assert run(dedent(before)).new_text is None
    assert run(dedent(before), select=FOLD).new_text == dedent(after)
    assert run(dedent(before), select=FOLD, also=ALSO).new_text is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("try:\n    import numpy\nexcept ImportError:\n    numpy = None\n# vllm\n", id="another package"),
        pytest.param(
            "try:\n    from vllm.logprobs import Logprob\nexcept ImportError:\n    Logprob = None\n",
            id="no second import",
        ),
        pytest.param(
            "try:\n    from vllm.logprobs import Logprob\nexcept Exception:\n    from vllm.sequence import Logprob\n",
            id="errors of every kind",
        ),
        pytest.param(
            "try:\n    from vllm import LLM\nexcept ImportError:\n    from vllm.entrypoints.llm import LLM\n",
            id="two living arms",
        ),
        pytest.param(
            "try:\n    from vllm.logprobs import Logprob as A\nexcept ImportError:\n    from vllm.sequence import Logprob\n",
            id="arms that bind other names",
        ),
    ],
)
def test_other_trials_are_not_folded(text: str) -> None:
    assert run(text, select=FOLD).new_text is None


def test_a_guard_folds_to_what_a_run_without_also_writes() -> None:
    text = "from vllm.sequence import Logprob\n"
    assert run(guarded(text), select=FOLD).new_text == run(text).new_text


@pytest.mark.parametrize(
    ("also", "message"),
    [
        pytest.param("9.9.9", "unknown", id="unknown"),
        pytest.param("0.32.0", "not older", id="not older than the target"),
    ],
)
def test_a_release_that_makes_no_sense_is_refused(tmp_path: Path, also: str, message: str) -> None:
    (tmp_path / "a.py").write_text("import vllm\n")
    with pytest.raises(Failure, match=message):
        Session.open(Request("plan", tmp_path, target="0.32.0", also=also))


OUTPUT = (
    "from vllm.v1.outputs import ModelRunnerOutput\n\nx = ModelRunnerOutput(req_ids=[], req_id_to_index={}, "
    "sampled_token_ids=[], spec_token_ids=None, logprobs=None, prompt_logprobs_dict={}, pooler_output=[])\n"
)
SWAP = "from vllm import LLM\n\nx = LLM('m', swap_space=0)\n"
NAMED = "from vllm import LLM\n\nx = LLM('m', 't')\n"
NEEDED = [
    pytest.param(OUTPUT, "0.9.2", "`spec_token_ids`", id="a field without a default"),
    pytest.param(OUTPUT, "0.10.0", "`spec_token_ids`", id="the same in a release of V1"),
    pytest.param(SWAP, "0.9.2", "`swap_space`", id="a value that means something to V0"),
]


@pytest.mark.parametrize(("text", "also", "name"), NEEDED)
@pytest.mark.parametrize("bridge", [False, True], ids=["--also", "--bridge"])
def test_an_argument_that_the_older_release_needs_stays(text: str, also: str, name: str, bridge: bool) -> None:
    settings = Settings("0.32.0", "vllm", also=also, bridge=bridge)
    source = Source.from_bytes(text.encode(), "module.py", python=True)
    result = Analyser(Tree(Path("/nowhere")), settings).source(source, Kind.PYTHON, "plugin.module", "plugin")
    assert result.new_text is None
    (found,) = result.findings
    assert (found.rule, found.open) == ("V1M112", True)
    assert f"vLLM {also}, which is to be served, too, needs {name} here" in found.advice


@pytest.mark.parametrize(
    ("text", "also"),
    [
        pytest.param(OUTPUT, "0.10.2", id="a release that has lost it already"),
        pytest.param(SWAP.replace("swap_space=0", "swap_space=4"), "0.9.2", id="what was the default"),
        pytest.param(SWAP, "0.11.0", id="a release that never swaps"),
        pytest.param(NAMED, "0.9.2", id="a name that both releases have"),
    ],
)
def test_an_argument_that_the_older_release_does_not_need_goes(text: str, also: str) -> None:
    result = run(text, also=also)
    assert result.new_text is not None
    assert all(finding.fixed for finding in result.findings)


def test_only_what_v0_runs_is_called_safe_for_it() -> None:
    (required,), (default,) = run(OUTPUT).findings, run(SWAP.replace("=0", "=4")).findings
    assert (required.safety, default.safety) == (Safety.V1, Safety.BRIDGE)
