"""V1M102 and V1M103: attributes of objects whose class changed, and redundant hops."""

from __future__ import annotations

import pytest
from harness import dedent, rewrite
from v1_migrate.findings import Severity

SDPA = "from vllm.attention.backends.torch_sdpa import TorchSDPAMetadata\n"
COMMON = "from vllm.v1.attention.backends.utils import CommonAttentionMetadata\n"
CONFIG = "from vllm.config import SchedulerConfig\n"

RENAMED = [
    pytest.param(CONFIG + "def f(c: SchedulerConfig):\n    return c.{}\n", id="an annotated parameter"),
    pytest.param(CONFIG + "def f(c: 'SchedulerConfig | None'):\n    return c.{}\n", id="a quoted, optional annotation"),
    pytest.param(
        "from typing import Optional\n" + CONFIG + "def f(c: Optional[SchedulerConfig] = None):\n    return c.{}\n",
        id="Optional",
    ),
    pytest.param(CONFIG + "c = SchedulerConfig()\nprint(c.{})\n", id="an object made here"),
    pytest.param(
        CONFIG + "class A:\n    def __init__(self, c: SchedulerConfig):\n        self.c = c\n"
        "    def g(self):\n        return self.c.{}\n",
        id="an attribute of self, set from an annotated parameter",
    ),
    pytest.param(
        CONFIG + "class A:\n    c: SchedulerConfig\n    def g(self):\n        return [self.c.{} for _ in 'ab']\n",
        id="an annotated attribute of the class",
    ),
    pytest.param(CONFIG + "c = None\nc = SchedulerConfig()\nd = c\nprint(d.{})\n", id="a second name for it"),
    pytest.param(CONFIG + "c = SchedulerConfig()\nc.{} = True\n", id="a write"),
]


@pytest.mark.parametrize("text", RENAMED)
def test_a_renamed_field_follows(text: str) -> None:
    outcome = rewrite(text.format("chunked_prefill_enabled"), "0.32.0")
    assert outcome.text == text.format("enable_chunked_prefill")
    assert rewrite(text.format("chunked_prefill_enabled"), "0.10.0").said("V1M102") == []


LEFT_ALONE = [
    pytest.param(CONFIG + "def f(c):\n    return c.chunked_prefill_enabled\n", id="nobody says what c is"),
    pytest.param(
        CONFIG + "def f(c: SchedulerConfig):\n    c = other()\n    return c.chunked_prefill_enabled\n",
        id="the name is bound to something else, too",
    ),
    pytest.param(
        CONFIG + "def f(c: SchedulerConfig):\n    return c.max_num_seqs, c.mine\n",
        id="fields that stay, or that never were",
    ),
    pytest.param(
        CONFIG + "def f(c: SchedulerConfig):\n    if hasattr(c, 'chunked_prefill_enabled'):\n"
        "        return c.chunked_prefill_enabled\n",
        id="code that asks first",
    ),
    pytest.param(
        CONFIG + "def f(c: list[SchedulerConfig]):\n    return c.chunked_prefill_enabled\n",
        id="a list of them is none of them",
    ),
    pytest.param(
        "from mine import SchedulerConfig\ndef f(c: SchedulerConfig):\n    return c.chunked_prefill_enabled\n",
        id="a namesake of one's own",
    ),
    pytest.param(
        CONFIG
        + "class A:\n    def f(self):\n        self.c = SchedulerConfig()\n    def g(self):\n        self.c = mine()\n"
        "        return self.c.chunked_prefill_enabled\n",
        id="an attribute of self with two meanings",
    ),
]


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_left_alone(text: str) -> None:
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    assert "V1M102" not in outcome.rules


def test_fields_of_v0_metadata_are_reported_with_the_formula() -> None:
    text = (
        SDPA + "def f(md: TorchSDPAMetadata):\n    md.num_prefills = 3\n    return md.kv_start_loc, md.slot_mapping\n"
    )
    outcome = rewrite(text, "0.32.0")
    assert outcome.lines("V1M102") == [3, 4]
    assert "cumsum" in outcome.said("V1M102")[1].advice
    assert rewrite(text, "0.11.0").said("V1M102") == []
    assert rewrite(text, attention="v1_cpu").said("V1M102") == []


