"""V1M112 and V1M113: calls whose arguments the target does not take."""

from __future__ import annotations

import ast

import pytest
from harness import dedent, rewrite
from v1_migrate.findings import Safety, Severity
from v1_migrate.names.index import Index

ATTENTION = "from vllm.attention import Attention\n"
NEW_ATTENTION = "from vllm.model_executor.layers.attention.attention import Attention\n"
LLM = "from vllm import LLM, SamplingParams\n"

REWRITTEN = [
    pytest.param(
        "0.16.0",
        "from vllm.v1.outputs import ModelRunnerOutput as M\nM([], {}, [], spec_token_ids=[], logprobs=None)\n",
        "from vllm.v1.outputs import ModelRunnerOutput as M\nM([], {}, [], logprobs=None)\n",
        id="an empty list",
    ),
    pytest.param("0.10.0", LLM + 'LLM("m", device="cpu")\n', LLM + 'LLM("m")\n', id="a device that is the only one"),
    pytest.param(
        "0.32.0",
        LLM + 'LLM("m", num_lookahead_slots=0, use_v2_block_manager=True, swap_space=4)\n',
        LLM + 'LLM("m")\n',
        id="what was the default",
    ),
    pytest.param(
        "0.32.0",
        LLM + 'LLM("m", disable_async_output_proc=False, seed=1, preemption_mode=None)\n',
        LLM + 'LLM("m", seed=1)\n',
        id="None and False, before and behind what stays",
    ),
    pytest.param(
        "0.32.0",
        LLM + 'LLM("m", "tok", "auto")\n',
        LLM + 'LLM("m", tokenizer="tok", tokenizer_mode="auto")\n',
        id="positional arguments of a constructor that takes one",
    ),
    pytest.param(
        "0.32.0",
        LLM + 'LLM("m", worker_use_ray=True)\n',
        LLM + 'LLM("m", distributed_executor_backend="ray")\n',
        id="Ray, by its name before 0.8.5",
    ),
    pytest.param("0.32.0", LLM + 'LLM("m", worker_use_ray=False)\n', LLM + 'LLM("m")\n', id="no Ray"),
    pytest.param(
        "0.32.0", LLM + 'LLM("m", task="embed")\n', LLM + 'LLM("m", runner="pooling", convert="embed")\n', id="a task"
    ),
    pytest.param(
        "0.10.0", LLM + 'LLM("m", task="embed")\n', LLM + 'LLM("m", task="embed")\n', id="a task that is still taken"
    ),
    pytest.param(
        "0.32.0",
        LLM + 'LLM("m", guided_decoding_backend="xgrammar")\n',
        LLM + 'LLM("m", structured_outputs_config={"backend": "xgrammar"})\n',
        id="a backend for structured outputs",
    ),
    pytest.param(
        "0.32.0",
        LLM + "SamplingParams(n=2, guided_decoding=g, best_of=None)\n",
        LLM + "SamplingParams(n=2, structured_outputs=g)\n",
        id="guided decoding has another name",
    ),
    pytest.param(
        "0.11.0",
        LLM + "SamplingParams(use_beam_search=False, guided_decoding=g)\n",
        LLM + "SamplingParams(guided_decoding=g)\n",
        id="a keyword older than the index, and one that the target still takes",
    ),
    pytest.param(
        "0.32.0",
        ATTENTION + "Attention(8, 64, 0.1, 8, None, None, None, None, 30.0)\n",
        NEW_ATTENTION + "Attention(8, 64, 0.1, 8, None, cache_config=None, quant_config=None, logits_soft_cap=30.0)\n",
        id="what stands behind a parameter that left the middle is named",
    ),
    pytest.param(
        "0.10.0",
        ATTENTION + "Attention(8, 64, 0.1, blocksparse_params=None, prefix='a')\n",
        ATTENTION + "Attention(8, 64, 0.1, prefix='a')\n",
        id="the same by keyword",
    ),
    pytest.param(
        "0.11.0",
        ATTENTION + "Attention(8, 64, 0.1, use_irope=False)\n",
        ATTENTION + "Attention(8, 64, 0.1)\n",
        id="a keyword that would reach the implementation",
    ),
    pytest.param(
        "0.32.0",
        LLM + "llm = LLM('m')\nllm.generate(p, prompt_adapter_request=None)\n",
        LLM + "llm = LLM('m')\nllm.generate(p)\n",
        id="a method of an object made here",
    ),
    pytest.param(
        "0.32.0",
        LLM + "def f(llm: LLM):\n    llm.encode(p, prompt_token_ids=None, use_tqdm=False)\n",
        LLM + "def f(llm: LLM):\n    llm.encode(p, use_tqdm=False)\n",
        id="a method of an annotated object",
    ),
    pytest.param(
        "0.32.0",
        LLM
        + dedent(
            """
            llm = LLM(
                model="m",
                # the cores of one socket
                device="cpu",  # no other
                swap_space=0,
                seed=1,  # fixed
            )
            """
        ),
        LLM
        + dedent(
            """
            llm = LLM(
                model="m",
                # the cores of one socket
                seed=1,  # fixed
            )
            """
        ),
        id="one argument a line, with comments",
    ),
    pytest.param(
        "0.32.0",
        LLM + "llm = LLM(model='m', seed=1,\n          device='cpu',  # here\n          )\n",
        LLM + "llm = LLM(model='m', seed=1,\n          )\n",
        id="the last argument, on a line of its own",
    ),
    pytest.param(
        "0.32.0", LLM + "LLM('m', device=('cpu'), )\n", LLM + "LLM('m', )\n", id="brackets and a trailing comma"
    ),
]


