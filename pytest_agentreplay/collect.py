"""pytest items for case files: `cases/refund/case.yaml::observed` and `::desired`; `::cold` where nothing replays.

    CaseFile     one case.yaml; reads its headline when it is collected, and nothing else of the case
    CaseItem     one half: read whole, tried and judged when its turn has come

Imported only when a case.yaml is seen. Nothing of a case runs while it is collected, and a broken one is an item that
fails, so that no other test waits for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.cases_run import stored_case
from pytest_agentreplay.cases_run.case_neighbours import CaseNeighbours
from pytest_agentreplay.cases_run.kept_neighbour import hear_case
from pytest_agentreplay.errors import AgentReplayError, CaseError
from pytest_agentreplay.report.escape import escape_line, escape_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pytest_agentreplay.cases.case import Half
    from pytest_agentreplay.cases.schema.parse import Headline
    from pytest_agentreplay.cases_run.evaluation import CaseEvaluator
    from pytest_agentreplay.fuzz.trials import Trial, TrialResult
    from pytest_agentreplay.report.verdict import Verdict

MARKER = "agentreplay_case"
MOST_LABELS = 50
BROKEN = "case"
COLD = "cold"
NEIGHBOUR = "neighbour"


class CaseFile(pytest.File):
    """A case.yaml. `court` gives what it takes to try the cases of this session, `live` what judges live runs.

    `trials` gives the neighbours that a command asks for, None where it asks for none.
    """

    court: Callable[[pytest.Item], CaseEvaluator]
    live: Any = None
    trials: Callable[[CaseFile, Headline], list[Trial] | None]
    neighbours: CaseNeighbours | None = None

    @classmethod
    def of(
        cls,
        parent: pytest.Collector,
        path: Path,
        court: Callable[..., CaseEvaluator],
        live: Any,
        trials: Callable[[CaseFile, Headline], list[Trial] | None],
    ) -> CaseFile:
        """The collector of one file."""
        made: CaseFile = cls.from_parent(parent, path=path)
        made.court, made.live, made.trials = court, live, trials
        return made

    def collect(self) -> Iterator[CaseItem]:
        """An item for each half that the case has; one that tells what is wrong with a case that cannot be read."""
        try:
            head = parse.headline(stored_case.data(self.path), file=self.nodeid)
        except CaseError as error:
            yield CaseItem.of(self, BROKEN, error=error)
            return
        if (trials := self.trials(self, head)) is not None:
            for trial in trials:
                item = CaseItem.of(self, f"{NEIGHBOUR}[{trial.word}]", title=escape_line(head.id), labels=())
                item.trial = trial
                yield item
            return
        names = [NEIGHBOUR] if head.base else [COLD] if head.expect == "cold" else list(head.halves)
        for name in names or [BROKEN]:
            item = CaseItem.of(self, name, title=escape_line(head.id), labels=head.labels[:MOST_LABELS])
            yield from [item] if self.live is None else self.live.repeat_half(item)


class CaseItem(pytest.Item):
    """One half of a case. After its run, `verdict` says what came of it."""

    title = ""
    line = 0
    broken: CaseError | None = None
    error: AgentReplayError | None = None
    verdict: Verdict | None = None
    trial: Trial | None = None
    result: TrialResult | None = None

    @classmethod
    def of(
        cls, file: CaseFile, name: str, *, title: str = "", labels: Iterable[str] = (), error: CaseError | None = None
    ) -> CaseItem:
        """The item `name` of a file, with its labels as markers."""
        made: CaseItem = cls.from_parent(file, name=name)
        made.title = title
        made.broken = error
        made.line = line_of(error.place) if error is not None else 0
        made.extra_keyword_matches |= {word for word in (title, *labels) if word}
        for mark in (MARKER, *markers(file.config, labels)):
            made.add_marker(getattr(pytest.mark, mark))
        return made

    def runtest(self) -> None:
        """Try this half, and fail, xfail or skip by the verdict."""
        __tracebackhide__ = True
        self.error = self.verdict = None  # of another go
        try:
            if self.trial is not None:
                self.try_neighbour(self.trial)
                return
            self.verdict = verdict = self.heard()
        except AgentReplayError as error:
            self.error = error
            self.at(getattr(error, "place", "") if isinstance(error, CaseError) else "")
            raise pytest.fail.Exception(escape_output(str(error)), pytrace=False) from None
        self.user_properties.extend(
            (f"agentreplay.{name}", escape_line(value)) for name, value in properties(verdict).items()
        )
        match verdict.outcome:
            case "expected" if not self.config.option.runxfail:
                raise pytest.xfail.Exception(shown(verdict.headline), pytrace=False)
            case "failed" | "expected":
                self.at(verdict.place)
                pytest.fail(self.told(verdict), pytrace=False)
            case "unsaid":
                raise pytest.skip.Exception(shown(verdict.headline), _use_item_location=True)
            case "passed":
                pass

    def try_neighbour(self, trial: Trial) -> None:
        """Try a neighbour of the case, and fail where an invariant does not hold."""
        from pytest_agentreplay.report.finding import format_finding
        from pytest_agentreplay.report.other_findings import describe_neighbour

        assert isinstance(self.parent, CaseFile)
        if self.parent.neighbours is None:  # the agent is run without a change once for all of them
            court = self.parent.court(self)
            self.parent.neighbours = CaseNeighbours(court, stored_case.read(self.path, words=court.words))
        self.result = self.parent.neighbours.attempt(trial)
        if self.result.violations:
            finding = describe_neighbour(self.parent.nodeid, self.result.violations, trial.neighbour, trial.served)
            pytest.fail(escape_output(format_finding(finding)), pytrace=False)

    def heard(self) -> Verdict:
        """The verdict on this half. Raises whatever is wrong with the case, or with what runs it."""
        if self.broken is not None:
            raise self.broken
        assert isinstance(self.parent, CaseFile)
        verdict = hear_case(self.parent.court(self), self.path, half_of(self.name))
        return verdict if self.parent.live is None else self.parent.live.conclude_half(self, verdict)

    def told(self, verdict: Verdict) -> str:
        """The verdict for this terminal."""
        from pytest_agentreplay.report.verdict import format_verdict

        writer = self.config.get_terminal_writer()
        return escape_output(format_verdict(verdict, width=writer.fullwidth, verbosity=self.config.get_verbosity()))

    def at(self, place: str) -> None:
        """Say that this item stands at line:column `place` of its file: annotations are put there."""
        self.line = line_of(place)
        self.__dict__.pop("location", None)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the item stands: on the line of the check that failed, once one has."""
        return self.path, self.line, f"{self.title or self.path.parent.name}::{self.name}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The message about a failure: ours in our words, and a summary of one line that points into the case."""
        found = super().repr_failure(excinfo, style)
        said = str(self.error) if self.error is not None else self.verdict.headline if self.verdict is not None else ""
        if said and (crash := getattr(found, "reprcrash", None)) is not None:
            crash.path, crash.lineno, crash.message = str(self.path), self.line + 1, escape_output(said)
        return found