def test_a_field_with_the_same_name_and_another_meaning_is_a_warning() -> None:
    outcome = rewrite(SDPA + "def f(md: TorchSDPAMetadata):\n    return sum(md.seq_lens)\n", "0.32.0")
    (found,) = outcome.said("V1M102")
    assert found.severity is Severity.WARNING
    assert "tolist()" in found.advice


def test_the_marker_class_has_no_fields_but_a_subclass_may() -> None:
    text = (
        "from vllm.attention.backends.abstract import AttentionMetadata\n"
        "def f(md: AttentionMetadata):\n    return md.num_prefills\n"
    )
    (found,) = rewrite(text, "0.11.0").said("V1M102")
    assert found.severity is Severity.WARNING
    assert "subclass" in found.message
    assert rewrite(text, "0.10.0").said("V1M102") == []


def test_the_copies_of_common_metadata_are_computed() -> None:
    text = (
        COMMON
        + "def f(c: CommonAttentionMetadata):\n    return c.seq_lens_cpu.numpy(), c.num_computed_tokens_cpu[:3]\n"
    )
    outcome = rewrite(text, "0.32.0")
    assert "return c.seq_lens.cpu().numpy(), c.compute_num_computed_tokens().cpu()[:3]" in outcome.text
    assert rewrite(text, "0.16.0").said("V1M102") == []


def test_writing_to_a_lost_copy_is_left_to_a_person() -> None:
    text = COMMON + "def f(c: CommonAttentionMetadata):\n    c.seq_lens_cpu = 1\n"
    outcome = rewrite(text, "0.32.0")
    assert "c.seq_lens_cpu = 1" in outcome.text
    assert [finding.fixed for finding in outcome.said("V1M102")] == [False]


ENGINES = "from vllm import AsyncLLMEngine, LLMEngine\nfrom vllm.platforms import current_platform\n"


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        pytest.param(
            "e = LLMEngine.from_engine_args(args)\ne.get_model_config()\n",
            "engine.model_config",
            id="what a factory made",
        ),
        pytest.param(
            "class S:\n    def __init__(self):\n        self.e = AsyncLLMEngine.from_vllm_config(c)\n"
            "    async def f(self):\n        return await self.e.get_decoding_config()\n",
            "structured_outputs_config",
            id="an attribute that holds it",
        ),
        pytest.param("current_platform.seed_everything(0)\n", "set_random_seed", id="a lost method of the platform"),
        pytest.param(
            "from vllm.config import CacheConfig\ndef f(c: CacheConfig):\n    return c.swap_space\n",
            "does not swap",
            id="a field of a class that says nothing of what else it has",
        ),
    ],
)
def test_a_lost_member_of_an_object_is_said(text: str, advice: str) -> None:
    (found,) = rewrite(ENGINES + text).said("V1M102")
    assert advice in found.advice
    assert rewrite(ENGINES + text, "0.10.0").said("V1M102") == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("e = LLMEngine.from_engine_args(args)\ne.vllm_config, e.add_request(1)\n", id="what it has"),
        pytest.param("current_platform.synchronize()\n", id="what torch may have"),
        pytest.param(
            "current_platform = mine()\ncurrent_platform.seed_everything(0)\n", id="another object of that name"
        ),
        pytest.param("e = LLMEngine.validate_outputs(x, y)\ne.get_model_config()\n", id="what another method gave"),
        pytest.param(
            "from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead\n"
            "h = ParallelLMHead(1, 2)\nh.weight\n",
            id="what is registered with a torch module",
        ),
    ],
)
def test_members_that_may_be_there_are_left_alone(text: str) -> None:
    assert rewrite(ENGINES + text).said("V1M102") == []


REPLACED = [
    pytest.param("import dataclasses\n", "dataclasses.replace", id="through the module"),
    pytest.param("from dataclasses import replace\n", "replace", id="by its name"),
]


