"""Marks, fixtures and parameters that choose an engine for a test."""

from __future__ import annotations

from pathlib import Path

import pytest
from v1_migrate.engine.tree import Tree

from .harness import dedent, rewrite

SKIP = 'pytest.mark.skip(reason="ran only on vLLM\'s former engine")'

CASES = [
    pytest.param(
        "V1M302",
        """
        import pytest
        M = [pytest.param("a", marks=[pytest.mark.core_model, pytest.mark.cpu_model, pytest.mark.skip_v1])]
        """,
        """
        import pytest
        M = [pytest.param("a", marks=[pytest.mark.core_model, pytest.mark.skip_v1])]
        """,
        id="cpu_model beside skip_v1 in a parameter",
    ),
    pytest.param(
        "V1M302",
        """
        import pytest

        @pytest.mark.cpu_model
        @pytest.mark.skip_v1  # FIXME
        def test_a(): ...
        """,
        """
        import pytest

        @pytest.mark.skip_v1  # FIXME
        def test_a(): ...
        """,
        id="cpu_model above skip_v1 on a test",
    ),
    pytest.param(
        "V1M302",
        """
        import pytest
        pytestmark = [pytest.mark.cpu_model, pytest.mark.skip_v1]
        """,
        """
        import pytest
        pytestmark = [pytest.mark.skip_v1]
        """,
        id="cpu_model beside skip_v1 for a module",
    ),
    pytest.param(
        "V1M302",
        """
        import pytest
        pytestmark = pytest.mark.skip_v1

        @pytest.mark.cpu_model
        @pytest.mark.parametrize("a", [pytest.param(1, marks=pytest.mark.cpu_model)])
        def test_a(a): ...
        """,
        """
        import pytest
        pytestmark = pytest.mark.skip_v1

        @pytest.mark.parametrize("a", [1])
        def test_a(a): ...
        """,
        id="cpu_model below skip_v1 of the module",
    ),
    pytest.param(
        "V1M302",
        """
        import pytest

        @pytest.mark.skip_v1
        class TestA:
            @pytest.mark.cpu_model
            def test_a(self): ...

        @pytest.mark.cpu_model
        def test_b(): ...
        """,
        """
        import pytest

        @pytest.mark.skip_v1
        class TestA:
            def test_a(self): ...

        @pytest.mark.cpu_model
        def test_b(): ...
        """,
        id="cpu_model below skip_v1 of the class, and not beside it",
    ),
    pytest.param(
        "V1M301",
        """
        import pytest

        @pytest.mark.skip_v1
        def test_a(run_with_both_engines, model):
            run(model)
        """,
        f"""
        import pytest

        @{SKIP}
        def test_a(model):
            run(model)
        """,
        id="skip_v1 that a requested fixture honours becomes a skip",
    ),
    pytest.param(
        "V1M303",
        """
        import pytest

        @pytest.fixture(autouse=True)
        def v1(run_with_both_engines):
            # Run on both
            pass

        @pytest.mark.parametrize("m", [pytest.param("a", marks=[pytest.mark.skip_v1]), "b"])
        def test_a(m):
            run(m)
        """,
        f"""
        import pytest

        @pytest.mark.parametrize("m", [pytest.param("a", marks=[{SKIP}]), "b"])
        def test_a(m):
            run(m)
        """,
        id="a wrapper around run_with_both_engines goes, its marks become explicit",
    ),
    pytest.param(
        "V1M303",
        """
        import pytest

        @pytest.mark.usefixtures("run_with_both_engines")
        def test_a():
            run()
        """,
        """
        def test_a():
            run()
        """,
        id="usefixtures",
    ),
    pytest.param(
        "V1M301",
        """
        import pytest
        M = [
            pytest.param("a", marks=pytest.mark.skip_v0),
            pytest.param("b", marks=[pytest.mark.skip_v0]),
            pytest.param("c", marks=[pytest.mark.skip_v0], id="see"),
            pytest.param("d", 1, marks=[pytest.mark.skip_v0]),
        ]
        """,
        """
        import pytest
        M = [
            "a",
            "b",
            pytest.param("c", id="see"),
            pytest.param("d", 1),
        ]
        """,
        id="skip_v0 goes, with the list, the keyword and the param it leaves empty",
    ),
    pytest.param(
        "V1M301",
        """
        import pytest

        pytestmark = pytest.mark.skip_v0
        x = 1
        """,
        """
        x = 1
        """,
        id="skip_v0 for a module",
    ),
    pytest.param(
        "V1M307",
        """
        import os
        import pytest

        @pytest.mark.skipif(os.getenv("VLLM_USE_V1") == "0",
                            reason="only on v1")
        @pytest.mark.parametrize("m", [1])
        def test_a(m): ...
        """,
        """
        import pytest

        @pytest.mark.parametrize("m", [1])
        def test_a(m): ...
        """,
        id="a skipif that never holds",
    ),
    pytest.param(
        "V1M307",
        """
        from vllm import envs
        import pytest
        pytestmark = [pytest.mark.slow, pytest.mark.skipif(not envs.VLLM_USE_V1, reason="v1")]
        M = pytest.param(1, 2, marks=pytest.mark.skipif(not envs.VLLM_USE_V1, reason="v1"))
        """,
        """
        import pytest
        pytestmark = [pytest.mark.slow]
        M = pytest.param(1, 2)
        """,
        id="in a list and in a param",
    ),
    pytest.param(
        "V1M201",
        """
        import pytest
        from vllm import envs
        from vllm.platforms import current_platform as p

        @pytest.mark.skipif(not envs.VLLM_USE_V1 or p.is_cpu(), reason="gpu")
        def test_a(): ...
        """,
        """
        import pytest
        from vllm.platforms import current_platform as p

        @pytest.mark.skipif(p.is_cpu(), reason="gpu")
        def test_a(): ...
        """,
        id="a skipif that still asks for something",
    ),
    pytest.param(
        "V1M304",
        """
        import pytest

        @pytest.mark.parametrize("model", ["a"])
        @pytest.mark.parametrize("use_v1", [True, False])
        def test_a(model, use_v1, monkeypatch):
            monkeypatch.setenv("VLLM_USE_V1", "1" if use_v1 else "0")
            check(model, "v1" if use_v1 else "v0")
        """,
        """
        import pytest

        @pytest.mark.parametrize("model", ["a"])
        def test_a(model):
            check(model, "v1")
        """,
        id="an axis of its own",
    ),
    pytest.param(
        "V1M304",
        """
        import pytest

        @pytest.mark.parametrize(
            "model, use_v1",
            [
                # small
                ("a", True),
                ("b", False),  # V0
                ("c", True),
            ],
        )
        def test_a(model: str, use_v1: bool):
            assert use_v1
            if use_v1:
                run(model)
            else:
                walk(model)
        """,
        """
        import pytest

        @pytest.mark.parametrize(
            "model",
            [
                # small
                "a",
                "c",
            ],
        )
        def test_a(model: str):
            run(model)
        """,
        id="a column beside another",
    ),
    pytest.param(
        "V1M304",
        """
        import pytest

        @pytest.mark.parametrize(["a", "use_v1", "b"], [(1, True, 2), pytest.param(3, True, 4, id="x")])
        def test_a(a, use_v1, b):
            run(a, b, use_v1=use_v1)
        """,
        """
        import pytest

        @pytest.mark.parametrize(["a", "b"], [(1, 2), pytest.param(3, 4, id="x")])
        def test_a(a, b):
            run(a, b, use_v1=True)
        """,
        id="a column of three, with params",
    ),
    pytest.param(
        "V1M304",
        """
        import pytest

        @pytest.mark.parametrize("vllm_version", [pytest.param("V1", marks=pytest.mark.v1, id="v1")])
        def test_a(vllm_version: str, monkeypatch):
            monkeypatch.setenv("VLLM_USE_V1", "1" if vllm_version == "V1" else "0")
            run()
        """,
        """
        def test_a():
            run()
        """,
        id="a version by name",
    ),
    pytest.param(
        "V1M304",
        """
        import pytest

        @pytest.fixture(scope="module", params=[True, False])
        def use_v1(request):
            # both engines
            yield request.param


        @pytest.fixture
        def server(use_v1, port):
            yield start(port, env=dict(VLLM_USE_V1="1" if use_v1 else "0"))


        def _metric(server, use_v1: bool):
            return "kv" if use_v1 else "gpu"

        def test_a(server, use_v1: bool):
            for name in NEW if use_v1 else OLD:
                assert name in _metric(server, use_v1)
        """,
        """
        import pytest


        @pytest.fixture
        def server(port):
            yield start(port, env=dict())


        def _metric(server):
            return "kv"

        def test_a(server):
            for name in NEW:
                assert name in _metric(server)
        """,
        id="a fixture that hands the engine out",
    ),
    pytest.param(
        "V1M306",
        'assert get_backend().get_name() == "TORCH_SDPA_VLLM_V1"\n',
        'assert get_backend().get_name() == "CPU_ATTN"\n',
        id="the name of the CPU backend",
    ),
]