@pytest.mark.parametrize(("target", "before", "after"), REWRITTEN)
def test_rewritten(target: str, before: str, after: str) -> None:
    outcome = rewrite(before, target)
    assert outcome.text == after
    assert "V1M113" not in outcome.rules


@pytest.mark.parametrize(("target", "before", "after"), REWRITTEN)
def test_no_keyword_is_left_that_the_target_lacks(target: str, before: str, after: str) -> None:
    del before
    index = Index.load(user=False)
    names = {"LLM": ["vllm.LLM", "vllm.EngineArgs"], "SamplingParams": ["vllm.SamplingParams"]}
    for node in ast.walk(ast.parse(after)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            known = {p.name for name in names[node.func.id] for p in index.params(name, target) or ()}
            assert {keyword.arg for keyword in node.keywords} <= known


def test_what_is_dropped_runs_on_v0_too_and_what_is_translated_does_not() -> None:
    dropped = rewrite(LLM + "LLM('m', device='cpu')\n").said("V1M112")
    assert [finding.safety for finding in dropped] == [Safety.BRIDGE]
    translated = rewrite(LLM + "SamplingParams(guided_decoding=g)\n").said("V1M112")
    assert [finding.safety for finding in translated] == [Safety.V1]


CARRIED = [
    pytest.param(
        "from vllm.config import CompilationConfig\nCompilationConfig(use_cudagraph=False)\n",
        "use_cudagraph",
        id="False against a default of a class of the configuration",
    ),
    pytest.param(
        LLM + "LLM('m', disable_async_output_proc=True)\n", "disable_async_output_proc", id="a switch that was set"
    ),
    pytest.param(LLM + "LLM('m', swap_space=16)\n", "swap_space", id="a number"),
    pytest.param(LLM + "LLM('m', device=where)\n", "device", id="a variable"),
    pytest.param(
        LLM + "LLM('m', max_seq_len_to_capture=4096)\n",
        "max_seq_len_to_capture",
        id="through to the engine's arguments",
    ),
    pytest.param(LLM + "SamplingParams(logits_processors=[f])\n", "logits_processors", id="processors per request"),
    pytest.param(LLM + "SamplingParams(best_of=3)\n", "best_of", id="the best of several"),
    pytest.param(
        LLM + "LLM('m', multi_step_stream_outputs=False)\n",
        "multi_step_stream_outputs",
        id="False against a default of True",
    ),
    pytest.param(
        LLM + "LLM('m').generate(p, prompt_token_ids=[[1]])\n", "prompt_token_ids", id="a method of a fresh object"
    ),
    pytest.param(
        LLM + "from vllm import EngineArgs\nEngineArgs(guided_decoding_backend='xgrammar')\n",
        "guided_decoding_backend",
        id="EngineArgs makes no configuration of a dictionary",
    ),
]


@pytest.mark.parametrize(("text", "name"), CARRIED)
def test_what_carried_a_value_is_reported_and_stays(text: str, name: str) -> None:
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    (found,) = outcome.findings
    assert found.rule in ("V1M112", "V1M204")
    assert name in found.message
    assert found.safety is Safety.MANUAL
    assert "release notes" not in found.advice


ONCE = [
    pytest.param("SamplingParams(best_of=3)\n", {"V1M204"}, set(), id="an argument that chose V0"),
    pytest.param("SamplingParams(best_of=3)\n", {"V1M112"}, {"V1M204"}, id="the same without the rule for it"),
    pytest.param("LLM('m').generate(prompt_token_ids=[[1]])\n", {"V1M112"}, set(), id="a parameter under a new name"),
    pytest.param("LLM('m').generate(prompt_token_ids=[[1]])\n", {"V1M113"}, {"V1M112"}, id="the call as a whole"),
]


@pytest.mark.parametrize(("text", "rules", "ignored"), ONCE)
def test_one_mistake_is_said_once(text: str, rules: set[str], ignored: set[str]) -> None:
    assert [finding.rule for finding in rewrite(LLM + text, ignore=frozenset(ignored)).findings] == list(rules)


def test_what_is_missing_is_said_with_what_was_passed_instead() -> None:
    (found,) = rewrite(LLM + "LLM('m').generate(prompt_token_ids=[[1]])\n").findings
    assert "`prompt_token_ids`" in found.message
    assert "`prompts` is missing" in found.message


@pytest.mark.parametrize("rules", [set(), {"V1M204"}], ids=["with every rule", "by the rule for arguments"])
def test_best_of_is_explained(rules: set[str]) -> None:
    (found,) = rewrite(LLM + "SamplingParams(best_of=3)\n", ignore=frozenset(rules)).findings
    assert "cumulative_logprob" in found.advice


REFUSED = [
    pytest.param("0.32.0", LLM + "LLM('m', mine=1)\n", "no keyword `mine`", id="a keyword that no release knows"),
    pytest.param(
        "0.11.0",
        "from vllm.v1.outputs import ModelRunnerOutput\n"
        "ModelRunnerOutput(req_ids=[], req_id_to_index={}, sampled_token_ids=[], spec_token_ids=None, logprobs=None, "
        "prompt_logprobs_dict={})\n",
        "missing `pooler_output`",
        id="a field that is required now",
    ),
]


@pytest.mark.parametrize(("target", "text", "words"), REFUSED)
def test_refused(target: str, text: str, words: str) -> None:
    (found,) = rewrite(text, target).said("V1M113")
    assert words in found.message
    assert "parameters there" in found.advice


LEFT_ALONE = [
    pytest.param(LLM + "LLM('m', seed=1, max_model_len=4096, enforce_eager=True)\n", id="what the target takes"),
    pytest.param(LLM + "LLM('m', **options)\nLLM(*arguments)\n", id="arguments nobody can see"),
    pytest.param("from mine import LLM\nimport vllm\nLLM('m', device='cpu')\n", id="a namesake"),
    pytest.param(
        "import vllm\nfrom vllm import LLM\nif vllm.__version__ < '0.10':\n    LLM('m', device='cpu')\n",
        id="for one release only",
    ),
    pytest.param(
        "try:\n    from vllm import LLM\nexcept ImportError:\n    from mine import LLM\nLLM('m', device='cpu')\n",
        id="a name with two meanings",
    ),
    pytest.param(LLM + "LLM.generate(llm, p, prompt_token_ids=None)\n", id="a method called with its object by hand"),
    pytest.param(
        "from vllm.logger import init_logger\nlogger = init_logger(__name__)\nlogger.info('a', 'b', 'c')\n",
        id="open-ended calls",
    ),
]


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_left_alone(text: str) -> None:
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    assert not {"V1M112", "V1M113"} & outcome.rules


def test_an_argument_handed_on_to_a_base_goes_from_the_call_and_leaves_the_middle_of_the_list() -> None:
    text = dedent(
        """
        from vllm.attention.backends.abstract import AttentionImpl

        class Impl(AttentionImpl):
            def __init__(self, num_heads, head_size, scale, num_kv_heads, alibi_slopes, sliding_window, kv_cache_dtype,
                         blocksparse_params=None, logits_soft_cap=None, attn_type="decoder",
                         kv_sharing_target_layer_name=None):
                super().__init__(num_heads, head_size, scale, num_kv_heads, alibi_slopes, sliding_window,
                                 kv_cache_dtype, blocksparse_params, logits_soft_cap)
        """
    )
    after = rewrite(text, "0.10.0").text
    assert "kv_cache_dtype, logits_soft_cap=logits_soft_cap)" in after
    function = next(node for node in ast.walk(ast.parse(after)) if isinstance(node, ast.FunctionDef))
    names = [argument.arg for argument in function.args.args]
    assert names[8:] == ["logits_soft_cap", "attn_type", "kv_sharing_target_layer_name", "blocksparse_params"]


def test_a_class_that_users_make_may_be_given_what_it_hands_on() -> None:
    text = dedent(
        """
        from vllm.model_executor.models.qwen2 import Qwen2Attention

        class Mine(Qwen2Attention):
            def __init__(self, hidden_size, rope_scaling=None):
                super().__init__(hidden_size=hidden_size, rope_scaling=rope_scaling)
        """
    )
    assert rewrite(text, "0.16.0").text == text


def test_an_argument_that_may_hold_something_is_not_taken_from_the_call() -> None:
    text = dedent(
        """
        from vllm.attention.backends.abstract import AttentionImpl

        class Impl(AttentionImpl):
            def __init__(self, scale, blocksparse_params=None):
                blocksparse_params = blocksparse_params or {"a": 1}
                super().__init__(1, 2, scale, blocksparse_params=blocksparse_params)
        """
    )
    outcome = rewrite(text, "0.10.0")
    assert "blocksparse_params=blocksparse_params)" in outcome.text
    assert outcome.lines("V1M112") == [6]


@pytest.mark.parametrize(
    ("keyword", "says"),
    [
        pytest.param("use_cudagraph=True", "`cudagraph_mode`", id="told as of the field"),
        pytest.param("use_inductor=False", "`backend`", id="and of another"),
    ],
)
def test_a_keyword_without_a_row_is_told_as_its_field_is(keyword: str, says: str) -> None:
    (found,) = rewrite(f"from vllm.config import CompilationConfig\nc = CompilationConfig({keyword})\n").said("V1M112")
    assert says in found.advice


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("worker_use_ray=ray", id="a value that is not written there"),
        pytest.param('worker_use_ray=True, distributed_executor_backend="mp"', id="two that disagree"),
    ],
)
def test_ray_is_asked_for_by_hand_where_the_value_is_not_plain(arguments: str) -> None:
    text = f"from vllm import EngineArgs\nx = EngineArgs('m', {arguments})\n"
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    (found,) = outcome.said("V1M112")
    assert 'distributed_executor_backend="ray"' in found.advice


