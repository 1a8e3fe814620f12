"""What holds a dict from which only the switch went: an entry, a keyword or a decorator that says nothing any more."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..context import PythonFile
from ..scopes import Path, Scope, ancestors
from .draft import Draft
from .functions import Function
from .names import Names
from .statements import Statements

Display = ast.Dict | ast.Call
_ENV_VARS = "env_vars"
# Callees whose `env=None` hands on os.environ as it is.
_STARTERS = frozenset(
    f"{module}.{name}"
    for module, names in (
        ("subprocess", ("run", "Popen", "call", "check_call", "check_output")),
        ("asyncio", ("create_subprocess_exec", "create_subprocess_shell")),
    )
    for name in names
)
_SERVERS = frozenset(("RemoteOpenAIServer", "RemoteAnthropicServer"))  # vLLM's tests: the default is no variable


class Containers:
    """Takes them out where the default is the same as what would be left. Nothing that was empty before is touched."""

    def __init__(self, file: PythonFile, names: Names, draft: Draft, statements: Statements) -> None:
        self.file = file
        self.names = names
        self.draft = draft
        self.statements = statements
        self.left = statements.expressions.left
        self.settled: set[int] = set()

    def drop(self) -> bool:
        """One round; True when something went."""
        changed = False
        for found in self.file.model.every(ast.Dict, ast.Call):
            node = found.node
            if id(node) not in self.left or id(node) in self.settled or self.statements.gone(node):
                continue
            self.settled.add(id(node))
            changed |= self._settle(node, found.path) or self._named(node, found.path, found.scope)
        return changed

    def _settle(self, node: Display, path: Path) -> bool:
        parents = [parent for parent, _ in ancestors(path)]
        parent, call = parents[0], next((p for p in parents[:2] if isinstance(p, ast.Call)), None)
        empty = not self.left[id(node)]
        if isinstance(parent, ast.Dict) and empty:
            return self._entry(node, parent, parents[1:])
        if call is None or node is call.func:
            return False
        keyword = next((k for k in call.keywords if k.value is node), None)
        if keyword is not None:
            drops = self._superfluous(keyword, node, call)
            if drops:
                self._keyword(call, keyword)
            return drops
        if empty and idle_patch(call, node) and self.names.dotted(call.args[0]) == "os.environ":
            function = parents[1] if parent is call else parents[2]
            return isinstance(function, Function) and self._decorator(call, function)
        return False

    def _named(self, node: Display, path: Path, scope: Scope) -> bool:
        """`env = {}` of a function, which is handed on and nothing else: the name goes with its keywords."""
        assignment = path[0]
        if not isinstance(assignment, ast.Assign) or scope.kind != "function" or self.left[id(node)]:
            return False
        target = assignment.targets[0]
        found = scope.lookup(target.id) if len(assignment.targets) == 1 and isinstance(target, ast.Name) else None
        if found is None or found[0] is not scope or len(found[1]) != 1:
            return False
        uses = self.names.readers.get((id(scope), found[1][0].name), [])
        around = [(use.path[0], use.path[2][0] if use.path[2] else None) for use in uses if not use.attributes]
        handed = [(k, c) for k, c in around if isinstance(k, ast.keyword) and isinstance(c, ast.Call)]
        if not handed or len(handed) < len(uses) or not all(self._superfluous(k, node, c) for k, c in handed):
            return False
        self.statements.doom(assignment)
        for keyword, call in handed:
            self._keyword(call, keyword)
        return True

    # what says nothing

    def _superfluous(self, keyword: ast.keyword, node: Display, call: ast.Call) -> bool:
        """Without the keyword the callee does the same."""
        path, empty = self.names.dotted(call.func), not self.left[id(node)]
        if keyword.arg is None:
            return empty  # f(**{})
        if any(other.arg is None for other in call.keywords):
            return False
        if keyword.arg == "env" and path in _STARTERS:
            return self._is_environment(node)
        if keyword.arg == "env_dict":
            return empty and path.rpartition(".")[2] in _SERVERS and path.split(".")[-2:-1] == ["utils"]
        return keyword.arg == "runtime_env" and empty and self._of_ray(call)

    def _of_ray(self, call: ast.Call) -> bool:
        """Ray takes no environment and an empty one for the same: not where `options` would replace another one."""
        path = self.names.dotted(call.func)
        merged = any(keyword.arg == "job_config" for keyword in call.keywords)
        return path.startswith("ray.") and not path.endswith(".options") and not merged

    def _is_environment(self, node: Display) -> bool:
        """What is left is `{**os.environ}` or `dict(os.environ)`."""
        if self.left[id(node)] != (0,):
            return False
        if isinstance(node, ast.Dict):
            return node.keys[0] is None and self.names.dotted(node.values[0]) == "os.environ"
        return len(node.args) == 1 and self.names.dotted(node.args[0]) == "os.environ"

    def _entry(self, node: Display, outer: ast.Dict, parents: list[ast.AST]) -> bool:
        """`**{}` goes, and `"env_vars": {}` of what is certainly one of ray's environments."""
        position = next(at for at, value in enumerate(outer.values) if value is node)
        key = outer.keys[position]
        if key is not None and not (isinstance(key, ast.Constant) and key.value == _ENV_VARS):
            return False
        if key is not None and not self._ray_environment(outer, parents):
            return False
        tokens = self.draft.tokens
        opening = tokens.at(self.file.span(outer)[0])
        closing = tokens.closing(opening)
        items = tokens.items(opening + 1, closing)
        before = self.left.get(id(outer), tuple(range(len(items))))
        self.left[id(outer)] = tuple(at for at in before if at != position)
        self.settled.discard(id(outer))
        doomed = set(range(len(items))) - set(self.left[id(outer)])
        self.draft.drop_items(items, doomed, (tokens.table[opening].end, tokens.table[closing].start))
        return True

    def _ray_environment(self, outer: ast.Dict, parents: list[ast.AST]) -> bool:
        call = next((p for p in parents[:2] if isinstance(p, ast.Call)), None)
        keyword = next((k for k in call.keywords if k.value is outer), None) if call else None
        return call is not None and keyword is not None and keyword.arg == "runtime_env" and self._of_ray(call)

    # how it goes

    def _keyword(self, call: ast.Call, keyword: ast.keyword) -> None:
        tokens = self.draft.tokens
        opening = tokens.before(self._callee_end(call)) + 1
        closing = tokens.closing(opening)
        items = tokens.items(opening + 1, closing)
        start, end = self.file.span(keyword.value)
        doomed = {at for at, item in enumerate(items) if item.start <= start and end <= item.end}
        doomed |= {at for at, item in enumerate(items) if self.draft.gone(item.start, item.end)}
        if len(doomed) == len(items) and self.names.dotted(call.func) == "ray.remote":
            self.draft.delete(self._callee_end(call), self.file.span(call)[1])  # it takes no empty parentheses
        else:
            self.draft.drop_items(items, doomed, (tokens.table[opening].end, tokens.table[closing].start))

    def _callee_end(self, call: ast.Call) -> int:
        """Where the called expression ends, its own parentheses included."""
        return self.draft.tokens.parenthesized(*self.file.span(call.func), self.file.span(call))[1]

    def _decorator(self, call: ast.Call, function: Function) -> bool:
        """`@patch.dict(os.environ, {})` above a function that leaves the environment alone."""
        if call not in function.decorator_list or touches_environment(function.body):
            return False
        start, end = self.file.span(call)
        at = self.draft.tokens.table[self.draft.tokens.before(start)].start
        if not self.draft.blank_before(at) or not self.draft.blank_behind(end):
            return False
        self.draft.delete_lines(self.draft.line_of(at), self.draft.line_of(end))
        return True


def idle_patch(call: ast.Call, display: ast.AST) -> bool:
    """`patch.dict(x, {})`, the dict being `display`."""
    named = isinstance(call.func, ast.Attribute) and call.func.attr == "dict"
    return named and len(call.args) == 2 and call.args[1] is display and not call.keywords


def touches_environment(body: list[ast.stmt]) -> bool:
    """Some statement may change variables itself, which `patch.dict` would have put back."""
    return any(name in ("environ", "putenv", "unsetenv") for statement in body for name in _words(statement))


def _words(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
