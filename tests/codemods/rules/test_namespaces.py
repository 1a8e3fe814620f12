"""V1M406: options that vLLM's parser lost, read from what it gave."""

from __future__ import annotations

import pytest
from harness import rewrite

HEAD = (
    "import argparse\nfrom vllm import AsyncEngineArgs, EngineArgs\n"
    "from vllm.entrypoints.openai.cli_args import make_arg_parser\n\n"
)
READ = [
    pytest.param("args = make_arg_parser(argparse.ArgumentParser()).parse_args()\nargs.swap_space\n", id="at once"),
    pytest.param(
        "p = argparse.ArgumentParser()\nEngineArgs.add_cli_args(p)\nargs = p.parse_args()\nargs.swap_space\n",
        id="filled in place",
    ),
    pytest.param(
        "p = argparse.ArgumentParser()\np = AsyncEngineArgs.add_cli_args(p)\nargs, rest = p.parse_known_args()\n"
        "args.swap_space\n",
        id="filled and bound again",
    ),
    pytest.param(
        "def main(args):\n    print(args.swap_space)\n\np = make_arg_parser(argparse.ArgumentParser())\n"
        "args = p.parse_args()\nmain(args)\n",
        id="handed to a function",
    ),
]
SILENT = [
    pytest.param(
        "from vllm.utils.argparse_utils import FlexibleArgumentParser as P\nargs = P('a').parse_args()\nargs.swap_space\n",
        id="vLLM's parser without its options",
    ),
    pytest.param("args = argparse.ArgumentParser().parse_args()\nargs.swap_space\n", id="a parser of its own"),
    pytest.param(
        "p = make_arg_parser(argparse.ArgumentParser())\np.add_argument('--swap-space')\nargs = p.parse_args()\n"
        "args.swap_space\n",
        id="an option of its own",
    ),
    pytest.param(
        "args = make_arg_parser(argparse.ArgumentParser()).parse_args()\nif hasattr(args, 'swap_space'):\n"
        "    args.swap_space\n",
        id="asked for",
    ),
    pytest.param(
        "args = make_arg_parser(argparse.ArgumentParser()).parse_args()\nargs.swap_space = 4\n", id="set by the file"
    ),
    pytest.param("args = make_arg_parser(argparse.ArgumentParser()).parse_args()\nargs.model\n", id="what is there"),
    pytest.param(
        "def main(args):\n    print(args.swap_space)\n\nargs = make_arg_parser(argparse.ArgumentParser()).parse_args()\n"
        "main(args)\nmain(other())\n",
        id="a function that is given other things, too",
    ),
    pytest.param(
        "args = make_arg_parser(argparse.ArgumentParser()).parse_args()\nargs = change(args)\nargs.swap_space\n",
        id="bound to another thing",
    ),
]


@pytest.mark.parametrize("text", READ)
def test_an_option_that_the_parser_lost_is_an_error_where_it_is_read(text: str) -> None:
    (found,) = rewrite(HEAD + text, "0.32.0").said("V1M406")
    assert "does not give `swap_space`" in found.message


@pytest.mark.parametrize("text", SILENT)
def test_other_reads_are_left_alone(text: str) -> None:
    assert not [f for f in rewrite(HEAD + text, "0.32.0").said("V1M406") if "does not give" in f.message]
