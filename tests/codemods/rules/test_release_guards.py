"""Guards of old names: what tells releases apart, and what only looks as if it did."""

from __future__ import annotations

import pytest
from v1_migrate.findings import Severity

from tests.codemods.rules.harness import rewrite

HEAD = (
    "import importlib.metadata\nimport importlib.util\nimport torch\nimport vllm\n"
    "from importlib.metadata import version as v\nfrom packaging.version import Version\n"
    "from vllm import EngineArgs, LLM, envs\nfrom vllm import __version__ as VLLM_VERSION\n\n"
)
OLD = "    from vllm.sequence import SequenceStage\n"
NEWER = 'if Version(VLLM_VERSION) >= Version("0.11.1"):\n'


def severities(text: str, rules: tuple[str, ...] = ("V1M004", "V1M010")) -> list[Severity]:
    return [found.severity for found in rewrite(HEAD + text, "0.32.0").findings if found.rule in rules]


NO_GUARDS = [
    pytest.param(f'if hasattr(group, "embeddings"):\n{OLD}', id="an attribute of some object"),
    pytest.param(f'if hasattr(group, "x") and hasattr(group.y, "z"):\n{OLD}', id="two of them"),
    pytest.param(f'if hasattr(EngineArgs, "model"):\n{OLD}', id="what every release has"),
    pytest.param(f"if backend == Backend.VLLM_V1:\n{OLD}", id="a member of an enumeration called vllm_v1"),
    pytest.param(f"if args.enable_vllm_v1_migration:\n{OLD}", id="an option with vllm_v1 in its name"),
    pytest.param(f"if torch_version > (2, 0):\n{OLD}", id="another library's version"),
    pytest.param(f'if Version(torch.__version__) > Version("2"):\n{OLD}', id="the same of the library itself"),
    pytest.param(
        f'version = importlib.metadata.version("ray")\nif version > "2":\n{OLD}', id="a name that holds another's"
    ),
    pytest.param(f'if importlib.util.find_spec("vllm"):\n{OLD}', id="whether vllm is there at all"),
    pytest.param(f"{NEWER}{OLD}", id="an arm that the target takes"),
    pytest.param(
        f"try:\n    from vllm import SamplingParams\n    HAS = True\nexcept ImportError:\n    HAS = False\nif HAS:\n{OLD}",
        id="whether something could be imported that every release has",
    ),
]
GUARDS = [
    pytest.param(f'if hasattr(EngineArgs, "use_v2_block_manager"):\n{OLD}', id="an attribute that some releases have"),
    pytest.param(f'if vllm_version_is("0.9.1"):\n{OLD}', id="a function of the version"),
    pytest.param(f"if use_v1:\n    pass\nelse:\n{OLD}", id="the engine"),
    pytest.param(f"if not self._is_vllm_v1():\n{OLD}", id="the engine, by a method"),
    pytest.param(f"if VLLM_V0_7_OR_OLDER:\n{OLD}", id="a release in a name"),
    pytest.param(f'legacy = Version(v("vllm")) < Version("0.9")\nif legacy:\n{OLD}', id="a name that holds the test"),
    pytest.param(f'if importlib.util.find_spec("vllm.worker"):\n{OLD}', id="whether an old module is there"),
    pytest.param(f"{NEWER}    x = 1\nelse:\n{OLD}", id="the arm of older ones"),
    pytest.param(
        f'if hasattr(vllm, "plugin"):\n    {NEWER}        x = 1\n    else:\n    {OLD}', id="that arm in another branch"
    ),
    pytest.param(
        f"def f():\n    {NEWER}        return 1\n    from vllm.sequence import SequenceStage\n", id="behind a return"
    ),
    pytest.param(
        "try:\n    from vllm.worker.cache_engine import CacheEngine\nexcept ImportError:\n    CacheEngine = None\n"
        f"if CacheEngine is not None:\n{OLD}",
        id="whether an old name could be imported",
    ),
]


@pytest.mark.parametrize("text", NO_GUARDS)
def test_not_every_test_is_a_guard(text: str) -> None:
    assert Severity.ERROR in severities(text)


