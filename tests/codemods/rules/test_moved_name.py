"""V1M001: every form in which a moved name is imported, and the forms that are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import dedent, rewrite
from v1_migrate.engine.tree import Tree
from v1_migrate.findings import Severity

REWRITTEN = [
    pytest.param(
        "from vllm.worker.worker_base import WorkerWrapperBase\n",
        "from vllm.v1.worker.worker_base import WorkerWrapperBase\n",
        id="a plain from-import",
    ),
    pytest.param(
        "from vllm.worker.worker_base import WorkerWrapperBase as W  # noqa: F401\n",
        "from vllm.v1.worker.worker_base import WorkerWrapperBase as W  # noqa: F401\n",
        id="an alias and a trailing comment stay",
    ),
    pytest.param(
        "from vllm.sequence import IntermediateTensors, Logprob\n",
        "from vllm.sequence import IntermediateTensors\nfrom vllm.logprobs import Logprob\n",
        id="names with different fates are split, the survivor keeps its place",
    ),
    pytest.param(
        "from vllm.sequence import Logprob, IntermediateTensors  # noqa: F401\n",
        "from vllm.sequence import IntermediateTensors  # noqa: F401\nfrom vllm.logprobs import Logprob  # noqa: F401\n",
        id="a linter's remark is repeated on the new statement",
    ),
    pytest.param(
        """
        from vllm.sequence import (
            IntermediateTensors,  # stays
            # log probabilities
            Logprob,  # goes
            SampleLogprobs,
        )
        """,
        """
        from vllm.sequence import IntermediateTensors  # stays
        from vllm.logprobs import (
            # log probabilities
            Logprob,  # goes
            SampleLogprobs,
        )
        """,
        id="in a list with comments each comment follows its name",
    ),
    pytest.param(
        """
        from vllm.sequence import (Logprob,
                                   IntermediateTensors)
        """,
        """
        from vllm.sequence import IntermediateTensors
        from vllm.logprobs import Logprob
        """,
        id="one name left needs no brackets",
    ),
    pytest.param(
        "from vllm.sequence import IntermediateTensors, \\\n    Logprob\n",
        "from vllm.sequence import IntermediateTensors\nfrom vllm.logprobs import Logprob\n",
        id="a backslash continuation goes with its name",
    ),
    pytest.param(
        """
        from vllm.utils import round_up as rounded_up, round_down as rounded_down, cdiv
        """,
        """
        from vllm.utils.math_utils import (
            round_up as rounded_up,
            round_down as rounded_down,
            cdiv,
        )
        """,
        id="a line that only the new path makes too long is wrapped",
    ),
    pytest.param(
        "a = 1; from vllm.sequence import IntermediateTensors, Logprob; b = 2\n",
        "a = 1; from vllm.sequence import IntermediateTensors; from vllm.logprobs import Logprob; b = 2\n",
        id="statements that share a line go on sharing it",
    ),
    pytest.param(
        """
        import os

        os.environ["VLLM_LOGGING_LEVEL"] = "DEBUG"
        from vllm.worker.worker_base import WorkerWrapperBase
        """,
        """
        import os

        os.environ["VLLM_LOGGING_LEVEL"] = "DEBUG"
        from vllm.v1.worker.worker_base import WorkerWrapperBase
        """,
        id="an import behind an environment assignment is not hoisted",
    ),
    pytest.param(
        """
        from typing import TYPE_CHECKING

        if TYPE_CHECKING:
            from vllm.worker.worker_base import WorkerWrapperBase

        def f(w: "WorkerWrapperBase"):
            from vllm.sequence import Logprob, IntermediateTensors
            return Logprob, IntermediateTensors
        """,
        """
        from typing import TYPE_CHECKING

        if TYPE_CHECKING:
            from vllm.v1.worker.worker_base import WorkerWrapperBase

        def f(w: "WorkerWrapperBase"):
            from vllm.sequence import IntermediateTensors
            from vllm.logprobs import Logprob
            return Logprob, IntermediateTensors
        """,
        id="guarded and lazy imports are edited where they stand",
    ),
    pytest.param(
        """
        try:
            from vllm.worker.worker_base import WorkerWrapperBase
        except ImportError:
            WorkerWrapperBase = None
        """,
        """
        try:
            from vllm.v1.worker.worker_base import WorkerWrapperBase
        except ImportError:
            WorkerWrapperBase = None
        """,
        id="a try with a fallback keeps both arms",
    ),
    pytest.param(
        """
        import vllm.worker.worker_base

        vllm.worker.worker_base.WorkerWrapperBase()
        """,
        """
        import vllm.v1.worker.worker_base

        vllm.v1.worker.worker_base.WorkerWrapperBase()
        """,
        id="a dotted import is replaced together with its uses",
    ),
    pytest.param(
        """
        import vllm.worker.worker_base as wb

        wb.WorkerWrapperBase()
        """,
        """
        import vllm.v1.worker.worker_base as wb

        wb.WorkerWrapperBase()
        """,
        id="a module alias keeps its local name",
    ),
    pytest.param(
        """
        from vllm.worker import worker_base

        worker_base.WorkerWrapperBase()
        """,
        """
        from vllm.v1.worker import worker_base

        worker_base.WorkerWrapperBase()
        """,
        id="a module imported from its package moves by what is used of it",
    ),
    pytest.param(
        "from vllm.attention import AttentionMetadata, AttentionType\n",
        "from vllm.v1.attention.backend import AttentionMetadata, AttentionType\n",
        id="names that a package re-exported",
    ),
    pytest.param(
        """
        __all__ = ["WorkerWrapperBase"]
        from vllm.worker.worker_base import WorkerWrapperBase
        """,
        """
        __all__ = ["WorkerWrapperBase"]
        from vllm.v1.worker.worker_base import WorkerWrapperBase
        """,
        id="an exported name stays bound",
    ),
    pytest.param(
        "from vllm.worker.worker_base import WorkerWrapperBase\r\nx = 1\r\n",
        "from vllm.v1.worker.worker_base import WorkerWrapperBase\r\nx = 1\r\n",
        id="CRLF stays CRLF",
    ),
    pytest.param(
        "if True:\n\tfrom vllm.sequence import IntermediateTensors, Logprob\n",
        "if True:\n\tfrom vllm.sequence import IntermediateTensors\n\tfrom vllm.logprobs import Logprob\n",
        id="tabs stay tabs",
    ),
    pytest.param(
        """
        def f():
            from vllm.attention.backends.abstract import (AttentionBackend,
                                                          AttentionType)
        """,
        """
        def f():
            from vllm.v1.attention.backend import (AttentionBackend,
                                                   AttentionType)
        """,
        id="lines aligned with the bracket follow it",
    ),
    pytest.param(
        """
        from vllm.v1.worker.worker_base import WorkerWrapperBase
        from vllm.worker.worker_base import WorkerWrapperBase
        x = 1
        """,
        """
        from vllm.v1.worker.worker_base import WorkerWrapperBase
        x = 1
        """,
        id="an import that stands above already is not made twice",
    ),
]


@pytest.mark.parametrize(("before", "after"), REWRITTEN)
def test_rewritten(before: str, after: str) -> None:
    outcome = rewrite(dedent(before))
    assert outcome.text == dedent(after)
    assert outcome.said("V1M001")
    assert all(finding.fixed for finding in outcome.said("V1M001"))


LEFT_ALONE = [
    pytest.param(
        """
        try:
            from vllm.worker.worker_base import WorkerWrapperBase
        except ModuleNotFoundError:
            from vllm.v1.worker.worker_base import WorkerWrapperBase
        """,
        {"V1M010"},
        id="a guarded pair serves both engines already",
    ),
    pytest.param(
        """
        try:
            from vllm.v1.worker.worker_base import WorkerWrapperBase
        except ImportError:
            try:
                from vllm.worker.worker_base import WorkerWrapperBase
            except ImportError as error:
                raise SystemExit("which vLLM is this?") from error
        """,
        {"V1M010"},
        id="a fallback that is a trial of its own",
    ),
    pytest.param(
        """
        if vllm_version_is("0.9.1"):
            from vllm.worker.worker_base import WorkerWrapperBase
        else:
            from vllm.v1.worker.worker_base import WorkerWrapperBase
        """,
        {"V1M010"},
        id="a version test is deliberate",
    ),
    pytest.param("from vllm import LLM, SamplingParams\n", set(), id="a name that is still there"),
    pytest.param(
        "from aphrodite.worker.worker_base import WorkerWrapperBase\n", set(), id="another package's namesake"
    ),
    pytest.param(
        "from .worker_base import WorkerWrapperBase\n", set(), id="a relative import of somebody else's package"
    ),
    pytest.param(
        """
        class WorkerWrapperBase: ...
        WorkerWrapperBase()
        """,
        set(),
        id="a class of one's own with the same name",
    ),
    pytest.param(
        """
        import vllm.worker.worker_base

        print(vllm.worker.worker_base)
        vllm.worker.worker_base.WorkerWrapperBase()
        """,
        {"V1M001", "V1M003"},
        id="a module that is handed on as an object is left to a person",
    ),
]


@pytest.mark.parametrize(("text", "rules"), LEFT_ALONE)
def test_left_alone(text: str, rules: set[str]) -> None:
    outcome = rewrite(dedent(text))
    assert outcome.text == dedent(text)
    assert outcome.rules == rules
    assert not any(finding.fixed for finding in outcome.findings)


def test_a_finding_points_at_the_line_the_name_stands_on_after_the_rewrite() -> None:
    outcome = rewrite(
        "from vllm.sequence import IntermediateTensors, Logprob\n\nx = 1\nfrom vllm.worker import nothing\n"
    )
    lines = outcome.text.splitlines()
    moved = outcome.said("V1M001")[0]
    assert lines[moved.end_line - 1] == "from vllm.logprobs import Logprob"
    assert all("nothing" in lines[f.line - 1] for f in outcome.findings if not f.fixed)


def test_a_suppressed_name_keeps_its_place_while_its_neighbour_moves() -> None:
    text = "from vllm.worker.worker_base import WorkerWrapperBase  # v1: ignore[V1M001] both engines\n"
    assert rewrite(text).text == text
    assert not rewrite(text).findings


def test_the_target_decides_where_a_name_goes() -> None:
    text = "from vllm.attention.backends.abstract import AttentionType\n"
    assert rewrite(text, "0.11.0").text == text
    assert rewrite(text, "0.16.0").text == "from vllm.v1.attention.backend import AttentionType\n"


def test_a_gone_name_is_reported_where_an_annotation_quotes_it() -> None:
    outcome = rewrite(
        'from vllm.sequence import SequenceGroup\n\ndef f(x: "list[SequenceGroup]") -> "SequenceGroup": ...\n'
    )
    assert {1, 3} == {finding.line for finding in outcome.open}


@pytest.mark.parametrize(
    "other", ["import vllm\nimport vllm.worker.worker_base\n", "import vllm.worker.worker_base\nimport vllm\n"]
)
def test_a_second_import_of_the_package_does_not_keep_a_use_behind(other: str) -> None:
    outcome = rewrite(f"{other}\n\ndef g():\n    return vllm.worker.worker_base.WorkerWrapperBase\n")
    assert "vllm.worker" not in outcome.text
    assert "return vllm.v1.worker.worker_base.WorkerWrapperBase" in outcome.text


def test_a_value_s_own_attributes_are_no_finding() -> None:
    text = """
    from vllm.entrypoints.openai.tool_parsers import ToolParserManager

    names = ToolParserManager.tool_parsers.keys()
    """
    outcome = rewrite(dedent(text))
    assert "vllm.tool_parsers.abstract_tool_parser import ToolParserManager" in outcome.text
    assert outcome.open == []


def test_a_class_that_became_a_literal_does_not_move() -> None:
    text = "from vllm.config import ConfigFormat\n\nnames = [each.value for each in ConfigFormat]\n"
    outcome = rewrite(text)
    assert outcome.text == text
    assert {finding.rule for finding in outcome.open} == {"V1M003"}
    assert any("plain value" in finding.advice for finding in outcome.open)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("vllm.entrypoints.openai.protocol.EmbeddingRequest", "vllm.entrypoints.pooling.embed.protocol"),
        ("vllm.entrypoints.openai.serving_engine.BaseModelPath", "vllm.entrypoints.openai.models.protocol"),
    ],
)
def test_a_gone_name_s_namesake_is_named(name: str, place: str) -> None:
    module, _, last = name.rpartition(".")
    (found,) = rewrite(f"from {module} import {last}\n").open
    assert f"`{place}.{last}`" in found.advice


CACHE = """
from vllm.attention.backends.torch_sdpa import TorchSDPABackend