@pytest.mark.parametrize(("head", "call"), REPLACED)
def test_replace_takes_the_fields_of_today(head: str, call: str) -> None:
    text = (
        head + SDPA + f"def f(md: TorchSDPAMetadata):\n    return {call}(md, prompt_lens=[1], use_cuda_graph=False)\n"
    )
    assert f"return {call}(md, seq_lens=[1])\n" in rewrite(text, attention="v1_cpu").text


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("mine.replace(md, prompt_lens=[1])", id="a method of something else"),
        pytest.param("replace(md, prompt_lens=[1])", id="a function of one's own"),
        pytest.param("dataclasses.replace(other, prompt_lens=[1])", id="another object"),
    ],
)
def test_other_calls_of_replace_stay(call: str) -> None:
    text = "import dataclasses\n" + SDPA + f"def f(md: TorchSDPAMetadata, other):\n    return {call}\n"
    assert call in rewrite(text, attention="v1_cpu").text


HOPS = [
    pytest.param(
        "md.prefill_metadata.prefill_metadata.seq_lens", "md.prefill_metadata.seq_lens", id="twice in a chain"
    ),
    pytest.param("md.decode_metadata.decode_metadata", "md.decode_metadata", id="at the end of a chain"),
    pytest.param(
        "md.prefill_metadata.prefill_metadata.prefill_metadata.seq_lens",
        "md.prefill_metadata.seq_lens",
        id="three times",
    ),
    pytest.param(
        "(p := md.prefill_metadata) and p.prefill_metadata.x", "(p := md.prefill_metadata) and p.x", id="kept in a name"
    ),
]


@pytest.mark.parametrize(("before", "after"), HOPS)
def test_the_second_hop_goes(before: str, after: str) -> None:
    text = SDPA + "def f(md: TorchSDPAMetadata):\n    return {}\n"
    outcome = rewrite(text.format(before), attention="v1_cpu")
    assert outcome.text.endswith(f"return {after}\n")
    assert "V1M103" in outcome.rules


def test_a_hop_kept_by_a_statement_is_seen_through() -> None:
    text = SDPA + dedent(
        """
        def f(md: TorchSDPAMetadata):
            if prefill := md.prefill_metadata:
                assert prefill.prefill_metadata.chunked_prefill  # once is enough
            decode = md.decode_metadata
            return decode.decode_metadata.block_tables
        """
    )
    after = rewrite(text, attention="v1_cpu").text
    assert "assert prefill.chunked_prefill  # once is enough" in after
    assert "return decode.block_tables" in after


@pytest.mark.parametrize(
    "chain",
    [
        pytest.param("md.prefill_metadata.decode_metadata", id="two different hops"),
        pytest.param("md.prefill_metadata.other.prefill_metadata", id="something between them"),
        pytest.param("md.prefill_metadata.seq_lens", id="one hop"),
        pytest.param("unknown.prefill_metadata.prefill_metadata", id="nobody says what it is"),
        pytest.param("flash.prefill_metadata.prefill_metadata", id="metadata that makes a new object at each hop"),
    ],
)
def test_hops_that_stay(chain: str) -> None:
    head = "from vllm.attention.backends.flash_attn import FlashAttentionMetadata\n"
    text = head + SDPA + f"def f(md: TorchSDPAMetadata, unknown, flash: FlashAttentionMetadata):\n    return {chain}\n"
    outcome = rewrite(text, attention="v1_cpu")
    assert outcome.text.endswith(f"return {chain}\n")
    assert "V1M103" not in outcome.rules


@pytest.mark.parametrize(
    ("statement", "words"),
    [("p.best_of = 3", "cumulative_logprob"), ("print(p.guided_decoding)", "StructuredOutputsParams")],
)
def test_a_field_that_is_a_keyword_of_the_constructor_is_explained_as_the_keyword_is(
    statement: str, words: str
) -> None:
    (found,) = rewrite(
        f"from vllm.sampling_params import SamplingParams\n\np = SamplingParams()\n{statement}\n"
    ).findings
    assert words in found.advice