@pytest.mark.parametrize("text", GUARDS)
def test_what_tells_releases_apart_is_one(text: str) -> None:
    found = severities(text)
    assert found
    assert Severity.ERROR not in found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param('if hasattr(envs, "VLLM_USE_V1"):\n    x = envs.VLLM_USE_V1\n', 2, id="asked for first"),
        pytest.param('x = hasattr(envs, "VLLM_USE_V1") and envs.VLLM_USE_V1\n', 1, id="in one expression"),
        pytest.param(
            f'if hasattr(envs, "VLLM_USE_V1"):\n    {NEWER}        x = 1\n    else:\n        x = envs.VLLM_USE_V1\n',
            5,
            id="an arm of older ones inside",
        ),
    ],
)
def test_a_read_that_the_target_never_gets_to_is_a_note(text: str, line: int) -> None:
    outcome = rewrite(HEAD + text, "0.32.0")
    assert outcome.text == HEAD + text
    (found,) = outcome.said("V1M201")
    assert (found.line, found.severity) == (line + HEAD.count("\n"), Severity.INFO)


def test_a_call_behind_a_return_for_newer_ones_is_left_alone() -> None:
    text = f'def f():\n    {NEWER}        return LLM("m")\n    return LLM("m", task="score")\n'
    assert not rewrite(HEAD + text, "0.32.0").said("V1M112")


def test_an_old_name_in_an_arm_of_the_target_is_reported_and_stays() -> None:
    text = HEAD + f"{NEWER}    from vllm.worker.worker_base import WorkerWrapperBase\n"
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    (found,) = outcome.said("V1M001")
    assert found.severity is Severity.ERROR
    assert "leads other releases there, too" in found.advice


TRY_OLD = "try:\n    from vllm.engine.async_llm_engine import AsyncEngineDeadError\nexcept {}:\n    AsyncEngineDeadError = None\n"
SUCCEEDED = [
    pytest.param(
        TRY_OLD.format("Exception")
        + "else:\n    errors.append(AsyncEngineDeadError)\n"
        + "try:\n    from vllm.v1.engine.exceptions import EngineDeadError\nexcept Exception:\n    EngineDeadError = None\n",
        id="the successor is tried next",
    ),
    pytest.param(
        TRY_OLD.format("ImportError")
        + "if AsyncEngineDeadError is None:\n"
        + "    from vllm.v1.engine.exceptions import EngineDeadError as AsyncEngineDeadError\n",
        id="imported where the old one was not",
    ),
    pytest.param(
        TRY_OLD.format("ImportError")
        + "if not AsyncEngineDeadError:\n    from vllm.v1.engine.exceptions import EngineGenerateError\n",
        id="another name takes its place there",
    ),
    pytest.param(
        TRY_OLD.format("ImportError")
        + "try:\n    from vllm.v1.engine.exceptions import EngineGenerateError as AsyncEngineDeadError\n"
        + "except ImportError:\n    pass\n",
        id="the same name is bound by the next try",
    ),
]
ALONE = [
    pytest.param(TRY_OLD.format("ImportError"), id="nothing comes after it"),
    pytest.param(
        TRY_OLD.format("ImportError")
        + "try:\n    from vllm.sampling_params import SamplingParams\nexcept ImportError:\n    SamplingParams = None\n",
        id="something else is tried next",
    ),
    pytest.param(
        TRY_OLD.format("ImportError").replace("AsyncEngineDeadError = None", "raise")
        + "try:\n    from vllm.v1.engine.exceptions import EngineDeadError\nexcept ImportError:\n    pass\n",
        id="the handler raises",
    ),
    pytest.param(
        TRY_OLD.format("ImportError")
        + "if AsyncEngineDeadError is None:\n    from vllm.engine.nowhere import AsyncEngineDeadError\n",
        id="what comes after it is not there either",
    ),
]


@pytest.mark.parametrize("text", SUCCEEDED)
def test_a_trial_that_another_import_succeeds_is_deliberate(text: str) -> None:
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    assert {found.rule for found in outcome.findings} == {"V1M010"}


@pytest.mark.parametrize("text", ALONE)
def test_a_trial_that_nothing_succeeds_is_spoken_of(text: str) -> None:
    found = rewrite(text, "0.32.0").said("V1M003")[0]
    assert found.line == 2
    assert found.open


