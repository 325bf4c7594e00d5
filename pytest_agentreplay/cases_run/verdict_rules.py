"""From evidence to a verdict: what each half of a case comes to, given what the case expects.

    expect        observed                                    desired
    reproduces    holds on the frozen run, and on today's      not yet: an expected failure; holding all is one
    fixed         held once, on the frozen run; not today      holds today
    cold          (kept as it is: nothing can be replayed)

A run that left the frozen one shows nothing of it, nor does an agent that died before it asked for anything: then
nobody can say, and that is a failure. A fixed agent has to leave the frozen run, so `fixed` tries a failure that cannot
show itself under its own policy once more under that of `desired`. An agent that reaches past the frozen world (a
socket, a child, a tool that nobody froze) fails either half, whatever is expected of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.cases_run.runners import DECLARED, EXAMPLE
from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.core.paths import quoted
from pytest_agentreplay.report import finding, findings
from pytest_agentreplay.report.verdict import FROZEN, Checked, Outcome, Verdict, Word

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pytest_agentreplay.cases.case import Case, Check, Half
    from pytest_agentreplay.cases.judging import CaseEvidence, Judgement
    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.report.finding import Line

CLIP = 100
SIGNATURE = "checks of its signature "


class VerdictRules:
    """One case before its judge.

    `judged(half, evidence)` holds evidence against a half. `attempt(runner, serving)` runs today's agent by the runner
    of one half under the policy of one; None where the case has nobody to run it. `nodeid` selects the case.
    """

    def __init__(
        self,
        case: Case,
        frozen: CaseEvidence,
        judged: Callable[[Half, CaseEvidence], Judgement],
        attempt: Callable[[Half, Half], CaseEvidence] | None = None,
        *,
        everywhere: bool = False,
        written: Callable[[str], str] = str,
    ) -> None:
        """`everywhere`: the runner is that of the command line, and runs both halves whatever the case names."""
        self._written = written
        self.case = case
        self._frozen = frozen
        self._judged = judged
        self._attempt = attempt
        self._everywhere = everywhere

    def verdict(self, half: Half) -> Verdict:
        """What this half comes to."""
        return self.observed() if half == "observed" else self.desired()

    def cold(self) -> Verdict:
        """A case that cannot be replayed: what it lacks is told, and expected."""
        missing = f" (missing: {', '.join(self.case.missing)})" if self.case.missing else ""
        return self._said("observed", "cold", "expected", f"cold: {self.case.reason}{missing}", served="nobody")

    def observed(self) -> Verdict:
        """The failure signature: true of its own frozen run, and of today's agent as the case expects."""
        own = self._judged("observed", self._frozen)
        if not own.holds:
            said = f"broken case: the failure signature is not true of its own frozen run ({count(own)})"
            lint = ("see what is wrong with it", f"agentreplay lint {quoted(self.case.file)}")
            return self._said("observed", "broken", "failed", said, own, next=(lint,))
        fixed = self.case.expect == "fixed"
        if not self._runs("observed"):
            return self._nobody("observed") if fixed else self._reproduced(own, self._frozen)
        now = self._try("observed", "observed")
        again = fixed and now.divergence is not None and not now.escapes
        if again and self._serving("desired") != self._serving("observed"):
            now = self._try("observed", "desired")
        if now.divergence is not None or self._stillborn(now):
            return self._parted("observed", now)
        found = self._judged("observed", now)
        if found.holds:
            return self._again(found, now) if fixed else self._reproduced(found, now)
        if any(one.held is None for one in found.results) and all(one.held is not False for one in found.results):
            said = f"cannot say whether the failure reproduces: {count(found)}, the others show nothing of it"
            return self._said("observed", "cannot say", "failed", said, found, now=now)
        if fixed:
            said = f"the failure does not reproduce: {count(found, SIGNATURE)}, served {policy(now)}"
            return self._said("observed", "not reproduced", "passed", said, found, now=now)
        otherwise = now.status == "error" and self._frozen.status == "ok"
        what = ", but the agent fails otherwise" if otherwise else ": set expect: fixed"
        said = f"this failure no longer reproduces{what} ({count(found, SIGNATURE)})"
        return self._said("observed", "not reproduced", "failed", said, found, now=now, next=(self._mend(),))

    def desired(self) -> Verdict:
        """What a fixed agent must show: expected to fail while the failure is, unless it has a runner of its own."""
        runners = self.case.runners
        alone = bool(runners.get("desired")) and runners.get("desired") != runners.get("observed")
        binds = self.case.expect == "fixed" or (alone and not self._everywhere)
        now = self._try("desired", "desired") if self._runs("desired") else self._frozen
        if now is self._frozen and binds:
            return self._nobody("desired")
        silent = now.divergence is not None or (
            self._stillborn(now) and not any(check.word in ENDS for check in self.case.checks("desired"))
        )
        if silent and (binds or now.escapes or now.live.get("stopped")):
            return self._parted("desired", now)
        found = self._judged("desired", now)
        if not found.results:
            human = len(found.human)
            said = f"needs human: {human} check{'' if human == 1 else 's'} in words, and no other"
            return self._said("desired", "human", "unsaid", said, found, now=now)
        if silent:
            return self._said("desired", "not fixed", "expected", f"not fixed yet: {left(now)}", found, now=now)
        if not found.holds:
            said = f"{'not fixed' if binds else 'not fixed yet'}: {count(found)}"
            return self._said("desired", "not fixed", "failed" if binds else "expected", said, found, now=now)
        if now is self._frozen:
            said = f"broken case: all of desired holds on the frozen run ({count(found)}), so it tells nothing of a fix"
            return self._said("desired", "broken", "failed", said, found, now=now)
        word: Word = "robust" if is_robust(now) else "fixed"
        if binds:
            said = f"{PROOFS[word]}: {count(found)}, served {policy(now)}"
            return self._said("desired", word, "passed", said, found, now=now)
        said = f"passes unexpectedly: all of desired holds ({count(found)}): set expect: fixed"
        return self._said("desired", word, "failed", said, found, now=now, next=(self._mend(),))

    def asks_live(self, half: Half, why: Exception) -> Verdict:
        """This half can be tried with the real model alone, and nobody has allowed that."""
        return self._said(half, "asks live", "unsaid", str(why), served=self._serving(half))

    def _runs(self, half: Half) -> bool:
        return self._attempt is not None and (self._everywhere or bool(self.case.runners.get(half)))

    def _try(self, runner: Half, serving: Half) -> CaseEvidence:
        assert self._attempt is not None
        return replace(self._attempt(runner, serving), recorded=self._frozen.tool_calls)

    def _stillborn(self, now: CaseEvidence) -> bool:
        """Whether the agent, run in this process, raised before any call of it was answered."""
        began = self._frozen.run is not None and bool(self._frozen.run.exchanges)
        return began and now.status == "error" and now.run is not None and not now.run.exchanges

    def _serving(self, half: Half) -> str:
        serving = self.case.serving.get(half)
        return serving.told if serving is not None else ""

    def _reproduced(self, found: Judgement, now: CaseEvidence) -> Verdict:
        said = f"the failure reproduces: {count(found, SIGNATURE)}, served {policy(now)}"
        return self._said("observed", "reproduced", "passed", said, found, now=now)

    def _again(self, found: Judgement, now: CaseEvidence) -> Verdict:
        said = f"FAILURE REPRODUCED: {count(found, SIGNATURE)}, served {policy(now)}"
        # `expect: reproduces` is no way on: it would make the failure pass again.
        folder = quoted(self.case.file.rpartition("/")[0] or ".")
        steps = (
            ("the fix no longer holds; find the commit that undid it", "git bisect start HEAD COMMIT_OF_THE_FIX"),
            ("and then", f"git bisect run agentreplay replay {folder}"),
            self._see(),
        )
        return self._said("observed", "reproduced", "failed", said, found, now=now, next=steps)

    def _nobody(self, half: Half) -> Verdict:
        said = "a runner is needed: expect: fixed is said of today's agent, and the case names nobody who runs it"
        if self.case.expect != "fixed":
            said = "a runner is needed: the case names one that cannot be had here"
        steps = (
            ("name it in the case", "runner: KEY"),
            (f"declare it {DECLARED}", self._written(f"agentreplay_runners = KEY = {EXAMPLE}")),
            ("or run a command", f'agentreplay replay {quoted(self.case.file)} --runner-cmd "python agent.py"'),
        )
        return self._said(half, "no runner", "failed", said, next=steps)

    def _parted(self, half: Half, now: CaseEvidence) -> Verdict:
        """The run left what is frozen, so the half says nothing of it: told by the finding that a test's would be."""
        said = f"cannot say whether {'the failure reproduces' if half == 'observed' else 'it is fixed'}: "
        if now.divergence is None:
            return self._said(half, "cannot say", "failed", said + left(now), now=now)
        finding = self._finding(now.divergence)
        if now.live.get("stopped"):
            return self._said(half, "cannot say", "failed", said + finding.headline, now=now, finding=finding)
        said += f"today's run left the frozen one: {finding.headline}"
        steps = self._ways(half) if not now.escapes else ()
        return self._said(half, "cannot say", "failed", said, now=now, finding=finding, next=(*steps, self._see()))

    def _finding(self, divergence: Divergence) -> finding.Finding:
        """The finding of a test, without the steps of one: a case is neither recorded anew nor accepted."""
        found = findings.describe_divergence(divergence, self.case.id, {})
        return replace(found, lines=tuple(one for one in found.lines if one.what != "next" or keeps(one)))

    def _ways(self, half: Half) -> tuple[tuple[str, str], ...]:
        serve = f"serve: {{{half}: {{model: position, tools: arguments}}}}"
        mended = (self._mend(),) if half == "observed" and self.case.expect == "reproduces" else ()
        return (*mended, ("the change is meant, and the case is to answer it", serve))

    def _see(self) -> tuple[str, str]:
        return "see the frozen run", f"agentreplay show {quoted(sibling(self.case.file, 'run.snapshot.json'))}"

    def _mend(self) -> tuple[str, str]:
        return "if the failure is mended", f"set expect: fixed in {self.case.file}"

    def _said(
        self,
        half: Half,
        word: Word,
        outcome: Outcome,
        headline: str,
        found: Judgement | None = None,
        *,
        now: CaseEvidence | None = None,
        served: str = "",
        **more: Any,
    ) -> Verdict:
        results = found.results if found is not None else ()
        places = [one.check.place for one in results if one.held is not True]
        return Verdict(
            case=self.case.id,
            file=self.case.file,
            half=half,
            expect=self.case.expect,
            word=word,
            outcome=outcome,
            headline=headline,
            place=next(iter(places), "") or self.case.places.get((half,), ""),
            served=served or (policy(now) if now is not None else FROZEN),
            answers=now.served.partition(" (")[2].removesuffix(")") if now is not None else "",
            network=now.network if now is not None else "",
            unheard=dict(now.unheard) if now is not None else {},
            live=dict(now.live) if now is not None else {},
            checks=tuple(Checked(worded(one.check), one.held, one.check.place, one.lines) for one in results),
            human=found.human if found is not None else (),
            notes=(*(found.notes if found is not None else ()), *ended(now), *(now.escapes if now is not None else ())),
            **more,
        )


