"""V1M114: methods that vLLM runs in inference mode, replaced by ones that do not."""

from __future__ import annotations

import pytest
from harness import dedent, rewrite

HEAD = "import torch\nfrom vllm.v1.worker.gpu_worker import Worker\n\n\n"

SAID = [
    pytest.param(
        "class W(Worker):\n    def determine_available_memory(self):\n        return self.probe()\n",
        6,
        id="an override",
    ),
    pytest.param("def probe(self):\n    return 1\n\n\nWorker.determine_available_memory = probe\n", 9, id="a patch"),
]


@pytest.mark.parametrize(("text", "line"), SAID)
def test_said(text: str, line: int) -> None:
    outcome = rewrite(HEAD + text, "0.32.0")
    assert outcome.lines("V1M114") == [line]
    assert not outcome.said("V1M114")[0].open


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """
            class W(Worker):
                @torch.inference_mode()
                def determine_available_memory(self):
                    return self.probe()
            """,
            id="it has the decorator",
        ),
        pytest.param(
            """
            class W(Worker):
                def determine_available_memory(self):
                    return super().determine_available_memory() // 2
            """,
            id="it calls the original",
        ),
        pytest.param(
            """
            class W(Worker):
                def determine_available_memory(self):
                    with torch.no_grad():
                        return self.probe()
            """,
            id="it sets a mode inside",
        ),
        pytest.param(
            """
            original_determine_available_memory = Worker.determine_available_memory

            def probe(self):
                return original_determine_available_memory(self)

            Worker.determine_available_memory = probe
            """,
            id="the patch calls what it replaced",
        ),
        pytest.param(
            """
            class W(Worker):
                def get_model(self):
                    return self.model
            """,
            id="a method without a decorator",
        ),
    ],
)
def test_left_alone(text: str) -> None:
    assert "V1M114" not in rewrite(HEAD + dedent(text), "0.32.0").rules


def test_a_cpu_worker_that_only_counts_bytes_is_no_case() -> None:
    text = (
        "from vllm.v1.worker.cpu_worker import CPUWorker\n\n\n"
        "class W(CPUWorker):\n    def determine_available_memory(self):\n        return 4 << 30\n"
    )
    assert "V1M114" not in rewrite(text, "0.32.0").rules
