"""Fields of requests to vLLM's OpenAI server that a release lost, and what to send instead.

The server takes any field and looks at those that its classes declare: what is lost is ignored, and the answer comes
all the same.
"""

from __future__ import annotations

from functools import cache

from .index import Index

_CLASSES = ("ChatCompletionRequest", "CompletionRequest")
_CONSTRAINT = (
    'Send `"structured_outputs": {{"{key}": ...}}`, with `extra_body` of OpenAI\'s client, or a `response_format`: '
    "without it the answer is not constrained."
)
ADVICE = {
    **{f"guided_{key}": _CONSTRAINT.format(key=key) for key in ("json", "regex", "choice", "grammar")},
    "guided_whitespace_pattern": (
        'Send it as `"structured_outputs": {"whitespace_pattern": ...}`, beside the constraint.'
    ),
    "guided_decoding_backend": (
        "The server chooses: `vllm serve --structured-outputs-config.backend ...`. A request has no say in it."
    ),
    "structural_tag": 'Send `"structured_outputs": {"structural_tag": ...}`, or `"response_format"` of that type.',
    "best_of": "Send `n` and keep the best by `logprobs`: as many answers as `n` says come back, unranked.",
    "logits_processors": (
        "Give classes to the server (`vllm serve --logits-processors ...`), which read what a request sends them in "
        "`vllm_xargs`."
    ),
}
OF_VLLM_ALONE = frozenset(name for name in ADVICE if name.startswith("guided_")) - {"guided_decoding_backend"}
"""No other server has a field of this name, and no engine an argument."""


@cache
def lost_fields(index: Index, target: str) -> frozenset[str]:
    """Those of these fields that neither request of the target declares."""
    found = (
        set(index.fields(f"{module}.{name}", target))
        for name in _CLASSES
        for module in {place.rpartition(".")[0] for place in index.definitions(name, target)}
    )
    declared: set[str] = set().union(*found)
    return frozenset(ADVICE.keys() - declared) if declared else frozenset()
