"""V1M105: CommonAttentionMetadata for the fields of each release."""

from __future__ import annotations

import ast

import pytest
from harness import dedent, rewrite
from v1_migrate.names.index import Index

HEAD = "from vllm.v1.attention.backends.utils import CommonAttentionMetadata\n"
TEN = (
    "query_start_loc=q, query_start_loc_cpu=qc, seq_lens=n, seq_lens_cpu=nc, num_computed_tokens_cpu=done, num_reqs=2, "
    "num_actual_tokens=9, max_query_len=8, block_table_tensor=t, slot_mapping=s"
)

REWRITTEN = [
    pytest.param(
        "0.11.0",
        f"c = CommonAttentionMetadata({TEN})\n",
        f"c = CommonAttentionMetadata({TEN}, max_seq_len=int(n.max()))\n",
        id="0.11.0 wants the longest sequence",
    ),
    pytest.param(
        "0.16.0",
        f"c = CommonAttentionMetadata({TEN})\n",
        "c = CommonAttentionMetadata(query_start_loc=q, query_start_loc_cpu=qc, seq_lens=n, _seq_lens_cpu=nc, "
        "_num_computed_tokens_cpu=done, num_reqs=2, num_actual_tokens=9, max_query_len=8, block_table_tensor=t, "
        "slot_mapping=s, max_seq_len=int(n.max()))\n",
        id="0.16.0 has the copies under private names",
    ),
    pytest.param(
        "0.32.0",
        f"c = CommonAttentionMetadata({TEN})\n",
        "c = CommonAttentionMetadata(query_start_loc=q, query_start_loc_cpu=qc, seq_lens=n, seq_lens_cpu_upper_bound=nc, "
        "num_reqs=2, num_actual_tokens=9, max_query_len=8, block_table_tensor=t, slot_mapping=s, "
        "max_seq_len=int(n.max()))\n",
        id="0.32.0 computes the tokens itself and takes the lengths as a bound",
    ),
    pytest.param(
        "0.10.0",
        """
        c = CommonAttentionMetadata(
            query_start_loc=self.q,
            seq_lens=n,
            num_reqs=2,
            num_actual_tokens=9,
            max_query_len=8,
            block_table_tensor=t,
            slot_mapping=s,  # int64
        )
        """,
        """
        c = CommonAttentionMetadata(
            query_start_loc=self.q,
            seq_lens=n,
            num_reqs=2,
            num_actual_tokens=9,
            max_query_len=8,
            block_table_tensor=t,
            slot_mapping=s,  # int64
            query_start_loc_cpu=self.q.cpu(),
            seq_lens_cpu=n.cpu(),
            num_computed_tokens_cpu=(n - self.q.diff()).cpu(),
        )
        """,
        id="copies are computed, one a line where the call has one a line",
    ),
]


@pytest.mark.parametrize(("target", "before", "after"), REWRITTEN)
def test_rewritten(target: str, before: str, after: str) -> None:
    outcome = rewrite(HEAD + dedent(before), target)
    assert outcome.text.partition("\n")[2] == dedent(after)


@pytest.mark.parametrize(("target", "before", "after"), REWRITTEN)
def test_the_result_fits_the_fields_of_the_target(target: str, before: str, after: str) -> None:
    del before
    call = next(node for node in ast.walk(ast.parse(dedent(after))) if isinstance(node, ast.Call))
    index = Index.load(user=False)
    params = index.params("vllm.v1.attention.backends.utils.CommonAttentionMetadata", target)
    assert params is not None
    given = {keyword.arg for keyword in call.keywords}
    assert given <= {param.name for param in params}
    assert {param.name for param in params if not param.default} <= given


REPORTED = [
    pytest.param(
        "c = CommonAttentionMetadata(q, n, 2, 9, 8)\n", "block_table_tensor", id="what 0.9.2 handed over on the side"
    ),
    pytest.param(
        "c = CommonAttentionMetadata(query_start_loc=f(), seq_lens=n, num_reqs=2, num_actual_tokens=9, max_query_len=8, "
        "block_table_tensor=t, slot_mapping=s)\n",
        "query_start_loc_cpu",
        id="an expression that must not be written twice",
    ),
    pytest.param(f"c = CommonAttentionMetadata({TEN}, mine=1)\n", "no field `mine`", id="a field that no release has"),
]


@pytest.mark.parametrize(("text", "words"), REPORTED)
def test_what_cannot_be_computed_is_said_and_left(text: str, words: str) -> None:
    outcome = rewrite(HEAD + text, "0.10.0")
    assert outcome.text == HEAD + text
    (found,) = outcome.said("V1M105")
    assert words in found.message
    assert not found.fixed


LEFT_ALONE = [
    pytest.param("0.10.0", HEAD + f"c = CommonAttentionMetadata({TEN})\n", id="what the target takes"),
    pytest.param("0.32.0", HEAD + "c = CommonAttentionMetadata(**fields)\n", id="fields that nobody can see"),
    pytest.param(
        "0.32.0", "from mine import CommonAttentionMetadata\nc = CommonAttentionMetadata(1)\n", id="a namesake"
    ),
]


@pytest.mark.parametrize(("target", "text"), LEFT_ALONE)
def test_left_alone(target: str, text: str) -> None:
    assert "V1M105" not in rewrite(text, target).rules


def test_a_literal_argument_gives_an_expression_that_parses() -> None:
    text = dedent(
        """
        from vllm.v1.attention.backends.utils import CommonAttentionMetadata

        c = CommonAttentionMetadata(query_start_loc=1, seq_lens=2, num_reqs=3, num_actual_tokens=4, max_query_len=5)
        """
    )
    for target in ("0.10.0", "0.11.0", "0.16.0", "0.32.0"):
        outcome = rewrite(text, target)
        assert "V1M901" not in outcome.rules
        compile(outcome.text, "m.py", "exec")


def test_a_field_under_its_old_and_its_new_name_is_left_to_a_person() -> None:
    text = HEAD + f"c = CommonAttentionMetadata({TEN}, _seq_lens_cpu=other)\n"
    outcome = rewrite(text, "0.16.0")
    assert "no field `seq_lens_cpu`" in outcome.said("V1M105")[0].message
    assert "seq_lens_cpu=nc" in outcome.text
    assert "_seq_lens_cpu=other" in outcome.text
