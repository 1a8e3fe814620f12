"""V1M406: options of vLLM's command line in Python code."""

from __future__ import annotations

import pytest

from .harness import dedent, rewrite

RULE = "V1M406"
SERVER = "from tests.utils import RemoteOpenAIServer\n"
RUN = "import subprocess\n"

EDITED = [
    pytest.param(
        RUN + 'subprocess.run(["vllm", "serve", m, "--swap-space", "4", "--port", p])\n',
        RUN + 'subprocess.run(["vllm", "serve", m, "--port", p])\n',
        id="an option and its value in a command",
    ),
    pytest.param(
        RUN + 'subprocess.run(["vllm", "serve", m, "--port", p, "--swap-space=4", "--enable-reasoning"])\n',
        RUN + 'subprocess.run(["vllm", "serve", m, "--port", p])\n',
        id="options at the end, one with its value joined",
    ),
    pytest.param(
        "import sys\ncmd = [\n    sys.executable, '-m', 'vllm.entrypoints.openai.api_server',\n"
        "    # eight\n    '--num-scheduler-steps', str(8),\n    '--port', '1',\n]\n",
        "import sys\ncmd = [\n    sys.executable, '-m', 'vllm.entrypoints.openai.api_server',\n"
        "    # eight\n    '--port', '1',\n]\n",
        id="a module that is run, on lines of its own",
    ),
    pytest.param(
        SERVER + 'RemoteOpenAIServer(m, ["--num-scheduler-steps", "8", "--device", "cpu"])\n',
        SERVER + "RemoteOpenAIServer(m, [])\n",
        id="arguments of a test server",
    ),
    pytest.param(
        SERVER + 'args = ["--port", "1"]\nargs.extend(["--swap-space", "4"])\nRemoteOpenAIServer(m, args)\n',
        SERVER + 'args = ["--port", "1"]\nRemoteOpenAIServer(m, args)\n',
        id="a list that is extended, and the statement goes",
    ),
    pytest.param(
        SERVER + 'args = ["--port", "1"]\nargs += ["--swap-space", "4", "--seed", "0"]\nRemoteOpenAIServer(m, args)\n',
        SERVER + 'args = ["--port", "1"]\nargs += ["--seed", "0"]\nRemoteOpenAIServer(m, args)\n',
        id="a list that is added to",
    ),
    pytest.param(
        RUN + 'extra = ["--swap-space", "4"]\nsubprocess.run(["vllm", "serve", m] + extra)\n',
        RUN + 'extra = []\nsubprocess.run(["vllm", "serve", m] + extra)\n',
        id="a name that is added to a command",
    ),
    pytest.param(
        RUN + 'extra = ["--swap-space", "4"]\nsubprocess.run(["vllm", "serve", m, *extra])\n',
        RUN + 'extra = []\nsubprocess.run(["vllm", "serve", m, *extra])\n',
        id="a name that is spread into a command",
    ),
    pytest.param(
        "import pytest\n"
        + SERVER
        + dedent(
            """
            @pytest.fixture
            def server_args():
                return ["--swap-space", "4", "--seed", "0"]

            @pytest.fixture
            def server(server_args):
                with RemoteOpenAIServer("m", server_args) as found:
                    yield found
            """
        ),
        "import pytest\n"
        + SERVER
        + dedent(
            """
            @pytest.fixture
            def server_args():
                return ["--seed", "0"]

            @pytest.fixture
            def server(server_args):
                with RemoteOpenAIServer("m", server_args) as found:
                    yield found
            """
        ),
        id="a fixture that a server's fixture asks for",
    ),
    pytest.param(
        "from vllm import EngineArgs\nEngineArgs.add_cli_args(parser)\nx = parser.parse_args(['--swap-space', '4'])\n",
        "from vllm import EngineArgs\nEngineArgs.add_cli_args(parser)\nx = parser.parse_args([])\n",
        id="what a parser of vLLM's options reads",
    ),
    pytest.param(
        RUN + 'subprocess.run(["vllm", "serve", m, "--guided-decoding-backend", "outlines"])\n',
        RUN + 'subprocess.run(["vllm", "serve", m, "--structured-outputs-config.backend", "outlines"])\n',
        id="an option with another name",
    ),
    pytest.param(
        'import shlex\nx = shlex.split("vllm serve m --swap-space 4 --port 1")\n',
        'import shlex\nx = shlex.split("vllm serve m --port 1")\n',
        id="a command in a string",
    ),
    pytest.param(
        'import os\nos.system(f"vllm serve {model} --swap-space {space} --port {port}")\n',
        'import os\nos.system(f"vllm serve {model} --port {port}")\n',
        id="a command in an f-string",
    ),
]


@pytest.mark.parametrize("before, after", EDITED)
def test_edited(before: str, after: str) -> None:
    outcome = rewrite(before, "0.32.0")
    assert outcome.text == after
    assert outcome.said(RULE)
    assert all(finding.fixed for finding in outcome.said(RULE))


REPORTED = [
    pytest.param('subprocess.run(["vllm", "serve", m, "--swap-space", pick()])\n', id="a value that a call computes"),
    pytest.param('subprocess.run(["vllm", "serve", m, "--swap-space", *rest])\n', id="a value out of sight"),
    pytest.param('subprocess.run(["vllm", "serve", m, "--rope-theta", "1"])\n', id="an option that means something"),
    pytest.param('subprocess.run("vllm serve m " "--swap-space 4", shell=True)\n', id="a string in two parts"),
    pytest.param('subprocess.run(f"vllm serve m --swap-space {pick()}", shell=True)\n', id="a call in an f-string"),
    pytest.param('RemoteOpenAIServer(m, ("--swap-space=4", "--x"))\n', id="a tuple that would need a comma"),
]


@pytest.mark.parametrize("text", REPORTED)
def test_reported_and_left(text: str) -> None:
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    assert [str(finding.severity) for finding in outcome.said(RULE)] == ["error"]


def test_a_list_that_may_be_anybodys_is_only_mentioned() -> None:
    text = 'ARGS = ["--swap-space", "4"]  # for vllm\n'
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    assert [str(finding.severity) for finding in outcome.said(RULE)] == ["info"]


SILENT = [
    pytest.param(
        "import pytest\n@pytest.fixture\ndef args():\n    return ['--device', 'cpu']\n"
        "def f():\n    args = []\n    RemoteOpenAIServer(m, args)\n",
        id="a fixture with the name of somebody's list",
    ),
    pytest.param('ARGS = ["--swap-space", "4"]\n', id="a file that never speaks of the project"),
    pytest.param('import vllm\nrun(["train.py", "--device", "cpu"])\n', id="an option that others have, too"),
    pytest.param('import vllm\nparser.add_argument("--swap-space", type=int)\n', id="an option of one's own"),
    pytest.param('import vllm\nx = "--swap-space" in sys.argv\n', id="a test of one's own arguments"),
    pytest.param('import vllm\nlog("vllm does not take --swap-space")\n', id="a sentence"),
    pytest.param('subprocess.run(["numactl", "--device", "0", "vllm", "serve", m])\n', id="before the command"),
    pytest.param('subprocess.run(["vllm", "serve", m, "--port", "1"])\n', id="an option that is still there"),
    pytest.param(
        'def f():\n    args = ["--device", "cpu"]\n    mine(args)\ndef g():\n    args = []\n    RemoteOpenAIServer(m, args)\n',
        id="the same name in another function",
    ),
]


@pytest.mark.parametrize("text", SILENT)
def test_silent(text: str) -> None:
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    assert not outcome.said(RULE)
