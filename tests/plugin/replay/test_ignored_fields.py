"""Fields that a rule leaves out of the comparison: a ledger in the footer, and a failure with --strict-keys."""

from tests.support.small_projects import flat, furnished, passed, recorded, summary

TESTS = """
import os
import agent

def ask(tenant):
    agent.ask([{"role": "user", "content": "Hello"}], metadata={"tenant": tenant, "run": os.environ.get("RUN", "0")})

def test_other_tenant(agentreplay):
    ask(os.environ.get("TENANT", "acme"))
    ask("initech")

def test_same_tenant(agentreplay):
    ask("initech")
"""
INI = "agentreplay_ignore =\n    $.metadata.tenant = one per customer\n"


def test_the_ledger_names_each_ignored_field_and_strict_keys_fails_by_it(project):
    recorded(furnished(project, INI, test_shop=TESTS))
    same = passed(project.offline())
    assert "drift" not in same.stdout
    done = passed(project.offline(TENANT="globex", COLUMNS="140"))
    assert "drift     1 of 3 calls served differ in fields that are not compared (--strict-keys: fail)" in done.stdout
    assert "$.metadata.tenant x1 (acme -> globex); ignored: one per customer" in done.stdout
    passed(project.offline("--strict-keys"))
    strict = project.offline("--strict-keys", TENANT="globex", COLUMNS="140")
    assert strict.returncode == 1
    assert [*summary(strict)] == ["other_tenant"]
    assert "[AR-KEYS] turn 1/2: " in strict.stdout
    assert "$.metadata.tenant" in flat(strict)
    assert "acme" in flat(strict)


def test_what_is_not_ignored_still_fails_by_itself(project):
    recorded(furnished(project, INI, test_shop=TESTS))
    done = project.offline(RUN="1")
    assert done.returncode == 1
    assert "[AR-MODEL]" in done.stdout
