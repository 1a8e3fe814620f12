r"""An option of vLLM's command line that the target does not take, in Python code that starts vLLM.

## What it does
Finds such options in lists for `subprocess`, in the arguments of test servers (`RemoteOpenAIServer`), in lists that a
parser of vLLM's options reads, in names and fixtures that end up there, in command lines written as one string, and in
strings that are split on their way there. Takes out those that mean nothing on V1, renames those that have another
name, reports the others, and what is appended. Where nothing shows that a list or a string of options is vLLM's, an
option that only vLLM had, and that the file does not define, is mentioned. What is read of such an option from the
arguments that vLLM's parser gave (`args.swap_space`) is reported.

## Why
An unknown option ends the server before it starts.

## Example
```python
subprocess.Popen(["vllm", "serve", model, "--swap-space", "4", "--port", port])
```
becomes, for 0.32.0,
```python
subprocess.Popen(["vllm", "serve", model, "--port", port])
```

## Safety
*v1*: as V1M402. An option whose value stands elsewhere, or is computed by a call, is reported; so is one
in a list that is read by place or measured (`words[3]`, `len(words)`), or in a text with quoted words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ..engine.chains import chain_nodes, name_span
from ..engine.guards import probed
from ..engine.namespaces import Namespaces
from ..engine.release_tests import version_guard
from ..engine.scopes import Node, Path, Scope, ancestors
from ..engine.switch.draft import Draft
from ..engine.switch.lines import BLOCKS
from ..engine.switch.tokens import Tokens
from ..engine.textual.arguments import of_scripts, vllm_arguments
from ..engine.textual.python_arguments import Listed, PythonArguments
from ..engine.textual.view import View
from ..findings import Edit, Effort, Finding, Safety, Severity
from ..names.flags import Flag, gone_options
from .loose_options import Loose, counted, loose, own_options
from .rule import Phase, Rule
from .text_flag import COMMON, needle, renamed, used

if TYPE_CHECKING:
    from ..engine.context import PythonFile

_LITERAL = re.compile(r"[fFrR]{0,2}(\"\"\"|'''|\"|')")
_COMPUTED = re.compile(r"\{[^{}]*[^\w.{}][^{}]*\}")


class PythonFlag(Rule):
    id = "V1M406"
    slug = "python-flag"
    summary = "command-line option that the target does not take, in Python code"
    safety = Safety.V1
    phase = Phase.AFTER

    def check(self, file: PythonFile) -> Iterator[Finding]:
        yield from self._reads(file)
        wanted = needle(file.judge.target)
        if not gone_options(file.judge.target) or not wanted.search(file.source.text):
            return
        lists: dict[int, Node] = {}
        rest: list[Node] = []
        for found in file.model.every(ast.Constant, ast.JoinedStr):
            text = _beginning(found.node)
            parent = found.path[0]
            if not wanted.search(text) or isinstance(parent, ast.JoinedStr | ast.Expr):
                continue
            if isinstance(parent, ast.List | ast.Tuple) and wanted.match(text):
                lists[id(parent)] = Node(parent, found.path[2] or found.path, found.scope)
            elif " " in text and "vllm" in text and vllm_arguments(text.split()) is not None:
                yield from self._string(file, found.node)
            elif wanted.match(text.lstrip()) or (isinstance(parent, ast.Attribute | ast.Call) and _begins(text)):
                rest.append(found)
            elif " " in text and "vllm" in text:
                yield from self._string(file, found.node)
        if lists or rest:
            arguments = PythonArguments(file)
            for each in lists.values():
                yield from self._list(file, arguments.listed(each.node, each.path, each.scope), each.scope)
            for each in rest:
                yield from self._loose(file, each, arguments)

    # what vLLM's parser gave

    def _reads(self, file: PythonFile) -> Iterator[Finding]:
        gone = gone_options(file.judge.target)
        parses = ".parse_" in file.source.text and not file.module.startswith("vllm.")
        for use, option in Namespaces(file).reads() if parses else ():
            flag, name = gone.get(option), use.attributes[0]
            if flag is None or option in file.source.text or probed(use.path, (name,)):
                continue  # or an option of the file's own
            node = chain_nodes(use)[0]
            if isinstance(node.ctx, ast.Load) and not version_guard(file, use.path, use.node):
                finding = self._say(file, flag, *name_span(file, node), True, ())
                yield replace(finding, message=f"{finding.message}; its parser does not give `{name}`")

    # lists

    def _list(self, file: PythonFile, listed: Listed, scope: Scope) -> Iterator[Finding]:
        elements = listed.node.elts
        gone = gone_options(file.judge.target)
        draft = Draft(file.source, Tokens(file.source))
        doomed: set[int] = set()
        told: list[tuple[Flag, int, bool]] = []
        for index in range(listed.first, len(elements)):
            name, equals, _ = _beginning(elements[index]).partition("=")
            flag = gone.get(name.replace("_", "-"))
            if flag is None or (not listed.certain and (flag.name in COMMON or not _about_vllm(file))):
                continue
            last = _last(flag, elements, index, bool(equals)) if listed.certain else None
            edited = last is not None and flag.action != "report"
            if last is not None and flag.action == "drop":
                doomed.update(range(index, last + 1))
            if edited and flag.action == "rename":
                edited = _rename(file, draft, elements[index], flag)
            told.append((flag, index, edited))
        if doomed and (counted(listed.node, listed.path, scope, min(doomed)) or not _drop(file, draft, listed, doomed)):
            told = [(flag, index, edited and flag.action != "drop") for flag, index, edited in told]
        edits = draft.edits()
        for flag, index, edited in told:
            start, end = file.span(elements[index])
            yield self._say(file, flag, start, end, listed.certain, edits if edited else ())

    # command lines

    def _loose(self, file: PythonFile, found: Node, arguments: PythonArguments) -> Iterator[Finding]:
        """A string of options that names no command: split on its way to vLLM, or standing alone."""
        where = loose(found, arguments)
        if where is None or not (where.certain or _about_vllm(file)):
            return
        for finding in self._string(file, found.node, where):
            option = finding.name
            if where.certain or (option not in COMMON and option not in own_options(file)):
                yield replace(finding, name="")

    def _string(
        self, file: PythonFile, node: ast.Constant | ast.JoinedStr, where: Loose | None = None
    ) -> Iterator[Finding]:
        gone = gone_options(file.judge.target)
        start, end = file.span(node)
        text = file.source.text
        quote = _LITERAL.match(text, start, end)
        inner = (quote.end(), end - len(quote[1])) if quote else (start, end)
        plain = quote is not None and "\\" not in text[slice(*inner)] and quote[1] not in text[slice(*inner)]
        view = View.whole(text).part(*inner) if plain else View.whole(_beginning(node))
        certain, editable = (where.certain, where.certain and where.editable) if where is not None else (True, True)
        for arguments in of_scripts(view, given=where is not None):
            found = list(used(arguments, gone))
            dropped = [(first, last) for flag, first, last in found if flag.action == "drop"]
            made = arguments.edits(dropped) if dropped and plain else {}
            for flag, first, last in found:
                edit = made.get((first, last))
                broken = edit is not None and edit.expected.count("{") != edit.expected.count("}")
                if edit is not None and (broken or _COMPUTED.search(edit.expected)):
                    edit = None
                low, high = (arguments.spans[first][0], arguments.spans[last][1]) if plain else (start, end)
                if plain and flag.action == "rename":
                    edit = renamed(text, low, flag)
                finding = self._say(file, flag, low, high, certain, (edit,) if edit and editable else ())
                yield replace(finding, name=flag.name) if where is not None else finding

    def _say(
        self, file: PythonFile, flag: Flag, start: int, end: int, certain: bool, edits: tuple[Edit, ...]
    ) -> Finding:
        instead = f": it is `{flag.to}` now" if flag.to else ""
        advice = flag.advice or "Look for its successor in `vllm serve --help=all`."
        return file.finding(
            self.id,
            start,
            end,
            f"vLLM {file.judge.target} does not take `{flag.name}`, gone since {flag.gone}{instead}",
            Severity.ERROR if certain else Severity.INFO,
            safety=Safety.V1 if edits else Safety.MANUAL,
            effort=Effort.MINUTES,
            advice=advice if certain else f"If this is for vLLM's command line: {advice}",
            edits=edits,
        )


def _about_vllm(file: PythonFile) -> bool:
    """The file speaks of vLLM, and is none of vLLM's own modules, which may define the option."""
    return "vllm" in file.source.text and not file.module.startswith("vllm.")


