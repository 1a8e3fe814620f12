"""The engine switch in files that are not Python: what goes, what stays, and that the own parser takes the rest."""

from __future__ import annotations

import configparser
import json
import subprocess
import tomllib

import pytest
import yaml
from v1_migrate.discover import Kind
from v1_migrate.findings import Safety, Severity

from tests.codemods.rules.harness import Outcome, dedent, rewrite

SWITCH = "V1M401"


def accepted(text: str, kind: Kind) -> None:
    """The file's own parser takes the text; raises if not."""
    if kind is Kind.SHELL:
        run = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
        assert run.returncode == 0, run.stderr
    elif kind is Kind.JSON or kind is Kind.NOTEBOOK:
        json.loads(text)
    elif kind is Kind.TOML:
        tomllib.loads(text)
    elif kind is Kind.YAML:
        list(yaml.safe_load_all(text))
    elif kind is Kind.INI:
        configparser.ConfigParser(allow_no_value=True).read_string(text)


def test_a_quote_that_is_never_closed_is_an_apostrophe() -> None:
    """No shell takes such text, but documents and templates hold it."""
    outcome = rewrite("echo don't\nexport VLLM_USE_V1=1\nvllm serve m\n", kind=Kind.SHELL)
    assert outcome.text == "echo don't\nvllm serve m\n"


def rewritten(before: str, kind: Kind, **options: object) -> Outcome:
    accepted(before, kind)
    outcome = rewrite(before, "0.32.0", kind=kind, **options)  # type: ignore[arg-type]
    accepted(outcome.text, kind)
    return outcome


