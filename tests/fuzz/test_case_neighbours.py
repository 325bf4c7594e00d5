"""The neighbours of cases: a fix is tried on them, a failure is kept beside its base, and what is written wrong is told."""

import pytest

from tests.support.case_project import opened
from tests.support.project import NOBODY

FIXED = {"expect": "fixed", "more": ""}


@pytest.fixture(scope="module")
def project(shared_project):
    return opened(shared_project())


@pytest.fixture
def docket(project):
    project.clear()
    return project


def fuzz(docket, *words, agent="fixed", code):
    done = docket.project.command("fuzz", *words, AGENT=agent, MODEL_URL=NOBODY)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


def test_a_fix_is_tried_on_neighbours_where_ci_is_set(docket):
    docket.case(**FIXED)
    done = docket.pytest(agent="fixed")
    assert "neighbour" not in done.stdout
    done = docket.pytest("-o", "agentreplay_neighbours=12", agent="fixed")
    on_ci = docket.pytest(agent="fixed", CI="true")
    for each in (done, on_ci):
        assert each.returncode == 0, each.stdout
        assert "12 neighbours of fixes, 12 hold" in each.stdout
    file = docket.case(**FIXED, runner="")
    by_hand = docket.replay(file, "--runner", "refunds", agent="fixed", CI="true")
    assert by_hand.returncode == 0, by_hand.stdout + by_hand.stderr


def test_a_fix_that_holds_on_the_case_alone_fails(docket):
    docket.case(**FIXED)
    shop = docket.root / "shop.py"
    before = shop.read_text(encoding="utf-8")
    again = "try:\n        return ANSWER\n    except httpx2.HTTPError:\n        return ANSWER"
    once = 'answer(messages[-1]["content"])'
    docket.project.put(shop, before.replace(f"return {once}", again.replace("ANSWER", once)))
    try:
        done = docket.pytest("-o", "agentreplay_neighbours=40", agent="fixed")
        said = " ".join(done.stdout.split())
        assert "not fixed on neighbours of the case: 40 neighbours, " in said
        assert "repeated effect: refund(" in said
        assert "agentreplay fuzz cases/refund/case.yaml" in said
    finally:
        docket.project.put(shop, before)


def test_a_case_is_fuzzed_and_its_failure_is_kept_beside_it(docket):
    file = docket.case(**FIXED)
    assert "cases/refund: 25 neighbours, " in fuzz(docket, "cases/refund", "--budget", "25", code=1)
    kept = [each for each in (docket.root / "cases").glob("*/case.yaml") if each != file]
    assert kept
    assert all('base: "../refund"' in each.read_text(encoding="utf-8") for each in kept)
    done = docket.pytest("-rx", agent="fixed")
    assert f"({len(kept)} reproduce, 1 fixed by position)" in done.stdout, done.stdout
    lint = docket.project.command("lint", "cases")
    assert lint.returncode == 0, lint.stdout
    said = docket.replay(kept[0].parent, agent="fixed")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "is a neighbour itself, of ../refund: name that" in fuzz(docket, str(kept[0]), code=2)


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


@pytest.mark.parametrize(
    ("perturb", "message"),
    [
        ("[{operator: time-out, at: 1}]", "there is no operator 'time-out': did you mean timeout?"),
        ("[{operator: timeout, at: 0}]", "perturb[0].at"),
        ("[]", "base and perturb stand together, or neither does"),
        ("[{operator: timeout, at: 99}]", "timeout at call 99: the run has the calls 1 to "),
        ("[{operator: timeout, at: 1, why: x}]", "'why' is no key of perturb[0]"),
    ],
)
def test_a_neighbour_that_is_written_wrong_is_told_with_its_place(docket, perturb, message):
    docket.case(**FIXED)
    folder = docket.root / "cases" / "beside"
    folder.mkdir()
    text = f'schemaVersion: "1.0"\nid: beside\nbase: ../refund\nperturb: {perturb}\n'
    (folder / "case.yaml").write_text(text, encoding="utf-8")
    done = docket.pytest("cases/beside", agent="fixed")
    assert done.returncode == 1
    assert message in " ".join(done.stdout.split())


def test_a_neighbour_whose_base_is_gone_is_told(docket):
    folder = docket.root / "cases" / "beside"
    folder.mkdir(parents=True)
    text = 'schemaVersion: "1.0"\nid: beside\nbase: BASE\nperturb: [{operator: timeout, at: 1}]\n'
    for base, message in (
        ("../gone", "cases/gone"),
        ("../../..", "lies outside of the project"),
        ("test_x.py::test_y", "base test_x.py::test_y is no test of the project"),
        ("../outside.py::test_x", "is no test of the project"),
        ("-pevil::x", "is no test of the project"),
        ("test_shop.py::test_gone", "pytest ran no neighbour of test_shop.py::test_gone"),
    ):
        (folder / "case.yaml").write_text(text.replace("BASE", f'"{base}"'), encoding="utf-8")
        done = docket.pytest("cases/beside", agent="fixed")
        assert done.returncode == 1, base
        assert message in " ".join(done.stdout.split()), done.stdout
    lint = docket.project.command("lint", "cases/beside")
    assert lint.returncode == 0  # the id of a test is not looked up
    (folder / "case.yaml").write_text(text.replace("BASE", "../gone"), encoding="utf-8")
    lint = docket.project.command("lint", "cases/beside")
    assert "base ../gone is no folder of a case" in " ".join(lint.stdout.split())