shape = TorchSDPABackend.get_kv_cache_shape(4, 16, 2, 64)
"""


def test_a_cache_of_another_shape_is_said_where_it_is_made() -> None:
    outcome = rewrite(dedent(CACHE), attention="v1_cpu")
    assert "from v1_cpu import TorchSDPABackend" in outcome.text
    (found,) = outcome.open
    assert (found.rule, found.line) == ("V1M003", 3)
    assert "v1_cpu.convert_kv_cache" in found.advice


@pytest.mark.parametrize("written", ['"{}" + suffix', '"{}.%s" % name'], ids=["before a plus", "a format"])
def test_a_path_that_is_only_a_part_of_a_string_stays(written: str) -> None:
    text = f"path = {written.format('vllm.worker.worker_base.WorkerWrapperBase')}\n"
    outcome = rewrite(text)
    assert outcome.text == text
    assert len(outcome.open) == 1


def test_a_fork_s_own_name_is_no_finding(tmp_path: Path) -> None:
    root = tmp_path / "vllm"
    root.mkdir()
    (root / "__init__.py").touch()
    (root / "lakeside.py").write_text("class Pier: ...\n")
    text = "from vllm.lakeside import Pier\n"
    tree = Tree(tmp_path, (root,), {"vllm": root / "__init__.py", "vllm.lakeside": root / "lakeside.py"})
    assert rewrite(text, tree=tree, module="vllm.pier").findings == ()
    assert rewrite(text).findings


@pytest.mark.parametrize("attribute", ["value", "name", "name.lower()"])
def test_the_value_of_a_member_moves_with_its_enumeration(attribute: str) -> None:
    text = f"from {{}} import UpdateMode\n\nprint(UpdateMode.INSERT.{attribute})\n"
    outcome = rewrite(text.format("vllm.multimodal.processing"), "0.32.0")
    assert outcome.text == text.format("vllm.multimodal.processing.processor")
    assert outcome.open == []


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_comments_above_a_name_go_along(newline: str) -> None:
    lines = [
        "from vllm.sequence import (",
        "    # two lines",
        "    # of it",
        "    Logprob,",
        "    IntermediateTensors,",
        ")",
        "",
    ]
    outcome = rewrite(newline.join(lines), "0.32.0")
    wanted = ["from vllm.sequence import IntermediateTensors", "from vllm.logprobs import (", *lines[1:4], ")", ""]
    assert outcome.text == newline.join(wanted)


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ('x = "from vllm.worker.worker_base import WorkerWrapperBase"\n', Severity.WARNING),
        ('x = """\n>>> from vllm.worker.worker_base import WorkerWrapperBase\n"""\n', Severity.INFO),
        ('x = """\n    ... vllm.core.evictor.LRUEvictor\n"""\n', Severity.INFO),
        (
            'x = "see the class vllm.worker.worker_base.WorkerWrapperBase, which was the base of it all"\n',
            Severity.INFO,
        ),
        ("from vllm.worker.worker_base import WorkerWrapperBase\n\nWorkerWrapperBase.f = 1\n", Severity.ERROR),
    ],
    ids=["text that may be run", "an example", "an example's second line", "a sentence", "code"],
)
def test_names_in_text_are_said_by_what_the_text_is(text: str, severity: Severity) -> None:
    assert {finding.severity for finding in rewrite(text, "0.32.0").findings} == {severity}
