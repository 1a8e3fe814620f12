"""A diagnosis as text for a person, and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict

from ..findings import Severity
from ..reports.report import plural
from ..reports.text import Style
from .diagnosis import Diagnosis

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_LABEL = 15
_SHOWN = (
    ("architectures", "model"),
    ("dtype", "dtype"),
    ("head_size", "head size"),
    ("block_size", "block size"),
    ("kv_cache_dtype", "cache dtype"),
    ("max_model_len", "longest text"),
    ("chunked_prefill", "chunked prefill"),
    ("prefix_caching", "prefix caching"),
    ("executor", "executor"),
)


def text(diagnosis: Diagnosis, style: Style) -> str:
    """Sections: where, which engine and attention, settings, the configuration, what is wrong."""
    lines = [
        *_section("Environment", _environment(diagnosis), style),
        *_section("Engine", _engine(diagnosis), style),
        *_section("Settings of V0, and what they are now", _settings(diagnosis), style),
        *_section("These arguments", _configuration(diagnosis), style),
        *_section("What the model needs", _abilities(diagnosis), style),
        *_remarks(diagnosis, style),
    ]
    return "\n".join(lines) + "\n"


def _section(title: str, pairs: Iterator[tuple[str, str]], style: Style) -> Iterator[str]:
    found = list(pairs)
    if not found:
        return
    yield style(title, bold=True)
    for label, value in found:
        indent = " " * (_LABEL + 4)
        width = max(style.width, 60)
        body = textwrap.fill(value, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False)
        yield f"  {label:<{_LABEL}}  {body[len(indent) :]}"
    yield ""


def _environment(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    machine, vllm = diagnosis.environment.machine, diagnosis.environment.get("vllm").found
    installed = machine["installed"]
    names = [f"{name} {version}" for name, version in sorted(installed.items()) if name.startswith("vllm")]
    yield "Python", f"{machine['python']}, {machine['executable']}"
    yield "vLLM", f"{vllm['version']} ({', '.join(names) or 'no distribution'}), {vllm['platform']}"
    torch = diagnosis.environment.get("torch").found
    yield "torch", f"{torch['version']}, {torch['threads']} threads, {torch['capability']}"
    flags = " ".join(machine["flags"]) or "no vector flags known"
    yield "processor", f"{machine['architecture']}, {machine['cores']} cores, {flags}"


def _engine(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    yield "engine", diagnosis.engine
    yield "attention", diagnosis.attention.path
    yield "kernel", diagnosis.attention.kernel
    yield "decided by", diagnosis.attention.reason


def _settings(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    for setting in diagnosis.settings:
        yield setting.name, f"{setting.value}: {setting.why}"


def _configuration(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    for key, label in _SHOWN:
        value = diagnosis.configuration.get(key)
        if value is not None:
            yield label, ", ".join(value) if isinstance(value, list) else str(value)


def _abilities(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    for ability in diagnosis.abilities:
        yield "feature", f"{ability.feature}. This release: {ability.release}. v1_cpu: {ability.v1_cpu}"


def _remarks(diagnosis: Diagnosis, style: Style) -> Iterator[str]:
    for remark in diagnosis.remarks:
        head = style(remark.severity.value, _COLOURS[remark.severity], bold=True)
        yield f"{head}: {remark.subject}: {remark.message}"
        more = remark.advice
        if remark.reports:
            more += f" (reported: {', '.join(r if '#' in r else '#' + r for r in remark.reports)})"
        if more:
            yield textwrap.fill(more, style.width, initial_indent="    ", subsequent_indent="    ")
    errors, warnings = (
        sum(remark.severity is severity for remark in diagnosis.remarks)
        for severity in (Severity.ERROR, Severity.WARNING)
    )
    if diagnosis.remarks:
        yield ""
    yield f"{plural(errors, 'error')}, {plural(warnings, 'warning')}"
    yield _next(diagnosis)


def _next(diagnosis: Diagnosis) -> str:
    """The command to run after this one."""
    if diagnosis.exit_code:
        return "next: change what is listed and run this again"
    if not diagnosis.configuration:
        return "next: v1-migrate doctor -- vllm serve MODEL ..., to have an engine's arguments judged"
    return "next: start the engine; its log says once which backend serves"


def as_json(diagnosis: Diagnosis) -> str:
    """Everything, keys in a fixed order."""
    environment = diagnosis.environment
    return (
        json.dumps(
            {
                "release": environment.release,
                "environment": {
                    name: stage.found if not stage.error else {"error": stage.error}
                    for name, stage in environment.stages.items()
                    if name != "configuration"
                },
                "engine": diagnosis.engine,
                "attention": {**asdict(diagnosis.attention), "v1_cpu": diagnosis.attention.by_v1_cpu},
                "settings": [asdict(setting) for setting in diagnosis.settings],
                "configuration": diagnosis.configuration,
                "capabilities": [asdict(ability) for ability in diagnosis.abilities],
                "remarks": [asdict(remark) for remark in diagnosis.remarks],
                "exit_code": diagnosis.exit_code,
            },
            indent=2,
        )
        + "\n"
    )
