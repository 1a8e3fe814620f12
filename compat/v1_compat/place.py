"""Where in the user's code something happens, and how an import was asked for: read from the stack.

Frames of importlib, of the standard library, of a test runner, of vLLM and of this package are nobody's line to change.
"""

from __future__ import annotations

import dis
import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType, FunctionType

from .decorators import MOCK, decorated, line_of
from .guards import ANY, ATTRIBUTE, IMPORT, TYPE, guarded_lines, probes

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_FIND_SPEC = ("<frozen importlib.util>", f"importlib{os.sep}util.py")
_IMPORTLIB = ("<frozen importlib", f"{_STDLIB}importlib{os.sep}")
_BETWEEN = (f"{os.sep}torch{os.sep}_ops.py", *MOCK)  # what calls an operator that is written in Python; `mock`
_RUNNERS = tuple(f"{os.sep}{package}{os.sep}" for package in ("_pytest", "pluggy", "pytest_mock"))
_DISPATCH = tuple(f"{_OURS}{name}.py" for name in ("finder", "modules", "place"))
_IMPORTS = frozenset({dis.opmap["IMPORT_NAME"], dis.opmap["IMPORT_FROM"]})
# Ours, that do what somebody else asks.
_RELAYS = frozenset({"take", "say", "say_module", "resolve_obj_by_qualname", "__getattr__", "__getattribute__"})


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file."""

    filename: str
    line: int
    module: str  # the module's name, for warning filters


@dataclass(frozen=True, slots=True)
class Request:
    """How a module is being imported."""

    last: bool  # the user named this module itself, it is not a parent on the way to another
    names: tuple[str, ...]  # of `from module import names`
    probing: bool  # importlib.util.find_spec, pytest.importorskip: a question, not an import
    statement: bool  # an import statement, not importlib.import_module and its like
    guarded: bool  # stands in a `try` that goes on without it
    by_vllm: bool  # vLLM's own source asks
    by_us: bool  # this package asks, for itself


def user_place(vllm_folder: str = "") -> Place:
    """The innermost line that belongs to somebody else than the machinery; a decorator's, where `mock` decorates."""
    found = _user(sys._getframe(1), vllm_folder) or sys._getframe(1)
    if isinstance(found, FunctionType):
        return Place(*line_of(found, sys._getframe(1)))
    return Place(found.f_code.co_filename, found.f_lineno, found.f_globals.get("__name__", "<unknown>"))


def request_for(fullname: str, vllm_folder: str = "") -> Request:
    """What the stack says about the import of `fullname` that is going on."""
    asked, through_list, probing, as_attribute = fullname, False, False, False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _machinery(frame.f_code.co_filename) and decorated(frame) is None:
        code = frame.f_code
        if code.co_filename.startswith("<frozen importlib"):
            if code.co_name == "_handle_fromlist":
                through_list = True
            elif code.co_name == "_find_and_load" and not through_list:
                asked = frame.f_locals.get("name", asked)
        if code.co_name == "find_spec" and code.co_filename.endswith(_FIND_SPEC):
            probing = True
        if code.co_name == "importorskip" and _runner(code.co_filename):
            probing = True
        as_attribute = as_attribute or (code.co_name == "take" and code.co_filename.startswith(_OURS))
        frame = frame.f_back
    nearest = frame if frame is None or decorated(frame) is None else None
    statement, names = _import_statement(nearest) if nearest is not None else (False, ())
    user = _user(frame, vllm_folder) or nearest
    askers = (nearest, user if isinstance(user, FrameType) else None)
    return Request(
        last=asked == fullname,
        names=() if through_list else names,
        probing=probing,
        statement=statement,
        guarded=not as_attribute and any(guarded(asker) for asker in askers),  # else it has been asked before
        by_vllm=nearest is not None and _within(nearest.f_code.co_filename, vllm_folder),
        by_us=by_us(),
    )


def imported_by_vllm(folder: str) -> bool:
    """An import statement of vLLM's own source asks. Cheap: most of what is asked is that, and nothing need be read."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _machinery(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None or not _within(frame.f_code.co_filename, folder):
        return False
    return frame.f_code.co_code[frame.f_lasti] in _IMPORTS


def by_us() -> bool:
    """The innermost code that asks is this package's own, and not on somebody else's behalf."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        ours = code.co_filename.startswith(_OURS)
        relay = code.co_filename.startswith(_DISPATCH) or code.co_name in _RELAYS
        if not code.co_filename.startswith(_IMPORTLIB) and not (ours and relay):
            return ours
        frame = frame.f_back
    return False


def unwanted(name: str, by_probing: bool = True) -> bool:
    """The nearest line is ready to go on without the name that it takes of a module, or asks whether there is one.

    `by_probing=False`: hasattr and getattr with a default do not count.
    """
    frame = _nearest_frame()
    if frame is None:
        return False
    as_import = asked_for_a_list() or _import_statement(frame)[0]
    return guarded(frame, IMPORT if as_import else ATTRIBUTE) or (by_probing and probed(frame, name))


