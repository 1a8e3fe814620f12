"""V1M116: members that kept their name and hold something else."""

from __future__ import annotations

import pytest
from harness import dedent, rewrite
from v1_migrate.findings import Severity

OLD, NEW = "vllm.attention", "vllm.model_executor.layers.attention.attention"
LAYER = "from {} import Attention\n\n\ndef f(layer: Attention, t, i):\n    {}\n"


@pytest.mark.parametrize("module", [OLD, NEW], ids=["before the import moves", "after it"])
@pytest.mark.parametrize(
    "line",
    [
        pytest.param("return layer.kv_cache[0]", id="an element"),
        pytest.param("return layer.kv_cache[i.virtual_engine]", id="that of an engine"),
        pytest.param("layer.kv_cache[0] = t", id="an element is set"),
        pytest.param("layer.kv_cache = [t]", id="a list is set"),
    ],
)
def test_a_cache_is_no_list_any_more(module: str, line: str) -> None:
    text = LAYER.format(module, line)
    (found,) = rewrite(text, "0.32.0").said("V1M116")
    assert (found.line, found.severity, found.open) == (5, Severity.WARNING, True)
    assert "is the cache itself, one tensor" in found.message
    assert rewrite(text, "0.16.0").said("V1M116") == []


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("return layer.kv_cache", id="the cache itself"),
        pytest.param("return layer.kv_cache[:, 0], layer.kv_cache[1:]", id="what a list of engines is not asked for"),
        pytest.param("return layer.other[0], t.kv_cache[0]", id="something else"),
        pytest.param("return layer.kv_cache[0] if isinstance(layer.kv_cache, list) else t", id="asked for first"),
    ],
)
def test_what_suits_a_tensor_is_left_alone(line: str) -> None:
    assert rewrite(LAYER.format(NEW, line), "0.32.0").said("V1M116") == []


def test_it_is_found_on_a_class_that_derives_from_it() -> None:
    text = (
        "from vllm.model_executor.layers.attention.cross_attention import CrossAttention\n\n\n"
        "def f(layer: CrossAttention):\n    return layer.kv_cache[0]\n"
    )
    assert rewrite(text, "0.32.0").lines("V1M116") == [5]


def test_it_is_found_on_self_and_on_attributes_of_self() -> None:
    text = dedent(
        """
        from vllm.attention import Attention


        class Mine(Attention):
            def f(self):
                return self.kv_cache[0]


        class Holder:
            def __init__(self):
                self.layer = Attention(8, 64, 1.0)

            def g(self):
                return self.layer.kv_cache[0]
        """
    )
    assert rewrite(text, "0.32.0").lines("V1M116") == [6, 14]


LORAS = "from vllm.entrypoints.openai.serving_models import OpenAIServingModels\n\n\ndef f(m: OpenAIServingModels):\n    {}\n"


@pytest.mark.parametrize(
    ("line", "count"),
    [
        pytest.param("for each in m.lora_requests: g(each)", 1, id="a loop"),
        pytest.param("return [each.lora_name for each in m.lora_requests]", 1, id="a comprehension"),
        pytest.param("return m.lora_requests[0]", 1, id="the first"),
        pytest.param("return m.lora_requests['a'], m.lora_requests.values()", 0, id="as of a dictionary"),
    ],
)
def test_a_list_that_became_a_dictionary(line: str, count: int) -> None:
    assert len(rewrite(LORAS.format(line), "0.32.0").said("V1M116")) == count


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        pytest.param('f"{AttentionType.DECODER}"', 1, id="an f-string"),
        pytest.param("str(AttentionType.DECODER)", 1, id="str"),
        pytest.param('"{}".format(AttentionType.DECODER)', 1, id="format"),
        pytest.param('"%s" % AttentionType.DECODER', 1, id="per cent"),
        pytest.param('f"{AttentionType.DECODER.value}", f"{AttentionType.DECODER!r}"', 0, id="its value, its own form"),
        pytest.param('AttentionType.DECODER == "decoder", g(AttentionType.DECODER)', 0, id="compared and handed on"),
    ],
)
def test_a_member_of_an_enumeration_in_a_text(expression: str, count: int) -> None:
    text = f"from vllm.attention import AttentionType\n\nx = {expression}\n"
    assert len(rewrite(text, "0.32.0").said("V1M116")) == count
    assert rewrite(text, "0.11.0").said("V1M116") == []
