"""Names of vLLM that a Python file holds as text: strings, the second argument of setattr and its like, comments."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from ..findings import Edit
from . import guards
from .bridge import bridged
from .callshape import own_name
from .context import PythonFile
from .imports_in_text import imports_in_text
from .occurrence import Claim, Finder, Form, Occurrence
from .references import Role
from .scopes import Node, Path, ancestors
from .verdicts import Verdict

IMPORTED_ONLY = "the module only imported it"

_EXACT = re.compile(r"vllm(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_]\w*(?:\.\w+)*)?")
_DOTTED = re.compile(r"(?<![\w./-])vllm(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_]\w*)?")
_FILE = re.compile(r"(?<![\w.-])vllm((?:/[A-Za-z_]\w*)+)(?:\.py\b|/|\b)")
_TYPE_COMMENT = re.compile(r"#\s*type:\s*[^\r\n]*")
_ATTRIBUTE_CALLS = {"setattr", "getattr", "hasattr", "delattr", "object"}


class TextFinder(Finder):
    """Strings, attribute calls, `# type:` comments. `carried`: references that an import's edit takes to the target."""

    def __init__(self, file: PythonFile, claim: Claim, carried: set[int]) -> None:
        super().__init__(file, claim)
        self.path_judge = file.judge.of_vllm.judge  # a path in a string is for vLLM to import
        self.carried = carried

    def run(self) -> list[Occurrence]:
        self._strings()
        self._attribute_calls()
        self._type_comments()
        return self.out

    # names in strings

    def _strings(self) -> None:
        for found in self.file.model.nodes.get(ast.Constant, ()):
            value: str = found.node.value
            if "vllm" in value and not self._is_docstring(found) and not _names_a_tracer(found):
                self._string(found, value)

    def _is_docstring(self, found: Node) -> bool:
        return isinstance(found.path[0], ast.Expr)

    def _string(self, found: Node, value: str) -> None:
        computed = isinstance(found.path[0], ast.JoinedStr) or _is_operand(found)
        if _EXACT.fullmatch(value) and not computed:
            self._exact_string(found, value)
            return
        seen: set[str] = set()
        for match in _DOTTED.finditer(value):
            dotted = match.group().replace(":", ".")
            if dotted not in seen and self._worth_saying(dotted):
                seen.add(dotted)
                form: Form = "computed" if computed else "text"
                self._add_in_string(found, dotted, match.group(), form)
        if "import" in value:
            self._imports(found)
        for match in _FILE.finditer(value):
            dotted = "vllm" + match.group(1).replace("/", ".")
            if dotted not in seen and self._worth_saying(dotted) and self.file.judge.is_module(dotted):
                seen.add(dotted)
                self._add_in_string(found, dotted, match.group(), "path")

    def _imports(self, found: Node) -> None:
        """`from vllm.a import B`, where vLLM still has the module."""
        start, end = self.file.span(found.node)
        for dotted, low, high in imports_in_text(self.file.source.text[start:end]):
            if self._worth_saying(dotted) and not self._worth_saying(dotted.rpartition(".")[0]):
                guard = self.guard_around(found.path, found.node)
                self.out.append(Occurrence(self.path_judge(dotted), start + low, start + high, "text", "value", guard))

    def _worth_saying(self, dotted: str) -> bool:
        verdict = self.path_judge(dotted)
        return verdict.missing and verdict.fate != "alien" and not self.own(verdict)

    def _add_in_string(self, found: Node, dotted: str, written: str, form: Form) -> None:
        start, end = self.file.span(found.node)
        position = self.file.source.text.find(written, start, end)
        if position >= 0:
            start, end = position, position + len(written)
        guard = self.guard_around(found.path, found.node)
        self.out.append(Occurrence(self.path_judge(dotted), start, end, form, "value", guard))

    def _only_imported(self, dotted: str, verdict: Verdict) -> bool:
        """The path named a module's own copy of something it imported: patching the definition patches nobody."""
        judge = self.file.judge
        _, last = judge.span(dotted)
        if not last or verdict.symbol != dotted or not judge.is_module(dotted.rpartition(".")[0]):
            return False
        return judge.index.resolve(dotted, last).canonical != dotted

    def _exact_string(self, found: Node, value: str) -> None:
        dotted = value.replace(":", ".")
        if not self._worth_saying(dotted):
            return
        verdict = self.path_judge(dotted)
        start, end = self.file.span(found.node)
        literal = self.file.source.text[start:end]
        guard = self.guard_around(found.path, found.node)
        guard = guard or ("probe" if _asks_for_module(found) else "")
        occurrence = Occurrence(verdict, start, end, "string", _string_role(found), guard)
        if self._bridge_string(occurrence, value, literal, found.path):
            return
        movable = verdict.movable or (verdict.fate == "contract" and verdict.new and self.file.settings.unsafe)
        if not movable or guard or self.file.legacy:
            self.out.append(occurrence)
            return
        if self.serves_one(dotted, verdict.new):
            why = f"no one path is right on vLLM {self.file.settings.also} and on {self.file.judge.target}"
            self.out.append(replace(occurrence, reason=why))
            return
        if occurrence.role == "patch" and self._only_imported(dotted, verdict):
            self.out.append(replace(occurrence, reason=IMPORTED_ONLY))
            return
        if literal.count(value) != 1:
            self.out.append(replace(occurrence, reason="the string is put together from pieces"))
            return
        if self.may_edit(occurrence):
            at = start + literal.index(value)
            new = verdict.new
            if ":" in value:
                tail = value.rpartition(":")[2]
                new = new[: -len(tail) - 1] + ":" + tail if new.endswith("." + tail) else ":".join(new.rsplit(".", 1))
            occurrence = replace(occurrence, edits=(Edit(at, at + len(value), value, new),))
        self.out.append(occurrence)

    def _bridge_string(self, occurrence: Occurrence, value: str, literal: str, path: Path | None) -> bool:
        """With --bridge: the path of a class that has no one place on both engines goes to the bridge."""
        settings, verdict = self.file.settings, occurrence.verdict
        if not settings.bridge or occurrence.role != "value" or occurrence.guard or self.file.legacy:
            return False
        dotted = occurrence.dotted
        found = self.file.judge.index.resolve(dotted, settings.also)
        is_class = found.found is True and found.kind.endswith("class")
        if not is_class or (verdict.movable and not self.serves_one(dotted, verdict.new)) or literal.count(value) != 1:
            return False
        if guards.goes_on_without(path):  # is right on both engines, and the bridge never fails
            self.out.append(replace(occurrence, guard="trial"))
            return True
        decided = replace(occurrence, destination=bridged(dotted))
        if not self.may_edit(decided):
            return False
        at = occurrence.start + literal.index(value)
        self.out.append(replace(decided, edits=(Edit(at, at + len(value), value, bridged(value)),)))
        return True

    # setattr(module, "name"), patch.object(cls, "name"), getattr(...)

    def _attribute_calls(self) -> None:
        for found in self.file.model.nodes.get(ast.Call, ()):
            call: ast.Call = found.node
            name = own_name(call.func)
            if name not in _ATTRIBUTE_CALLS or len(call.args) < 2:
                continue
            literal = call.args[1]
            if not (
                isinstance(literal, ast.Constant) and isinstance(literal.value, str) and literal.value.isidentifier()
            ):
                continue
            for reference in self.file.by_node.get(id(call.args[0]), ()):
                dotted = f"{reference.dotted}.{literal.value}"
                verdict = self.judge(dotted)
                if verdict.missing and not self.own(verdict) and not literal.value.startswith("__"):
                    start, end = self.file.span(literal)
                    role: Role = "value" if name in ("getattr", "hasattr") else "patch"
                    guard = self._guard_of(found, literal.value)
                    if verdict.movable and id(reference) in self.carried:
                        continue
                    sets = isinstance(call.func, ast.Name) if name == "setattr" else self.set_by_tree(verdict)
                    self.out.append(Occurrence(verdict, start, end, "attribute", role, guard, sets=sets))

    def _guard_of(self, found: Node, name: str) -> str:
        """Why a `getattr` or its like does not fail, though the name is gone."""
        call: ast.Call = found.node
        if guards.asks_for_presence(call):
            return "probe"
        if own_name(call.func) != "getattr":
            return ""  # what is assigned or deleted there is a patch
        around = self.guard_around(found.path, call)
        return around or ("probe" if guards.probed(found.path, (name,)) else "")

    # `# type:` comments

    def _type_comments(self) -> None:
        text = self.file.source.text
        if "# type:" not in text and "#type:" not in text:
            return
        for comment in _TYPE_COMMENT.finditer(text):
            if "vllm." not in comment.group():
                continue
            for match in _DOTTED.finditer(comment.group()):
                if not self._worth_saying(match.group()):
                    continue
                start = comment.start() + match.start()
                verdict = self.judge(match.group())
                occurrence = Occurrence(verdict, start, start + len(match.group()), "comment", "annotation")
                if verdict.movable and not self.file.legacy and self.may_edit(occurrence):
                    edit = Edit(start, occurrence.end, match.group(), verdict.new)
                    occurrence = replace(occurrence, edits=(edit,))
                self.out.append(occurrence)


