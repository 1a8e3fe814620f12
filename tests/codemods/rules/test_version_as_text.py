"""V1M014: vLLM's version compared as a text."""

from __future__ import annotations

import pytest
from harness import rewrite
from v1_migrate.findings import Severity

FOUND = [
    pytest.param('import vllm\nassert vllm.__version__ >= "0.8.1"\n', "false", id="assert"),
    pytest.param('import vllm\nif vllm.__version__ < "0.8":\n    old()\n', "true", id="if"),
    pytest.param('from vllm import __version__ as v\nassert "0.8.1" <= v\n', "false", id="the other way round"),
    pytest.param('import vllm\nv = vllm.__version__\nMIN = "0.8.5"\nassert v >= MIN\n', "false", id="by names"),
    pytest.param(
        'from importlib.metadata import version\nassert version("vllm") > "0.9.2"\n', "false", id="of the metadata"
    ),
    pytest.param(
        'import importlib.metadata as m\nassert m.version("vllm") > "0.9.2"\n', "false", id="of the metadata's module"
    ),
    pytest.param('from vllm.version import __version__\nx = "0.1" < __version__ < "0.9"\n', "true", id="of several"),
]
SILENT = [
    pytest.param('import vllm\nassert vllm.__version__ >= "0.11.0"\n', id="the texts' order is right"),
    pytest.param('import vllm\nassert vllm.__version__ == "0.8.1"\n', id="equality"),
    pytest.param(
        'import vllm\nfrom packaging.version import parse\nassert parse(vllm.__version__) >= parse("0.8.1")\n',
        id="releases",
    ),
    pytest.param('import vllm, torch\nassert torch.__version__ >= "0.8.1"\n', id="of another package"),
    pytest.param('import vllm\nfrom importlib.metadata import version\nversion("ray") > "0.9"\n', id="its metadata"),
    pytest.param('import vllm\nassert vllm.__version__ >= "main"\n', id="no release"),
    pytest.param(
        'from importlib.metadata import version\nv = version("vllm")\nv = clean(v)\nassert v >= "0.8.1"\n',
        id="a name of two things",
    ),
    pytest.param(
        'from vllm.envs import VLLM_HOST_IP as v  # no version\nassert v >= "0.8.1"\n', id="another text of vLLM's"
    ),
]


@pytest.mark.parametrize(("text", "outcome"), FOUND)
def test_a_comparison_that_goes_the_other_way_is_an_error(text: str, outcome: str) -> None:
    (found,) = rewrite(text, "0.32.0").said("V1M014")
    assert found.severity is Severity.ERROR
    assert found.message.endswith(f"on vLLM 0.32.0 it is {outcome}")


@pytest.mark.parametrize("text", SILENT)
def test_what_goes_the_right_way_is_left_alone(text: str) -> None:
    assert rewrite(text, "0.32.0").said("V1M014") == []
