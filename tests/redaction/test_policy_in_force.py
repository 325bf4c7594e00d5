"""Which policy holds for a session: flag, ini, the project's own file and the marker, all together; or exit code 4."""

import contextlib

import pytest

from pytest_agentreplay import cli
from pytest_agentreplay.errors import PolicyError, SettingsError
from pytest_agentreplay.redaction import pii, policies
from pytest_agentreplay.redaction.policy import PLAIN, Policy
from pytest_agentreplay.runs.fixture_handle import AgentReplay
from pytest_agentreplay.runs.redact.redaction_setup import load_policies, load_project_policy
from pytest_agentreplay.runs.run_session import EndedRun, Location
from pytest_agentreplay.runs.session_factory import begin_session
from pytest_agentreplay.settings import Settings, read_settings
from pytest_agentreplay.snapshots.store.snapshots import Store
from tests.support.finished import ended

HEAD = 'schemaVersion: "1.0"\n'
ORDERS = HEAD + 'patterns: [{category: order, regex: "A-[0-9]{2}"}]\n'
STATUS = HEAD + "names: {state: [status]}\n"
OWN = "agentreplay-policy.yaml"


def redact_of(flags=None, lines=(), file="pytest.ini"):
    return read_settings({"agentreplay_redact": flags}, {"agentreplay_redact": list(lines)}, {}, file=file).redact


