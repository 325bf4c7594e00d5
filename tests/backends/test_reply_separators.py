"""Whether an ignored field decides on replies: what is planted is flagged, what chance does is not."""

from __future__ import annotations

from pytest_agentreplay.backends.order_permutations import ReplySample, draw_numbers, find_separators


def sample(reply, key="one call", **ignored):
    return ReplySample(key, reply, ignored)


def verdicts(samples):
    return {separator.path: separator.verdict for separator in find_separators(samples)}


def test_a_planted_tenant_is_flagged_and_a_user_who_does_not_matter_is_not():
    draw = draw_numbers(3)
    samples = []
    for number in range(24):
        tenant = ("acme", "globex")[number % 2]
        samples.append(sample(f"limit of {tenant}", tenant=tenant, user=f"user {draw(3)}", trace=f"t{number}"))
    found = {separator.path: separator for separator in find_separators(samples)}
    tenant, user = found["tenant"], found["user"]
    assert found.keys() == {"tenant", "user"}, "ids that are all different are no evidence"
    assert (tenant.verdict, tenant.purity, tenant.collisions) == ("flagged", 1.0, 24)
    assert tenant.p_value < tenant.limit == 0.025
    assert tenant.values == {"acme": 12, "globex": 12}
    assert (user.verdict, user.purity < 1, user.p_value > 0.05) == ("noise", True, True)


def test_sampling_noise_is_not_flagged():
    draw = draw_numbers(5)
    samples = [sample(f"words {draw(3)}", tenant=f"t{draw(2)}", user=f"u{draw(4)}") for _ in range(24)]
    assert verdicts(samples) == {"tenant": "noise", "user": "noise"}
    assert verdicts([sample(f"words {number}", tenant="a") for number in range(24)]) == {}, (
        "one value separates nothing"
    )
    assert verdicts([sample("the same", tenant=f"t{number % 2}") for number in range(24)]) == {}


def test_few_calls_make_a_suspect_at_most():
    few = [sample("x", tenant="a"), sample("x", tenant="a"), sample("y", tenant="b")]
    assert verdicts(few) == {"tenant": "suspect"}
    assert verdicts([*few, sample("z", tenant="b")]) == {"tenant": "noise"}
    assert verdicts([sample("x", tenant="a"), sample("y", tenant="b")]) == {}


def test_small_groups_of_equal_calls_count_together_and_absence_is_a_value():
    samples = [
        sample(f"{key} {bool(tenant)}", key=key, **tenant)
        for key in ("a", "b", "c", "d")
        for tenant in ({"tenant": "acme"}, {"tenant": "acme"}, {}, {})
    ]
    assert verdicts(samples) == {"tenant": "flagged"}
