"""What the rules about tests and engines have in common: they put into words what the plan of the switch found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from ..engine.switch.plan import SUBJECT, plan_of
from ..findings import Effort, Finding, Safety
from ..names.releases import only_v1
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile


class PlannedRule(Rule):
    """A rule whose findings are the notes of the plan that carry its id. It has no id itself, so it is no rule."""

    safety = Safety.V1
    phase = Phase.DEAD_CODE
    folds = True
    message: ClassVar[str] = ""  # may name {target} and what it has, {only_v1}
    advice: ClassVar[str] = ""  # what to do where nothing is edited
    effort: ClassVar[Effort] = Effort.MINUTES

    def check(self, file: PythonFile) -> Iterator[Finding]:
        plan = plan_of(file)
        for note in plan.notes:
            if note.rule != self.id:
                continue
            parts = [sentence(note.remark), "" if note.edited else self.advice]
            yield file.finding(
                self.id,
                note.start,
                note.end,
                self.message.format(target=file.judge.target, only_v1=only_v1(file.judge.target)),
                self.severity,
                safety=self.safety if note.edited else Safety.MANUAL,
                effort=self.effort,
                advice=" ".join(f"{part}." for part in parts if part),
                name=SUBJECT,
                edits=plan.edits if note.edited else (),
            )


def sentence(words: str) -> str:
    """With a capital letter, unless the first word has one of its own."""
    return words if words.startswith("vLLM") else words[:1].upper() + words[1:]
