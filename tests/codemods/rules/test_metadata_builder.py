"""V1M104: builders of attention metadata."""

from __future__ import annotations

import pytest
from harness import dedent, rewrite

HEAD = "from vllm.v1.attention.backends.utils import AttentionMetadataBuilder\n\n"
V1 = "from vllm.v1.attention.backends.cpu_attn import TorchSDPAMetadataBuilderV1\n\n"

BUILD = [
    pytest.param(
        """
        class B(AttentionMetadataBuilder):
            def build(self, common_prefix_len, common_attn_metadata):
                return 1
        """,
        """
        class B(AttentionMetadataBuilder):
            def build(self, common_prefix_len, common_attn_metadata, fast_build: bool = False):
                return 1
        """,
        id="a trailing parameter is added",
    ),
    pytest.param(
        """
        class B(AttentionMetadataBuilder):
            def build(
                self,
                num_reqs: int,  # requests
                num_actual_tokens: int,
                max_query_len: int,
                common_prefix_len: int,  # shared
                common_attn_metadata,
            ) -> object:
                \"\"\"One batch.\"\"\"
                # how many
                return num_reqs + max_query_len
        """,
        """
        class B(AttentionMetadataBuilder):
            def build(
                self,
                common_prefix_len: int,  # shared
                common_attn_metadata,
                fast_build: bool = False,
            ) -> object:
                \"\"\"One batch.\"\"\"
                # how many
                num_reqs = common_attn_metadata.num_reqs
                max_query_len = common_attn_metadata.max_query_len
                return num_reqs + max_query_len
        """,
        id="the sizes of 0.9.1 come out of the metadata",
    ),
]


@pytest.mark.parametrize(("before", "after"), BUILD)
def test_build(before: str, after: str) -> None:
    outcome = rewrite(HEAD + dedent(before), "0.10.0")
    assert outcome.text == HEAD + dedent(after)
    assert [finding.fixed for finding in outcome.said("V1M104")] == [True]


@pytest.mark.parametrize(
    "signature",
    [
        pytest.param("self, common_prefix_len, common_attn_metadata, fast_build=False", id="today's form"),
        pytest.param("self, *args, **kwargs", id="anything"),
        pytest.param(
            "self, common_prefix_len, common_attn_metadata, fast_build=False, mine=None", id="more than asked for"
        ),
    ],
)
def test_builds_that_fit(signature: str) -> None:
    text = HEAD + f"class B(AttentionMetadataBuilder):\n    def build({signature}): ...\n"
    assert rewrite(text, "0.10.0").said("V1M104") == []


def test_the_build_of_v0_is_left_to_a_person() -> None:
    text = HEAD + (
        "class B(AttentionMetadataBuilder):\n"
        "    def build(self, seq_lens, query_lens, cuda_graph_pad_size, batch_size): ...\n"
    )
    (found,) = rewrite(text, "0.10.0").said("V1M104")
    assert not found.fixed
    assert "common_attn_metadata" in found.message


def test_a_builder_made_from_a_runner_is_told_where_its_values_come_from() -> None:
    text = V1 + dedent(
        """
        class B(TorchSDPAMetadataBuilderV1):
            def __init__(self, runner, kv_cache_spec, block_table):
                super().__init__(runner, kv_cache_spec, block_table)
                self.runner = runner
                self.n = runner.max_num_reqs

            def size(self):
                return self.runner.seq_lens_np
        """
    )
    outcome = rewrite(text, "0.11.0")
    assert outcome.lines("V1M104") == [4, 5, 7, 10]
    words = {finding.line: f"{finding.message} {finding.advice}" for finding in outcome.said("V1M104")}
    assert "(kv_cache_spec, layer_names, vllm_config, device)" in words[4]
    assert "max_num_seqs" in words[7]
    assert "seq_lens" in words[10]


def test_a_builder_made_by_hand_is_checked() -> None:
    text = V1 + "b = TorchSDPAMetadataBuilderV1(spec, config, device)\nb.build(0, common)\n"
    assert rewrite(text, "0.10.0").said("V1M104") == []
    assert rewrite(text, "0.11.0").lines("V1M104") == [3]


def test_what_v1_never_calls_is_the_business_of_the_override_rule() -> None:
    text = V1 + "class B(TorchSDPAMetadataBuilderV1):\n    def reorder_batch(self, input_batch, output): ...\n"
    outcome = rewrite(text, "0.12.0")
    assert outcome.lines("V1M111") == [4]
    assert "reorder_batch_threshold" in outcome.said("V1M111")[0].advice
    assert rewrite(text, "0.10.0").said("V1M111") == []