def _is_operand(found: Node) -> bool:
    """The string is one side of `+` or `%`, or formatted: only a part of what is meant."""
    for parent, name in ancestors(found.path):
        if isinstance(parent, ast.BinOp):
            return isinstance(parent.op, ast.Add | ast.Mod)
        return isinstance(parent, ast.Attribute) and name == "value"
    return False


def _names_a_tracer(found: Node) -> bool:
    """OpenTelemetry's name for what is traced: it looks like a module's path, and nothing imports it."""
    parent = found.path[0] if found.path else None
    if isinstance(parent, ast.keyword):
        return parent.arg == "instrumenting_module_name"
    return isinstance(parent, ast.Call) and own_name(parent.func) == "get_tracer"


def _asks_for_module(found: Node) -> bool:
    """`find_spec("a.b")`: what is asked is whether the old module is there, and the answer guards imports of it."""
    parent = found.path[0] if found.path else None
    function = parent.func if isinstance(parent, ast.Call) else None
    return "find_spec" in (getattr(function, "attr", ""), getattr(function, "id", ""))


def _string_role(found: Node) -> Role:
    """`patch("a.b")` is a patch target, a key of sys.modules a stand-in for a module; other strings are values."""
    for parent, _ in ancestors(found.path):
        if isinstance(parent, ast.Call):
            function = parent.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            return (
                "patch"
                if name in ("patch", "setattr", "multiple", "dict") and parent.args[:1] == [found.node]
                else "value"
            )
        if isinstance(parent, ast.arg | ast.AnnAssign):
            return "annotation"
    return "value"