SHELL = [
    pytest.param("a\nexport VLLM_USE_V1=1\nb vllm\n", "a\nb vllm\n", id="an export goes with its line"),
    pytest.param("a\nexport VLLM_USE_V1='1'\nb vllm\n", "a\nb vllm\n", id="quotes do not matter"),
    pytest.param("a\nVLLM_USE_V1=1\nexport VLLM_USE_V1\nb\n", "a\nb\n", id="set first and exported later"),
    pytest.param(
        "A='C:\\' VLLM_USE_V1=1 B='x' vllm serve m\n",
        "A='C:\\' B='x' vllm serve m\n",
        id="a backslash before a single quote ends the string all the same",
    ),
    pytest.param(
        'A="x\\" y" VLLM_USE_V1=1 vllm serve m\n',
        'A="x\\" y" vllm serve m\n',
        id="a backslash before a double quote does not end the string",
    ),
    pytest.param("export A=1 VLLM_USE_V1=1 B=2\n", "export A=1 B=2\n", id="one of several exports"),
    pytest.param("export A=1 VLLM_USE_V1=1\n", "export A=1\n", id="the last of several exports"),
    pytest.param("VLLM_USE_V1=1 vllm serve m\n", "vllm serve m\n", id="the only prefix of a command"),
    pytest.param("A=0 VLLM_USE_V1=1 vllm serve m\n", "A=0 vllm serve m\n", id="the last prefix"),
    pytest.param(
        'A="x y" VLLM_USE_V1=1 B=$C vllm serve m\n', 'A="x y" B=$C vllm serve m\n', id="a prefix in the middle"
    ),
    pytest.param("A=0 VLLM_USE_V1=1 \\\n  vllm serve\n", "A=0 \\\n  vllm serve\n", id="before a continuation"),
    pytest.param("VLLM_USE_V1=1 \\\n    vllm serve\n", "vllm serve\n", id="first and alone on a continued line"),
    pytest.param(
        "A=1 \\\n  VLLM_USE_V1=1 \\\n  vllm\n", "A=1 \\\n  vllm\n", id="alone on a continued line in the middle"
    ),
    pytest.param(
        "docker run -d \\\n  -e VLLM_USE_V1=1 \\\n  -p 1:1 vllm\n",
        "docker run -d \\\n  -p 1:1 vllm\n",
        id="an option of docker run with its continued line",
    ),
    pytest.param(
        "docker run -e VLLM_USE_V1=1 -p 1:1 vllm\n", "docker run -p 1:1 vllm\n", id="an option between others"
    ),
    pytest.param(
        'docker run --env "VLLM_USE_V1=1" vllm\n', "docker run vllm\n", id="a long option with a quoted value"
    ),
    pytest.param("docker run --env=VLLM_USE_V1=1 vllm\n", "docker run vllm\n", id="an option joined with its value"),
    pytest.param("docker run -eVLLM_USE_V1=1 vllm\n", "docker run vllm\n", id="a short option joined with its value"),
    pytest.param(
        "export VLLM_USE_V1=1\ndocker run -e VLLM_USE_V1 vllm\n", "docker run vllm\n", id="handed on without a value"
    ),
    pytest.param("env VLLM_USE_V1=1 A=2 vllm serve\n", "env A=2 vllm serve\n", id="an argument of env"),
    pytest.param("mpirun -x VLLM_USE_V1=1 -np 2 vllm\n", "mpirun -np 2 vllm\n", id="an option of mpirun"),
    pytest.param("srun --export=ALL,VLLM_USE_V1=1,A=1 vllm\n", "srun --export=ALL,A=1 vllm\n", id="an item of a list"),
    pytest.param("export VLLM_USE_V1=1 && vllm serve\n", "vllm serve\n", id="joined to what follows"),
    pytest.param("cd x && export VLLM_USE_V1=1\nvllm\n", "cd x\nvllm\n", id="joined to what came before"),
    pytest.param("cd x; export VLLM_USE_V1=1; vllm\n", "cd x; vllm\n", id="between semicolons"),
    pytest.param("export VLLM_USE_V1=1;\nvllm\n", "vllm\n", id="with a semicolon at the end of its line"),
    pytest.param("unset VLLM_USE_V1\nvllm\n", "vllm\n", id="unset"),
    pytest.param("f() {\n  export VLLM_USE_V1=1\n}\n", "f() {\n  :\n}\n", id="a function body is never left empty"),
    pytest.param(
        "if [ $A ]; then\n  x\nelse\n  export VLLM_USE_V1=1\nfi\n",
        "if [ $A ]; then\n  x\nelse\n  :\nfi\n",
        id="nor is an else",
    ),
    pytest.param(
        "a\n\n# choose the v1 engine\nif [[ $E == v1 ]]; then\n  export VLLM_USE_V1=1\nfi\n\nb\n",
        "a\n\nb\n",
        id="a test that guards nothing else goes with its comment",
    ),
    pytest.param(
        "if [ 1 ]; then\n  export VLLM_USE_V1=1\n  if [ 2 ]; then\n    export VLLM_USE_V1=1\n  fi\nfi\nvllm\n",
        "if [ 1 ]; then\n  if [ 2 ]; then\n    :\n  fi\nfi\nvllm\n",
        id="a test within a test never leaves the outer one empty",
    ),
    pytest.param(
        "if probe; then\n  export VLLM_USE_V1=1\nfi\n",
        "if probe; then\n  :\nfi\n",
        id="a test that runs something stays",
    ),
    pytest.param("if $(x); then export VLLM_USE_V1=1; y; fi\n", "if $(x); then y; fi\n", id="in a body on one line"),
    pytest.param("bash -c 'VLLM_USE_V1=1 vllm serve'\n", "bash -c 'vllm serve'\n", id="inside a quoted command"),
    pytest.param('X="A=1 \\\n  VLLM_USE_V1=1 \\\n  vllm"\n', 'X="A=1 \\\n  vllm"\n', id="inside a quoted block"),
    pytest.param("x=$(VLLM_USE_V1=1 vllm collect-env)\n", "x=$(vllm collect-env)\n", id="inside a substitution"),
    pytest.param(
        "cat > run.sh <<EOF\nexport VLLM_USE_V1=1\nvllm serve\nEOF\n",
        "cat > run.sh <<EOF\nvllm serve\nEOF\n",
        id="inside a here-document",
    ),
    pytest.param("A=(-e VLLM_USE_V1=1 -e B=1)\n", "A=(-e B=1)\n", id="in an array of options"),
    pytest.param("a\r\nexport VLLM_USE_V1=1\r\nvllm\r\n", "a\r\nvllm\r\n", id="line ends stay"),
    pytest.param("vllm\nexport VLLM_USE_V1=1", "vllm\n", id="a last line without a line end"),
    pytest.param(
        'ray submit --json \'{"env_vars": {"VLLM_USE_V1": "1", "A": "2"}}\' vllm\n',
        'ray submit --json \'{"env_vars": {"A": "2"}}\' vllm\n',
        id="in JSON inside quotes",
    ),
    pytest.param(
        'a\necho "VLLM_USE_V1=1" >> "$GITHUB_ENV"\necho "export VLLM_USE_V1=1" >> ~/.bashrc\nvllm\n',
        "a\nvllm\n",
        id="written to a file that shells read",
    ),
    pytest.param(
        "export VLLM_USE_V1=1 VLLM_USE_V1=1\nvllm\n", "vllm\n", id="said twice: an export is never left empty"
    ),
    pytest.param("VLLM_USE_V1=1 VLLM_USE_V1=1 echo $A\nvllm\n", "echo $A\nvllm\n", id="said twice before a command"),
    pytest.param("export VLLM_USE_V1=1; VLLM_USE_V1=1\nvllm\n", "vllm\n", id="set twice on one line"),
    pytest.param("true; VLLM_USE_V1=1 && export VLLM_USE_V1=1; vllm\n", "true; vllm\n", id="set twice between others"),
    pytest.param("f() { VLLM_USE_V1=1 && VLLM_USE_V1=1; }; vllm\n", "f() { :; }; vllm\n", id="twice in a body"),
    pytest.param("false && VLLM_USE_V1=1; vllm\n", "false; vllm\n", id="what follows is not made conditional"),
    pytest.param(
        "bash -c 'VLLM_USE_V1=1 VLLM_USE_V1=1 echo $A'\n", "bash -c 'echo $A'\n", id="twice in a quoted command"
    ),
    pytest.param("export VLLM_USE_V1=1 # for now\nvllm\n", "vllm\n", id="a remark behind it goes with it"),
]


