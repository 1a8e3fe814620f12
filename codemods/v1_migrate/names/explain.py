"""The text of `v1-migrate explain NAME`: when a name was there, where it went, what to do."""

from __future__ import annotations

import textwrap
from collections import defaultdict

from .curated import Attention, Curated, Entry, Fate, Setting, gone_in
from .index import Index
from .member_settings import member_setting
from .releases import sort_key
from .request_fields import ADVICE, lost_fields

FIRST_V1_ONLY = "0.10.0"  # the oldest target
_WIDTH = 100
_LISTED = 25  # candidates shown for a bare name
_PREFIXES = ("env:", "cli:", "backend:", "keyword:", "field:")


class UnknownName(ValueError):
    """No release has such a name, and the table does not know it either."""


def explain(name: str, target: str | None = None, attention: Attention = "vllm") -> str:
    """Everything known about a dotted name, a bare last part, an environment variable or an option.

    `target` names one release; without it every target is described. CPU attention names go where `attention` says.
    Raises UnknownName and UnknownRelease.
    """
    index, curated = Index.load(), Curated.load()
    target = index.release(target) if target else None
    setting = _setting(name, curated)
    if setting is not None:
        return _setting_text(setting)
    if name.startswith("vllm.") or name == "vllm":
        if not index.known(name) and curated.fate(name, target or index.releases[-1], attention) is None:
            if advice := curated.older(name):
                return (
                    f"{name}\n  gone before {index.releases[0]}, the oldest release of the index\n\n{_wrapped(advice)}"
                )
            raise UnknownName(f"{name}: no release of the index has it, and no table tells where it went")
        return _name_text(name, target, index, curated, attention)
    found = candidates(name, index, curated)
    if not found and name in ADVICE:
        lost = next(release for release in index.releases if name in lost_fields(index, release))
        return f"{name} (field of a request to the server): ignored from {lost}\n\n{_wrapped(ADVICE[name])}"
    if not found:
        raise UnknownName(
            f"{name}: no vLLM release of the index ({index.releases[0]} ... {index.releases[-1]}) has such a name; "
            "give the full dotted name (vllm....), a class or function name, VLLM_VARIABLE or --option"
        )
    if len(found) == 1:
        return _name_text(found[0], target, index, curated, attention)
    return _candidates_text(name, found, target, index, curated, attention)


def candidates(name: str, index: Index, curated: Curated) -> list[str]:
    """Full names whose last parts are `name`, those with a row first, V0's before V1's."""
    tail = f".{name}"
    rows = [entry.old for entry in curated.entries() if entry.old.endswith(tail)]
    last = name.rpartition(".")[2]
    defined = {dotted for release in index.releases for dotted in index.definitions(last, release)}
    modules = {m for r in index.releases for m in index.modules(r) if m.endswith(tail)}
    found = defined | modules | _members(name, index)
    return sorted(rows, key=lambda dotted: dotted.startswith("vllm.v1.")) + sorted(
        d for d in found if d.endswith(tail) and d not in rows
    )


def _members(name: str, index: Index) -> set[str]:
    """`vllm.sampling_params.SamplingParams.best_of` for `SamplingParams.best_of`."""
    owner, _, member = name.rpartition(".")
    last = owner.rpartition(".")[2]
    owners = {dotted for release in index.releases for dotted in index.definitions(last, release)} if last else set()
    return {f"{dotted}.{member}" for dotted in owners if index.known(f"{dotted}.{member}")}


def names_like(wanted: str) -> list[str]:
    """Dotted names of the curated table that end like, or look like, what was typed."""
    import difflib

    by_last: defaultdict[str, list[str]] = defaultdict(list)
    for entry in Curated.load().entries():
        by_last[entry.old.rpartition(".")[2]].append(entry.old)
    near = difflib.get_close_matches(wanted.rpartition(".")[2], by_last, 3, 0.8)
    return [dotted for last in near for dotted in sorted(by_last[last])][:6]


def _setting(name: str, curated: Curated) -> Setting | None:
    if name.startswith(_PREFIXES):
        return curated.setting(name)
    if name.startswith("--"):
        return curated.setting(f"cli:{name.partition('=')[0]}")
    return curated.setting(f"env:{name.removeprefix('vllm.envs.')}") or curated.setting(f"backend:{name}")


def _setting_text(setting: Setting) -> str:
    kind, _, name = setting.name.partition(":")
    names = {"env": "environment variable", "cli": "option", "backend": "attention backend", "keyword": "keyword"}
    status = f"no effect or refused from {setting.gone_in}" if setting.gone_in else "still works"
    lines = [f"{name} ({names.get(kind, kind)}): {status}"]
    lines += [f"  from {first:<8} {new}" for first, new in setting.to]
    return "\n".join([*lines, "", _wrapped(setting.advice)])


