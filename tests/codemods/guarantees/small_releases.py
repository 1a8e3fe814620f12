"""Two tiny releases of a package `vllm`, written here, small enough to know by heart."""

from __future__ import annotations

import textwrap
from pathlib import Path

LAZY = """
    import typing
    MODULE_ATTRS = {%s}
    if typing.TYPE_CHECKING:
        from vllm.entry import LLM
    else:
        def __getattr__(name):
            from importlib import import_module
            if name in MODULE_ATTRS:
                module, attribute = MODULE_ATTRS[name].split(":")
                return getattr(import_module(module, __package__), attribute)
            raise AttributeError(name)
"""
ENVS = """
    import os
    environment_variables = {%s}
    def __getattr__(name):
        if name in environment_variables:
            return environment_variables[name]()
        raise AttributeError(name)
    def is_set(name):
        return name in os.environ
"""
SAME = {
    "open.py": "def __getattr__(name):\n    return compute(name)\n",
    "typed.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from vllm.kept import Engine\nelse:\n    Only = 1\n",
    "native.abi3.so": "",
    "outside.py": "import enum\nclass Colour(enum.Enum):\n    RED = 1\n",
}
OLD = {
    **SAME,
    "__init__.py": LAZY % '"LLM": ".entry:LLM", "OldThing": ".entry:OldThing"',
    "envs.py": ENVS % '"VLLM_KEPT": lambda: 1, "VLLM_GONE": lambda: 2',
    "entry.py": "class LLM:\n    pass\nclass OldThing:\n    pass\n",
    "worker/__init__.py": "",
    "worker/cpu.py": "class Base:\n    def stop(self): ...\nclass Worker(Base):\n    def load(self): ...\ndef make(): ...\n",
    "kept.py": """
        from vllm.worker.cpu import Worker
        GONE_CONSTANT = 1
        class Engine:
            def start(self): ...
            def stop(self): ...
        def helper(): ...
    """,
    "pkg/__init__.py": "from .parts import *\nfrom .impl import Impl\n",
    "pkg/parts.py": "__all__ = ['part_a', 'part_c']\npart_a = part_b = part_c = 1\n",
    "pkg/impl.py": "class Impl:\n    pass\n",
}
NEW = {
    **SAME,
    "__init__.py": LAZY % '"LLM": ".entry:LLM"',
    "envs.py": ENVS % '"VLLM_KEPT": lambda: 1',
    "entry.py": "class LLM:\n    pass\n",
    "v1/__init__.py": "",
    "v1/cpu.py": "class Worker:\n    def load(self): ...\n",
    "kept.py": "class Engine:\n    def start(self): ...\ndef helper(): ...\n",
    "pkg/__init__.py": "from .parts import *\n",
    "pkg/parts.py": "__all__ = ['part_a']\npart_a = part_b = 1\n",
    "pkg/impl.py": "",
}


def write_tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return root


def write_releases(root: Path) -> Path:
    """A folder as V1_MIGRATE_RELEASES wants it, with releases 0.9.2 and 0.32.0."""
    write_tree(root / "0.9.2" / "vllm", OLD)
    write_tree(root / "0.32.0" / "vllm", NEW)
    return root