@pytest.mark.parametrize(("before", "after"), SHELL)
def test_shell(before: str, after: str) -> None:
    outcome = rewritten(before, Kind.SHELL)
    assert outcome.text == after
    assert not outcome.open
    assert {f.safety for f in outcome.said(SWITCH)} == {Safety.V1}


LEFT = [
    pytest.param("echo 'VLLM_USE_V1=1 vllm serve m'\n", "speaks of", id="a command that is only printed"),
    pytest.param("VLLM_USE_V1=0 vllm serve\n", "asks for the V0 engine", id="a command that asks for V0"),
    pytest.param("export VLLM_USE_V1=0\n", "asks for the V0 engine", id="an export that asks for V0"),
    pytest.param("export VLLM_USE_V1=$X\n", "an expression", id="a computed value"),
    pytest.param('if [[ "$VLLM_USE_V1" == 1 ]]; then x; fi\n', "reads", id="a test of the variable"),
    pytest.param("vllm ${VLLM_USE_V1:-1}\n", "reads", id="an expansion with a default"),
    pytest.param("echo VLLM_USE_V1=1\n", "speaks of", id="a word that is only shown"),
    pytest.param("x || export VLLM_USE_V1=1\n", "sets", id="the second half of an alternative"),
    pytest.param("( export VLLM_USE_V1=1 )\n", "sets", id="alone in a subshell"),
]


