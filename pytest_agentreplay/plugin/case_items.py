"""pytest items for case files: `cases/refund/case.yaml::refund`, named after the folder of the case.

    CaseFile     one case.yaml; reads its headline when it is collected, and nothing else of the case
    CaseItem     the case: read whole, run and checked when its turn has come

Imported only when a case.yaml is seen. Nothing of a case runs while it is collected, and a broken one is an item that
fails, so that no other test waits for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.errors import AgentReplayError, CaseError
from pytest_agentreplay.report.escape import escape_line, escape_output
from pytest_agentreplay.runs.cases import stored_case
from pytest_agentreplay.runs.cases.case_neighbours import CaseNeighbours, evaluate_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pytest_agentreplay.cases.schema.parse import Headline
    from pytest_agentreplay.report.verdict import Verdict
    from pytest_agentreplay.runs.cases.evaluation import CaseEvaluator
    from pytest_agentreplay.runs.fuzz.plan import Trial, TrialResult

MARKER = "agentreplay_case"
MOST_LABELS = 50
NEIGHBOUR = "neighbour"


class CaseFile(pytest.File):
    """A case.yaml. `evaluator` gives what evaluates the cases of this session, `live` what judges live runs.

    `trials` gives the neighbours that a command asks for, None where it asks for none.
    """

    evaluator: Callable[[pytest.Item], CaseEvaluator]
    live: Any = None
    trials: Callable[[CaseFile, Headline], list[Trial] | None]
    neighbours: CaseNeighbours | None = None

    @classmethod
    def create(
        cls,
        parent: pytest.Collector,
        path: Path,
        evaluator: Callable[..., CaseEvaluator],
        live: Any,
        trials: Callable[[CaseFile, Headline], list[Trial] | None],
    ) -> CaseFile:
        """Return the collector of one file."""
        made: CaseFile = cls.from_parent(parent, path=path)
        made.evaluator, made.live, made.trials = evaluator, live, trials
        return made

    def collect(self) -> Iterator[CaseItem]:
        """Yield the item of the case, which fails with what is wrong where the case cannot be read."""
        name = self.path.parent.name
        try:
            head = parse.headline(stored_case.data(self.path), file=self.nodeid)
        except CaseError as error:
            yield CaseItem.create(self, name, error=error)
            return
        if (trials := self.trials(self, head)) is not None:
            for trial in trials:
                item = CaseItem.create(self, f"{NEIGHBOUR}[{trial.word}]", title=escape_line(head.id), labels=())
                item.trial = trial
                yield item
            return
        item = CaseItem.create(self, name, title=escape_line(head.id), labels=head.labels[:MOST_LABELS])
        yield from [item] if self.live is None else self.live.repeat_case(item)


class CaseItem(pytest.Item):
    """One case. After its run, `verdict` says what came of it."""

    title = ""
    line = 0
    broken: CaseError | None = None
    error: AgentReplayError | None = None
    verdict: Verdict | None = None
    trial: Trial | None = None
    result: TrialResult | None = None

    @classmethod
    def create(
        cls, file: CaseFile, name: str, *, title: str = "", labels: Iterable[str] = (), error: CaseError | None = None
    ) -> CaseItem:
        """Return the item `name` of a file, with its labels as markers."""
        made: CaseItem = cls.from_parent(file, name=name)
        made.title = title
        made.broken = error
        made.line = line_of(error.place) if error is not None else 0
        made.extra_keyword_matches |= {word for word in (title, *labels) if word}
        for mark in (MARKER, *markers(file.config, labels)):
            made.add_marker(getattr(pytest.mark, mark))
        return made

    def runtest(self) -> None:
        """Evaluate the case, and fail, xfail or skip by the verdict."""
        __tracebackhide__ = True
        self.error = self.verdict = None  # of an earlier run
        try:
            if self.trial is not None:
                self.try_neighbour(self.trial)
                return
            self.verdict = verdict = self.evaluate()
        except AgentReplayError as error:
            self.error = error
            self.point_at(getattr(error, "place", "") if isinstance(error, CaseError) else "")
            raise pytest.fail.Exception(escape_output(str(error)), pytrace=False) from None
        self.user_properties.extend(
            (f"agentreplay.{name}", escape_line(value)) for name, value in properties(verdict).items()
        )
        match verdict.outcome:
            case "expected" if not self.config.option.runxfail:
                raise pytest.xfail.Exception(format_reason(verdict), pytrace=False)
            case "failed" | "expected":
                self.point_at(verdict.place)
                pytest.fail(self.format(verdict), pytrace=False)
            case "skipped":
                raise pytest.skip.Exception(format_reason(verdict), _use_item_location=True)
            case "passed":
                pass

    def try_neighbour(self, trial: Trial) -> None:
        """Try a neighbour of the case, and fail where an invariant does not hold."""
        from pytest_agentreplay.report.finding import format_finding
        from pytest_agentreplay.report.other_findings import describe_neighbour

        assert isinstance(self.parent, CaseFile)
        if self.parent.neighbours is None:  # the agent is run without a change once for all of them
            evaluator = self.parent.evaluator(self)
            self.parent.neighbours = CaseNeighbours(evaluator, stored_case.read_case(self.path, words=evaluator.words))
        self.result = self.parent.neighbours.attempt(trial)
        if self.result.violations:
            finding = describe_neighbour(self.parent.nodeid, self.result.violations, trial.neighbour, trial.served)
            pytest.fail(escape_output(format_finding(finding)), pytrace=False)

    def compare_runs(self) -> str:
        """Return how the second of two frozen runs of the agent in this process differs from its first, "" if not."""
        assert isinstance(self.parent, CaseFile)
        evaluator = self.parent.evaluator(self)
        try:
            return CaseNeighbours(evaluator, stored_case.read_case(self.path, words=evaluator.words)).compare_runs()
        except AgentReplayError:  # the item itself fails with it
            return ""

    def evaluate(self) -> Verdict:
        """Return the verdict. Raises whatever is wrong with the case, or with what runs it."""
        if self.broken is not None:
            raise self.broken
        assert isinstance(self.parent, CaseFile)
        evaluator = self.parent.evaluator(self)
        verdict = evaluate_case(evaluator, stored_case.read_case(self.path, words=evaluator.words), skip_live=True)
        return verdict if self.parent.live is None else self.parent.live.conclude_case(self, verdict)

    def format(self, verdict: Verdict) -> str:
        """Return the verdict for this terminal."""
        from pytest_agentreplay.report.verdict import format_verdict

        writer = self.config.get_terminal_writer()
        return escape_output(format_verdict(verdict, width=writer.fullwidth, verbosity=self.config.get_verbosity()))

    def point_at(self, place: str) -> None:
        """Report this item at line:column `place` of its file: annotations are put there."""
        self.line = line_of(place)
        self.__dict__.pop("location", None)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where the item stands: on the line of the check that failed, once one has."""
        return self.path, self.line, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The message about a failure: ours in our words, and a summary of one line that points into the case."""
        representation = super().repr_failure(excinfo, style)
        message = (
            str(self.error) if self.error is not None else self.verdict.headline if self.verdict is not None else ""
        )
        if message and (crash := getattr(representation, "reprcrash", None)) is not None:
            crash.path, crash.lineno, crash.message = str(self.path), self.line + 1, escape_output(message)
        return representation


def format_reason(verdict: Verdict) -> str:
    """Return why a case is skipped or xfailed, as one line."""
    text = f"cannot be replayed: {verdict.headline}" if verdict.word == "cold" else verdict.headline
    return escape_output(escape_line(text))


def line_of(place: str) -> int:
    """Return the line, counted from 0, in "line:column"."""
    line = place.partition(":")[0]
    return int(line) - 1 if line.isdecimal() else 0


def properties(verdict: Verdict) -> dict[str, str]:
    """Return short facts for machines."""
    from pytest_agentreplay.report.verdict import format_served

    return {
        "case": verdict.case,
        "expect": verdict.expect,
        "verdict": verdict.word,
        "state": verdict.state,
        "served": format_served(verdict),
        "to_read": str(len(verdict.to_read)),
    }


def markers(config: pytest.Config, labels: Iterable[str]) -> Iterator[str]:
    """Yield the labels as names of markers, each registered. None of them is one that acts: a case is data."""
    registered = {text.partition(":")[0].partition("(")[0].strip() for text in config.getini("markers")}
    own = {text.partition(":")[0].strip() for text in read_declared_markers(config)}
    for label in labels:
        name = re.sub(r"\W", "_", label)
        if (
            not name.isidentifier()
            or name.startswith("_")
            or (name in registered - own and name not in config.stash.setdefault(LABELS, set()))
        ):
            name = f"label_{name}"
        if name not in registered:
            config.addinivalue_line("markers", f"{name}: a label of cases")
            config.stash.setdefault(LABELS, set()).add(name)
            registered.add(name)
        yield name


def read_declared_markers(config: pytest.Config) -> list[str]:
    """Return the markers that the project itself declares in its ini file."""
    table = vars(config).get("_inicfg")  # `config.inicfg` warns since pytest 9
    raw: Any = (config.inicfg if table is None else table).get("markers", "")
    raw = getattr(raw, "value", raw)
    return [str(line) for line in (raw.splitlines() if isinstance(raw, str) else raw or ())]


LABELS: pytest.StashKey[set[str]] = pytest.StashKey()
