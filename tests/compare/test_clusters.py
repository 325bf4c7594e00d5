"""Signatures hold nothing of a single run, and clusters hold failures of one layer alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.compare.clusters import FailureSignature, RecordedFailure, group_failures, mask

PIECES = st.sampled_from(
    ["order", "A-17", "'Mr X'", '"b"', "`c`", "don't", "30.5", "2026-11-23T10:02:11Z", "/tmp/x/log", "at", "(", ":", "Mon, ", "7" * 12,
     "0d1f8e6a-3c52-4a8b-9f4e-0a1b2c3d4e5f", "<id>", "<text>", "[[redacted:pii.email:3]]", "{{tmp}}/a", "/home/jo", "C:\\Users\\jo", "\n"]
)  # fmt: skip
QUOTES = st.text(alphabet="'\"`a1 .-,:/\\_<>", max_size=12)
TEXTS = st.one_of(st.text(), QUOTES, st.lists(PIECES).map(" ".join), st.lists(PIECES).map("".join))
WORDS = st.sampled_from(
    ["", "tool", "model", "bank", "is closed", "the bank does not answer for <id> in <id> tries now"]
)
SIGNATURES = st.builds(FailureSignature, WORDS, WORDS, target=WORDS, exception=WORDS, message=WORDS)
FAILURES = st.builds(
    RecordedFailure, st.uuids().map(str), SIGNATURES, st.booleans(), st.integers(0, 3), st.sampled_from(["main", "main.1"])
)  # fmt: skip


@given(TEXTS)
def test_masking_a_masked_message_changes_nothing(text):
    assert mask(mask(text)) == mask(text)


@given(st.lists(PIECES).map(" ".join))
def test_no_digit_of_a_message_stays(text):
    assert not any(map(str.isdigit, mask(text)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no order A-17 for u-7", "no order B-20417 for user_99"),
        ("gave up after 30.5 s at 10:02", "gave up after 1 s at 2026-11-23T10:02:11Z"),
        ("no 'Ms. O Hara' in /home/jo/crm.db", 'no "Jo" in /home/amy/data/crm.db'),
        ("run 0d1f8e6a-3c52-4a8b-9f4e-0a1b2c3d4e5f ended", "run 9b2d7c1e-1111-4222-8333-444455556666 ended"),
    ],
)  # fmt: skip
def test_what_changes_from_run_to_run_is_masked(one, other):
    assert mask(one).replace("<clock>", "<id>") == mask(other).replace("<clock>", "<id>")


@pytest.mark.parametrize("other", ["the bank is closed", "the shop does not answer", "the bank does answer"])
def test_other_words_stay(other):
    assert mask("the bank does not answer") != mask(other)


@given(st.lists(FAILURES))
def test_each_failure_is_in_one_cluster_and_layers_never_merge(failures):
    clusters = group_failures(failures)
    assert sorted(each.file for cluster in clusters for each in cluster) == sorted(each.file for each in failures)
    for cluster in clusters:
        assert len({(each.signature.layer, each.signature.target) for each in cluster}) == 1
    assert clusters == group_failures(failures[::-1])
    assert len({each.signature: None for each in failures}) >= len(clusters)


def test_nearly_the_same_words_merge_and_others_do_not():
    long = FailureSignature(
        "tool", "AR-RESULT", target="refund", message="the bank of the shop does not answer for <id> today"
    )
    near = replace(long, message="the bank of our shop does not answer for <id> today")
    far = replace(long, message="the order is closed")
    failures = [RecordedFailure(str(n), each) for n, each in enumerate((long, near, far, replace(near, layer="model")))]
    assert [[each.file for each in cluster] for cluster in group_failures(failures)] == [["0", "1"], ["3"], ["2"]]


def test_the_representative_replays_is_early_small_and_old_and_other_turns_follow():
    cause = FailureSignature("tool", "AR-RESULT")
    failures = [
        RecordedFailure("pending", cause, replays=False, turn=1),
        RecordedFailure("late", cause, turn=5),
        RecordedFailure("large", cause, turn=2, size=9),
        RecordedFailure("new", cause, turn=2, size=3, recorded="2026-11-25"),
        RecordedFailure("old", cause, turn=2, size=3, recorded="2026-11-20"),
        RecordedFailure("beside", cause, turn=2, size=9, lane="main.1"),
    ]
    (cluster,) = group_failures(failures)
    assert [each.file for each in cluster] == ["old", "beside", "late", "pending", "new", "large"]
