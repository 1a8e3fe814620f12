"""Code that only another release of vLLM runs, by a test in it: left as it is. What the target runs is edited all the same."""

from __future__ import annotations

import pytest

from .harness import rewrite

HEAD = (
    "import inspect\nimport os\nfrom packaging.version import Version\nimport vllm\n"
    "from vllm import LLM, envs\nfrom vllm import __version__ as VLLM_VERSION\n\n"
)
NEWER = 'if Version(VLLM_VERSION) >= Version("0.11.1"):\n'
SET = 'os.environ["VLLM_USE_V1"] = "1"\n'
LEFT = [
    pytest.param(
        f"def f():\n    {NEWER}        return True\n    return envs.VLLM_USE_V1\n", id="a read after a return"
    ),
    pytest.param(f"def f():\n    {NEWER}        return\n    x = 1\n    {SET}", id="a setting after a return"),
    pytest.param(f"for i in x:\n    {NEWER}        continue\n    {SET}", id="after a continue"),
    pytest.param(f"{NEWER}    x = True\nelse:\n    x = envs.VLLM_USE_V1\n", id="the other arm"),
    pytest.param('x = True if VLLM_VERSION >= "0.12" else envs.VLLM_USE_V1\n', id="the other arm of an expression"),
    pytest.param('if vllm.__version__ < "0.10":\n    x = envs.VLLM_USE_V1\n', id="an arm for older ones"),
    pytest.param('if Version("0.10") > Version(vllm.__version__):\n    x = envs.VLLM_USE_V1\n', id="turned round"),
    pytest.param(f"vllm_version = load()\nif vllm_version < (0, 9):\n    {SET}", id="a tuple"),
    pytest.param(
        'if "task" in inspect.signature(LLM.__init__).parameters:\n    llm = LLM("m", task="generate")\n',
        id="a keyword that is looked for first",
    ),
]
EDITED = [
    pytest.param(f"{NEWER}    x = envs.VLLM_USE_V1\n", f"{NEWER}    x = True\n", id="the arm of the target"),
    pytest.param(
        f"def f():\n    {NEWER}        x = 1\n    return envs.VLLM_USE_V1\n",
        f"def f():\n    {NEWER}        x = 1\n    return True\n",
        id="after an arm that goes on",
    ),
    pytest.param(
        'def f():\n    if VLLM_VERSION < "0.8":\n        return None\n    return envs.VLLM_USE_V1\n',
        'def f():\n    if VLLM_VERSION < "0.8":\n        return None\n    return True\n',
        id="after a return for older ones",
    ),
    pytest.param(
        'if torch_version < "2.0":\n    pass\nelse:\n    x = envs.VLLM_USE_V1\n',
        'if torch_version < "2.0":\n    pass\nelse:\n    x = True\n',
        id="another library's version",
    ),
    pytest.param(
        'if "dtype" in inspect.signature(LLM.__init__).parameters:\n    llm = LLM("m", task="generate")\n',
        'if "dtype" in inspect.signature(LLM.__init__).parameters:\n    llm = LLM("m", runner="generate")\n',
        id="another keyword that is looked for",
    ),
    pytest.param(
        'if "task" in f(LLM):\n    pass\nelse:\n    llm = LLM("m", task="generate")\n',
        'if "task" in f(LLM):\n    pass\nelse:\n    llm = LLM("m", runner="generate")\n',
        id="where the keyword was not found",
    ),
]


@pytest.mark.parametrize("text", LEFT)
def test_left_as_it_is(text: str) -> None:
    outcome = rewrite(HEAD + text, "0.32.0")
    assert outcome.text == HEAD + text
    for finding in outcome.said("V1M201"):
        assert finding.severity.value == "info" and "only another release of vLLM runs it" in finding.advice


@pytest.mark.parametrize(("before", "after"), EDITED)
def test_edited_all_the_same(before: str, after: str) -> None:
    assert rewrite(HEAD + before, "0.32.0", folds=True).text.endswith(after)


def test_variables_that_are_called_like_other_parameters_are_not_named_in_the_order_of_a_release() -> None:
    text = "from vllm.config import SchedulerConfig\nx = SchedulerConfig(budget, max_num_seqs, max_model_len)\n"
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    (found,) = outcome.said("V1M113")
    assert "`max_num_seqs` would be taken for `max_num_batched_tokens`" in found.message
