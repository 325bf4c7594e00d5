"""The agent's test: recorded once, replayed for ever after."""

import shop


def test_late_order_is_refunded(agentreplay):
    """A late order is looked up, dated and paid back, in this order."""
    answer = shop.answer("Where is my order A-17? I want my money back if it is late.")
    assert "refund" in answer.lower()
    agentreplay.run.assert_tool_calls(["lookup_order", "today", "refund"])