@pytest.mark.parametrize(("text", "message"), LEFT)
def test_what_cannot_be_decided_is_reported_and_stays(text: str, message: str) -> None:
    outcome = rewritten(text, Kind.SHELL)
    assert outcome.text == text
    assert [message in f.message for f in outcome.open] == [True]


def test_a_comment_is_information() -> None:
    outcome = rewritten("# VLLM_USE_V1=0 pytest x\nvllm\n", Kind.SHELL)
    assert [f.severity for f in outcome.said(SWITCH)] == [Severity.INFO]


def test_unsafe_takes_a_request_for_v0_out_and_says_how_sure_that_is() -> None:
    outcome = rewritten("VLLM_USE_V1=0 vllm serve\n", Kind.SHELL, unsafe=True)
    assert outcome.text == "vllm serve\n"
    assert outcome.said(SWITCH)[0].safety is Safety.UNSAFE


@pytest.mark.parametrize(
    ("target", "severity"),
    [pytest.param("0.11.0", Severity.ERROR, id="refused"), pytest.param("0.11.2", Severity.WARNING, id="not read")],
)
def test_a_request_for_v0_is_as_bad_as_the_target_makes_it(target: str, severity: Severity) -> None:
    outcome = rewrite("VLLM_USE_V1=0 vllm serve\n", target, kind=Kind.SHELL)
    assert outcome.said(SWITCH)[0].severity is severity


@pytest.mark.parametrize(
    ("text", "after"),
    [
        pytest.param("export VLLM_USE_V1=1\nvllm\n", None, id="other devices still have a choice"),
        pytest.param(
            "export VLLM_USE_V1=1\nexport VLLM_CPU_KVCACHE_SPACE=4\n",
            "export VLLM_CPU_KVCACHE_SPACE=4\n",
            id="a CPU has none",
        ),
    ],
)
def test_on_0_10_only_scripts_for_the_cpu_are_edited(text: str, after: str | None) -> None:
    outcome = rewrite(text, "0.10.0", kind=Kind.SHELL)
    assert outcome.text == (after or text)
    if after is None:
        assert [f.severity for f in outcome.said(SWITCH)] == [Severity.INFO]


@pytest.mark.parametrize(
    "line",
    [
        "export VLLM_CPU_KVCACHE_SPACE=40",
        "export VLLM_CPU_OMP_THREADS_BIND=0-31",
        "VLLM_TARGET_DEVICE=cpu python setup.py install",
        "export VLLM_USE_V1_EXTRA=1",
        "export MY_VLLM_USE_V1=1",
        "export VLLM_LOGGING_LEVEL=DEBUG",
    ],
)
def test_other_variables_are_not_touched(line: str) -> None:
    outcome = rewritten(f"{line}\n", Kind.SHELL)
    assert outcome.text == f"{line}\n"
    assert not outcome.findings


