"""From evidence to the verdict on a case: what each list of checks comes to, and the one table of what follows.

A run that left its recording shows nothing of it, nor does an agent that died before it asked for anything. A fixed
agent has to leave the recording, so `fixed` tries a failure that cannot show itself under its own policy once more
under that of the desired checks. An agent that reaches past its recording (a socket, a child, a tool that nobody
declared) fails the case, whatever is expected of it.

The states of the observed checks:
    hold          the failure recurs
    gone          at least one of them fails today
    otherwise     the same, and the agent ended with an error that the recording does not have
    left          today's run left its recording, so they say nothing
    cannot tell   the agent dies before it asks, reaches past the recording, or no check could be made
    broken        they do not hold on the recording of the failure itself
The states of the desired checks:
    hold, fail    on today's run
    left          as above; only where the case does not need them to hold
    cannot tell   as above; also a run that left its recording where the case needs them to hold
    not run       nobody runs the agent, and on the recording they fail, as they should
    broken        nobody runs the agent, and on the recording of the failure they hold
    to read       all of them are for people
Of either: no runner, asks live (the real model is needed and not allowed), stopped (a live run ended early), none.

A case needs the desired checks where it expects `fixed`, or where they have a runner of their own ("own runner").
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.cases.case import DEFAULT_SERVING
from pytest_agentreplay.errors import LiveRefused
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.report import findings
from pytest_agentreplay.report.verdict import FROZEN, Checked, ListResult, Verdict, format_to_read
from pytest_agentreplay.runs.cases.runners import DECLARED, EXAMPLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.cases.case import Case, Check, ListName
    from pytest_agentreplay.cases.evidence import CaseEvidence
    from pytest_agentreplay.cases.judging import Judgement
    from pytest_agentreplay.report.finding import Line
    from pytest_agentreplay.report.verdict import Outcome, State, Word


class VerdictRow(NamedTuple):
    """One row: what it matches ("*" is all, "a|b" either), and what follows. `by` is the list that decides."""

    expect: str
    observed: str
    desired: str
    word: Word
    state: State
    outcome: Outcome
    by: str
    headline: str


OPEN = "reproduces|own runner"
LINT = ". Run agentreplay lint {file}"
FIX = ". Set expect: fixed in {file}"
COMPARE = ". Compare with agentreplay show {run}"
WHETHER = "cannot tell whether the failure reproduces: {observed}"
WHETHER_FIXED = "cannot tell whether it is fixed: {desired}"

TABLE = tuple(
    VerdictRow(*row)
    for row in (  # the first that matches
        # What is wrong with the case itself.
        ("*", "broken", "*", "broken", "", "failed", "observed",
         "broken case: the observed checks do not hold on its own recording ({observed})" + LINT),
        ("*", "*", "broken", "broken", "", "failed", "desired",
         "broken case: all desired checks hold on the recording of the failure, so they do not show a fix" + LINT),
        ("*", "no runner", "*", "no runner", "", "failed", "observed", "{observed}"),
        ("*", "*", "no runner", "no runner", "", "failed", "desired", "{desired}"),
        # The failure is back. No doubt about the desired checks makes that better.
        ("fixed", "hold", "*", "changed", "reproduces", "failed", "observed",
         "FAILURE REPRODUCED: {observed}, served {served}"),
        # An agent that reaches past its recording, or dies at once, shows nothing.
        ("*", "cannot tell", "*", "cannot tell", "", "failed", "observed", WHETHER),
        ("*", "*", "cannot tell", "cannot tell", "", "failed", "desired", WHETHER_FIXED),
        # The failure has gone, and the case does not say so yet.
        (OPEN, "otherwise", "*", "changed", "fails differently", "failed", "observed",
         "fails differently: {observed}, and the agent ends with an error" + COMPARE),
        (OPEN, "gone", "hold", "changed", "fixed", "failed", "observed",
         "the failure no longer reproduces; all desired checks hold{by}" + FIX),
        ("reproduces", "left", "hold", "changed", "fixed", "failed", "observed",
         "today's run left its recording; all desired checks hold{by}" + FIX),
        ("reproduces", "none|asks live|stopped", "hold", "changed", "fixed", "failed", "desired",
         "all desired checks hold{by}" + FIX),
        (OPEN, "gone", "fail", "changed", "fails differently", "failed", "observed",
         "fails differently: {observed}, {desired}" + COMPARE),
        (OPEN, "gone", "*", "changed", "no longer reproduces", "failed", "observed",
         "the failure no longer reproduces ({observed}); {desired}" + FIX),
        ("reproduces", "hold", "hold", "changed", "reproduces", "failed", "desired",
         "the failure reproduces, and all desired checks hold as well, so they do not show a fix" + LINT),
        ("*", "left", "*", "cannot tell", "", "failed", "observed", WHETHER),
        ("own runner|fixed", "*", "fail", "changed", "not fixed", "failed", "desired",
         "not fixed: {desired}. Fix the agent, then run agentreplay replay {folder}"),
        ("*", "stopped", "*", "cannot tell", "", "failed", "observed", WHETHER),
        ("*", "*", "stopped", "cannot tell", "", "failed", "desired", WHETHER_FIXED),
        # The case holds.
        (OPEN, "hold", "*", "holds", "reproduces", "passed", "observed",
         "the failure reproduces: {observed}, served {served}"),
        ("*", "asks live", "*", "asks live", "", "skipped", "observed", "{observed}"),
        ("*", "*", "asks live", "asks live", "", "skipped", "desired", "{desired}"),
        ("fixed", "gone", "hold", "holds", "fixed", "passed", "desired", "fixed{by}: {desired}, served {served}"),
        ("fixed", "gone", "to read|none", "holds", "fixed", "passed", "observed",
         "fixed{by}: the failure does not reproduce ({observed}); {desired}"),
        ("own runner|fixed", "none", "hold", "holds", "fixed", "passed", "desired",
         "fixed{by}: {desired}, served {served}"),
        # Nothing says what went wrong, so nothing can recur.
        ("*", "none", "to read", "to read", "", "skipped", "desired", "{desired}, and there are no others"),
        ("reproduces", "none", "fail|left|not run", "not fixed yet", "", "expected", "desired",
         "not fixed yet: {desired}"),
    )
)  # fmt: skip


def find_row(expect: str, observed: str, desired: str) -> VerdictRow:
    """Return the first row that matches. Raises LookupError where none does, which no case comes to."""
    states = expect, observed, desired
    for row in TABLE:
        if all(pattern == "*" or value in pattern.split("|") for pattern, value in zip(row[:3], states, strict=True)):
            return row
    raise LookupError(states)


CLIP = 100
ENDS = {"status", "error"}  # a check with one of these words says how the run has to end


@dataclass(slots=True, eq=False)
class VerdictRules:
    """The evaluation of one case that is not cold.

    `judged(list_name, evidence)` holds evidence against a list of checks. `attempt(runner, serving)` runs today's
    agent by the runner of one list under the policy of one. `everywhere`: the command line names the runner of both
    lists. `skip_live`: as `CaseEvaluator.evaluate`.
    """

    case: Case
    frozen: CaseEvidence
    judged: Callable[[ListName, CaseEvidence], Judgement]
    attempt: Callable[[ListName, ListName], CaseEvidence]
    _: KW_ONLY
    everywhere: bool = False
    skip_live: bool = False
    written: Callable[[str], str] = str
    _runs: dict[tuple[str, str], CaseEvidence] = field(default_factory=dict, init=False)
    _to_read: tuple[str, ...] = field(default=(), init=False)

    def verdict(self) -> Verdict:
        """Return what the case comes to. Raises what a run raises, and LiveRefused without `skip_live`."""
        case = self.case
        observed = self._evaluate("observed", self._evaluate_observed) if case.observed else None
        desired = self._evaluate("desired", self._evaluate_desired) if case.desired or case.semantic else None
        states = [result.state if result is not None else "none" for result in (observed, desired)]
        row = find_row("own runner" if case.expect != "fixed" and self._needs_desired else case.expect, *states)
        decisive = observed if row.by == "observed" else desired
        lists = [result for result in (observed, desired) if result is not None]
        by_position = row.state == "fixed" and any("position" in result.served for result in lists)
        folder = quote_word(case.file.rpartition("/")[0] or ".")
        headline = row.headline.format(
            observed=observed.text if observed is not None else "",
            desired=desired.text if desired is not None else "there are no desired checks",
            served=decisive.served if decisive is not None else "",
            by=" by position" if by_position else "",
            file=quote_word(case.file),
            folder=folder,
            run=quote_word(sibling(case.file, "run.snapshot.json")),
        )
        steps = decisive.next if decisive is not None else ()
        if (row.word, row.state, row.by) == ("changed", "reproduces", "observed"):
            # `expect: reproduces` is no way on: it would make the failure pass again.
            steps = (
                ("if a fix has held before, find the commit that undid it", "git bisect start HEAD COMMIT_OF_THE_FIX"),
                ("and then", f"git bisect run agentreplay replay {folder}"),
                self._show_step(),
            )
        return Verdict(
            case=case.id,
            file=case.file,
            expect=case.expect,
            word=row.word,
            state="fixed by position" if by_position else row.state,
            outcome=row.outcome,
            headline=headline,
            place=(decisive.place if decisive is not None else "") or case.places.get((row.by,), ""),
            decided_by=row.by,
            observed=observed,
            desired=desired,
            to_read=self._to_read,
            notes=case.notes,
            next=steps,
        )

    @property
    def _needs_desired(self) -> bool:
        """Whether the desired checks have to hold for the case to hold."""
        runners = self.case.runners
        alone = bool(runners.get("desired")) and runners.get("desired") != runners.get("observed")
        return self.case.expect == "fixed" or (alone and not self.everywhere)

    def _evaluate(self, list_name: ListName, evaluate: Callable[[], ListResult]) -> ListResult:
        try:
            return evaluate()
        except LiveRefused as why:
            if not self.skip_live:
                raise
            return ListResult(state="asks live", text=str(why), served=self._serving(list_name))

    def _evaluate_observed(self) -> ListResult:
        """Return what went wrong: true of the recording, and of today's agent while the failure recurs."""
        own, fixed = self.judged("observed", self.frozen), self.case.expect == "fixed"
        if not own.holds:
            return self._result("observed", "broken", own)
        if not self._can_run("observed"):
            return self._no_runner("observed") if fixed else self._result("observed", "hold", own)
        now = self._run("observed", "observed")
        again = fixed and now.divergence is not None and not now.escapes
        if again and self._serving("desired") != self._serving("observed"):
            now = self._run("observed", "desired")
        if now.divergence is not None or self._died_first(now):
            return self._describe_left("observed", now)
        judgement = self.judged("observed", now)
        state = "hold" if judgement.holds else "gone"
        if not judgement.holds and all(result.holds is not False for result in judgement.results):
            state = "cannot tell"
        elif state == "gone" and not fixed and now.status == "error" and self.frozen.status == "ok":
            state = "otherwise"
        return self._result("observed", state, judgement, now)

    def _evaluate_desired(self) -> ListResult:
        """Return what a fixed agent must show."""
        needed, runs = self._needs_desired, self._can_run("desired")
        if needed and not runs:
            return self._no_runner("desired")
        now = self._run("desired", "desired") if runs else self.frozen
        silent = now.divergence is not None or (
            self._died_first(now) and not any(check.word in ENDS for check in self.case.desired)
        )
        if silent and (needed or now.escapes or now.live.get("stopped")):
            return self._describe_left("desired", now, needed=True)
        judgement = self.judged("desired", now)
        self._to_read = judgement.human
        if not judgement.results:
            return self._result("desired", "to read", judgement, now, format_to_read(len(judgement.human)))
        if silent:
            return self._result("desired", "left", judgement, now, describe_leaving(now))
        if not runs:
            why = "" if judgement.holds else "the desired checks were not tried: the case names no runner"
            return self._result("desired", "broken" if judgement.holds else "not run", judgement, now, why)
        return self._result("desired", "hold" if judgement.holds else "fail", judgement, now)

    def _can_run(self, list_name: ListName) -> bool:
        return self.everywhere or bool(self.case.runners.get(list_name))

    def _run(self, runner: ListName, serving: ListName) -> CaseEvidence:
        """Run today's agent; once for both lists where runner and policy are the same."""
        key = "" if self.everywhere else self.case.runners[runner], self._serving(serving)
        if key not in self._runs:
            self._runs[key] = replace(self.attempt(runner, serving), recorded=self.frozen.tool_calls)
        return self._runs[key]

    def _died_first(self, now: CaseEvidence) -> bool:
        """Return whether the agent, run in this process, raised before any call of it was answered."""
        began = self.frozen.run is not None and bool(self.frozen.run.exchanges)
        return began and now.status == "error" and now.run is not None and not now.run.exchanges

    def _serving(self, list_name: ListName) -> str:
        return self.case.serving.get(list_name, DEFAULT_SERVING[list_name]).text

    def _no_runner(self, list_name: ListName) -> ListResult:
        text = f"expect: fixed needs today's agent. Write its runner, runner: KEY, in {quote_word(self.case.file)}"
        steps = (
            ("name it in the case", "runner: KEY"),
            (f"declare it {DECLARED}", self.written(f"agentreplay_runners = KEY = {EXAMPLE}")),
            ("or run a command", f'agentreplay replay {quote_word(self.case.file)} --runner-cmd "python agent.py"'),
        )
        return ListResult(state="no runner", text=text, place=self.case.places.get((list_name,), ""), next=steps)

    def _describe_left(self, list_name: ListName, now: CaseEvidence, *, needed: bool = False) -> ListResult:
        """Return what a run shows that left its recording: nothing but where it did."""
        if now.divergence is None:
            return self._result(list_name, "cannot tell", None, now, describe_leaving(now))
        finding = findings.describe_divergence(now.divergence, self.case.id, {})
        # A case is neither recorded anew nor accepted.
        finding = replace(
            finding, lines=tuple(line for line in finding.lines if line.what != "next" or is_for_cases(line))
        )
        if now.live.get("stopped"):
            return replace(self._result(list_name, "stopped", None, now, finding.headline), finding=finding)
        serve = f"serve: {{{list_name}: {{model: position, tools: arguments}}}}"
        steps = [("the change is meant, and the case is to answer it", serve)] if not now.escapes else []
        if steps and list_name == "observed" and self.case.expect == "reproduces":
            steps.insert(0, ("if the failure is fixed", f"set expect: fixed in {self.case.file}"))
        result = self._result(
            list_name,
            "cannot tell" if needed or now.escapes else "left",
            None,
            now,
            f"today's run left its recording: {finding.headline}",
        )
        return replace(result, finding=finding, next=(*steps, self._show_step()))

    def _show_step(self) -> tuple[str, str]:
        return "see the recording", f"agentreplay show {quote_word(sibling(self.case.file, 'run.snapshot.json'))}"

    def _result(
        self,
        list_name: ListName,
        state: str,
        judgement: Judgement | None,
        now: CaseEvidence | None = None,
        text: str = "",
    ) -> ListResult:
        now, results = now or self.frozen, judgement.results if judgement is not None else ()
        places = (result.check.place for result in results if result.holds is not True)
        return ListResult(
            state=state,
            text=text or f"{sum(bool(result.holds) for result in results)} of {len(results)} {list_name} checks hold",
            place=next(places, "") or self.case.places.get((list_name,), ""),
            served=now.served.partition(" (")[0] or FROZEN,
            answers=now.served.partition(" (")[2].removesuffix(")"),
            checks=tuple(
                Checked(format_check(result.check), result.holds, result.check.place, result.lines)
                for result in results
            ),
            notes=(*describe_end(now), *now.escapes),
            network=now.network,
            unheard=dict(now.unheard),
            live=dict(now.live),
        )