def test_a_call_that_lacks_an_argument_is_reported_and_not_edited_halfway() -> None:
    text = "from vllm import _custom_ops as ops\n\nops.swap_blocks(a, b, m)\n"
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    assert outcome.said("V1M112") == []
    (found,) = outcome.said("V1M113")
    assert "missing `block_size_in_bytes`, where what is meant for `block_mapping` stands" in found.message


@pytest.mark.parametrize(
    ("call", "words"),
    [
        pytest.param(
            "EngineArgs(modell=1)",
            "`EngineArgs` has 256 parameters there; none is required; called alike: `model",
            id="a long list",
        ),
        pytest.param(
            "LLMEngine(nothing=1)", "The parameters there: `LLMEngine(vllm_config, executor_class", id="a short list"
        ),
    ],
)
def test_the_parameters_that_matter_are_named(call: str, words: str) -> None:
    (found,) = rewrite(f"from vllm import EngineArgs, LLMEngine\n\n{call}\n", "0.32.0").said("V1M113")
    assert words in found.advice
    assert len(found.advice) < 300


def test_what_was_required_is_not_to_be_left_out() -> None:
    text = "from vllm.v1.worker.block_table import MultiGroupBlockTable\n\nMultiGroupBlockTable(max_model_len=n)\n"
    (found,) = rewrite(text, "0.32.0").said("V1M112")
    assert "It was required before" in found.advice
    assert "`slot_mapping_modes`" in found.advice


