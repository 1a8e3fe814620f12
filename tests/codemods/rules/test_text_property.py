"""Generated scripts and documents do the same before and after, as bash and the parsers see it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from v1_migrate.discover import Kind

from tests.codemods.rules.harness import rewrite

SWITCH = "VLLM_USE_V1"
# `vllm` shows its arguments and what it sees of its environment, less the switch, which no release that is left reads.
PROBE = 'vllm() { echo "vllm $* A=$A B=$B"; }\nA= B=\n'

SETS = st.sampled_from((f"{SWITCH}=1", f"{SWITCH}='1'", f'{SWITCH}="1"'))
OTHERS = st.sampled_from(("A=1", "B='x y'", 'A="$B"', "B=$((1 + 2))"))
JOINTS = st.sampled_from((" ", " \\\n  ", "   ", " \\\n"))


@st.composite
def commands(draw: st.DrawFn) -> str:
    """One command line with the switch somewhere in it, or without."""
    words = draw(st.lists(st.one_of(SETS, OTHERS), max_size=3))
    form = draw(st.sampled_from(("export", "prefix", "plain", "none", "quoted", "unset")))
    if form == "none":
        return draw(st.sampled_from(("vllm serve 'it''s' # a remark", "A=2", ": ;", "vllm \"a; b\" 'c && d'")))
    if form == "unset":
        return f"unset {SWITCH}"
    if form == "quoted":
        inner = draw(JOINTS).join([*words, "echo", "$A"]).replace("'", "")
        return f"bash -c '{inner}'"
    words.insert(draw(st.integers(0, len(words))), draw(SETS))
    if form == "plain":
        return " ".join(words)
    joined = draw(JOINTS).join(words)
    return f"export {joined}" if form == "export" else joined + draw(JOINTS) + draw(st.sampled_from(("vllm x", "true")))


@st.composite
def scripts(draw: st.DrawFn, depth: int = 2) -> str:
    """Commands, joined and nested in every way, with comments between them."""
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        form = draw(st.sampled_from(("line", "line", "and", "semi", "if", "else", "for", "brace", "comment", "blank")))
        inner = draw(scripts(depth - 1)) if depth and form in ("if", "else", "for", "brace") else draw(commands())
        body = "\n".join("  " + line for line in inner.splitlines())
        if all(line.strip().startswith("#") or not line.strip() for line in body.splitlines()):
            body += "\n  :"
        lines.append(
            {
                "and": f"true && {draw(commands())}",
                "semi": f"true; {draw(commands())}",
                "if": f'if [[ "$A" == 1 ]]; then\n{body}\nfi',
                "else": f"if [ -z x ]; then\n  true\nelse\n{body}\nfi",
                "for": f"for i in 1 2; do\n{body}\ndone",
                "brace": f"{{\n{body}\n}}",
                "comment": "# about the V1 engine",
                "blank": "",
            }.get(form, inner)
        )
    return "\n".join(lines)


def output(script: str) -> str:
    run = subprocess.run(["bash", "-c", PROBE + script], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    assert "syntax error" not in run.stderr, run.stderr + script
    return run.stdout


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scripts())
def test_a_script_prints_the_same(script: str) -> None:
    outcome = rewrite(script + "\n", kind=Kind.SHELL)
    assert output(outcome.text) == output(script)
    said = {line for f in outcome.findings for line in range(f.line, f.end_line + 1)}
    left = [n for n, line in enumerate(outcome.text.splitlines(), 1) if SWITCH in line]
    assert set(left) <= said


VALUES = st.one_of(st.text('aé"\\ #:{}', max_size=6), st.integers(0, 9), st.booleans(), st.none())
DATA = st.recursive(
    VALUES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(("a", "env", "b c", SWITCH)), inner, max_size=4),
    ),
    max_leaves=10,
)


def without_switch(value: Any) -> Any:
    """The data less every setting of the switch to 1."""
    if isinstance(value, dict):
        return {k: without_switch(v) for k, v in value.items() if not (k == SWITCH and v in (1, "1") and v is not True)}
    return [without_switch(item) for item in value] if isinstance(value, list) else value


def holds_more(value: Any) -> bool:
    """Somewhere the switch's own value is a collection: nothing that anybody sets, and left alone."""
    if isinstance(value, dict):
        return any((k == SWITCH and isinstance(v, dict | list)) or holds_more(v) for k, v in value.items())
    return isinstance(value, list) and any(holds_more(item) for item in value)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(("a", "env", SWITCH, "x")), st.one_of(DATA, st.just("1"), st.just(1)), max_size=4),
       st.sampled_from((None, 1, 4)), st.booleans())  # fmt: skip
def test_json_keeps_all_other_data(data: dict[str, Any], indent: int | None, ascii_only: bool) -> None:
    assume(not holds_more(data))
    text = json.dumps({"vllm": data}, indent=indent, ensure_ascii=ascii_only)
    assert json.loads(rewrite(text, kind=Kind.JSON).text) == without_switch({"vllm": data})


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(("a", "env", SWITCH, "x")), st.one_of(DATA, st.just("1"), st.just(1)), max_size=4),
       st.sampled_from((None, True, False)))  # fmt: skip
def test_yaml_loses_nothing_but_the_switch(data: dict[str, Any], flow: bool | None) -> None:
    text = yaml.safe_dump({"vllm": data}, default_flow_style=flow, allow_unicode=True)
    after = yaml.safe_load(rewrite(text, kind=Kind.YAML).text)
    assert _leaves(without_switch(after)) == _leaves(without_switch({"vllm": data}))


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[Any]:
    """Scalars with their paths; an emptied `env` counts for nothing."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in _leaves(value[key], (*path, key))]
    if isinstance(value, list):
        return [leaf for number, item in enumerate(value) for leaf in _leaves(item, (*path, number))]
    return [(path, value)]
