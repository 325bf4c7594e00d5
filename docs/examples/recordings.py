"""Records the broken agents, each failing as it failed once: `python docs/examples/record.py`.

pytest does not collect this file by itself. `agentreplay case new` makes a case of a snapshot that comes of it.
"""

import pytest

import examples.orders.broken
import examples.prices.broken
import examples.refund.broken
import examples.sales.broken
import examples.search.broken


@pytest.fixture
def afternoon(time_machine):
    """The time at which the quota of the price service is used up."""
    time_machine.move_to("2026-11-19T15:00:00+00:00")


@pytest.fixture
def midnight(time_machine):
    """Half past midnight in Berlin."""
    time_machine.move_to("2026-02-28T23:30:00+00:00")


def said(text):
    """What a user says, as messages."""
    return [{"role": "user", "content": text}]


def test_orders(agentreplay):
    """A customer is told of a stranger's order."""
    given = {"question": "Hello, I am J. Müller. Where is my order?", "user_id": "u-7"}
    agentreplay.annotate(input={"arguments": given})
    answer = examples.orders.broken.answer(**given)
    assert "Lindenweg" not in answer


def test_search(agentreplay):
    """A search that fails is made until no step is left."""
    given = said("How do I reset the router?")
    agentreplay.annotate(input={"messages": given})
    examples.search.broken.answer(given)


def test_prices(afternoon, agentreplay):
    """At three in the afternoon the quota is used up; a refusal that breaks off is taken for a price."""
    given = said("What does the K-9 cost?")
    agentreplay.annotate(input={"messages": given})
    assert "EUR 12" not in examples.prices.broken.answer(given)


def test_refund(agentreplay):
    """The customer is told of a refund that was refused."""
    given = said("Please refund order A-1001, it arrived broken.")
    agentreplay.annotate(input={"messages": given})
    assert "I have refunded" not in examples.refund.broken.answer(given)


def test_sales(midnight, agentreplay):
    """Half an hour after midnight the shop is told of yesterday."""
    given = said("How many sales today?")
    agentreplay.annotate(input={"messages": given})
    assert "412" not in examples.sales.broken.answer(given)
