"""Reads one class statement: bases, flavour, fields in order, methods with parameters, attributes set on self."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

_FIELD_CALLS = {"field", "Field"}
_WRAPPERS = {"support_torch_compile"}  # class decorators that replace __init__


def dotted_of(expr: ast.AST) -> str | None:
    """ "a.b.c" for a plain attribute chain; else None."""
    parts: list[str] = []
    while isinstance(expr, ast.Attribute):
        parts.append(expr.attr)
        expr = expr.value
    if not isinstance(expr, ast.Name):
        return None
    return ".".join([expr.id, *reversed(parts)])


def last_of(expr: ast.AST) -> str:
    """The last part of what a decorator or call names: "field" for `dataclasses.field(...)`."""
    while isinstance(expr, ast.Call):
        expr = expr.func
    return (dotted_of(expr) or "").rpartition(".")[2]


def signature(args: ast.arguments, drop_first: bool = False) -> str:
    """ "a,b=,*,c,**kw": names, `=` for a default, `/` and `*` as in source."""
    positional = [*args.posonlyargs, *args.args]
    without_default = len(positional) - len(args.defaults)
    parts = [a.arg + ("=" if i >= without_default else "") for i, a in enumerate(positional)]
    if args.posonlyargs:
        parts.insert(len(args.posonlyargs), "/")
    if drop_first and positional:
        parts = parts[1:]
        if parts[:1] == ["/"]:
            parts = parts[1:]
    if args.vararg:
        parts.append("*" + args.vararg.arg)
    elif args.kwonlyargs:
        parts.append("*")
    parts += [a.arg + ("=" if d is not None else "") for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    if args.kwarg:
        parts.append("**" + args.kwarg.arg)
    return ",".join(parts)


def class_records(node: ast.ClassDef, base: Callable[[ast.expr], str]) -> tuple[str, dict[str, str]]:
    """(record of the class, records of its members by name)."""
    members: dict[str, str] = {}
    fields: list[str] = []
    flags = _class_flags(node)
    keyword_only = "k" in flags
    for statement in _flat(node.body):
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if _method(statement, members):
                    flags.add("g")
            case ast.ClassDef():
                record, nested = class_records(statement, base)
                members[statement.name] = record
                members.update({f"{statement.name}.{name}": r for name, r in nested.items()})
            case ast.AnnAssign(target=ast.Name(id=name)):
                annotation = ast.unparse(statement.annotation).strip("'\"")
                if annotation.endswith("KW_ONLY"):
                    keyword_only = True
                elif annotation.partition("[")[0].rpartition(".")[2] == "ClassVar":
                    members[name] = "a"
                else:
                    members[name] = "A"
                    fields = [f for f in fields if f.rstrip("=!*") != name]
                    fields.append(name + _field_marks(statement.value, keyword_only))
            case ast.Assign(targets=targets):
                for target in targets:
                    for part in ast.walk(target):
                        if isinstance(part, ast.Name):
                            members.setdefault(part.id, "a")
            case ast.Import() | ast.ImportFrom():
                for alias in statement.names:
                    members.setdefault((alias.asname or alias.name).partition(".")[0], "a")
    bases = [base(b) for b in node.bases if not isinstance(b, ast.Starred)]
    if any(isinstance(b, ast.Starred) for b in node.bases):
        bases.append("?")
    bases += ["@" + base(k.value) for k in node.keywords if k.arg == "metaclass"]
    return f"c{''.join(sorted(flags))}|{','.join(bases)}|{','.join(fields)}", members


def _class_flags(node: ast.ClassDef) -> set[str]:
    """d dataclass, i without a generated __init__, k keyword-only, w wrapped __init__, g unlistable attributes."""
    flags: set[str] = set()
    for decorator in node.decorator_list:
        last = last_of(decorator)
        if last in _WRAPPERS:
            flags.add("w")
        if last not in {"dataclass", "config"}:
            continue
        flags.add("d")
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if keyword.arg == "kw_only" and value is True:
                flags.add("k")
            if keyword.arg == "init" and value is False:
                flags.add("i")
    for keyword in node.keywords:
        if keyword.arg == "kw_only" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True:
            flags.add("k")
    return flags


def _field_marks(value: ast.expr | None, keyword_only: bool) -> str:
    default, init = value is not None, True
    if isinstance(value, ast.Call) and last_of(value) in _FIELD_CALLS:
        given = {k.arg: k.value for k in value.keywords}
        required = bool(value.args) and isinstance(value.args[0], ast.Constant) and value.args[0].value is Ellipsis
        default = (bool(value.args) and not required) or not given.keys().isdisjoint({"default", "default_factory"})
        init = not (isinstance(off := given.get("init"), ast.Constant) and off.value is False)
        only = given.get("kw_only")
        keyword_only |= isinstance(only, ast.Constant) and only.value is True
    return ("=" if default else "") + ("" if init else "!") + ("*" if keyword_only else "")


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef, members: dict[str, str]) -> bool:
    """Adds a method and what it sets on self; True when attributes are set that cannot be listed."""
    decorators = {last_of(d) for d in node.decorator_list}
    if not node.decorator_list or not ({"overload", "setter", "deleter"} & decorators):
        if any(d.endswith("property") for d in decorators):
            members[node.name] = "p"
        elif "staticmethod" in decorators:
            members[node.name] = "s" + signature(node.args)
        else:
            letter = "k" if "classmethod" in decorators else "M" if isinstance(node, ast.AsyncFunctionDef) else "m"
            members[node.name] = letter + signature(node.args, drop_first=True)
    if "staticmethod" in decorators or not node.args.posonlyargs + node.args.args:
        return node.name in {"__getattr__", "__getattribute__"}
    this = (node.args.posonlyargs + node.args.args)[0].arg
    kind = "a" if "classmethod" in decorators or node.name in {"__new__", "__init_subclass__"} else "i"
    computed = node.name in {"__getattr__", "__getattribute__"}
    for part in ast.walk(node):
        match part:
            case ast.Attribute(value=ast.Name(id=owner), attr=attr, ctx=ast.Store()) if owner == this:
                members.setdefault(attr, kind)
            case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id=owner), name, *_]) if owner == this:
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    members.setdefault(name.value, kind)
                elif kind == "a":  # on an instance a computed name adds nothing to the class
                    computed = True
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner), attr="__dict__"))):
                computed |= owner == this
    return computed


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a class body, those under if, try and with included."""
    for statement in body:
        match statement:
            case ast.If(body=inner, orelse=other):
                yield from _flat(inner + other)
            case ast.Try():
                arms = [s for handler in statement.handlers for s in handler.body]
                yield from _flat(statement.body + arms + statement.orelse + statement.finalbody)
            case ast.With(body=inner) | ast.For(body=inner):
                yield from _flat(inner)
            case _:
                yield statement
