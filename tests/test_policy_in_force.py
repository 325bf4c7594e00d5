"""Which policy holds for a session: flag, ini, the project's own file and the marker, all together; or exit code 4."""

import pytest

from pytest_agentreplay.core.redaction.policy import PLAIN, Policy
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.settings import Settings, resolve

ORDERS = 'schemaVersion: "1.0"\npatterns: [{category: order, regex: "A-[0-9]{2}"}]\n'
STATUS = 'schemaVersion: "1.0"\nnames: {state: [status]}\n'


def redact_of(flags=None, lines=(), file="/project/pytest.ini"):
    return resolve({"agentreplay_redact": flags}, {"agentreplay_redact": list(lines)}, {}, file=file).redact


def test_words_and_files_of_flag_and_ini_add_up():
    assert redact_of() == ()
    assert redact_of(["pii"]) == ("pii",)
    assert redact_of(["pii,strict", "x/p.yaml"], ["pii", "q.yaml"]) == (
        *("pii", "strict", "x/p.yaml"),
        *("pii", "/project/q.yaml"),
    )


@pytest.mark.parametrize("word", ["", "pii,", "--pii"])
def test_a_word_that_is_none(word):
    with pytest.raises(SettingsError, match="--redact"):
        redact_of([word])


def test_the_marker_only_adds():
    settings = Settings(policy=Policy(strict=True), redact=("pii",))
    assert settings.for_test([{"redact": "strict"}]).redacted == Policy(pii=True, strict=True)
    assert Settings().for_test([{"redact": ["pii", "strict"]}]).redacted == Policy(pii=True, strict=True)
    assert settings.for_test([{}]).redacted == Policy(pii=True, strict=True)
    assert Settings().redacted == PLAIN


@pytest.mark.parametrize("value", ["none", "off", "p.yaml", ["pii", "x"]])
def test_the_marker_takes_no_other_word(value):
    with pytest.raises(SettingsError, match="pii or strict"):
        Settings().for_test([{"redact": value}])


def stored(project):
    return project.files[0].read_text("utf-8")


def kept(project):
    return project.snapshots[0].run.header.kit.get("redactions", {})


def test_the_projects_own_file_counts_where_it_is_there(project):
    (project.root / "agentreplay-policy.yaml").write_text(ORDERS, encoding="utf-8")
    done = project.record()
    assert done.returncode == 0, done.stdout
    assert "replays" in done.stdout
    assert "A-17" not in stored(project)
    assert "[[redacted:order:1]]" in stored(project)
    assert len(kept(project)["policy"]) == 64
    assert project.offline().returncode == 0


def test_without_a_policy_prompts_and_tool_data_are_kept(project):
    assert project.record().returncode == 0
    assert "A-17" in stored(project)
    assert "policy" not in kept(project)


def test_flag_ini_and_own_file_together(project):
    (project.root / "orders.yaml").write_text(ORDERS, encoding="utf-8")
    (project.root / "agentreplay-policy.yaml").write_text(STATUS, encoding="utf-8")
    project.furnish(ini="agentreplay_redact = strict\n")
    assert project.record("--redact", "pii,orders.yaml").returncode == 0
    assert "A-17" not in stored(project)
    assert '"late"' not in stored(project)
    assert {name: kept(project)[name] for name in ("pii", "strict")} == {"pii": True, "strict": True}
    assert project.offline("--redact", "orders.yaml", "--redact=pii").returncode == 0


def test_a_file_of_the_ini_stands_beside_the_ini(project):
    (project.root / "orders.yaml").write_text(ORDERS, encoding="utf-8")
    (project.root / "below").mkdir()
    project.furnish(ini="agentreplay_redact = orders.yaml\n")
    done = project.child("pytest", *project.options, "--snapshot-record", "..", cwd=project.root / "below")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A-17" not in stored(project)


def test_the_marker_adds_for_one_test(project):
    address = "ann.li@shop.example"
    test = """
    import agent, pytest

    @pytest.mark.agentreplay{how}
    def test_mail(agentreplay):
        agent.answer("I am {address}")
    """
    for how in ("", '(redact="pii")'):
        project.furnish("\n".join(line[4:] for line in test.format(how=how, address=address).splitlines()))
        assert project.record().returncode == 0
        assert kept(project).get("pii", False) == bool(how)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("agentreplay-policy.yaml", "pii: true\n", ["agentreplay-policy.yaml:1:1", "schemaVersion"]),
        ("agentreplay-policy.yaml", ORDERS + "allow: ['.*']\n", ["agentreplay-policy.yaml:3:1", "no key of a policy"]),
        ("agentreplay-policy.yaml", "a: &a [*a]", [":1:4", "anchors"]),
        ("agentreplay-policy.yaml", "\x00", ["U+0000"]),
        ("agentreplay-policy.yaml", ORDERS.replace("A-[0-9]{2}", "(?=A)B"), ["'order'", "look-ahead"]),
        ("other.yaml", "", ["other.yaml:1:1: is empty"]),
        ("other.yaml", None, ["other.yaml", "no such file"]),
    ],
)
def test_what_cannot_be_read_stops_pytest_before_any_test(project, name, text, words):
    if text is not None:
        (project.root / name).write_text(text, encoding="utf-8")
    project.edit("test_shop.py", "def test_refund", "open('ran', 'w').close()\n\ndef test_refund")
    done = project.record(*(("--redact", name) if name == "other.yaml" else ()))
    assert done.returncode == 4
    assert not (project.root / "ran").exists()
    assert not project.files
    assert "Traceback" not in done.stdout + done.stderr
    for word in words:
        assert word in done.stdout + done.stderr


