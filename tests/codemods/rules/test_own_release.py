"""What code of a release does against that very release is no finding: forms that vLLM's own trees use."""

from __future__ import annotations

import pytest
from harness import dedent, rewrite
from v1_migrate.findings import Severity

BUILDER = dedent(
    """
    from vllm.model_executor.layers.attention.mla_attention import MLACommonMetadataBuilder


    class Mine(MLACommonMetadataBuilder):
        def __init__(self, {parameters}):
            super().__init__(kv_cache_spec, layer_names, vllm_config, device, Metadata)
    """
)
MLA = "num_heads, head_size, scale, num_kv_heads, alibi_slopes, sliding_window, kv_cache_dtype, logits_soft_cap, attn_type"
EXECUTOR = "from vllm.v1.executor.multiproc_executor import MultiprocExecutor\n\n\nclass E(MultiprocExecutor):\n"

FITS = [
    pytest.param(
        BUILDER.format(parameters="kv_cache_spec, layer_names, vllm_config, device"),
        id="a builder made as every builder is, whatever its base adds",
    ),
    pytest.param(
        "from vllm.v1.attention.backend import AttentionMetadataBuilder\n\n\nclass B(AttentionMetadataBuilder):\n"
        "    def build(self, common_prefix_len, common_attn_metadata, mine=None, fast_build=False): ...\n",
        id="a parameter of one's own before one that comes by keyword",
    ),
    pytest.param(
        EXECUTOR + "    def __init__(self, vllm_config):\n        super().__init__(vllm_config)\n",
        id="an executor made as every executor is",
    ),
    pytest.param(
        "from vllm.v1.attention.backend import MLAAttentionImpl\n\n\nclass I(MLAAttentionImpl):\n"
        f"    def __init__(self, {MLA}, kv_sharing_target_layer_name,\n"
        "                 topk_indices_buffer=None, indexer=None, **mla_args): ...\n",
        id="what an MLA implementation gets by keyword stands anywhere",
    ),
    pytest.param(
        dedent(
            f"""
            from vllm.v1.attention.backend import MLAAttentionImpl


            class Base(MLAAttentionImpl):
                def __init__(self, num_heads, scale): ...


            class I(Base):
                def __init__(self, {MLA}, kv_sharing_target_layer_name, **mla_args):
                    super().__init__(num_heads, scale)
            """
        ),
        id="the constructor of a base that the file derives from",
    ),
    pytest.param(
        "from vllm.model_executor.layers.attention.mm_encoder_attention import MMEncoderAttention\n\n\n"
        "class A(MMEncoderAttention):\n    def forward(self, query, key, value): ...\n",
        id="a base that hands on whatever it is given",
    ),
    pytest.param(
        dedent(
            """
            from vllm.v1.executor.abstract import Executor


            class E(Executor):
                def _init_executor(self):
                    self.driver_worker = make()
                    self.driver_worker.load_model()
            """
        ),
        id="an executor's own worker",
    ),
    pytest.param(
        dedent(
            """
            from typing import TYPE_CHECKING

            if TYPE_CHECKING:
                from vllm.v1.engine.core import EngineCoreProc


            class Sentinel:
                def __init__(self, engine: "EngineCoreProc"):
                    self.engine = engine

                def look(self):
                    engine = self.engine
                    return engine.scheduler, engine.model_executor, self.engine.scheduler
            """
        ),
        id="what the engine's core has",
    ),
    pytest.param(
        'from vllm.tracing import maybe_init_worker_tracer\n\nmaybe_init_worker_tracer(instrumenting_module_name="vllm.worker")\ntracer = get_tracer("vllm.worker")\n',
        id="the name of a tracer",
    ),
    pytest.param(
        dedent(
            """
            from vllm.platforms import current_platform

            if current_platform.is_xpu():
                from vllm._xpu_ops import xpu_ops as ops
            else:
                from vllm import _custom_ops as ops

            ops.reshape_and_cache(key, value, *caches)
            """
        ),
        id="a name that the thing of another arm has",
    ),
    pytest.param(
        "from vllm import _custom_ops as ops\n\n\ndef f(c, use_v2_format):\n"
        "    return ops.gptq_gemm(x, w, z, s, True, use_v2_format, c.bits)\n",
        id="a later argument that is called like its parameter",
    ),
    pytest.param(
        dedent(
            """
            from vllm.config import ModelConfig


            def f(config: ModelConfig, other: ModelConfig):
                assert isinstance(config, Mine)
                if not isinstance(other, Mine):
                    return None
                return config.hidden_size, other.hidden_size
            """
        ),
        id="an object of a class of one's own, as an isinstance says",
    ),
    pytest.param(
        dedent(
            """
            from vllm import EngineArgs


            def f(kind, make):
                kw = dict(model="m")
                if kind:
                    kw["swap_space"] = 4
                    make(**kw)
                else:
                    EngineArgs(**kw)
            """
        ),
        id="an item that is set in the other arm",
    ),
]


