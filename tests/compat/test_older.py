"""Names that were gone before the oldest release of the index: an error that says what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from v1_compat.table import Table
from v1_migrate.names.curated import Curated
from v1_migrate.names.explain import explain
from v1_migrate.names.index import Index

from .test_advice import misleading

Run = Callable[..., Any]
PARALLEL = "vllm.model_executor.parallel_utils"


@pytest.mark.parametrize(
    ("line", "error", "says"),
    [
        pytest.param("import vllm.engine.ray_utils", ModuleNotFoundError, "executor.ray_utils", id="a module"),
        pytest.param(
            "from vllm.engine.ray_utils import RayWorkerVllm",
            ModuleNotFoundError,
            "executor.ray_utils",
            id="a name of one",
        ),
        pytest.param(
            "from vllm.core.policy import Policy", ModuleNotFoundError, "scheduling_policy", id="below a lost one"
        ),
        pytest.param(
            "from vllm.utils import is_hip", ImportError, r"current_platform\.is_rocm", id="of a living module"
        ),
        pytest.param("import vllm.utils; vllm.utils.is_hip()", AttributeError, "current_platform", id="an attribute"),
        pytest.param(
            "from vllm.sequence import SamplerOutput", ImportError, "It became `vllm.v1.outputs", id="with a row"
        ),
        pytest.param("from vllm.config import EngineConfig", ImportError, "create_engine_config", id="a class"),
    ],
)
def test_the_error_has_the_advice(vllm: Path, run: Run, line: str, error: type, says: str) -> None:
    with pytest.raises(
        error, match=rf"`vllm\.\S+` was gone before vLLM 0\.8\.5\. .*{says}.*V1M005: v1-migrate explain"
    ):
        run(f"{line}\n")


@pytest.mark.parametrize(
    "lines",
    [
        "try:\n    import vllm.engine.ray_utils\nexcept ImportError:\n    found = False",
        "try:\n    from vllm.utils import is_hip as found\nexcept ImportError:\n    found = False",
        "import vllm.utils; found = hasattr(vllm.utils, 'is_hip')",
        "import vllm.utils; name = 'is_' + 'hip'; ask = getattr\nfound = ask(vllm.utils, name, False)",
        "import importlib.util; found = importlib.util.find_spec('vllm.engine.ray_utils') is not None",
    ],
    ids=["a guarded module", "a guarded name", "hasattr", "a default", "find_spec"],
)
def test_who_is_ready_for_it_finds_nothing(vllm: Path, run: Run, lines: str) -> None:
    assert run(f"{lines}\n") == []
    assert run.globals["found"] is False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("line", "says"), [("import vllm.nonsense", "No module"), ("from vllm.utils import nonsense", "cannot import")]
)
def test_what_nobody_knows_is_pythons_own_error(vllm: Path, run: Run, line: str, says: str) -> None:
    with pytest.raises(ImportError, match=says):
        run(f"{line}\n")


def test_explain_answers() -> None:
    text = explain(f"{PARALLEL}.parallel_state.get_tensor_model_parallel_rank")
    assert "gone before 0.8.5" in text and "vllm.distributed" in re.sub(r"\s+", " ", text)


def test_what_is_to_be_written_instead_is_there() -> None:
    index, curated, table = Index.load(user=False), Curated.load(), Table("0.32.0")
    older = [name for name in curated.modules() if curated.older(name)]
    assert len(older) > 30
    assert {name: index.releases_of(name) for name in older if index.known(name)} == {}
    assert {n: found for n in older for found in misleading(table, n, curated.older(n))} == {}