def unwanted_call() -> bool:
    """The line that calls is ready for vLLM to refuse an argument."""
    return guarded(_nearest_frame(), TYPE)


def tested_by_name(name: str) -> bool:
    """The nearest line tests for the name, as the literal of a hasattr, or of a getattr with a default."""
    frame = _nearest_frame()
    return frame is not None and (frame.f_lineno, name) in probes(frame.f_code.co_filename)


def imports() -> bool:
    """The nearest line is an import statement."""
    frame = _nearest_frame()
    return frame is not None and _import_statement(frame)[0]


def asked_by(folder: str) -> bool:
    """The nearest line is in this folder."""
    frame = _nearest_frame()
    return frame is not None and _within(frame.f_code.co_filename, folder)


def asked_for_a_list() -> bool:
    """importlib asks whether a package has a name of a from-import; the import itself takes it next."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "_handle_fromlist"


def probed(frame: FrameType, name: str) -> bool:
    """The line asks whether there is such a name: hasattr(x, "name"), getattr(x, "name", default)."""
    known = probes(frame.f_code.co_filename)
    return (frame.f_lineno, name) in known or (frame.f_lineno, ANY) in known


def guarded(frame: FrameType | None, errors: frozenset[str] = IMPORT) -> bool:
    """The line stands in a `try` that has an answer to an import that fails; so do lines that import its module."""
    outermost = True
    package = frame.f_globals.get("__name__", "").partition(".")[0] if frame is not None else ""
    while frame is not None:
        if not _machinery(frame.f_code.co_filename):
            if frame.f_globals.get("__name__", "").partition(".")[0] != package:
                return False
            ranges = guarded_lines(frame.f_code.co_filename, errors if outermost else IMPORT, not outermost)
            if any(first <= frame.f_lineno <= last for first, last in ranges):
                return True
            if frame.f_code.co_name != "<module>":
                return False
            outermost = False
        frame = frame.f_back
    return False


def _nearest_frame() -> FrameType | None:
    """The innermost frame that is not machinery; None where that is a decorator of `mock`, which asks nothing."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _machinery(frame.f_code.co_filename):
        if decorated(frame) is not None:
            return None
        frame = frame.f_back
    return frame


def _machinery(filename: str) -> bool:
    if filename.startswith(("<frozen ", _OURS)) or filename.endswith(_BETWEEN) or _runner(filename):
        return True
    return filename.startswith(_STDLIB) and "site-packages" not in filename and "dist-packages" not in filename


def _runner(filename: str) -> bool:
    return any(runner in filename for runner in _RUNNERS)


def _within(filename: str, folder: str) -> bool:
    return bool(folder) and filename.startswith(folder)


def _user(frame: FrameType | None, vllm_folder: str) -> FrameType | FunctionType | None:
    fallback = None
    while frame is not None:
        filename = frame.f_code.co_filename
        function = decorated(frame)
        if function is not None:
            return function
        if not _machinery(filename) and not frame.f_globals.get("__name__", "").startswith("v1_compat."):
            if not _within(filename, vllm_folder):
                return frame
            fallback = fallback or frame
        frame = frame.f_back
    return fallback


def _import_statement(frame: FrameType) -> tuple[bool, tuple[str, ...]]:
    """Whether the frame stands at an import statement, and the names after its `import` if it is a from-import."""
    return _imports(frame.f_code).get(frame.f_lasti, (False, ()))


def attribute_before() -> str:
    """`b` where the nearest line is reading `a.b.c`, and has come to c."""
    frame = _nearest_frame()
    return _chains(frame.f_code).get(frame.f_lasti, "") if frame is not None else ""


@lru_cache(maxsize=256)
def _chains(code: CodeType) -> dict[int, str]:
    found: dict[int, str] = {}
    before = ""
    for instruction in dis.get_instructions(code):
        reads = instruction.opname in ("LOAD_ATTR", "LOAD_METHOD")
        if reads and before:
            found[instruction.offset] = before
        before = str(instruction.argval) if reads else ""
    return found


@lru_cache(maxsize=256)
def _imports(code: CodeType) -> dict[int, tuple[bool, tuple[str, ...]]]:
    found: dict[int, tuple[bool, tuple[str, ...]]] = {}
    constant: object = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            names = constant if isinstance(constant, tuple) else ()
            found[instruction.offset] = (True, names)
        elif instruction.opname.startswith("LOAD_CONST") or instruction.opname == "LOAD_SMALL_INT":
            constant = instruction.argval
        elif instruction.opname == "IMPORT_FROM":
            found[instruction.offset] = (True, ())
    return found
