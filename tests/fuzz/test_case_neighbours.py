"""The neighbours of cases: a fix is tried on them, a failure is kept beside its base, and what is written wrong is told."""

import re

import pytest

from tests.support.case_project import opened
from tests.support.project import NOBODY


def sections(done):
    """Return the report of each failed case on one line, by its id."""
    text = done.stdout.partition("short test summary info")[0]
    found = re.findall(r"^_{3,} (\S+) _{3,}$(.*?)(?=^_{3,} |^-{3,}|^={3,})", text, re.MULTILINE | re.DOTALL)
    return {name: " ".join(said.split()) for name, said in found}


FIXED = {"expect": "fixed", "more": ""}


@pytest.fixture(scope="module")
def project(shared_project):
    return opened(shared_project())


@pytest.fixture
def docket(project):
    project.clear()
    return project


def fuzz(docket, *words, agent="fixed", code):
    done = docket.project.command("check", "fuzz", *words, AGENT=agent, MODEL_URL=NOBODY)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


def test_a_fix_is_tried_on_neighbours_where_ci_is_set(docket):
    docket.case(**FIXED)
    done = docket.pytest(agent="fixed")
    assert "neighbour" not in done.stdout
    done = docket.pytest("-o", "agentreplay_neighbours=3", agent="fixed")
    on_ci = docket.pytest(agent="fixed", CI="true")
    for each, count in ((done, 3), (on_ci, 12)):
        assert each.returncode == 0, each.stdout
        assert f"{count} neighbours of fixes, {count} hold" in each.stdout
    file = docket.case(**FIXED, runner="")
    by_hand = docket.replay(file, "--runner", "refunds", agent="fixed", CI="true")
    assert by_hand.returncode == 0, by_hand.stdout + by_hand.stderr


@pytest.fixture
def careless(docket):
    """The case, of an agent that begins anew where its model does not answer, whatever it has done; it never loops for long."""
    docket.case(**FIXED)
    shop = docket.root / "shop.py"
    before = shop.read_text(encoding="utf-8")
    again = "try:\n        return ANSWER\n    except httpx2.HTTPError:\n        return ANSWER"
    once = 'answer(messages[-1]["content"])'
    text = before.replace(f"return {once}", again.replace("ANSWER", once)).replace("while True:", "for _ in range(9):")
    docket.project.put(shop, text)
    yield docket
    docket.project.put(shop, before)


def test_a_fix_that_holds_on_the_case_alone_fails(careless):
    done = careless.pytest("-o", "agentreplay_neighbours=12", agent="fixed")
    said = " ".join(done.stdout.split())
    assert "not fixed on neighbours of the case: 12 neighbours, " in said
    assert "repeated effect: refund(" in said
    assert "agentreplay check fuzz cases/refund/case.yaml" in said


def test_a_case_is_fuzzed_and_its_failure_is_kept_beside_it(careless):
    assert "cases/refund: 5 neighbours, " in fuzz(careless, "cases/refund", "--budget", "5", code=1)
    kept = [each for each in (careless.root / "cases").glob("*/case.yaml") if each.parent.name != "refund"]
    assert kept
    assert all('base: "../refund"' in each.read_text(encoding="utf-8") for each in kept)
    done = careless.pytest("-rx", agent="fixed")
    assert re.search(rf"\({len(kept)} reproduces? the failure, 1 fixed on recorded replies\)", done.stdout), done.stdout
    lint = careless.project.command("case", "lint", "cases")
    assert lint.returncode == 0, lint.stdout
    said = careless.replay(kept[0].parent, agent="fixed")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "is a neighbour itself, of ../refund: name that" in fuzz(careless, str(kept[0]), code=2)


def test_an_invariant_that_is_no_function_is_no_fault_of_a_fix(docket):
    docket.case(**FIXED)
    done = docket.pytest("-o", "agentreplay_neighbours=2", "-o", "agentreplay_invariants=shop:gone", agent="fixed")
    assert "the invariant shop:gone cannot be imported: AttributeError" in " ".join(done.stdout.split())
    assert "on neighbours of" not in done.stdout
    assert "Traceback" not in done.stdout
    assert done.returncode == 1


def test_a_case_without_a_runner_has_no_neighbours(docket):
    docket.case(runner="")
    assert "its neighbours need a runner, and the case names none: runner: KEY" in fuzz(
        docket, "cases/refund", code=125
    )


def write_beside(docket, name, *, base="../refund", perturb="[{operator: timeout, at: 1}]"):
    """A neighbour in a folder of its own."""
    folder = docket.root / "cases" / name
    folder.mkdir(parents=True, exist_ok=True)
    text = f'schemaVersion: "1.0"\nid: {name}\nbase: "{base}"\nperturb: {perturb}\n'
    (folder / "case.yaml").write_text(text, encoding="utf-8")


def test_a_neighbour_that_is_written_wrong_is_told_with_its_place(docket):
    docket.case(**FIXED)
    wrong = (
        ("[{operator: time-out, at: 1}]", "there is no operator 'time-out': did you mean timeout?"),
        ("[{operator: timeout, at: 0}]", "perturb[0].at"),
        ("[]", "base and perturb stand together, or neither does"),
        ("[{operator: timeout, at: 99}]", "timeout at call 99: the run has the calls 1 to "),
        ("[{operator: timeout, at: 1, why: x}]", "'why' is no key of perturb[0]"),
    )
    names = [f"beside-{number}" for number in range(len(wrong))]
    for name, (perturb, _) in zip(names, wrong, strict=True):
        write_beside(docket, name, perturb=perturb)
    done = docket.pytest(*(f"cases/{name}" for name in names), agent="fixed")
    assert f"{len(wrong)} failed" in done.stdout, done.stdout
    told = sections(done)
    for name, (_, message) in zip(names, wrong, strict=True):
        assert message in told[name]


def test_a_neighbour_whose_base_is_gone_is_told(docket):
    gone = (
        ("../gone", "cases/gone"),
        ("../../..", "lies outside of the project"),
        ("test_x.py::test_y", "base test_x.py::test_y is no test of the project"),
        ("../outside.py::test_x", "is no test of the project"),
        ("-pevil::x", "is no test of the project"),
        ("test_shop.py::test_gone", "pytest ran no neighbour of test_shop.py::test_gone"),
    )
    names = [f"beside-{number}" for number in range(len(gone))]
    for name, (base, _) in zip(names, gone, strict=True):
        write_beside(docket, name, base=base)
    done = docket.pytest(*(f"cases/{name}" for name in names), agent="fixed")
    assert f"{len(gone)} failed" in done.stdout, done.stdout
    told = sections(done)
    for name, (_, message) in zip(names, gone, strict=True):
        assert message in told[name]
    write_beside(docket, "beside", base="test_shop.py::test_gone")
    lint = docket.project.command("case", "lint", "cases/beside")
    assert lint.returncode == 0  # the id of a test is not looked up
    write_beside(docket, "beside", base="../gone")
    lint = docket.project.command("case", "lint", "cases/beside")
    assert "base ../gone is no folder of a case" in " ".join(lint.stdout.split())
