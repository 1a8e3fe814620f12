"""V1M111: overrides that the target does not call, or calls with other arguments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import dedent, rewrite
from v1_migrate.engine.tree import Tree
from v1_migrate.findings import Safety, Severity
from v1_migrate.names.index import Index, Param

RUNNER = "from vllm.v1.worker.cpu_model_runner import CPUModelRunner\n\n\n"
PLATFORM = "from vllm.platforms.interface import Platform\n\n\n"
OF_PLUGINS = ("vllm.v1.worker", "vllm.v1.executor", "vllm.v1.engine", "vllm.v1.attention", "vllm.platforms")
OLD_SHAPE = "selected_backend, head_size, dtype, kv_cache_dtype, block_size, use_v1, use_mla"

REPAIRED = [
    pytest.param(
        "0.10.0",
        RUNNER + "class R(CPUModelRunner):\n    def load_model(self) -> None: ...\n",
        RUNNER + "class R(CPUModelRunner):\n    def load_model(self, eep_scale_up: bool = False) -> None: ...\n",
        id="load_model of 0.10",
    ),
    pytest.param(
        "0.32.0",
        RUNNER + "class R(CPUModelRunner):\n    def load_model(self) -> None: ...\n",
        RUNNER + "class R(CPUModelRunner):\n    def load_model(self, load_dummy_weights: bool = False) -> None: ...\n",
        id="load_model of 0.32",
    ),
    pytest.param(
        "0.32.0",
        RUNNER + "class R(CPUModelRunner):\n    def load_model(self, eep_scale_up=False): ...\n",
        RUNNER
        + "class R(CPUModelRunner):\n    def load_model(self, load_dummy_weights: bool = False, eep_scale_up=False): ...\n",
        id="the parameter of a release between stays behind the new one",
    ),
    pytest.param(
        "0.32.0",
        RUNNER + "class Base(CPUModelRunner): ...\n\n\nclass R(Base):\n    def load_model(self): ...\n",
        RUNNER + "class Base(CPUModelRunner): ...\n\n\nclass R(Base):\n"
        "    def load_model(self, load_dummy_weights: bool = False): ...\n",
        id="through a class of the same file",
    ),
    pytest.param(
        "0.11.0",
        PLATFORM
        + f"class P(Platform):\n    @classmethod\n    def get_attn_backend_cls(cls, {OLD_SHAPE}):\n        return 'a.B'\n",
        PLATFORM + f"class P(Platform):\n    @classmethod\n    def get_attn_backend_cls(cls, {OLD_SHAPE}, "
        "has_sink: bool = False, use_sparse: bool = False):\n        return 'a.B'\n",
        id="the second shape of get_attn_backend_cls",
    ),
    pytest.param(
        "0.12.0",
        PLATFORM + f"class P(Platform):\n    @classmethod\n    def get_attn_backend_cls(cls, {OLD_SHAPE}):\n"
        "        return 'a.B' if use_v1 else 'a.C'\n",
        PLATFORM
        + "class P(Platform):\n    @classmethod\n    def get_attn_backend_cls(cls, selected_backend, head_size, dtype, "
        "kv_cache_dtype, block_size, use_mla, has_sink: bool = False, use_sparse: bool = False, attn_type=None):\n"
        "        use_v1 = True\n        return 'a.B' if use_v1 else 'a.C'\n",
        id="the third shape, without the engine",
    ),
    pytest.param(
        "0.16.0",
        PLATFORM
        + f"class P(Platform):\n    @classmethod\n    def get_attn_backend_cls(cls, {OLD_SHAPE}):\n        return 'a.B'\n",
        PLATFORM + "class P(Platform):\n    @classmethod\n"
        "    def get_attn_backend_cls(cls, selected_backend, attn_selector_config):\n        return 'a.B'\n",
        id="the fourth shape, with one object",
    ),
    pytest.param(
        "0.32.0",
        PLATFORM
        + dedent(
            '''
            class P(Platform):
                @classmethod
                def get_attn_backend_cls(
                    cls,
                    selected_backend,  # by name
                    head_size: int,  # unused
                    dtype,
                    kv_cache_dtype,
                    block_size,
                    use_v1: bool,
                    use_mla: bool,
                ) -> str:
                    """Where it is."""
                    if use_mla and use_v1:
                        return "a.M"
                    return f"a.B{block_size}"
            '''
        ),
        PLATFORM
        + dedent(
            '''
            class P(Platform):
                @classmethod
                def get_attn_backend_cls(
                    cls,
                    selected_backend,  # by name
                    attn_selector_config,
                    num_heads: int | None = None,
                ) -> str:
                    """Where it is."""
                    block_size = attn_selector_config.block_size
                    use_v1 = True
                    use_mla = attn_selector_config.use_mla
                    if use_mla and use_v1:
                        return "a.M"
                    return f"a.B{block_size}"
            '''
        ),
        id="the fifth shape, with what the body reads set at its top",
    ),
]


@pytest.mark.parametrize(("target", "before", "after"), REPAIRED)
def test_repaired(target: str, before: str, after: str) -> None:
    outcome = rewrite(before, target, ignore=frozenset({"V1M2"}))
    assert outcome.text == after
    assert [finding.fixed for finding in outcome.said("V1M111")] == [True]


def test_an_added_parameter_runs_on_v0_too() -> None:
    text = RUNNER + "class R(CPUModelRunner):\n    def load_model(self): ...\n"
    assert [finding.safety for finding in rewrite(text).said("V1M111")] == [Safety.BRIDGE]


ACCEPTED = [
    pytest.param(RUNNER + "class R(CPUModelRunner):\n    def load_model(self, *args, **kwargs): ...\n", id="anything"),
    pytest.param(RUNNER + "class R(CPUModelRunner):\n    def load_model(self, **kwargs): ...\n", id="any keyword"),
    pytest.param(
        RUNNER + "class R(CPUModelRunner):\n    def load_model(self, load_dummy_weights=False): ...\n",
        id="today's form",
    ),
    pytest.param(RUNNER + "class R(CPUModelRunner):\n    def mine(self, a, b): ...\n", id="a method of one's own"),
    pytest.param("class R(CPUModelRunner):\n    def load_model(self): ...\n", id="an unknown base"),
    pytest.param(
        "import vllm\n"
        + RUNNER
        + "if vllm.__version__ < '0.10':\n    class R(CPUModelRunner):\n        def load_model(self): ...\n",
        id="for one release only",
    ),
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    assert "V1M111" not in outcome.rules


def test_a_method_that_nothing_calls_is_a_warning() -> None:
    text = "from vllm.worker.worker import Worker\n\n\nclass W(Worker):\n    def determine_num_available_blocks(self): ...\n"
    (found,) = [f for f in rewrite(text, "0.12.0").said("V1M111") if "determine" in f.message]
    assert found.severity is Severity.WARNING
    assert "determine_available_memory" in found.advice


def test_a_hook_that_a_platform_lost_is_a_warning_though_platforms_answer_for_any_name() -> None:
    text = PLATFORM + "class P(Platform):\n    @classmethod\n    def supports_v1(cls, config):\n        return False\n"
    (found,) = rewrite(text).said("V1M111")
    assert found.severity is Severity.WARNING
    assert rewrite(text, "0.10.0").said("V1M111") == []


def test_a_contract_that_changed_altogether_is_an_error_with_the_parameters() -> None:
    text = "from vllm.worker.worker import Worker\n\n\nclass W(Worker):\n    def execute_model(self, execute_model_req): ...\n"
    (found,) = rewrite(text, "0.32.0").said("V1M111")
    assert found.severity is Severity.ERROR
    assert "execute_model(scheduler_output" in found.message
    assert not found.fixed


IMPL = "from vllm.attention.backends.abstract import AttentionImpl\n\n\nclass I(AttentionImpl):\n"


def test_output_is_never_added_for_an_implementation_that_returns_its_result() -> None:
    text = IMPL + "    def forward(self, layer, query, key, value, kv_cache, attn_metadata): ...\n"
    outcome = rewrite(text, "0.32.0")
    assert "attn_metadata): ..." in outcome.text
    assert "`output`" in outcome.said("V1M111")[0].advice


def test_scales_are_added_behind_the_output() -> None:
    text = IMPL + "    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output=None): ...\n"
    assert "output=None, output_scale=None, output_block_scale=None)" in rewrite(text, "0.11.0").text


def test_a_parameter_of_block_sparse_attention_leaves_the_middle_of_the_list() -> None:
    text = IMPL + (
        "    def __init__(self, num_heads, head_size, scale, num_kv_heads, alibi_slopes, sliding_window, kv_cache_dtype,\n"
        "                 blocksparse_params=None, logits_soft_cap=None, attn_type='d', kv_sharing_target_layer_name=None):\n"
        "        assert blocksparse_params is None\n"
    )
    outcome = rewrite(text, "0.10.0")
    assert (
        "logits_soft_cap=None, attn_type='d', kv_sharing_target_layer_name=None, blocksparse_params=None):"
        in outcome.text
    )
    assert "assert blocksparse_params is None" in outcome.text


def test_in_a_fork_whose_own_layers_pass_it_nothing_moves() -> None:
    text = IMPL + (
        "    def __init__(self, num_heads, head_size, scale, num_kv_heads, alibi_slopes, sliding_window, kv_cache_dtype,\n"
        "                 blocksparse_params=None, logits_soft_cap=None, attn_type='d', kv_sharing_target_layer_name=None):\n"
        "        assert blocksparse_params is None\n"
    )
    fork = Tree(Path("/nowhere"), vllm_roots=(Path("/nowhere/vllm"),))
    outcome = rewrite(text, "0.32.0", tree=fork, module="vllm.v1.attention.backends.mine")
    assert "kv_cache_dtype,\n                 blocksparse_params=None, logits_soft_cap=None" in outcome.text
    assert "by position" in outcome.said("V1M111")[0].message


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("return super().get_attn_backend_cls(selected_backend, head_size)", id="it hands the old ones on"),
        pytest.param("return helper(**locals(), mine=other_config)", id="fine: nothing of the old ones is read"),
    ],
)
def test_a_selector_that_calls_its_base_is_left_to_a_person(body: str) -> None:
    text = (
        PLATFORM
        + f"class P(Platform):\n    @classmethod\n    def get_attn_backend_cls(cls, {OLD_SHAPE}):\n        {body}\n"
    )
    outcome = rewrite(text, "0.32.0")
    assert (outcome.text == text) == ("super" in body)
    assert outcome.lines("V1M111") == [6]


def test_a_constructor_that_users_call_is_their_own_business() -> None:
    text = "from vllm.config import SchedulerConfig\n\n\nclass C(SchedulerConfig):\n    def __init__(self, mine): ...\n"
    assert "V1M111" not in rewrite(text, "0.32.0").rules


WORKER = "from vllm.v1.worker.gpu_worker import Worker\n\n\nclass W(Worker):\n"
IGNORING = [
    pytest.param("def load_model(self):\n        super().load_model()\n", True, id="a parameter that is added"),
    pytest.param("def load_model(self, load_dummy_weights=False):\n        pass\n", True, id="one that is there"),
    pytest.param("def load_model(self, **kwargs):\n        super().load_model()\n", True, id="swallowed by **"),
    pytest.param("def load_model(self, **kw):\n        super().load_model(**kw)\n", False, id="handed on by **"),
    pytest.param("def load_model(self, load_dummy_weights=False):\n        f(load_dummy_weights)\n", False, id="read"),
    pytest.param(
        "def load_model(self, **kwargs):\n        raise NotImplementedError\n", False, id="every call refused"
    ),
    pytest.param("def shutdown(self):\n        pass\n", False, id="a method that is called as before"),
]


@pytest.mark.parametrize(("body", "said"), IGNORING)
def test_what_the_target_began_to_pass_is_not_swallowed_in_silence(body: str, said: bool) -> None:
    outcome = rewrite(f"{WORKER}    {body}", "0.32.0")
    found = [f for f in outcome.said("V1M111") if "which this override ignores" in f.message]
    assert [(f.severity, f.safety) for f in found] == [(Severity.INFO, Safety.MANUAL)] * said
    assert all("`load_dummy_weights`" in f.message and 'load_format="dummy"' in f.advice for f in found)
    again = rewrite(outcome.text, "0.32.0").said("V1M111")
    assert len([f for f in again if "which this override ignores" in f.message]) == len(found)


def _own_classes(release: str) -> Iterator[tuple[str, str, int]]:
    """Classes that plugins derive from: module, a subclass that overrides every method as it is, and how many."""
    index = Index.load(user=False)
    for module in index.modules(release):
        if not module.startswith(OF_PLUGINS):
            continue
        for name in index.members(module, release):
            owner = f"{module}.{name}"
            if index.resolve(owner, release).kind != "class":
                continue
            lines = [
                f"    def {method}(self, {_written(params)}): ...\n"
                for method in index.members(owner, release)
                if index.resolve(f"{owner}.{method}", release).kind == "method"
                and (params := index.params(f"{owner}.{method}", release)) is not None
            ]
            if lines:
                yield owner, f"from {module} import {name}\n\n\nclass Mine({name}):\n{''.join(lines)}", len(lines)


def _written(params: tuple[Param, ...]) -> str:
    parts, star = [], False
    for param in params:
        if param.kind == "kw_only" and not star:
            parts.append("*")
        star = star or param.kind in ("kw_only", "var_pos")
        mark = {"var_pos": "*", "var_kw": "**"}.get(param.kind, "")
        parts.append(mark + param.name + ("=None" if param.default else ""))
    return ", ".join(parts)


def test_an_override_with_the_targets_own_signature_is_refused_nowhere() -> None:
    """Of every method of those classes: names that moved, changed or came late included."""
    refused, asked = [], 0
    for owner, text, count in _own_classes("0.32.0"):
        asked += count
        found = rewrite(text, check=False).findings
        refused += [(owner, f.message) for f in found if f.rule in ("V1M104", "V1M111") and "refuses" in f.message]
    assert asked > 500
    assert refused == []