GONE = "from vllm.worker.cache_engine import CacheEngine\n"
OTHER = "from vllm.sequence import SequenceGroup\n"
TRIED = [
    pytest.param(f"try:\n    {GONE}except ImportError:\n    x = 1\n", [Severity.WARNING], id="caught"),
    pytest.param(f"try:\n    {OTHER}except ImportError:\n    x = 1\n", [Severity.WARNING], id="another contract"),
    pytest.param(
        f"try:\n    {GONE}    run()\nexcept Exception:\n    x = 1\n", [Severity.WARNING], id="caught with more"
    ),
    pytest.param(f"try:\n    {GONE}except ImportError:\n    raise ValueError\n", [Severity.ERROR], id="raised again"),
    pytest.param(f"try:\n    {GONE}except ValueError:\n    x = 1\n", [Severity.ERROR], id="another error is caught"),
    pytest.param(
        f"try:\n    {GONE}except ImportError:\n    {OTHER}",
        [Severity.WARNING, Severity.ERROR],
        id="what is tried instead is gone, too",
    ),
    pytest.param(
        f"try:\n    try:\n        {GONE}    except ImportError:\n        {OTHER}except ImportError:\n    x = 1\n",
        [Severity.WARNING, Severity.WARNING],
        id="and that is caught",
    ),
    pytest.param(
        f"try:\n    def f():\n        {GONE}except ImportError:\n    x = 1\n", [Severity.ERROR], id="run later"
    ),
]


@pytest.mark.parametrize(("text", "said"), TRIED)
def test_an_import_that_may_fail_is_a_warning_where_its_failure_ends(text: str, said: list[Severity]) -> None:
    found = [each for each in rewrite(text, "0.32.0").findings if each.rule in ("V1M003", "V1M004")]
    assert [each.severity for each in found] == said


OLD_PACKAGE = "from vllm.worker.worker import Worker\nfrom vllm.utils import Counter\n\n\nclass W(Worker):\n    def execute_model(self, a): ...\n"


@pytest.mark.parametrize(
    ("module", "left"),
    [
        pytest.param("plugin.vllm_v_0_6_3.worker", True, id="a package for an older release"),
        pytest.param("plugin.vllm_0_9.worker", True, id="without its last number"),
        pytest.param("plugin.vllm_0_32_0.worker", False, id="a package for the target"),
        pytest.param("plugin.vllm_1_0.worker", False, id="a package for a newer release"),
        pytest.param("plugin.vllm_v1.worker", False, id="an engine and no release"),
    ],
)
def test_a_package_that_is_called_after_an_older_release_is_left_alone(module: str, left: bool) -> None:
    outcome = rewrite(OLD_PACKAGE, "0.32.0", module=module)
    assert (outcome.text == OLD_PACKAGE) is left
    assert (outcome.rules == {"V1M010"}) is left
    if left:
        assert {finding.severity for finding in outcome.findings} == {Severity.INFO}
        assert "called after vLLM 0." in outcome.findings[0].message


BEFORE = """
def worker():
    try:
        from vllm.v1.worker.gpu_worker import {new}
        {then}
    except {error}:
        {else_}
    try:
        from vllm.worker.worker import Worker
        return Worker
    except ImportError as e:
        raise RuntimeError from e
"""


@pytest.mark.parametrize(
    ("new", "then", "error", "else_", "guarded"),
    [
        pytest.param("Worker", "return Worker", "ImportError", "pass", True, id="a trial before it that returns"),
        pytest.param("Worker", "print(Worker)", "ImportError", "pass", False, id="one that does not return"),
        pytest.param("Worker", "return Worker", "ValueError", "pass", False, id="one that catches something else"),
        pytest.param("Worker", "return Worker", "ImportError", "raise", False, id="one that raises where it fails"),
        pytest.param("Nothing", "return Nothing", "ImportError", "pass", False, id="one of what vLLM does not have"),
    ],
)
def test_a_trial_of_the_new_name_before_the_old_one(new: str, then: str, error: str, else_: str, guarded: bool) -> None:
    text = BEFORE.format(new=new, then=then, error=error, else_=else_)
    outcome = rewrite(text, "0.32.0", check=False)
    assert (9 in outcome.lines("V1M010")) is guarded
