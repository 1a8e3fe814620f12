"""Takes names out of a `from x import (...)` statement with libcst: every comment and line break finds its place."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m
from libcst.matchers import findall

_Space = cst.BaseParenthesizableWhitespace


def without(statement: str, leaving: set[int], renamed: dict[int, str], *, alone: bool = False) -> str | None:
    """The statement's code less the names at these positions; `renamed` gives the new text of others ("A as B").

    `alone`: nothing stands behind it on its line, so that it may end with a comment.

    A name's comment on its own line goes with it; comments on lines of their own stay: they speak of what follows.
    None when libcst reads something else than one import statement.
    """
    module = cst.parse_module(statement)
    line = module.body[0] if len(module.body) == 1 else None
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(line.body[0], cst.ImportFrom):
        return None
    node = line.body[0]
    if isinstance(node.names, cst.ImportStar):
        return None
    kept: list[cst.ImportAlias] = []
    lpar = node.lpar
    for position, alias in enumerate(node.names):
        if position not in leaving:
            kept.append(_renamed(alias, renamed.get(position)))
            continue
        remarks = _own_line_remarks(alias.comma)
        if remarks and kept:
            kept[-1] = _with_remarks(kept[-1], remarks)
        elif remarks and lpar is not None:
            lpar = lpar.with_changes(whitespace_after=_before_remarks(lpar.whitespace_after, remarks))
    if not kept:
        return None
    rpar = node.rpar
    if len(node.names) - 1 in leaving:
        kept[-1], rpar = _close(kept[-1], node.names[-1].comma, rpar)
    changed = node.with_changes(names=kept, lpar=lpar, rpar=rpar)
    code = module.code_for_node(changed)
    said = [] if len(kept) > 1 else _remarks(changed)
    if len(kept) == 1 and (not said or (alone and said == [_behind(kept[0], rpar)])):  # one needs no brackets
        bare = kept[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        code = module.code_for_node(changed.with_changes(names=[bare], lpar=None, rpar=None))
        return "  ".join((code, *said))
    return code


def _remarks(node: cst.ImportFrom) -> list[str]:
    """Every comment inside the statement."""
    return [comment.value for comment in findall(node, m.Comment()) if isinstance(comment, cst.Comment)]


def _behind(alias: cst.ImportAlias, rpar: cst.RightParen | None) -> str:
    """The comment behind a name on its line."""
    spaces = [alias.comma.whitespace_after if isinstance(alias.comma, cst.Comma) else None]
    spaces.append(rpar.whitespace_before if rpar is not None else None)
    for space in spaces:
        if isinstance(space, cst.ParenthesizedWhitespace) and space.first_line.comment is not None:
            return space.first_line.comment.value
    return ""


def _renamed(alias: cst.ImportAlias, text: str | None) -> cst.ImportAlias:
    if text is None:
        return alias
    name, _, local = text.partition(" as ")
    asname = alias.asname
    if asname is None and local:
        space = cst.SimpleWhitespace(" ")
        asname = cst.AsName(cst.Name(local), whitespace_before_as=space, whitespace_after_as=space)
    return alias.with_changes(name=cst.Name(name), asname=asname)


def _own_line_remarks(comma: cst.Comma | cst.MaybeSentinel) -> list[cst.EmptyLine]:
    space = comma.whitespace_after if isinstance(comma, cst.Comma) else None
    if isinstance(space, cst.ParenthesizedWhitespace):
        return [line for line in space.empty_lines if line.comment is not None]
    return []


def _before_remarks(space: _Space, remarks: list[cst.EmptyLine]) -> _Space:
    if isinstance(space, cst.ParenthesizedWhitespace):
        return space.with_changes(empty_lines=[*space.empty_lines, *remarks])
    return space


def _with_remarks(alias: cst.ImportAlias, remarks: list[cst.EmptyLine]) -> cst.ImportAlias:
    if not isinstance(alias.comma, cst.Comma):
        return alias
    return alias.with_changes(
        comma=alias.comma.with_changes(whitespace_after=_before_remarks(alias.comma.whitespace_after, remarks))
    )


def _close(
    last: cst.ImportAlias, closing: cst.Comma | cst.MaybeSentinel, rpar: cst.RightParen | None
) -> tuple[cst.ImportAlias, cst.RightParen | None]:
    """Make `last` the last name: it ends as the old last one did, and keeps its own comment."""
    own = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else cst.SimpleWhitespace("")
    if isinstance(closing, cst.Comma):
        space = _joined(own, closing.whitespace_after)
        return last.with_changes(comma=closing.with_changes(whitespace_after=space)), rpar
    last = last.with_changes(comma=cst.MaybeSentinel.DEFAULT)
    if rpar is not None:
        rpar = rpar.with_changes(whitespace_before=_joined(own, rpar.whitespace_before))
    return last, rpar


def _joined(own: _Space, end: _Space) -> _Space:
    """The comment of `own` and the line break of `end`."""
    if not isinstance(end, cst.ParenthesizedWhitespace):
        return own if isinstance(own, cst.ParenthesizedWhitespace) and own.first_line.comment else end
    if isinstance(own, cst.ParenthesizedWhitespace):
        return end.with_changes(first_line=own.first_line, empty_lines=[*own.empty_lines, *end.empty_lines])
    return end.with_changes(first_line=end.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace("")))