OTHER = [
    pytest.param(
        Kind.DOCKER,
        "FROM vllm\nENV A=1 \\\n    VLLM_USE_V1=1\n",
        "FROM vllm\nENV A=1\n",
        id="the last of a continued ENV",
    ),
    pytest.param(Kind.DOCKER, "FROM vllm\nENV VLLM_USE_V1=1\nRUN x\n", "FROM vllm\nRUN x\n", id="an ENV of its own"),
    pytest.param(
        Kind.DOCKER, "FROM vllm\nENV VLLM_USE_V1 1\nRUN x\n", "FROM vllm\nRUN x\n", id="an ENV without a sign"
    ),
    pytest.param(
        Kind.DOCKER,
        "FROM vllm\nRUN export VLLM_USE_V1=1 && pip install x\n",
        "FROM vllm\nRUN pip install x\n",
        id="inside RUN",
    ),
    pytest.param(
        Kind.DOCKER,
        "FROM vllm\nENV A=1 \\\n    # remark\n    VLLM_USE_V1=1 \\\n    B=2\n",
        "FROM vllm\nENV A=1 \\\n    # remark\n    B=2\n",
        id="behind a comment between continued lines",
    ),
    pytest.param(Kind.MAKE, "export VLLM_USE_V1 := 1\nx:\n\tvllm\n", "x:\n\tvllm\n", id="a Make variable"),
    pytest.param(Kind.MAKE, "x:\n\tVLLM_USE_V1=1 vllm serve\n", "x:\n\tvllm serve\n", id="a Make recipe"),
    pytest.param(Kind.MAKE, "x:\n\t@VLLM_USE_V1=1 pytest\n", "x:\n\t@pytest\n", id="a recipe that is not shown"),
    pytest.param(
        Kind.MAKE,
        "x:\n\t@-A=1 VLLM_USE_V1=1 \\\n\t  pytest\n\t+VLLM_USE_V1=1 vllm\ny:\n\ta\n",
        "x:\n\t@-A=1 \\\n\t  pytest\n\t+vllm\ny:\n\ta\n",
        id="marks of make, and a recipe of two lines",
    ),
    pytest.param(Kind.ENV, "A=1\nVLLM_USE_V1=1\nB=2\n", "A=1\nB=2\n", id="an env file"),
    pytest.param(
        Kind.YAML,
        'env:\n  A: x\n  VLLM_USE_V1: "1" # v1\n  B: y\n',
        "env:\n  A: x\n  B: y\n",
        id="a key of a block mapping",
    ),
    pytest.param(
        Kind.YAML, "a: 1\nenv:\n  VLLM_USE_V1: 1\nb: 2\n", "a: 1\nb: 2\n", id="the only key takes its parent along"
    ),
    pytest.param(
        Kind.YAML,
        "environment:\n  - A=1\n  - VLLM_USE_V1=1\nb: 2\n",
        "environment:\n  - A=1\nb: 2\n",
        id="an item of a block list",
    ),
    pytest.param(
        Kind.YAML,
        "env:\n- name: VLLM_USE_V1\n  value: '1'\n- name: B\n  value: c\n",
        "env:\n- name: B\n  value: c\n",
        id="a name and a value, as in Kubernetes",
    ),
    pytest.param(
        Kind.YAML,
        "environment:\n  - VLLM_USE_V1: 1\n  - A: 2\n",
        "environment:\n  - A: 2\n",
        id="an item that is a mapping of it alone",
    ),
    pytest.param(
        Kind.YAML,
        "environment:\n  - VLLM_USE_V1: '1'\n    A: 2\n    B: 3\n",
        "environment:\n  - A: 2\n    B: 3\n",
        id="the key beside the hyphen of an item",
    ),
    pytest.param(
        Kind.YAML,
        "spec:\n  containers:\n  - env:\n    - name: VLLM_USE_V1\n      value: '1'\n    image: vllm\n",
        "spec:\n  containers:\n  - image: vllm\n",
        id="an environment beside the hyphen of an item",
    ),
    pytest.param(
        Kind.YAML,
        "steps:\n- commands:\n  - export VLLM_USE_V1=1\n  - pytest\n",
        "steps:\n- commands:\n  - pytest\n",
        id="a command of its own in a list of commands",
    ),
    pytest.param(
        Kind.YAML,
        "args: [-e, VLLM_USE_V1=1, -e, A=1]\n",
        "args: [-e, A=1]\n",
        id="an option with its variable in a flow list",
    ),
    pytest.param(
        Kind.YAML,
        "command:\n- docker\n- --env\n- VLLM_USE_V1=1\n- vllm\n",
        "command:\n- docker\n- vllm\n",
        id="an option with its variable in a block list",
    ),
    pytest.param(Kind.YAML, "env: {A: 1, VLLM_USE_V1: 1}\n", "env: {A: 1}\n", id="a key of a flow mapping"),
    pytest.param(
        Kind.YAML,
        "run: |\n  export VLLM_USE_V1=1\n  vllm serve\n",
        "run: |\n  vllm serve\n",
        id="a script in a block scalar",
    ),
    pytest.param(Kind.YAML, "run: VLLM_USE_V1=1 pytest vllm\n", "run: pytest vllm\n", id="a script in a plain scalar"),
    pytest.param(Kind.JSON, '{"env": {"VLLM_USE_V1": "1"}}\n', '{"env": {}}\n', id="the only member of an object"),
    pytest.param(
        Kind.JSON,
        '{\n  "A": 1,\n  "VLLM_USE_V1": "1"\n}\n',
        '{\n  "A": 1\n}\n',
        id="the last member, with the comma before",
    ),
    pytest.param(
        Kind.JSON, '{\n  "VLLM_USE_V1": 1,\n  "A": "\\u00e9"\n}\n', '{\n  "A": "\\u00e9"\n}\n', id="the first member"
    ),
    pytest.param(Kind.JSON, '["-e", "VLLM_USE_V1=1", "-p"]\n', '["-p"]\n', id="an option in a list"),
    pytest.param(
        Kind.JSON,
        '{"x": "VLLM_USE_V1=1 vllm serve \\"m\\""}\n',
        '{"x": "vllm serve \\"m\\""}\n',
        id="a command in a string",
    ),
    pytest.param(Kind.TOML, '[env]\nA = "1"\nVLLM_USE_V1 = "1" # x\n', '[env]\nA = "1"\n', id="a key of a table"),
    pytest.param(
        Kind.TOML, 'env = { VLLM_USE_V1 = "1", A = "b" }\n', 'env = { A = "b" }\n', id="a key of an inline table"
    ),
    pytest.param(
        Kind.TOML, 'env = [\n  "VLLM_USE_V1=1",\n  "A=1",\n]\n', 'env = [\n  "A=1",\n]\n', id="an item of an array"
    ),
    pytest.param(
        Kind.INI, "[pytest]\nenv =\n    A=1\n    VLLM_USE_V1=1\n", "[pytest]\nenv =\n    A=1\n", id="a line of tox"
    ),
    pytest.param(
        Kind.INI,
        '[Service]\nEnvironment="A=1" "VLLM_USE_V1=1"\n',
        '[Service]\nEnvironment="A=1"\n',
        id="a systemd unit",
    ),
    pytest.param(
        Kind.MARKDOWN,
        "Run `A=1 VLLM_USE_V1=1 vllm serve`:\n\n```bash\n$ export VLLM_USE_V1=1\n$ vllm serve\n```\n",
        "Run `A=1 vllm serve`:\n\n```bash\n$ vllm serve\n```\n",
        id="a fence, a prompt and code in a sentence",
    ),
    pytest.param(
        Kind.MARKDOWN,
        "!!! note\n\n    ```{code-block} bash\n    docker run \\\n    -e VLLM_USE_V1=1 \\\n    vllm\n    ```\n",
        "!!! note\n\n    ```{code-block} bash\n    docker run \\\n    vllm\n    ```\n",
        id="an indented fence",
    ),
    pytest.param(
        Kind.RST,
        "Run::\n\n    VLLM_USE_V1=1 vllm\n\n.. code-block:: bash\n   :caption: x\n\n   export VLLM_USE_V1=1\n   vllm\n",
        "Run::\n\n    vllm\n\n.. code-block:: bash\n   :caption: x\n\n   vllm\n",
        id="literal blocks and directives of reST",
    ),
]