def test_words_and_files_of_flag_and_ini_add_up(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project").mkdir()
    for name in ("project/q.yaml", "p.yaml"):
        (tmp_path / name).touch()
    ini = tmp_path / "project" / "pytest.ini"
    assert redact_of() == ()
    assert redact_of(["pii"]) == ("pii",)
    both = redact_of(["pii,strict", "p.yaml"], ["pii", "q.yaml"], str(ini))
    assert both == ("pii", str(ini.with_name("q.yaml")), "pii", "strict", "p.yaml")
    for word in ("", "pii,", "--pii"):
        with pytest.raises(SettingsError, match="--redact"):
            redact_of([word])


def test_the_marker_only_adds_and_takes_no_other_word():
    settings = Settings(policy=Policy(strict=True), redact=("pii",))
    assert settings.for_test([{"redact": "strict"}]).redacted == Policy(pii=True, strict=True)
    assert Settings().for_test([{"redact": ["pii", "strict"]}]).redacted == Policy(pii=True, strict=True)
    assert settings.for_test([{}]).redacted == Policy(pii=True, strict=True)
    assert Settings().redacted == PLAIN
    for value in ("none", "off", "p.yaml", ["pii", "x"]):
        with pytest.raises(SettingsError, match="pii or strict"):
            Settings().for_test([{"redact": value}])


def test_who_asks_for_pii_without_python_stdnum_is_told_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(pii, "load_checks", lambda modules: [bool])
    (tmp_path / OWN).write_text(f"{HEAD}strict: true\npii: true\n", encoding="utf-8")
    asked = {
        f"{OWN}:3:1: pii redacts": lambda: load_project_policy(tmp_path),
        "--redact or agentreplay_redact: pii redacts": lambda: load_policies(["pii"]),
        "@pytest.mark.agentreplay(redact=...): pii redacts": lambda: Settings().for_test([{"redact": "pii"}]),
    }
    for words, ask in asked.items():
        with pytest.raises(PolicyError, match=r"national-id.*pip install 'frozen-agentreplay\[pii\]'") as refused:
            ask()
        assert words in str(refused.value)
    assert load_policies(["strict"]) == Policy(strict=True)


def put(project, name, text):
    (project.root / name).write_text(text, encoding="utf-8")


def stored(project):
    return project.files[0].read_text("utf-8")


def kept(project):
    return project.snapshots[0].run.header.kit.get("redactions", {})


def test_a_policy_in_its_own_file_is_in_force_and_an_earlier_recording_replays_until_it_differs(project, monkeypatch):
    monkeypatch.chdir(project.root)
    assert project.record().returncode == 0
    assert "A-17" in stored(project), "prompts and tool data are kept where nobody says otherwise"
    assert "policy" not in kept(project)
    put(project, OWN, ORDERS)
    # What is sent byte for byte as it was recorded needs no redaction to be recognised.
    ended(project.offline())
    assert cli.main(["redact", str(project.files[0]), "--reason", "orders are nobody's business"]) == 0
    assert project.offline().returncode == 0
    project.files[0].unlink()
    assert project.record().returncode == 0
    assert "A-17" not in stored(project)
    assert "[[redacted:order:1]]" in stored(project)
    assert len(kept(project)["policy"]) == 64


def test_flag_ini_and_own_file_together_and_a_file_of_the_ini_stands_beside_it(project):
    put(project, "orders.yaml", ORDERS)
    put(project, OWN, STATUS)
    (project.root / "below").mkdir()
    project.furnish(ini="agentreplay_redact =\n    strict\n    orders.yaml\n")
    words = [*project.options, "--snapshot-record", "--redact", "pii", ".."]
    ended(project.child("pytest", *words, cwd=project.root / "below"))
    assert "A-17" not in stored(project)
    assert '"late"' not in stored(project)
    assert {name: kept(project)[name] for name in ("pii", "strict")} == {"pii": True, "strict": True}
    assert project.offline("--redact", "orders.yaml", "--redact=pii").returncode == 0


def test_what_cannot_be_read_stops_pytest_before_any_test(project):
    project.edit("test_shop.py", "def test_refund", "open('ran', 'w').close()\n\ndef test_refund")
    put(project, OWN, ORDERS + "allow: ['.*']\n")
    refused = [(project.record(), f"{OWN}:3:1: 'allow' is no key of a policy")]
    (project.root / OWN).unlink()
    refused.append(
        (
            project.record("--redact", "other.yaml"),
            "--redact takes pii, strict or a policy file, and there is no file 'other.yaml'",
        )
    )
    (project.root / OWN).symlink_to("nowhere")
    refused.append((project.replay(), "not a plain file"))
    for done, told in refused:
        assert done.returncode == 4
        assert told in done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
    assert not (project.root / "ran").exists()
    assert not project.files


def test_variables_that_a_policy_names_and_what_the_marker_adds_for_one_test(project):
    put(project, OWN, f"{HEAD}environment: [SHOP_REGION]\nsecret_environment: [SHOP_NICK]\n")
    nick = "quiet-otter-4711"
    plain = f'\ndef test_{{name}}(agentreplay):\n    agent.answer("I am {nick}, ann.li@shop.example")\n'
    marked = '\n@pytest.mark.agentreplay(redact="pii")' + plain.format(name="marked")
    project.write(test_shop=f"import agent, pytest\n{plain.format(name='plain')}{marked}")
    ended(project.record(SHOP_REGION="north", SHOP_NICK=nick))
    kits = [snapshot.run.header.kit for snapshot in project.snapshots]
    assert [kit["environment"] for kit in kits] == [{"SHOP_REGION": "north"}] * 2
    assert [kit.get("redactions", {}).get("pii", False) for kit in kits] == [True, False]
    assert nick not in stored(project)


def test_a_policy_holds_in_every_worker_and_a_divergence_under_another_one_says_how_to_go_on(project):
    pytest.importorskip("xdist")
    put(project, "orders.yaml", ORDERS)
    done = ended(project.record("--redact", "orders.yaml", "-p", "xdist", "-n", "2"))
    assert "A-17" not in stored(project)
    done = ended(project.offline(), 1)
    assert "recorded under another policy" in done.stdout
    assert "give the --redact of its recording again" in done.stdout
    put(project, OWN, STATUS)
    assert "agentreplay redact __agent_snapshots__" in project.offline().stdout


def lookup(customer: str) -> str:
    return f"{customer} is well"


def finding_of(root, policy, mode, customer):
    """What a test comes to that looks a customer up."""
    store, test = Store(root), "test_shop.py::test_customer"
    place = Location(test, store.path_of(root / "test_shop.py", test), root, {}, {})
    session = begin_session(
        place, Settings(mode=mode, policy=policies.parse(policy.encode(), "p.yaml")), store, lambda: None
    )
    session.open()
    try:
        AgentReplay(session).tool(lookup)
        session.enter_body()
        with contextlib.suppress(BaseException):
            lookup(customer)
        session.leave_body()
        finding = session.end_body(EndedRun())
        return session.end() or finding
    finally:
        session.close()


PATTERN = "patterns: [{category: customer, regex: 'CUST-[0-9]{6}'}]\n"
KINDS = {
    "patterns": PATTERN,
    "paths": "paths: {customer: [$.customer]}\nnames: {}\n",
    "names": "names: {customer: [Customer]}\n",
    "placeholders": PATTERN + "placeholders: {customer: 'customer-redacted-{n}'}\n",
    "secrets": PATTERN + "secrets: [customer]\n",
}


def test_another_customer_is_another_request_unless_the_policy_says_that_the_category_is_of_credentials(tmp_path):
    for kind, text in KINDS.items():
        root, policy = tmp_path / kind, HEAD + text
        assert finding_of(root, policy, "record", "CUST-123456") is None
        (snapshot,) = root.rglob("*.snapshot.json")
        placeholder = "customer-redacted-1" if kind == "placeholders" else "[[redacted:customer:1]]"
        assert placeholder in snapshot.read_text("utf-8")
        assert "CUST-" not in snapshot.read_text("utf-8") or kind in {"paths", "names"}
        assert finding_of(root, policy, "replay", "CUST-123456") is None
        assert (finding_of(root, policy, "replay", "CUST-654321") is None) is (kind == "secrets")
