"""One test replayed: every call is answered from the snapshot, or refused; nothing goes live."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_agentreplay import clocks
from pytest_agentreplay.backends.replay import ReplayBackend
from pytest_agentreplay.compare.matching.credentials import read_text
from pytest_agentreplay.intercept.network import sandbox
from pytest_agentreplay.intercept.ordering.pausing import Pausing
from pytest_agentreplay.intercept.ordering.stall_watch import StallWatch
from pytest_agentreplay.intercept.session.pending_call import AnswerOrder
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import ABSENT, Divergence, Kind
from pytest_agentreplay.model.exchanges import Call, Exchange, Header, JsonObject, Run, ToolCall
from pytest_agentreplay.model.paths import selecting
from pytest_agentreplay.model.release_order import Started
from pytest_agentreplay.model.turns import divide_at, function_of, label
from pytest_agentreplay.providers import READER, asks_model
from pytest_agentreplay.redaction.placeholders import claims_in, variables_in
from pytest_agentreplay.report.summary import FieldDrift, UnfrozenTool, VirtualClockUse
from pytest_agentreplay.runs.offline_session import OfflineSession, make_matching, make_schedule
from pytest_agentreplay.snapshots.kit import entries, list_models, list_unfrozen, table, text_of, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pytest_agentreplay.backends.verify import VerifyBackend
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.compare.matching.near_calls import Near
    from pytest_agentreplay.compare.matching.new_values import NewValues
    from pytest_agentreplay.intercept.ordering.release import ReleaseQueue
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.run_session import EndedRun, Location
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.snapshots.codec import Snapshot


AGED = 30 * 24 * 3600
"""Seconds after which a recording may be stale."""


class ReplaySession(OfflineSession):
    """Answers from `snapshot`. What the backend has latched fails the test, whatever the agent swallowed.

    `replayed` are the snapshots of the tests of this process whose calls were all made.
    """

    replayed: ClassVar[list[Path]] = []
    new_values: NewValues | None = None
    """Of a captured run, what tells which of its values are new."""

    def __init__(self, place: Location, settings: Settings, snapshot: Snapshot, edited: Sequence[str] = ()) -> None:
        """Index the snapshot; nothing is restored yet. `edited` names what is not as it was sealed."""
        recorded = snapshot.run
        matching = make_matching(place, settings)
        self.verifier: VerifyBackend | None = None
        if settings.model == "frozen" and settings.replay_tools == "checked":  # read tools run too
            from pytest_agentreplay.backends.verify import VerifyBackend

            self.verifier = VerifyBackend(recorded, matching, READER, settings.near)
        self.replayer = self.verifier or self.make_backend(recorded, matching)
        self.snapshot = snapshot
        header = recorded.header
        super().__init__(place, settings, self.replayer, header)
        placeholders = self.redaction.run.placeholders
        self.replayer.keep_apart(placeholders.reserve(variables_in(header.kit)), placeholders)
        servers = entries(header.kit, "servers")
        self.interception.observed.servers = frozenset(start for start in servers if isinstance(start, int))
        self.interception.lanes.started = Started(header.kit.get("starts", {}))
        if "capture" in header.kit:
            self._pin_as_captured(recorded, matching)
        body = header.kit.get("body")
        self._body = body if isinstance(body, int) else None
        # A tool that is verified runs for real: it talks to the world of today.
        self.clock.live_inside = self.verifier is not None
        self.order = None if self.verifier else self.make_order()
        # Without a queue that holds answers back, a call that comes too early is answered too, so that the report shows
        # what became of the calls before it.
        unordered = self.order is None and self.verifier is None
        self.replayer.policy = replace(
            self.replayer.policy,
            reads_in_any_order=settings.order == "loose",
            looks_ahead=unordered,
            answers_when_handed_over=unordered,
            writes=self.tools.has_effects,
        )
        pauses, asleep = unordered and settings.order != "free", table(header.kit, "order").get("asleep", [])
        pausing = Pausing(self.interception.work, asleep) if pauses else AnswerOrder()
        self.interception.order = self.order or pausing
        # A thread or task may wait for an answer that never comes: the watch reports it in place of a hang.
        self.stalls = StallWatch(self.interception, self.overtime, self._find_stall)
        self._complete = False
        if edited:
            self.note(edited=(*edited,))

    def _pin_as_captured(self, recorded: Run, matching: Matching) -> None:
        """Have a run whose clock and ids were real see the recorded ones, as far as they are known."""
        from pytest_agentreplay.compare.matching.new_values import NewValues
        from pytest_agentreplay.snapshots.kit import list_draws

        self.new_values = NewValues(recorded, matching, READER)
        self.replayer.accept_new_values(self.new_values)
        self.chance.serve_ids(list_draws(recorded.header.kit))
        self.steps.follow(recorded.exchanges)

    def open(self) -> None:
        """Open it. A run is refused before it begins where a frozen tool would run for real; on CI, where any would."""
        super().open()
        if self.new_values is not None and not self.clock.stepping:
            self.new_values.began = time.time()
        unfrozen = self._list_unfrozen()
        self.note(unfrozen=unfrozen)
        if undeclared := self._list_undeclared():
            self._refuse_start(undeclared, "was frozen when recorded, and is not any more: no setting names it")
        elif unfrozen and self.settings.on_ci:
            self._refuse_start(unfrozen, "ran unseen when recorded: where CI is set, freeze it or declare it live")

    def _refuse_start(self, tools: Sequence[UnfrozenTool], what: str) -> None:
        """Refuse the run, whose tools are not frozen."""
        cause = "no call of it is answered from the snapshot: it would run for real"
        hints = tuple(f"freeze it, in agentreplay_tools: {tool.path}" for tool in tools if tool.path)
        refused = Divergence(Kind.UNFROZEN, f"tool {tools[0].tool} {what}", cause=cause, hints=hints)
        self.interception.latch(refused, "")

    def list_functions(self) -> JsonObject:
        """Return the recorded tools that are functions of the settings, with their import paths."""
        return {name: path for name, path in table(self.snapshot.run.header.kit, "functions").items() if path}

    def _list_undeclared(self) -> list[UnfrozenTool]:
        """Return the recorded functions that nothing intercepts by now, under whatever name."""
        names, paths = self.tools.list_names(), {path for path, _ in self.tools.frozen}
        functions, seen = self.list_functions(), names | self.interception.tools.seen
        if not (missing := {name: path for name, path in functions.items() if name not in seen and path not in paths}):
            return []
        from pytest_agentreplay.intercept.tools.tool import is_redirected
        from pytest_agentreplay.runs import replay_kit

        root, undeclared = str(self.place.root), []
        new = names - functions.keys() - table(self.snapshot.run.header.kit, "signatures").keys()
        for name, path in missing.items():
            candidates = [function for _, function in replay_kit.find_candidates(name, root)]
            # It may be frozen under a new name: then no function has the old one, and a declared one is new.
            if not any(map(is_redirected, candidates)) and (candidates or not new):
                line = replay_kit.guess_tool_line(name, root) if candidates or not path else str(path)
                undeclared.append(UnfrozenTool(name, line))
        return undeclared

    def _list_unfrozen(self) -> tuple[UnfrozenTool, ...]:
        """Return the tools that ran unseen when recorded, without those that are frozen or live by now."""
        registry, recorded = self.interception.tools, entries(self.snapshot.run.header.kit, "unfrozen")
        intercepted = registry.seen | registry.live | self.tools.list_names()
        tools = (UnfrozenTool(text_of(tool, "tool"), text_of(tool, "path")) for tool in recorded)
        return tuple(tool for tool in tools if tool.tool not in intercepted)

    def make_backend(self, recorded: Run, matching: Matching) -> ReplayBackend:
        """Return the backend that answers from the recording."""
        return ReplayBackend(recorded, matching, READER)

    def make_order(self) -> ReleaseQueue | None:
        """Return what releases the answers in order; None where they come at once."""
        settings, run = self.settings, self.snapshot.run
        schedule, is_virtual = make_schedule(run), settings.clock == "virtual"
        # Whoever waits as long as recorded, or on a virtual clock, needs a queue in any order.
        if not (settings.waits or is_virtual):
            matters = schedule.matters and isinstance(run.header.kit.get("order"), dict)
            if settings.order == "free" or (settings.order == "auto" and not matters):
                return None
        loose = settings.order in {"loose", "free"} or self.replayer.policy.any_order
        if is_virtual:
            from pytest_agentreplay.intercept.ordering.discrete_time import Discrete

            exact = table(run.header.kit, "clock").get("mode") == "virtual"
            order = Discrete(schedule, self.interception, self.replayer.explain_stall, loose=loose, exact=exact)
            self.keep_time(order, order.read_ns, order.read_ns, clocks=True)
            return order
        from pytest_agentreplay.intercept.ordering.release import ReleaseQueue

        asleep = table(run.header.kit, "order").get("asleep")
        explain, look_ahead, waits = self.replayer.explain_stall, self.replayer.look_ahead, settings.waits
        return ReleaseQueue(
            schedule, self.interception, explain, loose=loose, waits=waits, look_ahead=look_ahead, asleep=asleep
        )

    def _find_stall(self) -> tuple[Divergence, float] | None:
        """Return the divergence for what is waited for in vain, and how long that took when recorded, in seconds."""
        exchanges, unserved = self.list_recorded(), {x.start for x in self.replayer.list_unserved()}
        expected = next((x for x in exchanges if x.start in unserved and not x.abandoned), None)
        if expected is not None:
            divergence, at = self.replayer.find_missing(), expected.timing.start
        elif self.interception.pending.endless:
            endless = min(self.interception.pending.endless, key=lambda intercepted: intercepted.ticket)
            assert endless.exchange is not None
            divergence = self.replayer.explain_stall(endless.call, endless.exchange, None)
            at = endless.exchange.timing.end or max(x.timing.end or 0 for x in exchanges)
        else:
            return None
        before = max((x.timing.end or x.timing.start for x in exchanges if x.timing.start < at), default=0)
        return None if divergence is None else (divergence, max(0, at - before) / 1e9)

    def find_network_level(self) -> str:
        """Return how closed the network is."""
        return "L3" if sandbox.is_closed() else "L1"

    def list_unguarded_libraries(self) -> dict[str, str]:
        """Return the libraries in C that the agent has loaded by hand, with its lines; none in a sandbox."""
        return {} if sandbox.is_closed() else dict(self.watch.loaded)

    def media(self, near: Near) -> None:
        """Serve a call that differs in pictures, sounds or files alone, where `near` accepts the difference."""
        self.replayer.accept_media(near)

    def list_recorded(self) -> tuple[Exchange, ...]:
        """Return the exchanges of the snapshot."""
        return self.replayer.run.exchanges

    def run(self) -> Run:
        """Return the exchanges that were served so far."""
        return Run(self.replayer.run.header, self.replayer.list_replayed())

    def end_body(self, ended: EndedRun) -> Finding | None:
        """Return the first divergence, a refused socket, a late call, or a failure that is not the recorded one.

        A test that failed by itself reports its own failure; the calls that it no longer made are the consequence.
        """
        self.summary = replace(self.summary, failed=ended.failure is not None)
        if self.order is not None:
            self.note(guessed=self.order.quiet.guessed, timed=self.order.quiet.timed)
        self.latch_unjoined_children()
        if ended.passed:
            self.await_children(self._body)
        divergence = self.replayer.find_divergence()
        if divergence is None and ended.passed:
            divergence = self.replayer.finish(self._body, self._is_writing) or self._find_strict_drift()
        if (finding := self._verify(divergence)) is not None:
            return finding
        if (late := self.find_late_calls()) is not None:
            return late
        self._complete = ended.passed
        self._note_recurrence(ended)
        return self._check_expected(ended)

    def _verify(self, divergence: Divergence | None) -> Finding | None:
        """Return the finding of a divergence, or of what the verifier saw before it; None where neither is."""
        return self._report(divergence if self.verifier is None else self.verifier.first(divergence))

    def _report(self, divergence: Divergence | None) -> Finding | None:
        if divergence is None:
            return None
        return self.describe_divergence(divergence, self.collect_facts(divergence.kind))

    def await_children(self, until: int | None = None) -> None:
        """Give child processes the time to make the calls that they made before `until` (None: all)."""

        def lanes_left() -> Iterator[str]:
            for x in self.replayer.list_unserved():
                if not x.abandoned and (until is None or x.start < until):
                    yield x.lane

        self.children.wait_for(lanes_left)

    def list_redacted_claims(self) -> dict[str, str]:
        """Return the claims that tokens in served replies lack, each with where its token stands."""
        places: dict[str, str] = {}
        for number, x in enumerate(self.replayer.list_made(), 1):
            text = read_text(x.outcome) if x.outcome is not None else ""
            for claim, token in claims_in(self.snapshot.run.header.kit, text).items():
                places.setdefault(claim, f"{token} in the reply of call {number}, {label(x.call, READER)}")
        return places

    def explain_early_stop(self) -> Finding | None:
        """Return what a test that failed by an error of its own left of its recording; None: nothing, or unknown."""
        from pytest_agentreplay.report import findings, other_findings

        if (early := self.replayer.find_divergence()) is not None:
            return findings.describe_divergence(early, self.place.test, self.collect_facts(early.kind))
        written = [] if self.replay.recurs else self._list_tools_not_run()
        self.note(written=tuple(written))
        if (divergence := self.replayer.explain_stop(self._body)) is None:
            return other_findings.describe_not_run(self.place.test, written) if written else None
        finding = findings.describe_early_stop(divergence, self.place.test, self.collect_facts(divergence.kind))
        return other_findings.add_not_run(finding, written)

    def _list_tools_not_run(self) -> list[str]:
        """Return the tools that change something and were answered."""
        calls = [x.call for x in self.replayer.list_made() if self._is_writing(x.call)]
        return [*dict.fromkeys(call.name for call in calls if isinstance(call, ToolCall) and call.boundary == "tool")]

    def find_expected_failure(self) -> Finding | None:
        """Compare the run as if it had passed: nobody else reports a failure that was expected."""
        self._complete = True
        divergence = self.replayer.finish(self._body)
        if divergence is not None:
            self.note(recurs="")
        return self._report(divergence)

    def end(self) -> Finding | None:
        """Return what the teardown was to call and did not, or called and should not have."""
        self.close()
        self.note(
            verified=self.verifier.verified if self.verifier is not None else 0,
            turns=self._count_turns(),
            exchanges=len(self.replayer.list_replayed()),
            **self._summarize_drift(),
            aged=self._collect_aged(),
            vanished=tuple(label(x.call, READER) for x in self.replayer.list_unserved() if x.abandoned),
            network=self.find_network_level(),
            unheard=self.list_unguarded_libraries(),
            ran_on=self.clock.ran_on,
            clock=self._describe_virtual_clock(),
        )
        if not self._complete:
            return self._report(self.replayer.find_divergence())
        if "fixtures" in self.snapshot.run.header.kit:
            from pytest_agentreplay.compare.kit_drift import list_changed_files

            self.note(changed=(*list_changed_files(self.snapshot.run.header.kit, {"fixtures": dict(self.fixtures)}),))
        self.replayed.append(self.place.snapshot)
        return self._verify(self.replayer.finish(writes=self._is_writing)) or self.find_late_calls()

    def _count_turns(self) -> int:
        """Return how many turns of models were served."""
        served = [(x, call) for x, call in self.replayer.list_served() if x.parent is None]
        turns, _ = divide_at([x for x, _ in served], {x.start for x, call in served if asks_model(call)})
        return sum(1 for turn in turns if turn.number)

    def _summarize_drift(self) -> dict[str, Any]:
        """Return what differs in fields that are not compared, as the summary holds it."""
        differences = [difference for _, drift in self.replayer.drift for difference in drift]
        calls = Counter(difference.path for difference in differences)
        first = {difference.path: difference for difference in reversed(differences)}
        fields = (
            FieldDrift(path, calls[path], format_value(each.recorded), format_value(each.now), each.note)
            for path, each in first.items()
        )
        return {"drift": (*fields,), "drifting": len(self.replayer.drift)}

    def _collect_aged(self) -> dict[str, Any]:
        """Return what tells whether the recording is stale; nothing of one that is new and whose tools are the same.

        What was recorded a month ago cannot have asked a model that is retired since longer, so nobody has to look.
        """
        header, now = self.snapshot.run.header, self.tools.describe_signatures()
        recorded = table(header.kit, "signatures")
        changed = any(now.get(name, text) != text for name, text in recorded.items())
        if not changed and clocks.wall() - header.clock / 1e9 < AGED:
            return {}
        packages = table(header.kit, "packages")
        return {
            "day": header.recorded[:10],
            "models": [*list_models(header.kit)],
            "packages": packages,
            "signatures": recorded,
            "now": now,
        }

    def _find_strict_drift(self) -> Divergence | None:
        """Return the divergence of the first call with a field that differs unseen, where `--strict-keys` is given."""
        if not (self.settings.strict_keys and self.replayer.drift):
            return None
        from pytest_agentreplay.compare.diagnose import refusals
        from pytest_agentreplay.compare.diagnose.progress import ReplayProgress

        exchange, differences = self.replayer.drift[0]
        progress = ReplayProgress(self.replayer.run, READER, self.replayer.served.keys())
        return refusals.explain_drift(progress, exchange, self.replayer.served[exchange.start], differences)

    def _is_writing(self, call: Call) -> bool:
        """Return whether `call` is one of a tool that changes something."""
        return function_of(call, READER) is not None and self.tools.has_effects(call)

    def _describe_virtual_clock(self) -> VirtualClockUse | None:
        """Return how a virtual clock went: why it was none, how many answers came close to a timer."""
        if self.settings.clock != "virtual":
            return None
        from pytest_agentreplay.intercept.ordering.discrete_time import Discrete

        if isinstance(self.order, Discrete):
            return VirtualClockUse(self.order.why, len(self.order.tight))
        return VirtualClockUse("the model or tools run for real, which takes real time")

    def describe_divergence(self, divergence: Divergence, facts: JsonObject) -> Finding:
        """Return the finding as for any run, with what the snapshot shows of imports and tools."""
        if modules := self._list_importing_modules(divergence):
            text = (
                f"{modules} made requests while it was imported: they belong to the first test that imports it, which "
                "another selection or order of the tests changes. Make them in a function, or in a fixture"
            )
            divergence = replace(divergence, detail=(text, *divergence.detail))
        else:
            from pytest_agentreplay.runs.outside_causes import explain_cache, explain_edit

            matching = make_matching(self.place, self.settings)
            divergence = explain_cache(divergence, self.snapshot.run, matching, self.place, self.replayed)
            divergence = explain_edit(self._explain_missing_tool(divergence), self.place.root)
        return super().describe_divergence(divergence, facts)

    def _list_importing_modules(self, divergence: Divergence) -> str:
        """Return the modules of the project that made requests while they were imported then or now, but not both."""
        apart = self.interception.observed.importing ^ {*texts(self.snapshot.run.header.kit.get("importing"))}
        called = divergence.recorded.call if divergence.kind is Kind.MISSING and divergence.recorded else divergence.now
        return ", ".join(sorted(apart)) if called is not None and not isinstance(called, ToolCall) else ""

    def _explain_missing_tool(self, divergence: Divergence) -> Divergence:
        """Return the divergence, which says of a missing tool that no setting names that its calls run for real.

        Of one that ran unseen when recorded and is frozen by now it says that the recording has no call of it.
        """
        call, now = divergence.recorded.call if divergence.recorded is not None else None, divergence.now
        if divergence.kind is Kind.EXTRA and isinstance(now, ToolCall):
            is_unseen = now.name in list_unfrozen(self.snapshot.run.header.kit)
            cause = "the tool ran unseen when recorded, so the snapshot has no call of it: record again"
            return replace(divergence, cause=cause) if is_unseen else divergence
        if divergence.kind is not Kind.MISSING or not isinstance(call, ToolCall) or call.boundary != "tool":
            return divergence
        from pytest_agentreplay.runs import replay_kit

        live = call.name in self.interception.tools.live
        # A tool that is still frozen was just not called; one without a function has no line to propose.
        if not live and call.name in self.tools.list_names() | self.interception.tools.seen:
            return divergence
        path = replay_kit.guess_tool_line(call.name, str(self.place.root))
        if not live and path.startswith(replay_kit.UNKNOWN_MODULE):
            return divergence
        why = "the settings let it run for real (live)" if live else "no setting and no test names it"
        return replace(
            divergence,
            summary=f"tool {call.name} was frozen when recorded, and is not any more: {why}",
            cause="a call of it is not answered from the snapshot: if your code made it, the tool ran for real",
            hints=(f"freeze it again: add to agentreplay_tools: {path}", *divergence.hints),
        )

    def collect_facts(self, kind: Kind | None = None) -> JsonObject:
        """Return what a report says about the snapshot: its file, its date, what has changed around it since."""
        from pytest_agentreplay.compare.kit_drift import list_drift
        from pytest_agentreplay.runs import replay_kit

        header = self.snapshot.run.header
        kit = replay_kit.describe_interpreter(self.place.root) | {
            "environment": self.settings.environment(self.place.environ),
            "fixtures": dict(self.fixtures),
            "annotations": self.annotations,
            "missing_locale": list(self.locale.missing),
        }
        now = self.redaction.redact_header(Header(header.test, kit=kit))
        return {
            "file": str(self.place.snapshot),
            "recorded": header.recorded,
            "edited": ", ".join(self.replay.edited),
            "changed": [*list_drift(header.kit, now.kit, kind)],
            "replay_tools": self.settings.replay_tools,
            "racy": table(header.kit, "order").get("racy"),
            "guessed": self.order is not None and self.order.quiet.guessed,
        }

    def _note_recurrence(self, ended: EndedRun) -> None:
        """Say of a failure that is the recorded one that it is: a recorded outage looks like one of today."""
        if self.settings.expect == "reproduces" or ended.failure is None or ended.interrupted:
            return
        # Ports of this machine are not compared in requests either.
        if strip_ports(self.snapshot.run.header.outcome) == strip_ports(self.redact_outcome(ended)):
            date = self.snapshot.run.header.recorded[:10]
            self.note(recurs=date)
            again = f"pytest --snapshot-record {selecting(self.place.test)}"
            ended.failure.add_note(
                f"agentreplay: the test fails as recorded on {date}; nothing went live\n  to record again:   {again}"
            )

    def redact_outcome(self, ended: EndedRun) -> JsonObject:
        """Return how the test has ended, as a header keeps it."""
        return self.redaction.redact_header(replace(self.snapshot.run.header, outcome=ended.outcome())).outcome

    def _check_expected(self, ended: EndedRun) -> Finding | None:
        if self.settings.expect != "reproduces":
            return None
        was = self.snapshot.run.header.outcome
        if ended.failure is not None and was == self.redact_outcome(ended):
            self.note(expect="fails as recorded")
            return None
        from pytest_agentreplay.report import other_findings

        self.note(expect="fails differently" if ended.failure is not None else "no longer fails")
        facts = self.collect_facts()
        return self.fail_with(other_findings.describe_other_end(self.place.test, was, ended.outcome(), facts))


def format_value(value: object) -> str:
    """Return one side of a difference as a line of text."""
    return "(absent)" if value is ABSENT else value if isinstance(value, str) else canonical(value)  # type: ignore[arg-type]


def strip_ports(outcome: JsonObject) -> JsonObject:
    """Return how a test ended, without the ports of this machine: they are not compared in requests either."""
    return outcome | {"message": _PORT.sub(r"\1", str(outcome.get("message", "")))}


_PORT = re.compile(r"(localhost|127\.0\.0\.1|\[::1\]):[0-9]+")
