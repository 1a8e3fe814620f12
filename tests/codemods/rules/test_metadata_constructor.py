"""V1M101: metadata built by hand, for the fields of the target's class or of v1_cpu's."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from harness import dedent, rewrite
from v1_migrate.rules.metadata_family import V1_CPU_FIELDS

HEAD = "from vllm.attention.backends.torch_sdpa import TorchSDPAMetadata\n"
V1_CPU = "from v1_cpu import TorchSDPAMetadata\n"
IN_0_11 = "from vllm.v1.attention.backends.cpu_attn import TorchSDPAMetadata\n"
COUNTS = "num_prefills=1, num_prefill_tokens=8, num_decode_tokens=0, slot_mapping=s"
DECODES = "seq_lens_tensor=None, max_decode_seq_len=0, block_tables=t, chunked_prefill=False"

FOR_V1_CPU = [
    pytest.param(
        f"m = TorchSDPAMetadata({COUNTS}, multi_modal_placeholder_index_maps=None)\n",
        f"m = TorchSDPAMetadata({COUNTS}, multi_modal_placeholder_index_maps=None)\n",
        id="fields that v1_cpu still takes stay, and the import moves",
    ),
    pytest.param(
        "m = TorchSDPAMetadata(lens, 3, t, 1, 8, 0, s, None, False, True, [8])\n",
        "m = TorchSDPAMetadata(seq_lens_tensor=lens, max_decode_seq_len=3, block_tables=t, num_prefills=1, "
        "num_prefill_tokens=8, num_decode_tokens=0, slot_mapping=s, multi_modal_placeholder_index_maps=None, "
        "enable_kv_scales_calculation=False, chunked_prefill=True, seq_lens=[8])\n",
        id="positional arguments get the names they had in V0's order",
    ),
    pytest.param(
        f"m = TorchSDPAMetadata(is_prompt=True, prompt_lens=[8], {COUNTS})\n",
        f"m = TorchSDPAMetadata(seq_lens=[8], {COUNTS})\n",
        id="is_prompt goes where the counts say the same, and prompt_lens has today's name",
    ),
    pytest.param(
        "m = TorchSDPAMetadata(is_prompt=True, seq_lens=lens, slot_mapping=s)\n",
        "m = TorchSDPAMetadata(seq_lens=lens, slot_mapping=s, num_prefills=len(lens), num_prefill_tokens=sum(lens), "
        "num_decode_tokens=0)\n",
        id="the counts are computed from the lengths where is_prompt stood alone",
    ),
    pytest.param(
        "m = TorchSDPAMetadata(is_prompt=False, context_lens=n, max_context_len=9, block_tables=t, slot_mapping=s)\n",
        "m = TorchSDPAMetadata(seq_lens_tensor=n, max_decode_seq_len=9, block_tables=t, slot_mapping=s, num_prefills=0, "
        "num_prefill_tokens=0, num_decode_tokens=len(n))\n",
        id="a decode batch of an older release",
    ),
    pytest.param(
        f"m = TorchSDPAMetadata({COUNTS}, query_start_loc=starts, kv_start_loc=k)\n",
        f"m = TorchSDPAMetadata({COUNTS}, prefill_query_start_loc=starts, kv_start_loc=k)\n",
        id="the start locations of 0.8.5 are those of the prefills",
    ),
    pytest.param(
        f"m = TorchSDPAMetadata({COUNTS}, prefill_query_start_loc=a, query_start_loc=b)\n",
        f"m = TorchSDPAMetadata({COUNTS}, prefill_query_start_loc=a, query_start_loc=b)\n",
        id="both start locations of 0.9 stay as they are",
    ),
    pytest.param(
        f"m = TorchSDPAMetadata({COUNTS}, decode_seq_lens_tensor=n, decode_block_tables=t, prefill_max_seq_len=8)\n",
        f"m = TorchSDPAMetadata({COUNTS}, seq_lens_tensor=n, block_tables=t, max_kv_len=8)\n",
        id="names that lived between two releases only",
    ),
    pytest.param(
        f"""
        m = TorchSDPAMetadata(
            {COUNTS},  # counts
            use_cuda_graph=False,  # never on a CPU
            seq_lens=[8],  # lengths
        )
        """,
        f"""
        m = TorchSDPAMetadata(
            {COUNTS},  # counts
            seq_lens=[8],  # lengths
        )
        """,
        id="a dropped line takes its comment along and leaves the others",
    ),
]


@pytest.mark.parametrize(("before", "after"), FOR_V1_CPU)
def test_for_v1_cpu(before: str, after: str) -> None:
    outcome = rewrite(HEAD + dedent(before), attention="v1_cpu")
    assert outcome.text == V1_CPU + dedent(after)
    assert all(finding.fixed for finding in outcome.said("V1M101"))


@pytest.mark.parametrize(("before", "after"), FOR_V1_CPU)
def test_the_result_only_gives_fields_that_v1_cpu_has(before: str, after: str) -> None:
    del before
    call = next(node for node in ast.walk(ast.parse(dedent(after))) if isinstance(node, ast.Call))
    assert {keyword.arg for keyword in call.keywords} <= set(V1_CPU_FIELDS)


FOR_VLLM = [
    pytest.param(
        "0.10.0",
        f"m = TorchSDPAMetadata({COUNTS}, {DECODES})\n",
        f"m = TorchSDPAMetadata({COUNTS}, {DECODES}, multi_modal_placeholder_index_maps=None, "
        "enable_kv_scales_calculation=False)\n",
        id="0.10.0 still requires two fields that mean nothing on a CPU",
    ),
    pytest.param(
        "0.11.0",
        f"m = TorchSDPAMetadata({COUNTS}, {DECODES}, multi_modal_placeholder_index_maps=None, "
        "enable_kv_scales_calculation=False)\n",
        f"m = TorchSDPAMetadata({COUNTS}, {DECODES})\n",
        id="0.11.0 does not take them any more",
    ),
    pytest.param(
        "0.11.0",
        "m = TorchSDPAMetadata(lens, 3, t, 1, 8, 0, s, None, False, True)\n",
        "m = TorchSDPAMetadata(seq_lens_tensor=lens, max_decode_seq_len=3, block_tables=t, num_prefills=1, "
        "num_prefill_tokens=8, num_decode_tokens=0, slot_mapping=s, chunked_prefill=True)\n",
        id="positional arguments that asked for nothing go on the way",
    ),
]


@pytest.mark.parametrize(("target", "before", "after"), FOR_VLLM)
def test_for_vllm(target: str, before: str, after: str) -> None:
    outcome = rewrite(HEAD + before, target)
    assert outcome.text == IN_0_11 + after


REPORTED = [
    pytest.param("0.11.0", "m = TorchSDPAMetadata(*fields)\n", "not written out", id="arguments nobody can see"),
    pytest.param(
        "0.11.0",
        f"m = TorchSDPAMetadata({COUNTS})\n",
        "`seq_lens_tensor` is not given",
        id="a required field is missing",
    ),
    pytest.param(
        "0.11.0",
        f"m = TorchSDPAMetadata({COUNTS}, {DECODES}, enable_kv_scales_calculation=True)\n",
        "no field `enable_kv_scales_calculation`",
        id="a field that carried a value",
    ),
    pytest.param(
        "0.32.0",
        f"m = TorchSDPAMetadata({COUNTS}, {DECODES})\n",
        "none of these fields",
        id="the class of 0.11.1 and later",
    ),
    pytest.param(
        "0.11.0",
        "m = TorchSDPAMetadata(a, b, c, d, e, f, g, None, False, True, h, i, j, k, l)\n",
        "whose meaning depends on the release",
        id="as many positional arguments as two releases read differently",
    ),
]


@pytest.mark.parametrize(("target", "text", "words"), REPORTED)
def test_what_cannot_be_rewritten_is_said_and_left(target: str, text: str, words: str) -> None:
    outcome = rewrite(HEAD + text, target)
    assert outcome.text == HEAD + text
    found = [finding for finding in outcome.said("V1M101") if words in finding.message]
    assert len(found) == 1
    assert not found[0].fixed
    assert found[0].advice


def test_the_class_of_today_is_explained_with_the_formula() -> None:
    outcome = rewrite(HEAD + f"m = TorchSDPAMetadata({COUNTS}, {DECODES})\n", "0.32.0")
    advice = outcome.said("V1M101")[0].advice
    assert "CommonAttentionMetadata(" in advice
    assert "num_actual_tokens=num_prefill_tokens + num_decode_tokens" in advice


def test_one_call_that_cannot_be_settled_keeps_the_import() -> None:
    text = HEAD + f"m = TorchSDPAMetadata({COUNTS}, {DECODES})\nn = TorchSDPAMetadata(**fields)\n"
    assert rewrite(text, "0.11.0").text.startswith(HEAD)


MAKE = "from vllm.attention.backends.torch_sdpa import TorchSDPABackend\n\n"


def test_make_metadata_becomes_a_call_of_the_class() -> None:
    outcome = rewrite(MAKE + f"m = TorchSDPABackend.make_metadata({COUNTS}, is_prompt=True)\n", attention="v1_cpu")
    expected = f"from v1_cpu import TorchSDPABackend\n\nm = TorchSDPABackend.get_metadata_cls()({COUNTS})\n"
    assert outcome.text == expected


def test_make_metadata_stays_where_the_target_has_it() -> None:
    outcome = rewrite(MAKE + f"m = TorchSDPABackend.make_metadata({COUNTS}, {DECODES})\n", "0.11.0")
    assert f"TorchSDPABackend.make_metadata({COUNTS}, {DECODES})" in outcome.text


def test_make_metadata_of_some_backend_is_reported_where_no_backend_has_it() -> None:
    text = dedent(
        """
        from vllm.config import VllmConfig

        class Runner:
            def prepare(self):
                return self.attn_backend.make_metadata(num_prefills=1), self.factory.make_metadata(1)
        """
    )
    outcome = rewrite(text, "0.32.0")
    assert outcome.lines("V1M101") == [5]
    assert rewrite(text, "0.10.0").lines("V1M101") == []


LEFT_ALONE = [
    pytest.param(
        "from mine import TorchSDPAMetadata\nm = TorchSDPAMetadata(1, is_prompt=True)\n", id="a class of one's own"
    ),
    pytest.param(
        "from vllm.attention.backends.flash_attn import FlashAttentionMetadata\nm = FlashAttentionMetadata(1, 2)\n",
        id="the metadata of another device",
    ),
    pytest.param(
        "import vllm\nif vllm.__version__ < '0.10':\n"
        "    from vllm.attention.backends.torch_sdpa import TorchSDPAMetadata\n    m = TorchSDPAMetadata(1, 2, 3)\n",
        id="code for one release only",
    ),
    pytest.param(
        "from vllm.v1.attention.backends.cpu_attn import CPUAttentionMetadata as M\n"
        "m = M(num_actual_tokens=1, max_query_len=1, query_start_loc=q, max_seq_len=1, seq_lens=n, block_table=t, "
        "slot_mapping=s, scheduler_metadata=None)\n",
        id="what the target takes",
    ),
]


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_left_alone(text: str) -> None:
    outcome = rewrite(text, "0.32.0")
    assert "V1M101" not in outcome.rules


def test_the_field_that_left_the_class_of_today_is_reported_and_dropped_on_demand() -> None:
    text = (
        "from vllm.v1.attention.backends.cpu_attn import CPUAttentionMetadata\n"
        "m = CPUAttentionMetadata(isa='vec', num_actual_tokens=1, max_query_len=1, query_start_loc=q, max_seq_len=1, "
        "seq_lens=n, block_table=t, slot_mapping=s, scheduler_metadata=None)\n"
    )
    assert "no field `isa`" in rewrite(text, "0.32.0").said("V1M101")[0].message
    assert "isa=" not in rewrite(text, "0.32.0", unsafe=True).text
    assert "V1M101" not in rewrite(text, "0.16.0").rules


def test_a_suppressed_call_keeps_its_arguments() -> None:
    text = HEAD + f"m = TorchSDPAMetadata(is_prompt=True, {COUNTS})  # v1: ignore[V1M101] kept\n"
    outcome = rewrite(text, attention="v1_cpu")
    assert f"TorchSDPAMetadata(is_prompt=True, {COUNTS})" in outcome.text


def test_the_list_of_fields_is_that_of_the_class() -> None:
    source = Path(__file__).parents[3] / "v1_cpu" / "backend.py"
    if not source.exists():
        pytest.skip("v1_cpu.backend is not there")
    tree = ast.parse(source.read_text())
    found = next(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == "TorchSDPAMetadata")
    fields = [s.target.id for s in found.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
    assert sorted(V1_CPU_FIELDS) == sorted(name for name in fields if not name.startswith("_"))