def shown(text: str) -> str:
    """A text of a case as one line for terminals, logs and reports."""
    return escape_output(escape_line(text))


def half_of(name: str) -> Half | None:
    """The half that an item is of, in any of its live runs; None for the whole case."""
    name = name.partition("[")[0]
    return name if name in {"observed", "desired"} else None  # type: ignore[return-value]


def line_of(place: str) -> int:
    """The line, counted from 0, in "line:column"."""
    line = place.partition(":")[0]
    return int(line) - 1 if line.isdecimal() else 0


def properties(verdict: Verdict) -> dict[str, str]:
    """Short facts for machines."""
    return {
        "case": verdict.case,
        "half": verdict.half,
        "expect": verdict.expect,
        "served": verdict.served,
        "verdict": verdict.word,
        "needs_human": str(len(verdict.human)),
    }


def markers(config: pytest.Config, labels: Iterable[str]) -> Iterator[str]:
    """The labels as names of markers, each registered. None of them is one that acts: a case is data."""
    known = {text.partition(":")[0].partition("(")[0].strip() for text in config.getini("markers")}
    own = {text.partition(":")[0].strip() for text in written(config)}
    for label in labels:
        name = re.sub(r"\W", "_", label)
        if (
            not name.isidentifier()
            or name.startswith("_")
            or (name in known - own and name not in config.stash.setdefault(LABELS, set()))
        ):
            name = f"label_{name}"
        if name not in known:
            config.addinivalue_line("markers", f"{name}: a label of cases")
            config.stash.setdefault(LABELS, set()).add(name)
            known.add(name)
        yield name


def written(config: pytest.Config) -> list[str]:
    """The markers that the project itself declares in its ini file."""
    table = vars(config).get("_inicfg")  # `config.inicfg` warns since pytest 9
    raw: Any = (config.inicfg if table is None else table).get("markers", "")
    raw = getattr(raw, "value", raw)
    return [str(line) for line in (raw.splitlines() if isinstance(raw, str) else raw or ())]


LABELS: pytest.StashKey[set[str]] = pytest.StashKey()
