"""The orders of a bookshop."""

from examples.chat import described

ORDERS = [
    {"order_id": "A-1001", "user_id": "u-3", "name": "J. Müller", "status": "on its way", "to": "Lindenweg 4, Köln"},
    {"order_id": "A-1002", "user_id": "u-7", "name": "J. Müller", "status": "delivered", "to": "Am Markt 12, Jena"},
    {"order_id": "A-1003", "user_id": "u-9", "name": "J. Müller", "status": "returned", "to": "Hafenstr. 81, Kiel"},
]


def lookup_orders(name: str, user_id: str | None = None) -> list[dict]:
    """Find orders by the customer's name."""
    return [order for order in ORDERS if order["name"] == name and user_id in {None, order["user_id"]}]


PROMPT = "You help the customers of a bookshop. Look their order up, then say in one sentence where it is."
TOOLS = [described(lookup_orders, name="string")]
