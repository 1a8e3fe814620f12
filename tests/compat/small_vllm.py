"""A small vLLM: the files of a tree of our own that calls itself 0.32.0 and has a few of its names."""

from __future__ import annotations

TREE = {
    "__init__.py": """
from .version import __version__
LAZY = {
    "AsyncEngineArgs": "vllm.engine.arg_utils",
    "EngineArgs": "vllm.engine.arg_utils",
    "LLM": "vllm.entrypoints.llm",
    "SamplingParams": "vllm.sampling_params",
}
def __getattr__(name):
    from importlib import import_module
    if name in LAZY:
        return getattr(import_module(LAZY[name]), name)
    raise AttributeError(f"no {name}")
""",
    "_version.py": "__version__ = version = '0.32.0'\n",
    "version.py": "from ._version import __version__\n",
    "logger.py": "import logging\ndef init_logger(name):\n    return logging.getLogger(name)\n",
    "envs.py": """
import os
environment_variables = {"VLLM_CPU_KVCACHE_SPACE": lambda: os.getenv("VLLM_CPU_KVCACHE_SPACE")}
def __getattr__(name):
    if name in environment_variables:
        return environment_variables[name]()
    raise AttributeError(f"no {name}")
def is_set(name):
    if name in environment_variables:
        return name in os.environ
    raise AttributeError(f"no {name}")
""",
    "config.py": """
import enum
from dataclasses import dataclass, field
class CompilationMode(enum.IntEnum):
    NONE = 0
    VLLM_COMPILE = 3
class CUDAGraphMode(enum.Enum):
    NONE, PIECEWISE, FULL = 0, 1, 2
    def has_full_cudagraphs(self):
        return self is CUDAGraphMode.FULL
    def __bool__(self):
        return self is not CUDAGraphMode.NONE
@dataclass
class PassConfig:
    fuse_norm_quant: bool = None
    fuse_act_quant: bool = None
    eliminate_noops: bool = True
@dataclass
class CompilationConfig:
    mode: CompilationMode = CompilationMode.VLLM_COMPILE
    backend: str = ""
    cudagraph_mode: CUDAGraphMode = None
    max_cudagraph_capture_size: int = None
    pass_config: PassConfig = field(default_factory=PassConfig)
@dataclass
class CacheConfig:
    block_size: int = 128
    kv_cache_memory_bytes: int | None = None
@dataclass
class SchedulerConfig:
    enable_chunked_prefill: bool = True
@dataclass
class EPLBConfig:
    window_size: int = 1000
@dataclass
class ParallelConfig:
    worker_cls: str = "auto"
    eplb_config: EPLBConfig = field(default_factory=EPLBConfig)
@dataclass
class ModelConfig:
    model: str = "m"
@dataclass
class StructuredOutputsConfig:
    backend: str = "auto"
    reasoning_parser: str = ""
@dataclass
class VllmConfig:
    model_config: ModelConfig = field(default_factory=ModelConfig)
    structured_outputs_config: StructuredOutputsConfig = field(default_factory=StructuredOutputsConfig)
    cache_config: CacheConfig = field(default_factory=CacheConfig)
    compilation_config: CompilationConfig = field(default_factory=CompilationConfig)
    parallel_config: ParallelConfig = field(default_factory=ParallelConfig)
    scheduler_config: SchedulerConfig = field(default_factory=SchedulerConfig)
class DeviceConfig: ...
def get_current_vllm_config():
    return VllmConfig()
""",
    "engine/__init__.py": "",
    "engine/arg_utils.py": """
from dataclasses import dataclass
@dataclass
class EngineArgs:
    model: str = "m"
    runner: str = "auto"
    convert: str = "auto"
    pooler_config: object = None
    structured_outputs_config: object = None
    mm_processor_cache_gb: float = 4
@dataclass
class AsyncEngineArgs(EngineArgs):
    enable_log_requests: bool = False
""",
    "entrypoints/__init__.py": "",
    "entrypoints/llm.py": """
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.engine.llm_engine import LLMEngine
class Mixin:
    def encode(self, prompts, pooling_params=None, *, use_tqdm=True):
        return prompts
class LLM(Mixin):
    def __init__(self, model, *, runner="auto", convert="auto", tokenizer=None, pooler_config=None,
                 structured_outputs_config=None, **kwargs):
        self.tokenizer = tokenizer
        self.args = EngineArgs(model=model, runner=runner, convert=convert, pooler_config=pooler_config,
                               structured_outputs_config=structured_outputs_config, **kwargs)
        self.llm_engine = LLMEngine()
    def generate(self, prompts, sampling_params=None, *, use_tqdm=True, lora_request=None):
        self.last = {"use_tqdm": use_tqdm, "lora_request": lora_request}
        return prompts
    def chat(self, messages, sampling_params=None, use_tqdm=True, lora_request=None, priority=None,
             chat_template=None, chat_template_content_format="auto", add_generation_prompt=True):
        return priority, chat_template, chat_template_content_format, add_generation_prompt
    def get_tokenizer(self):
        return "tokenizer"
""",
    "sampling_params.py": """
class StructMeta(type):  # stands for msgspec's: C code makes the objects, no function of the class runs first
    def __new__(meta, name, bases, space):
        cls = super().__new__(meta, name, bases, space)
        before = getattr(cls, "__struct_fields__", ())
        cls.__struct_fields__ = (*before, *(n for n in space.get("__annotations__", ()) if n not in before))
        return cls
    def __call__(cls, **kwargs):
        made = object.__new__(cls)
        for name, value in kwargs.items():
            if name not in cls.__struct_fields__:
                raise TypeError(f"Unexpected keyword argument '{name}'")
            setattr(made, name, value)
        return made
class SamplingParams(metaclass=StructMeta):
    n: int = 1
    structured_outputs: object = None
    @staticmethod
    def from_optional(n=1, structured_outputs=None):
        return SamplingParams(n=n, structured_outputs=structured_outputs)
def mine():
    return SamplingParams
def decode(fields, cls):  # msgspec's decoders make objects without a call of the class
    made = object.__new__(cls)
    vars(made).update(fields)
    getattr(made, "__post_init__", lambda: None)()
    return made
class StructuredOutputsParams:  # pydantic's, which leaves out what it does not know without a word
    def __init__(self, json=None, regex=None, choice=None, grammar=None, json_object=None, whitespace_pattern=None,
                 structural_tag=None, **_):
        self.json = json
""",
    "pooling_params.py": "from vllm.sampling_params import StructMeta\nclass PoolingParams(metaclass=StructMeta): ...\n",
    "lora/__init__.py": "",
    "lora/request.py": "from vllm.sampling_params import StructMeta\nclass LoRARequest(metaclass=StructMeta): ...\n",
    "engine/async_llm_engine.py": "from vllm.v1.engine.async_llm import AsyncLLM as AsyncLLMEngine\n",
    "v1/engine/__init__.py": "",
    "v1/engine/exceptions.py": "class EngineDeadError(Exception): ...\n",
    "v1/engine/llm_engine.py": """
from vllm.config import VllmConfig
class LLMEngine:
    def __init__(self):
        self.vllm_config = VllmConfig()
    @property
    def broken(self):
        return self.vllm_config.nonsense
    def reach(self):
        return self.scheduler
    def add_request(self, request_id, prompt, params=None):
        return prompt
    def abort_request(self, request_ids, internal=False):
        return list(request_ids)
    def do_log_stats(self):
        return "logged"
""",
    "v1/engine/output_processor.py": """
class Output:
    def __init__(self, left):
        self.left, self.finished = left, left == 0
class RequestOutputCollector:
    def __init__(self, left):
        self.left = left
    def get_nowait(self):
        return None if self.left % 2 else self._take()
    async def get(self):
        return self._take()
    def _take(self):
        self.left -= 1
        return Output(self.left)
""",
    "v1/engine/async_llm.py": """
from vllm.config import VllmConfig
from vllm.v1.engine.output_processor import RequestOutputCollector
class AsyncLLM:
    def __init__(self):
        self.vllm_config = VllmConfig()
        self.aborted = []
    async def add_request(self, request_id, prompt, params=None):
        'Adds a request.'
        return RequestOutputCollector(prompt) if isinstance(prompt, int) else prompt
    def get_tokenizer(self):
        return "tokenizer"
    async def abort(self, request_id):
        self.aborted.append(request_id)
    async def generate(self, prompt, sampling_params, request_id):
        try:
            for answer in prompt:
                try:
                    prompt = yield prompt if prompt is not None and answer is None else answer
                except ValueError as error:
                    yield str(error)
        except GeneratorExit:
            self.aborted.append(request_id)
            raise
""",
    "platforms/__init__.py": "",
    "platforms/interface.py": """
class Platform:
    device_type = "none"
    @classmethod
    def get_attn_backend_cls(cls, selected_backend, attn_selector_config, num_heads=None):
        return ""
    @classmethod
    def validate_request(cls, processed_inputs, params):
        pass
    @classmethod
    def check_and_update_config(cls, vllm_config):
        pass
    @classmethod
    def manual_seed_all(cls, seed):
        raise NotImplementedError
""",
    "platforms/cpu.py": """
from vllm.platforms.interface import Platform
class CpuPlatform(Platform):
    device_type = "cpu"
    @classmethod
    def get_attn_backend_cls(cls, selected_backend, attn_selector_config, num_heads=None):
        return "vllm.v1.attention.backends.cpu_attn.CPUAttentionBackend"
    @classmethod
    def check_and_update_config(cls, vllm_config):
        vllm_config.cache_config.block_size = 128
        vllm_config.scheduler_config.async_scheduling = False
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = "vllm.v1.worker.cpu_worker.CPUWorker"
    @classmethod
    def manual_seed_all(cls, seed):
        return seed
""",
    "sequence.py": "class IntermediateTensors: ...\n",
    "utils/__init__.py": "",
    "utils/math_utils.py": "def cdiv(a, b):\n    return -(a // -b)\ndef uses_cdiv():\n    return cdiv(7, 2)\n",
    "utils/func_utils.py": "def run_once(f):\n    return f\n",
    "v1/__init__.py": "",
    "v1/attention/__init__.py": "",
    "v1/attention/selector.py": """
from typing import NamedTuple
class AttentionSelectorConfig(NamedTuple):
    head_size: int
    dtype: object
    kv_cache_dtype: object
    block_size: object
    use_mla: bool = False
""",
    "outputs.py": """
class RequestOutput:
    def __init__(self, request_id="r", metrics=None):
        self.request_id, self.metrics = request_id, metrics
class PoolingRequestOutput: ...
class PoolingOutput: ...
class ScoringOutput: ...
""",
    "v1/metrics/__init__.py": "",
    "v1/metrics/stats.py": """
from dataclasses import dataclass
@dataclass
class RequestStateStats:
    arrival_time: float = 0.0
    queued_ts: float = 0.0
    scheduled_ts: float = 0.0
    first_token_ts: float = 0.0
    last_token_ts: float = 0.0
    first_token_latency: float = 0.0
""",
    "v1/executor/__init__.py": "",
    "v1/executor/ray_utils.py": "class RayWorkerWrapper: ...\n",
    "v1/worker/__init__.py": "",
    "v1/worker/worker_base.py": "class WorkerBase: ...\nclass WorkerWrapperBase: ...\n",
    "v1/worker/gpu_worker.py": """
from vllm.v1.worker.worker_base import WorkerBase
class Worker(WorkerBase):
    def __init__(self, vllm_config, local_rank, rank, distributed_init_method, is_driver_worker=False):
        self.vllm_config, self.rank, self.is_driver_worker = vllm_config, rank, is_driver_worker
    def init_device(self):
        self.model_runner = None
    def load_model(self, *, load_dummy_weights=False):
        self.model_runner.load_model(load_dummy_weights=load_dummy_weights)
    def determine_available_memory(self):
        return 1
    def execute_model(self, scheduler_output):
        return scheduler_output
""",
    "v1/worker/cpu_worker.py": """
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm.v1.worker.gpu_worker import Worker
class CPUWorker(Worker):
    def init_device(self):
        self.model_runner = CPUModelRunner(self.vllm_config, "cpu")
""",
    "v1/worker/cpu_model_runner.py": """
class CPUModelRunner:
    def __init__(self, vllm_config, device):
        self.vllm_config, self.device = vllm_config, device
    def load_model(self, load_dummy_weights=False):
        self.model = "model"
    def execute_model(self, scheduler_output, intermediate_tensors=None):
        return scheduler_output
""",
}