def is_for_cases(line: Line) -> bool:
    """Return whether a step of a finding is one for a case: it neither records nor accepts, and runs no test."""
    return not line.text.startswith(("pytest ", "agentreplay accept"))


def sibling(file: str, name: str) -> str:
    """Return the file `name` beside `file`, as people are shown it."""
    return f"{file.rpartition('/')[0]}/{name}" if "/" in file else name


def describe_end(now: CaseEvidence) -> tuple[str, ...]:
    """Return what ended today's run: without it nobody can tell a fixed agent from a broken runner."""
    if not now.served or now.status != "error" or not now.errors:
        return ()
    kind, message = now.errors[-1]
    return (f"the agent ended with {kind.removeprefix('builtins.')}: {message}".removesuffix(": "),)


def describe_leaving(now: CaseEvidence) -> str:
    """Return why a run says nothing of its recording."""
    if now.divergence is None:
        return "the agent dies before it asks for anything"
    where = findings.format_place(now.divergence)
    return f"today's run left its recording{where and f' at {where}'}"


def format_check(check: Check) -> str:
    """Return a check in the words of the case, on one line."""
    expectation = check.wanted if isinstance(check.wanted, str) else canonical(check.wanted)
    text = f"{check.word}: {expectation}"
    return text if len(text) <= CLIP else f"{text[: CLIP - 3]}..."
