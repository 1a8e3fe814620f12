"""Text to an `ast` tree whose positions are those of the text.

`ast` is seven times cheaper than libcst and gives exact positions, so every file goes through it. It refuses syntax
newer than the running Python; libcst does not. Such a file is parsed with libcst, and what `ast` cannot read is masked
by text of the same length, so that the positions stay true; expressions inside masked f-strings are parsed one by one.
"""

from __future__ import annotations

import ast
import sys
import warnings
from dataclasses import dataclass, field


class Unparsable(Exception):
    """The file is not Python as far as `ast` and libcst know. `line` is 1-based, 0 if unknown."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


@dataclass(slots=True)
class Parsed:
    """A tree, and whether parts of the text had to be masked to get it."""

    tree: ast.Module
    masked: bool = False
    extra: list[ast.expr] = field(default_factory=list)  # expressions that stood in masked text, with true positions


def parse(text: str) -> Parsed:
    """Parse `text`. Raises Unparsable with one clear reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SyntaxWarnings are the user's business, not ours
        try:
            return Parsed(ast.parse(text))
        except SyntaxError as error:
            reason, line = error.msg, error.lineno or 0
        except ValueError as error:  # a NUL byte
            raise Unparsable(str(error)) from None
        except (RecursionError, MemoryError):
            raise Unparsable("an expression is nested too deeply to be read") from None
        return _parse_newer(text, reason, line)


def _parse_newer(text: str, reason: str, line: int) -> Parsed:
    """Second try, for syntax that the running Python does not know yet."""
    import libcst  # 0.2 s: only when it is needed

    from .newer import mask

    try:
        module = libcst.parse_module(text)
        masked, expressions = mask(text, module)
        return Parsed(ast.parse(masked), True, expressions)
    except (libcst.ParserSyntaxError, SyntaxError, UnicodeError, ValueError):
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise Unparsable(f"not valid Python ({reason}; read with Python {version} and with libcst)", line) from None
    except (RecursionError, MemoryError):
        raise Unparsable("an expression is nested too deeply to be read", line) from None