REQUEST = (
    "from vllm.v1.engine import EngineCoreRequest\n\nx = EngineCoreRequest(request_id='0', prompt_token_ids=[1], "
    "mm_inputs=None, mm_hashes=None, mm_placeholders=None, sampling_params=p, pooling_params=None, "
    "eos_token_id=None, arrival_time=0, lora_request=None, cache_salt=None, data_parallel_rank=None)\n"
)
HELD = [
    pytest.param(REQUEST, "missing `mm_features`); vLLM 0.10.0 takes it", id="that a release took"),
    pytest.param(
        REQUEST.replace(", data_parallel_rank=None", ""),
        "missing `mm_features`, `data_parallel_rank`); no earlier release we know takes it either",
        id="that no release took",
    ),
]


@pytest.mark.parametrize(("text", "words"), HELD)
def test_a_call_that_stays_refused_is_not_edited_and_is_said_in_one_finding(text: str, words: str) -> None:
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    (found,) = outcome.findings
    assert (found.rule, found.severity) == ("V1M113", Severity.ERROR)
    assert (
        "`mm_inputs`, `mm_hashes`, `mm_placeholders`, `eos_token_id` are gone and asked for nothing here"
        in found.message
    )
    assert words in found.message


def test_without_the_rule_for_refused_calls_the_other_says_why_it_does_not_edit() -> None:
    outcome = rewrite(REQUEST, "0.32.0", ignore=frozenset({"V1M113"}))
    assert outcome.text == REQUEST
    (found,) = outcome.findings
    assert found.advice.startswith("Not edited: the call is refused all the same")
    assert found.safety is Safety.MANUAL


