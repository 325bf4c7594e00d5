"""What the hooks of a project give its cases: runners, words, judges, redactors.

hooks_of         what they give below one folder, inside of a session and outside
run_with_hooks   for the command line: pytest itself reads its ini file, plugins and conftest files, and runs no test
"""

from __future__ import annotations

import io
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

import pytest

from pytest_agentreplay.errors import RunnerError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from pytest_agentreplay.cases.case import Case
    from pytest_agentreplay.cases.evidence import CaseEvidence
    from pytest_agentreplay.redaction.policy import Redactor

CATEGORY_NAME = re.compile(r"[a-z][a-z0-9-]*")

T = TypeVar("T")


class Hooks(NamedTuple):
    """What hooks give: what each has for `runners`, words by name, who judges, redactors by category."""

    runners: tuple[object, ...]
    words: dict[str, Callable[[Any, Any], object]]
    judges: tuple[Callable[..., object], ...]
    redactors: dict[str, Redactor | None]


def hooks_of(hook: Any) -> Hooks:
    """Return what the hooks behind `hook` give. Raises SettingsError for what is invalid."""
    return Hooks(
        runners=tuple(hook.pytest_agentreplay_runners()),
        words=words_of(hook),
        judges=(judge_of(hook),),
        redactors=redactors_of(hook),
    )


def words_of(hook: Any) -> dict[str, Callable[[Any, Any], object]]:
    """Return the words that hooks add to the vocabulary of cases. Raises SettingsError for what is none."""
    words: dict[str, Callable[[Any, Any], object]] = {}
    for rows in hook.pytest_agentreplay_assertions():
        if not isinstance(rows, dict) or not all(isinstance(word, str) and callable(rows[word]) for word in rows):
            raise SettingsError('pytest_agentreplay_assertions gives a dict of functions by word: {"polite": check}')
        words |= rows
    return words


def judge_of(hook: Any) -> Callable[[Case, str, CaseEvidence], object]:
    """Return what asks the hooks about a check in words: the first answer counts."""

    def judge(case: Case, sentence: str, evidence: CaseEvidence) -> object:
        return next(iter(hook.pytest_agentreplay_judge(case=case, sentence=sentence, evidence=evidence)), None)

    return judge


def redactors_of(hook: Any) -> dict[str, Redactor | None]:
    """The functions of the project that find what nobody else may read. Raises SettingsError for what is none."""
    redactors: dict[str, Redactor | None] = {}
    for rows in hook.pytest_agentreplay_redactors():
        if not isinstance(rows, dict) or not all(is_redactor(*row) for row in rows.items()):
            raise SettingsError(
                "pytest_agentreplay_redactors gives a dict of functions by category, in lower-case letters, digits "
                'and hyphens: {"customer-number": find}'
            )
        redactors |= rows
    return redactors


def is_redactor(category: object, redactor: object) -> bool:
    """Return whether a row of the hook's dict is valid."""
    return (
        isinstance(category, str)
        and CATEGORY_NAME.fullmatch(category) is not None
        and (redactor is None or callable(redactor))
    )


def run_with_hooks(files: Sequence[Path], work: Callable[[Callable[[Path], Hooks]], T]) -> T:
    """Return what `work` returns, called once pytest has loaded what it loads for `files`, with the hooks of a file.

    Raises SettingsError for a setting of ours that is invalid, RunnerError for a project that pytest cannot load.
    """
    output = io.StringIO()
    caller = HookCaller(work, sys.stdout, sys.stderr)
    with redirect_stdout(output), redirect_stderr(output):
        # Our modules are imported already; pytest warns of that, and a project may make its warnings errors.
        plain = ["-o", "addopts=", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        code = pytest.main([*plain, *map(str, files)], plugins=[caller])
    if caller.error is not None:
        raise caller.error
    if not caller.done:
        raise RunnerError(f"pytest cannot load the project (it ends with {int(code)}):\n{output.getvalue().strip()}")
    return caller.done[0]  # type: ignore[no-any-return]


class HookCaller:
    """A plugin that does one thing as soon as all is loaded, and ends the session before it begins."""

    def __init__(self, work: Callable[[Callable[[Path], Hooks]], Any], out: TextIO, err: TextIO) -> None:
        """`out` and `err` are where `work` speaks; pytest itself is not heard."""
        self.done: list[Any] = []
        self.error: BaseException | None = None
        self._work = work
        self._out, self._err = out, err

    @pytest.hookimpl(wrapper=True)
    def pytest_cmdline_main(self) -> Generator[None, object, object]:
        """Take our own complaint about a setting as it was, before pytest words it."""
        try:
            return (yield)
        except pytest.UsageError as error:
            if isinstance(error.__context__, SettingsError):
                self.error = error.__context__
            raise

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Do the work."""

        def hooks(file: Path) -> Hooks:
            hook = session.gethookproxy(file.parent)
            return hooks_of(hook) if hasattr(hook, "pytest_agentreplay_runners") else Hooks((), {}, (), {})

        with redirect_stdout(self._out), redirect_stderr(self._err):
            try:
                self.done.append(self._work(hooks))
            except BaseException as error:  # pytest would tell of it in its own way
                self.error = error
        pytest.exit("done", returncode=0)
