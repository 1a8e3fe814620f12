"""The index against a small tree of our own that binds names in every way Python has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from v1_migrate.names import build
from v1_migrate.names.index import Index, Param, UnknownRelease
from v1_migrate.names.store import IndexFormatError, Store

OLD = {
    "vllm/__init__.py": """
        import typing
        from .version import __version__
        LAZY = {"LLM": ".entrypoints.llm:LLM", "Engine": ".engine:Engine"}
        if typing.TYPE_CHECKING:
            from vllm.entrypoints.llm import LLM
        else:
            def __getattr__(name):
                if name in LAZY:
                    return load(LAZY[name])
                raise AttributeError(name)
        """,
    "vllm/version.py": "__version__ = '1'",
    "vllm/entrypoints/__init__.py": "",
    "vllm/entrypoints/llm.py": """
        import torch
        import os.path as osp
        from typing import TYPE_CHECKING, Generic, TypeVar
        from vllm.base import Base as _Base
        if TYPE_CHECKING:
            from vllm.hints import Hint
        T = TypeVar("T")
        class LLM(_Base, Generic[T]):
            limit = 3
            size: int = 0
            def __init__(self, model, *, device="auto", **kwargs):
                self.engine = model
            def generate(self, prompts, params=None): ...
            @property
            def ready(self): ...
            @staticmethod
            def parse(text): ...
            @classmethod
            def make(cls, a, /, b=1, *args): ...
            class Options:
                deep = 1
        """,
    "vllm/base.py": """
        class Base:
            def shared(self, x): ...
        class Open(torch.nn.Module):
            def forward(self): ...
        """,
    "vllm/hints.py": "class Hint: ...\n",
    "vllm/data.py": """
        from dataclasses import dataclass, field
        from enum import Enum
        from typing import ClassVar, NamedTuple
        import msgspec
        from pydantic import BaseModel
        @dataclass
        class First:
            a: int
            b: int = field(default=0, init=False)
        @dataclass
        class Second:
            c: int
            k: ClassVar[int] = 1
        @dataclass
        class Both(First, Second):
            d: int = 1
            e: int = field(default=2, kw_only=True)
            a: int
        class Colour(Enum):
            RED = 1
        class Row(NamedTuple):
            x: int
            y: int = 0
        class Message(msgspec.Struct, kw_only=True):
            text: str
        class Model(BaseModel):
            z: int = 1
        """,
    "vllm/meta.py": """
        from vllm.data import First
        class Meta(type):
            def listed(cls): ...
        class Asking(type):
            def __getattr__(cls, name): ...
        class Closed(metaclass=Meta): ...
        class Computed(metaclass=Asking): ...
        class Made(make_base()): ...
        made = First(1)
        @support_torch_compile
        class Wrapped:
            def __init__(self, config): ...
        if __name__ == "__main__":
            script_only = 1
        """,
    "vllm/forms.py": """
        import a.b
        import contextlib
        try:
            from fast import quick
        except ImportError:
            quick = None
        with contextlib.suppress(ImportError):
            from vllm.base import Base
        for i in range(3):
            pass
        first, (second, *third) = 1, (2, 3)
        if (walrus_free := 1):
            def chosen(a): ...
        else:
            def chosen(b): ...
        Alias = Base
        def outer():
            global late
            late = 1
        async def waits(x): ...
        gone = 1
        del gone
        def _private(): ...
        """,
    "vllm/stars.py": "from .starred import *\nfrom vllm.forms import *\n",
    "vllm/starred.py": "__all__ = ['shown']\n__all__ += ['added']\nshown = added = hidden = 1\n",
    "vllm/envs.py": """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            VLLM_HOST: str = ""
            VLLM_UNSET: str = ""
        environment_variables = {"VLLM_HOST": lambda: 1}
        environment_variables.update({"VLLM_PORT": lambda: 2})
        def __getattr__(name):
            if name in environment_variables:
                return environment_variables[name]()
            raise AttributeError(name)
        """,
    "vllm/computed.py": "def __getattr__(name):\n    return globals()[name.lower()]\n",
    "vllm/lazy_one.py": """
        def __getattr__(name):
            if name == "Old":
                from .base import Base
                return Base
            raise AttributeError(name)
        """,
    "vllm/namespace/inner.py": "import vllm.vllm_flash_attn.rotary\nx = 1\n",
    "vllm/_C.abi3.so": "",
}
NEW = {
    "vllm/__init__.py": "",
    "vllm/base.py": "from vllm.moved import Base\n",
    "vllm/moved.py": "class Base:\n    def shared(self, x, y): ...\n",
    "vllm/caller.py": "from vllm.hints import Hint\n",
}


def write(root: Path, files: dict[str, str]) -> Path:
    import textwrap

    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return root


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    root = tmp_path_factory.mktemp("trees")
    trees = {"1.0.0": write(root / "old", OLD), "1.1.0": write(root / "new", NEW)}
    build.build({}, trees, root / "small.names")
    return Index([Store(root / "small.names")])


@pytest.mark.parametrize(
    ("dotted", "found", "kind", "canonical"),
    [
        pytest.param("vllm", True, "module", "vllm", id="the package"),
        pytest.param("vllm.LLM", True, "reexport:class", "vllm.entrypoints.llm.LLM", id="a lazy name of the package"),
        pytest.param(
            "vllm.Engine", True, "reexport:unknown", "vllm.engine.Engine", id="a lazy name whose home is gone"
        ),
        pytest.param("vllm.Nothing", False, "", "vllm.Nothing", id="a name its closed __getattr__ refuses"),
        pytest.param("vllm.__version__", True, "reexport:value", "vllm.version.__version__", id="a dunder re-export"),
        pytest.param("vllm.base.__file__", True, "value", "vllm.base.__file__", id="what every module has"),
        pytest.param("vllm.entrypoints.llm.torch", True, "reexport:external", "torch", id="a third-party module"),
        pytest.param("vllm.entrypoints.llm.torch.nn", None, "", "torch.nn", id="inside a third-party module"),
        pytest.param("vllm.entrypoints.llm.osp", True, "reexport:external", "os.path", id="import a.b as c"),
        pytest.param("vllm.forms.a", True, "reexport:external", "a", id="import a.b binds a"),
        pytest.param("vllm.forms.b", False, "", "vllm.forms.b", id="import a.b does not bind b"),
        pytest.param("vllm.entrypoints.llm.LLM.generate", True, "method", None, id="a method"),
        pytest.param("vllm.LLM.shared", True, "method", "vllm.base.Base.shared", id="inherited through a re-export"),
        pytest.param("vllm.LLM.ready", True, "property", "vllm.entrypoints.llm.LLM.ready", id="a property"),
        pytest.param("vllm.LLM.engine", True, "attribute", "vllm.entrypoints.llm.LLM.engine", id="set on self"),
        pytest.param(
            "vllm.LLM.engine.x", None, "", "vllm.entrypoints.llm.LLM.engine.x", id="inside an instance attribute"
        ),
        pytest.param("vllm.LLM.limit", True, "attribute", "vllm.entrypoints.llm.LLM.limit", id="a class attribute"),
        pytest.param("vllm.LLM.size", True, "field", "vllm.entrypoints.llm.LLM.size", id="an annotated field"),
        pytest.param("vllm.LLM.Options.deep", True, "attribute", "vllm.entrypoints.llm.LLM.Options.deep", id="nested"),
        pytest.param("vllm.LLM.Options.shallow", False, "", "vllm.LLM.Options.shallow", id="missing in a nested class"),
        pytest.param("vllm.LLM.nothing", False, "", "vllm.LLM.nothing", id="missing in a closed class"),
        pytest.param("vllm.LLM.__init__", True, "method", "vllm.entrypoints.llm.LLM.__init__", id="constructor"),
        pytest.param("vllm.base.Base.__init__", True, "attribute", "vllm.base.Base.__init__", id="object's own"),
        pytest.param("vllm.base.Open.anything", None, "", "vllm.base.Open.anything", id="below a foreign base"),
        pytest.param("vllm.data.Colour.RED", True, "attribute", "vllm.data.Colour.RED", id="an enum member"),
        pytest.param("vllm.data.Colour.BLUE", False, "", "vllm.data.Colour.BLUE", id="no such enum member"),
        pytest.param("vllm.data.Colour.RED.value", None, "", "vllm.data.Colour.RED.value", id="inside an enum member"),
        pytest.param("vllm.meta.Closed.x", False, "", "vllm.meta.Closed.x", id="a plain metaclass"),
        pytest.param("vllm.meta.Computed.x", None, "", "vllm.meta.Computed.x", id="a metaclass with __getattr__"),
        pytest.param("vllm.meta.Made.x", None, "", "vllm.meta.Made.x", id="a computed base"),
        pytest.param("vllm.meta.made", True, "value", "vllm.meta.made", id="an instance is no alias of its class"),
        pytest.param("vllm.meta.script_only", False, "", "vllm.meta.script_only", id="only when run as a script"),
        pytest.param("vllm.meta.Closed.__json__", None, "", "vllm.meta.Closed.__json__", id="a special name"),
        pytest.param("vllm.meta.made.a", None, "", "vllm.meta.made.a", id="inside an instance"),
        pytest.param("vllm.forms.quick", True, "reexport:external", "fast.quick", id="try import except None"),
        pytest.param("vllm.forms.Base.shared", True, "method", "vllm.base.Base.shared", id="imported under with"),
        pytest.param("vllm.forms.third", True, "value", "vllm.forms.third", id="a starred unpacking"),
        pytest.param("vllm.forms.Alias", True, "reexport:class", "vllm.base.Base", id="X = Y"),
        pytest.param("vllm.forms.late", True, "value", "vllm.forms.late", id="a global made in a function"),
        pytest.param("vllm.forms.waits", True, "function", "vllm.forms.waits", id="an async function"),
        pytest.param("vllm.forms._private", True, "function", "vllm.forms._private", id="an underscore name"),
        pytest.param("vllm.forms.gone", False, "", "vllm.forms.gone", id="a deleted name"),
        pytest.param("vllm.stars.shown", True, "reexport:value", "vllm.starred.shown", id="star import with __all__"),
        pytest.param("vllm.stars.added", True, "reexport:value", "vllm.starred.added", id="__all__ += ..."),
        pytest.param("vllm.stars.hidden", False, "", "vllm.stars.hidden", id="left out of __all__"),
        pytest.param("vllm.stars.waits", True, "reexport:function", "vllm.forms.waits", id="star without __all__"),
        pytest.param("vllm.stars._private", False, "", "vllm.stars._private", id="star leaves underscores"),
        pytest.param("vllm.envs.VLLM_HOST", True, "value", "vllm.envs.VLLM_HOST", id="an environment variable"),
        pytest.param("vllm.envs.VLLM_PORT", True, "value", "vllm.envs.VLLM_PORT", id="added by update()"),
        pytest.param("vllm.envs.VLLM_UNSET", False, "", "vllm.envs.VLLM_UNSET", id="annotated, but not in the table"),
        pytest.param("vllm.envs.VLLM_NO", False, "", "vllm.envs.VLLM_NO", id="no such variable"),
        pytest.param("vllm.computed.X", None, "", "vllm.computed.X", id="a computed __getattr__"),
        pytest.param("vllm.lazy_one.Old", True, "reexport:class", "vllm.base.Base", id="if name == ..."),
        pytest.param("vllm.lazy_one.New", False, "", "vllm.lazy_one.New", id="not the name asked for"),
        pytest.param("vllm.namespace.inner.x", True, "value", "vllm.namespace.inner.x", id="a namespace package"),
        pytest.param("vllm._C", True, "module", "vllm._C", id="a C extension"),
        pytest.param("vllm._C.ops", None, "", "vllm._C.ops", id="inside a C extension"),
        pytest.param("vllm.vllm_flash_attn.rotary", None, "", None, id="imported, but made by another build"),
        pytest.param("vllm.vllm_flash_attn", None, "", None, id="the parent of such a module"),
        pytest.param("torch.nn", None, "", "torch.nn", id="not vllm"),
    ],
)
def test_resolve(index: Index, dotted: str, found: bool | None, kind: str, canonical: str | None) -> None:
    resolution = index.resolve(dotted, "1.0.0")
    assert (resolution.found, resolution.kind) == (found, kind)
    assert resolution.canonical == (canonical or dotted)
    assert bool(resolution.missing_at) == (found is False)


@pytest.mark.parametrize(
    ("dotted", "missing_at"),
    [
        pytest.param("vllm.entrypoints.llm.LLM.generate", "vllm.entrypoints", id="a package that is gone"),
        pytest.param("vllm.hints.Hint", "vllm.hints", id="gone although a stale import still names it"),
        pytest.param("vllm.base.Open.forward", "vllm.base.Open", id="a class that is gone from a module that stays"),
        pytest.param("vllm.base.Base.other.deep", "vllm.base.Base.other", id="a member, through a re-export"),
    ],
)
def test_shortest_missing_prefix(index: Index, dotted: str, missing_at: str) -> None:
    resolution = index.resolve(dotted, "1.1.0")
    assert (resolution.found, resolution.missing_at) == (False, missing_at)


def names(params: tuple[Param, ...] | None) -> list[str] | None:
    short = {"pos": "/", "pos_or_kw": "", "var_pos": "*", "kw_only": "k:", "var_kw": "**"}
    return None if params is None else [short[p.kind] + p.name + ("=" if p.default else "") for p in params]


@pytest.mark.parametrize(
    ("dotted", "expected"),
    [
        pytest.param("vllm.LLM", ["model", "k:device=", "**kwargs"], id="own __init__, without self"),
        pytest.param("vllm.LLM.make", ["/a", "b=", "*args"], id="classmethod, positional-only"),
        pytest.param("vllm.LLM.parse", ["text"], id="staticmethod"),
        pytest.param("vllm.base.Base", [], id="no constructor at all"),
        pytest.param("vllm.base.Open", None, id="a foreign base decides"),
        pytest.param("vllm.data.Both", ["c", "a", "d=", "k:e="], id="dataclass: reverse MRO, init=False, kw_only last"),
        pytest.param("vllm.data.Row", ["x", "y="], id="NamedTuple"),
        pytest.param("vllm.data.Message", ["k:text"], id="msgspec, keyword-only"),
        pytest.param("vllm.data.Model", ["k:z=", "**data"], id="pydantic takes keywords and ignores the rest"),
        pytest.param("vllm.forms.chosen", None, id="two branches disagree"),
        pytest.param("vllm.forms.third", None, id="a value"),
        pytest.param("vllm.meta.Wrapped", None, id="a decorator replaces the constructor"),
    ],
)
def test_params(index: Index, dotted: str, expected: list[str] | None) -> None:
    assert names(index.params(dotted, "1.0.0")) == expected


def test_the_generated_constructor_order_is_what_python_makes(index: Index) -> None:
    """The stored order against `inspect` on the very same source, run here."""
    import inspect
    import textwrap

    pytest.importorskip("dataclasses")
    source = "\n".join(line for line in textwrap.dedent(OLD["vllm/data.py"]).splitlines() if "pydantic" not in line)
    source = source[: source.index("class Message")].replace("import msgspec", "")
    space: dict[str, object] = {"__name__": "sample"}
    exec(compile(source, "data.py", "exec", dont_inherit=True), space)
    for cls in ("First", "Both", "Row"):
        real = inspect.signature(space[cls])  # type: ignore[arg-type]
        assert [p.name for p in index.params(f"vllm.data.{cls}", "1.0.0") or ()] == list(real.parameters)


def test_members_fields_bases_definitions(index: Index) -> None:
    assert "shared" in index.members("vllm.LLM", "1.0.0") and "Options" in index.members("vllm.LLM", "1.0.0")
    assert {"LLM", "torch"} <= set(index.members("vllm.entrypoints.llm", "1.0.0"))
    assert "llm" in index.members("vllm.entrypoints", "1.0.0")
    assert index.fields("vllm.data.Both", "1.0.0") == ("c", "a", "b", "d", "e")
    assert index.bases("vllm.LLM", "1.0.0") == ("vllm.base.Base", "typing.Generic")
    assert index.definitions("Base", "1.0.0") == ("vllm.base.Base",)
    assert index.definitions("Base", "1.1.0") == ("vllm.moved.Base",)
    assert index.releases_of("vllm.base.Base") == ("1.0.0", "1.1.0")
    assert index.known("vllm.hints.Hint") and not index.known("vllm.hints.Missing")


def test_type_checking_names_are_not_there_at_run_time(index: Index) -> None:
    assert index.resolve("vllm.entrypoints.llm.Hint", "1.0.0").found
    assert not index.runtime("vllm.entrypoints.llm.Hint", "1.0.0")
    assert index.runtime("vllm.hints.Hint", "1.0.0")


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    trees = {"1.0.0": write(tmp_path / "old", OLD), "1.1.0": write(tmp_path / "new", NEW)}
    build.build({}, trees, tmp_path / "a.names")
    build.build({}, dict(reversed(trees.items())), tmp_path / "b.names")
    assert (tmp_path / "a.names").read_bytes() == (tmp_path / "b.names").read_bytes()
    write(tmp_path / "new", {"vllm/one_more.py": "x = 1"})
    build.build({}, trees, tmp_path / "c.names")
    assert (tmp_path / "a.names").read_bytes() != (tmp_path / "c.names").read_bytes()


def test_a_file_that_does_not_parse_is_unknown_not_empty(tmp_path: Path) -> None:
    tree = write(tmp_path, {"vllm/__init__.py": "", "vllm/broken.py": "def f(:\n", "vllm/bytes.py": ""})
    (tree / "vllm/bytes.py").write_bytes(b"x = '\xff'\n")
    builder = build.build({}, {"1.0.0": tree}, tmp_path / "x.names")
    index = Index([Store(tmp_path / "x.names")])
    assert len(builder.unparsed) == 2
    assert index.resolve("vllm.broken.f", "1.0.0").found is None
    assert index.resolve("vllm.bytes.x", "1.0.0").found is None


def test_add_tree_adds_a_private_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "data"))
    fork = write(tmp_path / "fork", {"vllm/__init__.py": "", "vllm/ours.py": "def special(): ...\n"})
    before = Index.load().releases
    path = build.add_tree(fork, "our-fork")
    try:
        index = Index.load()
        assert path.is_file() and index.releases == (*before, "our-fork")
        assert index.resolve("vllm.ours.special", index.release("our-fork")).found
        assert index.resolve("vllm.ours.special", before[-1]).found is False
        assert build.add_tree(fork, "our-fork") == path  # again: replaced
    finally:
        os.unlink(path)
        Index.forget()


@pytest.mark.parametrize(
    ("label", "files", "message"),
    [
        pytest.param("a/b", {"vllm/__init__.py": ""}, "use letters", id="a label that is no file name"),
        pytest.param("0.32.0", {"vllm/__init__.py": ""}, "already has", id="a label that is taken"),
        pytest.param("mine", {"other/__init__.py": ""}, "no vllm/ package", id="a tree without the package"),
        pytest.param("mine", None, "no such directory", id="a path that is not there"),
    ],
)
def test_add_tree_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, label: str, files: dict[str, str] | None, message: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    tree = write(tmp_path / "tree", files) if files else tmp_path / "absent"
    with pytest.raises(ValueError, match=message):
        build.add_tree(tree, label)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"something else", id="another file"),
        pytest.param(b"", id="an empty file"),
        pytest.param(b"v1-migrate names 1\n00000010\nshort", id="a truncated file"),
    ],
)
def test_a_file_that_is_no_index_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.names").write_bytes(content)
    with pytest.raises(IndexFormatError, match="build it again"):
        Store(tmp_path / "x.names")


def test_label_of_a_tree(tmp_path: Path) -> None:
    tree = write(tmp_path, {"vllm/_version.py": "__version__ = version = '0.9.2.dev7+fork'\n"})
    assert build.label_of(tree) == build.label_of(tree / "vllm") == "0.9.2.dev7+fork"
    with pytest.raises(ValueError, match="--release"):
        build.label_of(tmp_path / "other")


def test_an_unknown_release_is_an_error(index: Index) -> None:
    assert index.release("v1.0") == "1.0.0"
    with pytest.raises(UnknownRelease, match=r"1\.0\.0.*1\.1\.0"):
        index.release("1.0.5")