@pytest.mark.parametrize("rule, before, after", CASES)
def test_settled(rule: str, before: str, after: str) -> None:
    outcome = rewrite(dedent(before), "0.11.2", rel="test_module.py", folds=True)
    assert outcome.text == dedent(after)
    assert any(finding.fixed for finding in outcome.said(rule))


LEFT_ALONE = [
    pytest.param("V1M301", "@pytest.mark.skip_v1\ndef test_a(): ...\n", id="skip_v1 that nothing honours"),
    pytest.param(
        "V1M301",
        "@pytest.mark.cpu_model\ndef test_a(): ...\n@pytest.mark.skip_v1\ndef test_b(): ...\n",
        id="cpu_model on one test, skip_v1 on another",
    ),
    pytest.param("", "@pytest.mark.skipif(p.is_cpu(), reason='slow')\ndef test_a(): ...\n", id="a skipif for CPUs"),
    pytest.param("V1M307", "@pytest.mark.skipif(p.is_cpu(), reason='V1 cannot')\ndef test_a(): ...\n", id="its reason"),
    pytest.param("V1M305", "REQUIRES_V0 = ['a']\ndef test_a(): ...\n", id="a list of models for V0"),
    pytest.param(
        "V1M305", "@pytest.mark.parametrize('use_v1', [False])\ndef test_a(use_v1): ...\n", id="rows for V0 only"
    ),
    pytest.param(
        "V1M304", "@pytest.mark.parametrize('vllm_version', ALL)\ndef test_a(vllm_version): ...\n", id="elsewhere"
    ),
    pytest.param("", "@pytest.mark.parametrize('version', [1, 2])\ndef test_a(version): ...\n", id="another version"),
    pytest.param(
        "", "@pytest.mark.parametrize('engine', ['mp', 'ray'])\ndef test_a(engine): ...\n", id="another engine"
    ),
    pytest.param("", "assert backend.get_name() == 'FLASH_ATTN'\n", id="a backend of another device"),
    pytest.param("V1M306", "assert vit_backend.get_name() == 'TORCH_SDPA'\n", id="a vision encoder's backend"),
    pytest.param("", "x = 'TORCH_SDPA'\n", id="a name that is not compared"),
    pytest.param(
        "V1M305",
        "def test_a(monkeypatch):\n    monkeypatch.setenv('VLLM_USE_V1', '0')\n    run()\n",
        id="a test that asks for V0",
    ),
    pytest.param(
        "V1M303",
        "@pytest.fixture(params=[True, False])\ndef run_with_both_engines(request):\n    yield\n",
        id="the fixture itself",
    ),
]