def test_what_is_edited_may_give_the_target_what_it_requires() -> None:
    text = "from vllm.multimodal.inputs import MultiModalSharedField\nx = MultiModalSharedField(4)\n"
    outcome = rewrite(text, "0.32.0")
    assert "MultiModalSharedField(batch_size=4)" in outcome.text
    assert outcome.open == []


@pytest.mark.parametrize("call", ["LLM('m', mine=1)", "LLM('m', mine=1, device='cpu')"])
def test_a_refused_call_is_an_error_whoever_wrote_it(call: str) -> None:
    (found,) = rewrite(f"{LLM}{call}\n").said("V1M113")
    assert found.severity is Severity.ERROR


@pytest.mark.parametrize("module", ["serving_models", "models.serving"], ids=["before the import moves", "after it"])
def test_a_keyword_is_known_under_the_older_name_of_its_callee(module: str) -> None:
    text = (
        f"from vllm.entrypoints.openai.{module} import OpenAIServingModels\n"
        "x = OpenAIServingModels(base_model_paths=b, model_config=c)\n"
    )
    outcome = rewrite(text, "0.32.0")
    assert outcome.said("V1M113") == []
    (found,) = outcome.said("V1M112")
    assert "does not take `model_config`" in found.message
    assert found.advice.startswith("It was required before")
