"""`pytest --agentreplay-runs=STORE`: an item for each captured run, what it says of a changed agent, in groups."""

import pytest

SAME = "12 runs: 12 same"
ARGUMENT = (
    "call(name, arguments):\n",
    "call(name, arguments):\n    arguments = {k: 19.5 if v == 18.5 else v for k, v in arguments.items()}\n",
)


def test_unchanged_code_is_green_and_a_failure_that_recurs_is_the_same(store):
    said = store.replay("-v")
    assert f"captured  {SAME}" in said
    assert "runs::refund/run-0007 PASSED" in said  # raised KeyError then, and does now
    assert said.count("PASSED") == 12


def test_a_prompt_is_a_request_which_fails_only_when_strict(store):
    store.changed("Be brief.", "Be short.")
    assert store.count() == "12 runs: 0 same, 12 ask otherwise (system text, line 2)"
    assert "12 failed" in store.replay("--agentreplay-runs-strict", code=1)


@pytest.mark.parametrize(
    ("old", "new", "group"),
    [
        (*ARGUMENT, "6 same, 6 differ in refund $.amount"),
        (
            "return TOOLS[name]",
            'return {"refunded": 18.5} if name == "refund" else TOOLS[name]',
            "6 same, 6 no longer call refund",
        ),
        ('"answer": reply["content"]', '"answer": reply["content"].upper()', "1 same, 11 answer otherwise ($.answer)"),
        ('if customer == "unknown"', 'if customer == "c-3"', "10 same, 1 no longer raises KeyError, 1 raises KeyError"),
        ("raise KeyError(customer)", 'raise KeyError("nobody")', "11 same, 1 raises KeyError with another message"),
        (
            "return TOOLS[name]",
            'name == "refund" and TOOLS["mail"]("owner", "first"); return TOOLS[name]',
            "6 same, 3 call mail before refund, 3 call mail once more",
        ),
        ('"refund": refund}', '"refund": refund}\nCLIENT.get("http://127.0.0.1:9/config")', "9 same"),
    ],
)
def test_an_effect_that_differs_fails_its_item_and_names_its_group(store, old, new, group):
    store.changed(old, new)
    print(store.replay(code=1))
    assert store.count(code=1) == f"12 runs: {group}"