def _begins(text: str) -> bool:
    """The text begins with options of some kind."""
    return text.lstrip().startswith("--")


def _beginning(node: ast.AST) -> str:
    """A string, or the literal beginning of an f-string, with {} for what is computed."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _last(flag: Flag, elements: list[ast.expr], index: int, joined: bool) -> int | None:
    """The last element that belongs to an option; None where that is not certain."""
    if flag.action == "rename" or joined:
        return index
    following = elements[index + 1] if index + 1 < len(elements) else None
    text = _beginning(following) if following is not None else ""
    if not flag.value:
        return index + 1 if text.lower() in ("true", "false") else index
    certain = following is not None and _plain(following) and not text.startswith("--")
    return index + 1 if certain else None


def _plain(node: ast.expr) -> bool:
    """Leaving it out has no effect of its own: a literal, a name, `str(x)`."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", "") in ("str", "int", "repr") and all(map(_plain, node.args))
    if isinstance(node, ast.JoinedStr):
        return all(_plain(part.value) for part in node.values if isinstance(part, ast.FormattedValue))
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Constant | ast.Name)


def _rename(file: PythonFile, draft: Draft, element: ast.expr, flag: Flag) -> bool:
    start, end = file.span(element)
    at = file.source.text.find(flag.name, start, min(end, start + len(flag.name) + 3))
    if at >= 0:
        draft.replace(at, at + len(flag.name), flag.to)
    return at >= 0