PLATFORM = "from vllm.platforms.cpu import CpuPlatform\nfrom vllm.config import SchedulerConfig\n"
METHOD = "    @classmethod\n    def f(cls, x):\n        return {}\n"
CLASS = PLATFORM + "class P(CpuPlatform):\n" + METHOD


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        pytest.param(CLASS.format("super().supports_v1(x)"), Severity.ERROR, id="super, called"),
        pytest.param(CLASS.format("super().supports_v1"), Severity.ERROR, id="super, read"),
        pytest.param(
            CLASS.format("super().supports_v1(x)").replace("def f", "def supports_v1"),
            Severity.ERROR,
            id="super, in the method that overrides it",
        ),
        pytest.param(CLASS.format("cls.supports_v1(x)"), Severity.WARNING, id="cls"),
        pytest.param(
            PLATFORM + "class P(CpuPlatform):\n    def f(self):\n        return [self.supports_v1(x) for x in 'ab']\n",
            Severity.WARNING,
            id="self, in a comprehension",
        ),
        pytest.param(
            CLASS.format("1") + "class Q(P):\n" + METHOD.format("super().supports_v1(x)"),
            Severity.ERROR,
            id="through a class of the file",
        ),
        pytest.param(
            "from abc import ABC\n"
            + CLASS.format("super().supports_v1(x)").replace("(CpuPlatform)", "(CpuPlatform, ABC)"),
            Severity.ERROR,
            id="beside a base that says nothing",
        ),
    ],
)
def test_a_member_that_the_base_lost_is_found(text: str, severity: Severity) -> None:
    (found,) = rewrite(text, "0.32.0").said("V1M102")
    assert found.severity is severity and "has no `supports_v1`" in found.message and found.advice
    assert rewrite(text, "0.10.0").said("V1M102") == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(CLASS.format("super().check_and_update_config(x)"), id="a method that stays"),
        pytest.param(CLASS.format("super().nonsense(x), cls.nonsense(x)"), id="one that never was"),
        pytest.param(CLASS.format("cls.supports_v1"), id="a read of cls, which a subclass may set"),
        pytest.param(
            CLASS.format("cls.supports_v1(x)") + METHOD.format("1").replace("def f", "def supports_v1"),
            id="its own method",
        ),
        pytest.param(
            CLASS.format("1").replace("def f", "def supports_v1")
            + "class Q(P):\n"
            + METHOD.format("super().supports_v1(x), cls.supports_v1(x)"),
            id="a method of a class between",
        ),
        pytest.param(
            "from other import Mixin\n"
            + CLASS.format("super().supports_v1(x)").replace("(CpuPlatform)", "(CpuPlatform, Mixin)"),
            id="a base that nobody knows",
        ),
        pytest.param(
            "from other import *\n"
            + CLASS.format("super().supports_v1(x)").replace("(CpuPlatform)", "(CpuPlatform, Mixin)"),
            id="a base of a star import",
        ),
        pytest.param(
            CLASS.format("super().supports_v1(x) if hasattr(CpuPlatform, 'supports_v1') else True"),
            id="code that asks first",
        ),
        pytest.param(CLASS.format("cls.supports_v1(x)") + "CpuPlatform.supports_v1 = print\n", id="set from outside"),
        pytest.param(CLASS.format("cls.supports_v1(x)") + "setattr(P, 'supports_v1', print)\n", id="set by its name"),
        pytest.param(
            PLATFORM + "class P(CpuPlatform):\n    def f(this, self):\n        return self.supports_v1(1)\n"
            "    @staticmethod\n    def g():\n        cls = other()\n        return cls.supports_v1(1)\n"
            "    @staticmethod\n    def h(cls):\n        return cls.supports_v1(1)\n"
            "    def i(self):\n        self = other()\n        return self.supports_v1(1)\n",
            id="another object under the name",
        ),
        pytest.param(CLASS.format("super().supports_v1(x)").replace("(CpuPlatform)", ""), id="no base"),
        pytest.param(
            "import x\n" + CLASS.format("cls.supports_v1(x)").replace("class P", "@x.adds\nclass P"),
            id="a decorated class",
        ),
        pytest.param(
            "import torch\nfrom vllm.model_executor.layers.linear import LinearBase\n"
            "class L(LinearBase):\n    def f(self):\n        return self.nonsense(), super().register_buffer('a', 1)\n",
            id="a torch module, which may have more",
        ),
    ],
)
def test_what_a_class_may_have_from_somewhere_is_left(text: str) -> None:
    assert rewrite(text, "0.32.0").said("V1M102") == []