def test_a_dead_link_in_its_place_is_no_missing_policy(project):
    (project.root / "agentreplay-policy.yaml").symlink_to("nowhere")
    done = project.replay()
    assert done.returncode == 4
    assert "not a plain file" in done.stdout + done.stderr


def test_variables_that_a_policy_names(project):
    policy = 'schemaVersion: "1.0"\nenvironment: [SHOP_REGION]\nsecret_environment: [SHOP_NICK]\n'
    (project.root / "agentreplay-policy.yaml").write_text(policy, encoding="utf-8")
    nick = "quiet-otter-4711"
    project.edit("test_shop.py", "Where is A-17?", f"I am {nick}. Where is A-17?")
    assert project.record(SHOP_REGION="north", SHOP_NICK=nick).returncode == 0
    assert project.snapshots[0].run.header.kit["environment"] == {"SHOP_REGION": "north"}
    assert nick not in stored(project)


def test_a_policy_holds_in_every_worker(project):
    pytest.importorskip("xdist")
    (project.root / "orders.yaml").write_text(ORDERS, encoding="utf-8")
    project.plugins = (*project.plugins, "xdist")
    done = project.record("--redact", "orders.yaml", "-n", "2")
    assert done.returncode == 0, done.stdout
    assert "A-17" not in stored(project)


TOOL = """
import pathlib

def lookup(customer: str) -> str:
    return f"{customer} is well"

def test_customer(agentreplay):
    agentreplay.tool(lookup)
    customer = pathlib.Path("customer.txt").read_text()
    assert lookup(customer).endswith("is well")
"""
KINDS = {
    "patterns": "patterns: [{category: customer, regex: 'CUST-[0-9]{6}'}]\n",
    "paths": "paths: {customer: [$.customer]}\nnames: {}\n",
    "names": "names: {customer: [Customer]}\n",
    "placeholders": (
        "patterns: [{category: customer, regex: 'CUST-[0-9]{6}'}]\nplaceholders: {customer: 'customer-redacted-{n}'}\n"
    ),
}


@pytest.mark.parametrize(("kind", "secret"), [*((kind, False) for kind in KINDS), ("patterns", True)])
def test_who_may_be_another_one_in_a_replay(project, kind, secret):
    """Another customer is another request, unless the policy says that the category is of credentials."""
    policy = 'schemaVersion: "1.0"\n' + KINDS[kind] + ("secrets: [customer]\n" if secret else "")
    (project.root / "agentreplay-policy.yaml").write_text(policy, encoding="utf-8")
    (project.root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (project.root / "test_shop.py").write_text(TOOL, encoding="utf-8")
    (project.root / "customer.txt").write_text("CUST-123456", encoding="utf-8")
    assert project.record().returncode == 0
    call = project.snapshots[0].run.exchanges[0].call
    assert call.arguments["customer"] == (
        "customer-redacted-1" if kind == "placeholders" else "[[redacted:customer:1]]"
    )
    assert project.offline().returncode == 0
    (project.root / "customer.txt").write_text("CUST-654321", encoding="utf-8")
    assert project.offline().returncode == (0 if secret else 1)


def test_a_divergence_under_another_policy_says_how_to_go_on(project):
    (project.root / "orders.yaml").write_text(ORDERS, encoding="utf-8")
    assert project.record("--redact", "orders.yaml").returncode == 0
    done = project.offline()
    assert done.returncode == 1
    assert "recorded under another policy" in done.stdout
    assert "give the --redact of its recording again" in done.stdout
    (project.root / "agentreplay-policy.yaml").write_text(STATUS, encoding="utf-8")
    assert "agentreplay redact __agent_snapshots__" in project.offline().stdout


def test_a_recording_from_before_the_policy_replays_until_it_differs(project):
    """What is sent byte for byte as it was recorded needs no redaction to be recognised."""
    assert project.record().returncode == 0
    (project.root / "agentreplay-policy.yaml").write_text(ORDERS, encoding="utf-8")
    assert project.offline().returncode == 0
    done = project.command("redact", project.files[0], "--reason", "orders are nobody's business")
    assert done.returncode == 0, done.stderr
    assert project.offline().returncode == 0
