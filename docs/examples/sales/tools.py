"""The till of a night shop in Berlin, day by day as the shop's calendar has it."""

from datetime import timedelta, timezone

from examples.chat import described

BERLIN = timezone(timedelta(hours=1), "CET")
SALES = {"2026-02-28": 412, "2026-03-01": 3}


def sales_on(day: str) -> dict:
    """How many sales there were today."""
    return {"day": day, "sales": SALES[day]}


PROMPT = "You tell the keeper of a night shop how the day goes."
TOOLS = [described(sales_on)]  # on which day is for the agent to say: the model has no calendar