@pytest.mark.parametrize(("kind", "before", "after"), OTHER)
def test_other_kinds(kind: Kind, before: str, after: str) -> None:
    outcome = rewritten(before, kind)
    assert outcome.text == after
    assert not outcome.open


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param(
            Kind.YAML, "strategy:\n  matrix:\n    env: [VLLM_USE_V1=0, VLLM_USE_V1=1]\n", id="an axis of a matrix"
        ),
        pytest.param(Kind.YAML, "env:\n  VLLM_USE_V1: ${{ matrix.v1 }}\n", id="a value from a matrix"),
        pytest.param(Kind.YAML, "env:\n{{- if .x }}\n  VLLM_USE_V1: 1\n{{- end }}\n", id="a template that is no YAML"),
        pytest.param(Kind.JSON, '{"VLLM_USE_V1": 1,\n // a remark\n}\n', id="text that is no JSON"),
        pytest.param(Kind.MARKDOWN, "Set VLLM_USE_V1=1 for V1.\n", id="a sentence"),
    ],
)
def test_what_is_no_plain_setting_is_reported(kind: Kind, text: str) -> None:
    outcome = rewrite(text, kind=kind)
    assert outcome.text == text
    assert outcome.said(SWITCH)


def test_a_notebook_changes_nowhere_but_in_the_cell() -> None:
    before = dedent(
        """
        {"cells": [
          {"cell_type": "code", "metadata": {"x":1}, "source": [
            "%env VLLM_USE_V1=1\\n",
            "import os\\n",
            "!A=\\"1\\" VLLM_USE_V1=1 vllm serve m\\n"
          ]},
          {"cell_type": "code", "source": ["%%bash\\n", "export VLLM_USE_V1=1\\n", "vllm serve é"]},
          {"cell_type": "markdown", "source": "Run\\n```sh\\nVLLM_USE_V1=1 vllm\\n```\\n"}
        ],   "metadata": {}, "nbformat": 4}
        """
    )
    after = before.replace('    "%env VLLM_USE_V1=1\\n",\n', "").replace('"export VLLM_USE_V1=1\\n", ', "")
    after = after.replace("VLLM_USE_V1=1 ", "")
    assert rewritten(before, Kind.NOTEBOOK).text == after