ENDS = {"status", "error"}  # who wants one of these says himself how the run has to end
PROOFS = {"fixed": "fixed", "robust": "robust, not proven"}


def keeps(line: Line) -> bool:
    """Whether a step that a finding offers is one for a case too: it neither records nor accepts, and runs no test."""
    return not line.text.startswith(("pytest ", "agentreplay accept"))


def sibling(file: str, name: str) -> str:
    """The file `name` beside `file`, as people are shown it."""
    return f"{file.rpartition('/')[0]}/{name}" if "/" in file else name


def policy(now: CaseEvidence) -> str:
    """Under which policy the answers came; how many came how stands behind it, in brackets."""
    return now.served.partition(" (")[0] or FROZEN


def ended(now: CaseEvidence | None) -> tuple[str, ...]:
    """What ended today's run, where something did: without it nobody can tell a mended agent from a broken runner."""
    if now is None or not now.served or now.status != "error" or not now.errors:
        return ()
    kind, said = now.errors[-1]
    return (f"the agent ended with {kind.removeprefix('builtins.')}: {said}".removesuffix(": "),)


def left(now: CaseEvidence) -> str:
    """Why a run says nothing of the frozen one."""
    if now.divergence is None:
        return "the agent died before it asked for anything"
    where = findings.format_place(now.divergence)
    return f"today's run left the frozen one{where and f' at {where}'}"


def is_robust(now: CaseEvidence) -> bool:
    """Whether a pass is no proof: answers came by their place, not by what was asked."""
    return "position" in policy(now)


def count(found: Judgement, whose: str = "") -> str:
    """How many checks hold: "1 of 3 hold", "1 of 3 checks of the signature hold"."""
    return f"{sum(1 for one in found.results if one.held)} of {len(found.results)} {whose}hold"


def worded(check: Check) -> str:
    """A check in the words of the case, on one line."""
    wanted = check.wanted if isinstance(check.wanted, str) else canonical(check.wanted)
    said = f"{check.word}: {wanted}"
    return said if len(said) <= CLIP else f"{said[: CLIP - 3]}..."