def _name_text(name: str, target: str | None, index: Index, curated: Curated, attention: Attention) -> str:
    lines = [name, _history(name, index, curated, attention)]
    targets = [target] if target else [r for r in index.releases if sort_key(r) >= sort_key(FIRST_V1_ONLY)]
    lines += _journey(name, targets, index, curated, attention)
    fate = _telling(name, targets, index, curated, attention)
    if fate is not None:
        if fate.difference:
            lines += ["", _wrapped(f"What differs: {fate.difference}")]
        if fate.advice:
            lines += ["", _wrapped(fate.advice)]
    elif any(index.resolve(name, r).found is False for r in targets):
        advice = curated.advice_for(name, targets[-1])
        owner, _, member = name.rpartition(".")
        setting = member_setting("field", owner, member) or member_setting("keyword", owner, member)
        advice = setting.advice if setting is not None else advice
        if "v1-migrate explain" not in advice:  # which the reader has done
            lines += ["", _wrapped(advice)]
    entry = curated.entry(name)
    lines += _footer(name, entry, index, targets[-1])
    return "\n".join(lines)


def _history(name: str, index: Index, curated: Curated, attention: Attention) -> str:
    having = index.releases_of(name)
    if not having:
        return f"  in no release from {index.releases[0]} to {index.releases[-1]}"
    kind = index.resolve(name, having[-1]).kind
    canonical = index.resolve(name, having[-1]).canonical
    gone = gone_in(index, name)
    if not gone and (later := index.releases[index.releases.index(having[-1]) + 1 :]):
        gone = later[0] if _is_gone(curated.fate(name, later[0], attention)) else ""
    newest = " (the newest known)" if having[-1] == index.releases[-1] else ""
    span = f"{having[0]} to {having[-1]}" + (f", gone in {gone}" if gone else newest)
    home = f", defined in {canonical}" if canonical != name else ""
    return f"  {kind.replace('reexport:', 're-exported ')}; in {span}{home}"


def _journey(name: str, targets: list[str], index: Index, curated: Curated, attention: Attention) -> list[str]:
    """One line for each stretch of targets that share an answer."""
    stretches: list[tuple[str, str, str]] = []
    for release in targets:
        text = _answer(name, release, index, curated, attention)
        if stretches and stretches[-1][2] == text:
            stretches[-1] = (stretches[-1][0], release, text)
        else:
            stretches.append((release, release, text))
    return [f"  {a if a == b else f'{a} ... {b}':<22} {text}" for a, b, text in stretches]


def _answer(name: str, release: str, index: Index, curated: Curated, attention: Attention) -> str:
    fate = curated.fate(name, release, attention)
    found = index.resolve(name, release).found
    if found:
        return "still there"
    if fate is not None and fate.new and fate.new != name:
        return f"{fate.new} ({'moved' if fate.kind == 'moved' else 'other contract'})"
    return "gone" if found is False or _is_gone(fate) else "cannot be known from source"


def _is_gone(fate: Fate | None) -> bool:
    """The table says so, also where the source leaves it open (a class with `__getattr__`)."""
    return fate is not None and fate.kind == "gone"


def _telling(name: str, targets: list[str], index: Index, curated: Curated, attention: Attention) -> Fate | None:
    """The fate whose words are worth printing: on the newest target that lacks the name, else any."""
    fates = [(r, curated.fate(name, r, attention)) for r in reversed(targets)]
    for release, fate in fates:
        if fate is not None and index.resolve(name, release).found is False:
            return fate
    return next((fate for _, fate in fates if fate is not None), None)


def _footer(name: str, entry: Entry | None, index: Index, target: str) -> list[str]:
    lines = []
    if entry is not None and entry.v1_cpu:
        lines.append(f"With --attention v1_cpu: {entry.v1_cpu}")
    last = name.rpartition(".")[2]
    namesakes = [
        d for d in index.definitions(last, target) if d != name and (entry is None or d != entry.destination(target))
    ]
    if namesakes and len(namesakes) <= 5:
        lines.append(f"Other definitions of {last} in {target}: {', '.join(namesakes)}")
    return ["", *lines] if lines else []


def _candidates_text(
    name: str, found: list[str], target: str | None, index: Index, curated: Curated, attention: Attention
) -> str:
    release = target or index.releases[-1]
    lines = [f"{len(found)} names end in {name}; on {release}:"]
    lines += [f"  {dotted}\n      {_answer(dotted, release, index, curated, attention)}" for dotted in found[:_LISTED]]
    if len(found) > _LISTED:
        lines.append(f"  and {len(found) - _LISTED} more")
    return "\n".join([*lines, "", "Give one of them in full for its history and advice."])


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