def test_a_suppression_keeps_its_line_and_no_other() -> None:
    before = "export VLLM_USE_V1=1  # v1: ignore[V1M401] the old image\nVLLM_USE_V1=1 vllm serve\n"
    outcome = rewrite(before, kind=Kind.SHELL)
    assert outcome.text == "export VLLM_USE_V1=1  # v1: ignore[V1M401] the old image\nvllm serve\n"


DOCSTRINGS = [
    pytest.param("VLLM_USE_V1=1 python x.py", "python x.py", id="a line of usage"),
    pytest.param("A=1 VLLM_USE_V1=1 \\\n    vllm serve m", "A=1 \\\n    vllm serve m", id="a continued line"),
    pytest.param("```bash\nexport VLLM_USE_V1=1\nvllm\n```", "```bash\nvllm\n```", id="a fence"),
    pytest.param("Call ``VLLM_USE_V1=1 vllm serve``.", "Call ``vllm serve``.", id="code in a sentence"),
]


@pytest.mark.parametrize(("before", "after"), DOCSTRINGS)
def test_docstrings_of_python(before: str, after: str) -> None:
    text = 'r"""How to:\n\n%s\n"""\nimport vllm\n'
    outcome = rewrite(text % before)
    assert outcome.text == text % after
    assert outcome.rules == {SWITCH}


def test_a_request_for_v0_in_a_docstring_is_information_unless_unsafe() -> None:
    text = '"""VLLM_USE_V1=0 vllm serve"""\nimport vllm\n'
    assert [f.severity for f in rewrite(text).said(SWITCH)] == [Severity.INFO]
    assert rewrite('"""\nVLLM_USE_V1=0 vllm serve\n"""\nimport vllm\n', unsafe=True).text == (
        '"""\nvllm serve\n"""\nimport vllm\n'
    )


def test_a_recipe_that_asks_for_v0_is_no_sentence() -> None:
    (found,) = rewrite("x:\n\t@VLLM_USE_V1=0 pytest\n", kind=Kind.MAKE).said(SWITCH)
    assert "asks for the V0 engine" in found.message
    assert "sentence" not in found.advice
