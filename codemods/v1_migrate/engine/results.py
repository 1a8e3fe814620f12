"""What well-known methods and attributes of vLLM's front end give: classes that no file has to name."""

from __future__ import annotations

_OUTPUT = "vllm.outputs.RequestOutput"
_PARAMS = "vllm.sampling_params.SamplingParams"

# Method of a class, by its last name -> the class of the elements of what it returns, or gives one by one.
_ELEMENTS = {
    ("LLM", "generate"): _OUTPUT,
    ("LLM", "chat"): _OUTPUT,
    ("LLMEngine", "step"): _OUTPUT,
    ("AsyncLLMEngine", "generate"): _OUTPUT,
    ("AsyncLLM", "generate"): _OUTPUT,
    ("EngineClient", "generate"): _OUTPUT,
}
_RETURNED = {
    ("LLM", "get_default_sampling_params"): _PARAMS,
    ("SamplingParams", "clone"): _PARAMS,
    ("ChatCompletionRequest", "to_sampling_params"): _PARAMS,
    ("CompletionRequest", "to_sampling_params"): _PARAMS,
}
_MEMBERS = {("RequestOutput", "metrics"): "vllm.sequence.RequestMetrics"}


def element_class(owner: str, method: str) -> str:
    """The class of the elements of what a method returns; "" where nobody says."""
    return _ELEMENTS.get((owner.rpartition(".")[2], method), "")


def returned_class(owner: str, method: str) -> str:
    """The class of what a method returns."""
    return _RETURNED.get((owner.rpartition(".")[2], method), "")


def member_class(owner: str, attribute: str) -> str:
    """The class that an attribute had in V0."""
    return _MEMBERS.get((owner.rpartition(".")[2], attribute), "")