@pytest.mark.parametrize("text", FITS)
def test_fits(text: str) -> None:
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    assert [(f.line, f.rule, f.message) for f in outcome.open] == []


def test_what_protobuf_makes_is_not_known() -> None:
    text = "from vllm.grpc import vllm_engine_pb2\n\nx = vllm_engine_pb2.GenerateRequest()\n"
    assert rewrite(text, "0.16.0").findings == ()


BREAKS = [
    pytest.param(
        BUILDER.format(parameters="kv_cache_spec, runner"), "V1M104", 5, Severity.ERROR, id="a builder that is made otherwise"
    ),
    pytest.param(
        EXECUTOR + "    def __init__(self, vllm_config, mine): ...\n",
        "V1M111", 5, Severity.WARNING, id="an executor that requires more, of older releases, too",
    ),
    pytest.param(
        "from vllm.v1.attention.backend import AttentionMetadataBuilder\n\n\nclass B(AttentionMetadataBuilder):\n"
        "    def build(self, common_prefix_len, common_attn_metadata, mine): ...\n",
        "V1M104", 5, Severity.ERROR, id="a parameter of one's own that is required",
    ),
    pytest.param(
        "from vllm.v1.worker.gpu_model_runner import GPUModelRunner\n\n\nclass R(GPUModelRunner):\n"
        "    def load_model(self, load_dummy_weights=False): print(load_dummy_weights)\n",
        "V1M111", 5, Severity.WARNING, id="what may come by keyword alone",
    ),
    pytest.param(
        "import vllm\n\n\nclass C:\n    def f(self):\n        self.driver_worker.load_model()\n",
        "V1M008", 6, Severity.ERROR, id="a worker that the class does not give itself",
    ),
    pytest.param(
        "from vllm.engine.llm_engine import LLMEngine\n\n\ndef f(engine: LLMEngine):\n    return engine.scheduler\n",
        "V1M008", 5, Severity.ERROR, id="what V1's engine does not have",
    ),
    pytest.param(
        "from vllm._xpu_ops import xpu_ops as ops\n\nops.reshape_and_cache()\n",
        "V1M005", 3, Severity.ERROR, id="a name that no arm has",
    ),
    pytest.param(
        "from vllm import _custom_ops as ops\n\nops.gptq_gemm(x, w, z, s, index, True, bits)\n",
        "V1M112", 3, Severity.ERROR, id="arguments for the older order",
    ),
    pytest.param(
        "from vllm.config import SchedulerConfig\n\n\ndef f(x):\n    assert isinstance(x, SchedulerConfig)\n"
        "    return x.num_lookahead_slots\n",
        "V1M102", 6, Severity.ERROR, id="an object that only an isinstance names",
    ),
    pytest.param(
        "from vllm.config import SchedulerConfig\n\n\ndef f(x: SchedulerConfig):\n    if isinstance(x, Mine):\n        pass\n"
        "    return x.num_lookahead_slots\n",
        "V1M102", 7, Severity.ERROR, id="behind the block that an isinstance guards",
    ),
    pytest.param(
        'from vllm import EngineArgs\n\nkw = dict(model="m")\nif kind:\n    kw["swap_space"] = 4\nEngineArgs(**kw)\n',
        "V1M112", 5, Severity.ERROR, id="an item that is set under a condition",
    ),
    pytest.param(
        'import vllm\n\nload("vllm.worker.worker_base.WorkerWrapperBase")\n',
        "V1M002", 3, Severity.ERROR, id="a path that is no name of a tracer",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "rule", "line", "severity"), BREAKS)
def test_what_is_like_it_and_breaks_is_still_said(text: str, rule: str, line: int, severity: Severity) -> None:
    outcome = rewrite(text, "0.32.0")
    assert [(f.line, f.severity) for f in outcome.said(rule)] == [(line, severity)]


def test_a_name_that_is_newer_than_the_target_did_not_go() -> None:
    text = "from vllm._xpu_ops import xpu_ops\n\nxpu_ops.indexer_k_quant_and_cache()\n"
    (found,) = rewrite(text, "0.16.0").said("V1M004")
    assert "gone since" not in found.message
    assert "gone since vLLM 0.22.0" in rewrite(text, "0.32.0").said("V1M004")[0].message


def test_what_sets_a_member_that_came_later_makes_it() -> None:
    text = "from vllm.config import ModelConfig\n\n\ndef f(c: ModelConfig):\n    c.hidden_size = 4\n"
    assert rewrite(text, "0.10.0").findings == ()
    assert rewrite(text, "0.32.0").lines("V1M102") == [5]


def test_a_member_that_went_before_the_first_release_of_the_index_is_lost() -> None:
    text = "from vllm import SamplingParams\n\n\ndef f(p: SamplingParams):\n    p.use_beam_search = True\n"
    assert rewrite(text, "0.32.0").lines("V1M102") == [5]
    assert rewrite(text.replace("use_beam_search", "mine"), "0.32.0").findings == ()