@pytest.mark.parametrize("rule, text", LEFT_ALONE)
def test_left_alone(rule: str, text: str) -> None:
    text = "import pytest\nfrom vllm import LLM\n" + text
    outcome = rewrite(text, "0.11.2", rel="test_module.py")
    assert outcome.text == text
    assert {finding.rule for finding in outcome.findings if finding.rule.startswith("V1M30")} == (
        {rule} if rule else set()
    )


def test_a_skip_that_became_unconditional_is_a_test_for_v0() -> None:
    text = "import pytest\nfrom vllm import envs\ndef test_a():\n    if envs.VLLM_USE_V1:\n        pytest.skip('no')\n"
    text += "    run()\n"
    outcome = rewrite(text, "0.11.2", folds=True)
    assert outcome.text == "import pytest\ndef test_a():\n    pytest.skip('no')\n    run()\n"
    assert outcome.lines("V1M305") == [3]


def test_a_skipif_that_always_holds_is_a_test_for_v0() -> None:
    text = "import os\nimport pytest\n@pytest.mark.skipif(os.getenv('VLLM_USE_V1') == '1', reason='no')\n"
    text += "def test_a(): ...\n"
    outcome = rewrite(text, "0.11.2", folds=True)
    assert outcome.text == "import pytest\n@pytest.mark.skipif(True, reason='no')\ndef test_a(): ...\n"
    assert outcome.said("V1M305")