def _drop(file: PythonFile, draft: Draft, listed: Listed, doomed: set[int]) -> bool:
    """Plan the cuts; False when the list is better left alone."""
    elements = listed.node.elts
    left = len(elements) - len(doomed)
    if isinstance(listed.node, ast.Tuple) and left < 2:
        return False
    tokens = draft.tokens
    opening = tokens.at(file.span(listed.node)[0])
    if tokens.table[opening].text not in "[(":
        return False
    if left == 0 and _added(listed.path[0]):
        return _drop_statement(file, draft, listed.path)
    closing = tokens.closing(opening)
    inner = (tokens.table[opening].end, tokens.table[closing].start)
    draft.drop_items(tokens.items(opening + 1, closing), doomed, inner)
    return True


def _added(parent: ast.AST) -> bool:
    """`x += [...]`, `x.extend([...])`."""
    extends = isinstance(parent, ast.Call) and getattr(parent.func, "attr", "") == "extend"
    return isinstance(parent, ast.AugAssign) or extends


def _drop_statement(file: PythonFile, draft: Draft, path: Path) -> bool:
    parents = [*ancestors(path)]
    at = next(at for at, (parent, _) in enumerate(parents) if isinstance(parent, ast.stmt))
    statement, (outer, _) = parents[at][0], parents[at + 1]
    block = next((block for name in BLOCKS if statement in (block := getattr(outer, name, []))), [])
    start, end = file.span(statement)
    if len(block) < 2 or not draft.blank_before(start) or not draft.blank_behind(end):
        return False
    draft.delete_lines(draft.line_of(start), draft.line_of(end))
    return True
