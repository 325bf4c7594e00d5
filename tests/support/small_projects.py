"""What most tests do with a small project of a user's: write its files, record it, edit a file for a while, read reports."""

import re
from contextlib import contextmanager

INI = "[pytest]\npythonpath = .\n"


def furnished(project, ini="", **files):
    """Write these modules and a pytest.ini that ends with `ini`; return the project."""
    project.write(**files)
    (project.root / "pytest.ini").write_text(INI + ini, encoding="utf-8")
    return project


def recorded(project, *words, **environ):
    """Record the project, all of whose tests pass; return it, with the finished process in its `recording`."""
    project.recording = passed(project.record(*words, **environ))
    return project


def passed(done):
    """Return a finished process, in which every test passed."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@contextmanager
def edited(project, file, old, new):
    """Edit a file of the project for the block."""
    path = project.root / file
    before = path.read_text(encoding="utf-8")
    assert old in before, f"{old!r} is not in {file}"
    replace(path, before.replace(old, new))
    try:
        yield
    finally:
        replace(path, before)


def replace(path, text):
    """Write a file, and drop its byte code, which Python takes for current where second and size are the same."""
    path.write_text(text, encoding="utf-8")
    for stale in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        stale.unlink()


def summary(done):
    """Return what the short summary says of each failed test, by its name without module and `test_`."""
    text = done.stdout.partition("short test summary info")[2]
    return dict(re.findall(r"^(?:FAILED|ERROR) \S+?::(?:test_)?(\S+) - (.*)$", text, re.MULTILINE))


def sections(done):
    """Return the report of each failed test on one line, by its name without `test_`."""
    text = done.stdout.partition("short test summary info")[0]
    found = re.findall(r"^_{3,} test_(\S+) _{3,}$(.*?)(?=^_{3,} |^-{3,}|^={3,})", text, re.MULTILINE | re.DOTALL)
    return {name: " ".join(said.split()) for name, said in found}


def flat(done):
    """Return what was printed, on one line."""
    return " ".join(done.stdout.split())


def runs(project):
    """Return the recorded runs by the names of their tests, without module and `test_`."""
    return {one.run.header.test.rpartition("::")[2].removeprefix("test_"): one.run for one in project.snapshots}
