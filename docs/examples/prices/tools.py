"""A price service of another company. It is asked over HTTP, and in the afternoon the day's quota is used up."""

import os
from urllib.error import HTTPError
from urllib.request import urlopen

from examples.chat import described

PRICE_URL = os.environ.get("PRICE_URL", "http://127.0.0.1:8001")


def quote(sku: str) -> tuple[int, str]:
    """Ask for the price of an article."""
    try:
        with urlopen(f"{PRICE_URL}/quotes/{sku}") as reply:
            return reply.status, reply.read().decode()
    except HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


PROMPT = "You tell customers what an article costs. Ask for the price first."
TOOLS = [described(quote, sku="string")]