@pytest.mark.parametrize(
    "target, name",
    [("0.10.0", "TORCH_SDPA_VLLM_V1"), ("0.11.0", "TORCH_SDPA"), ("0.11.2", "CPU_ATTN"), ("0.32.0", "CPU_ATTN")],
)
def test_the_expected_name_follows_the_release(target: str, name: str) -> None:
    text = "from vllm import LLM\nassert get().get_name() == 'TORCH_SDPA'\n"
    outcome = rewrite(text, target, rel="test_cpu.py")
    assert outcome.text == text.replace("TORCH_SDPA", name)


def test_a_conftest_above_that_chooses_v0_is_no_secret(tmp_path: Path) -> None:
    conftest = (
        "import pytest\n@pytest.fixture(autouse=True)\ndef use_v0_only(monkeypatch):\n"
        "    monkeypatch.setenv('VLLM_USE_V1', '0')\n"
    )
    (tmp_path / "tests" / "deep").mkdir(parents=True)
    (tmp_path / "tests" / "conftest.py").write_text(conftest)
    text = "from vllm import envs\ndef test_a():\n    assert not envs.VLLM_USE_V1\n"
    outcome = rewrite(text, "0.11.2", rel="tests/deep/test_a.py", tree=Tree(tmp_path))
    assert outcome.text == text
    assert "tests/conftest.py" in outcome.said("V1M303")[0].advice
    assert rewrite(conftest, "0.11.2", rel="tests/conftest.py").said("V1M203")


def test_the_distance_between_two_definitions_stays() -> None:
    text = dedent(
        """
        import os

        import pytest


        def test_a():
            x = 1
            assert os.environ["VLLM_USE_V1"] in ("0", "1")


        @pytest.mark.skipif(os.getenv("VLLM_USE_V1") == "0", reason="no")
        def test_b():
            assert 1
        """
    )
    outcome = rewrite(text, rel="tests/test_x.py", folds=True)
    assert outcome.text == "def test_a():\n    x = 1\n\n\ndef test_b():\n    assert 1\n"


def test_the_reason_that_is_written_is_no_message_to_correct() -> None:
    text = "import pytest\nimport vllm.v1.engine\n\n\n@pytest.mark.skip_v1\ndef test_a(run_with_both_engines): ...\n"
    outcome = rewrite(text, folds=True)
    assert SKIP in outcome.text
    again = rewrite(outcome.text, rel="tests/v1/test_a.py")
    assert not {"V1M307", "V1M501"} & (outcome.rules | again.rules)


def test_a_skip_below_a_mark_for_cpus_says_so() -> None:
    text = "import pytest\npytestmark = pytest.mark.cpu_model\n\n@pytest.mark.skip_v1\ndef test_a(): ...\n"
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    assert "`cpu_model` above it" in outcome.said("V1M301")[0].advice


HALF = [
    pytest.param("0.10.0", "def test_a(use_v1, m): m.setenv('VLLM_USE_V1', '1' if use_v1 else '0')", id="V0 lives on"),
    pytest.param(
        "0.32.0",
        """def test_a(use_v1):
    if hasattr(envs, "VLLM_USE_V1") and use_v1:
        pass""",
        id="a use behind a test of the release",
    ),
    pytest.param("0.32.0", "def helper(use_v1): return 1 if use_v1 else 2\n\n\nx = helper", id="no test at all"),
]


@pytest.mark.parametrize("target, function", HALF)
def test_an_axis_goes_with_its_parameter_or_stays(target: str, function: str) -> None:
    text = (
        f"import pytest\nimport vllm.envs as envs\n\n\n@pytest.mark.parametrize('use_v1', [True, False])\n{function}\n"
    )
    outcome = rewrite(text, target, rel="tests/test_engines.py", folds=True)
    assert "parametrize('use_v1', [True, False])" in outcome.text
    assert "(use_v1" in outcome.text
    assert any(found.open for found in outcome.said("V1M304"))


def test_a_fixture_goes_with_its_requests_or_stays() -> None:
    text = dedent(
        """
        import pytest


        @pytest.fixture(params=[True, False])
        def use_v1(request):
            return request.param


        def test_a(use_v1, m): m.setenv("VLLM_USE_V1", "1" if use_v1 else "0")
        """
    )
    assert rewrite(text, "0.10.0", rel="tests/test_engines.py", folds=True).text == text
    assert "use_v1" not in rewrite(text, "0.11.0", rel="tests/test_engines.py", folds=True).text
