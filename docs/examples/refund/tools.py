"""Orders, and the till."""

ORDERS = {"A-1001": {"order_id": "A-1001", "status": "delivered", "total_cents": 4599, "customer": "Zoë Müller"}}


class RefundError(Exception):
    """The till does not pay this."""


def lookup_order(order_id: str) -> dict:
    """Look up an order by id."""
    return ORDERS[order_id]


def issue_refund(order_id: str, amount_cents: int) -> dict:
    """Refund an order."""
    if amount_cents > (total := ORDERS[order_id]["total_cents"]):
        raise RefundError(f"amount {amount_cents} exceeds order total {total} for {order_id}")
    return {"order_id": order_id, "refunded_cents": amount_cents}
