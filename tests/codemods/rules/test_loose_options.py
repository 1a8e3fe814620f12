"""V1M406: options in strings that are split on their way to vLLM, or that stand alone."""

from __future__ import annotations

import pytest
from harness import rewrite
from v1_migrate.findings import Severity

HEAD = "import shlex\nimport subprocess\n\nfrom vllm.engine.arg_utils import EngineArgs\n\nparser = EngineArgs.add_cli_args(make())\n"
LINES = HEAD.count("\n")

EDITED = [
    pytest.param('parser.parse_args("{}--model m".split())\n', "--swap-space 4 ", id="the arguments of a parser"),
    pytest.param('parser.parse_args(shlex.split("{}--model m"))\n', "--swap-space 4 ", id="split by shlex"),
    pytest.param('parser.parse_args("{}".split())\n', "--swap-space 4", id="nothing else"),
    pytest.param('subprocess.run(["vllm", "serve", *"{}--port 1".split()])\n', "--swap-space 4 ", id="inside a list"),
    pytest.param(
        'more = "{}".split()\nsubprocess.run(["vllm", "serve", "m"] + more)\n', "--swap-space=4", id="by a name"
    ),
    pytest.param('o = ["a"]\no += "{}-x".split()\nparser.parse_args(o)\n', "--swap-space 4 ", id="added to a list"),
    pytest.param(
        'c = "vllm serve m".split()\nc += ["--port", "1"{}]\n', ', "--swap-space", "4"', id="a command that is split"
    ),
]

REPORTED = [
    pytest.param(
        'parser.parse_args("--swap-space 4".split(" "))\n', Severity.ERROR, id="an empty text would be a word"
    ),
    pytest.param('c = ["vllm", "serve"]\nc.append("--swap-space")\n', Severity.ERROR, id="appended to a command"),
    pytest.param('c = load()\nc.append("--swap-space")\n', Severity.INFO, id="appended to what nobody knows"),
    pytest.param('EXTRA = "--swap-space 4"\n', Severity.INFO, id="alone"),
    pytest.param('x = "--swap-space 4 --port 1".split()\n', Severity.INFO, id="split for what nobody knows"),
    pytest.param(
        'x = "--swap-space 4 -x".split()\nparser.parse_args(x)\nlen(x)\nx[1]\n', Severity.ERROR, id="measured"
    ),
    pytest.param(
        "parser.parse_args(shlex.split('--swap-space 4 --model \"a b\"'))\n", Severity.ERROR, id="beside a quoted word"
    ),
    pytest.param('x = "--port 1 --swap-space 4".split()\n', Severity.INFO, id="behind another option"),
]

LEFT = [
    pytest.param('mine.add_argument("--swap-space")\nx = "--swap-space 4".split()\n', id="an option of the file's own"),
    pytest.param('if arg == "--swap-space":\n    pass\n', id="a comparison"),
    pytest.param('x = "--device cpu".split()\n', id="an option that others have"),
    pytest.param('x = "about --swap-space and others"\n', id="a sentence"),
    pytest.param('"""--swap-space 4"""\n', id="a docstring"),
]


@pytest.mark.parametrize(("text", "goes"), EDITED)
def test_edited(text: str, goes: str) -> None:
    outcome = rewrite(HEAD + text.replace("{}", goes))
    assert outcome.text == HEAD + text.replace("{}", "")
    assert [finding.fixed for finding in outcome.said("V1M406")] == [True]


@pytest.mark.parametrize(("text", "severity"), REPORTED)
def test_reported(text: str, severity: Severity) -> None:
    outcome = rewrite(HEAD + text)
    assert outcome.text == HEAD + text
    assert [f.severity for f in outcome.said("V1M406")] == [severity]
    assert text.splitlines()[outcome.said("V1M406")[0].line - LINES - 1].count("swap-space") == 1


@pytest.mark.parametrize("use", ["port = c[5]", "c[-1] = x", "n = len(c)", "for i in range(9):\n    c[i]"])
def test_a_list_that_is_read_by_place_is_not_edited(use: str) -> None:
    text = f'{HEAD}c = ["vllm", "serve", "--swap-space", "4", "--port", "1"]\n{use}\n'
    outcome = rewrite(text)
    assert outcome.text == text
    assert [finding.fixed for finding in outcome.said("V1M406")] == [False]


def test_places_before_the_options_do_not_count() -> None:
    text = HEAD + 'c = ["vllm", "serve"{}]\nname = c[0]\n'
    assert rewrite(text.replace("{}", ', "--swap-space", "4"')).text == text.replace("{}", "")


@pytest.mark.parametrize("quoted", ["'--model \"a --swap-space 4 b\"'", "\"--model 'a --swap-space 4' --seed 1\""])
def test_what_a_quoted_word_holds_is_no_option(quoted: str) -> None:
    text = f"{HEAD}parser.parse_args(shlex.split({quoted}))\n"
    outcome = rewrite(text)
    assert outcome.text == text
    assert all(finding.severity is Severity.INFO for finding in outcome.said("V1M406"))


@pytest.mark.parametrize("text", LEFT)
def test_left_alone(text: str) -> None:
    assert rewrite(HEAD + text).said("V1M406") == []
