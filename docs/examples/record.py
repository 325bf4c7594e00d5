"""Record the broken agents against a model on loopback that says what it said then.

    python docs/examples/record.py [-k NAME]

The snapshots lie in `docs/examples/__agent_snapshots__`, for `agentreplay case new` to make cases of.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from tests.support.model_script import Ask, Raw
from tests.support.model_server import ModelServer

HERE = Path(__file__).parent

TOO_MANY = Raw(
    status=429,
    reason="Too Many Requests",
    headers=[("content-type", "application/json"), ("retry-after", "31800")],
    chunks=[b'{"sku": "K-9", "currency": "EUR", "price": 12'],  # of 1249.00
)


def said(body: dict | None, _number: int) -> object:
    """What the model, or the price service, says to a request."""
    if body is None:
        return TOO_MANY
    question = next(one["content"] for one in body["messages"] if one["role"] == "user")
    done = sum(one["role"] == "tool" for one in body["messages"])
    return next(says for part, says in SCRIPTS.items() if part in question)[done]


SCRIPTS = {
    "Where is my order": [
        Ask("lookup_orders", {"name": "J. Müller"}),
        "Your order A-1001 is on its way to Lindenweg 4 in Köln.",
    ],
    "reset the router": [Ask("search", {"query": "reset router"})] * 5,
    "K-9 cost": [Ask("quote", {"sku": "K-9"}), "The K-9 costs EUR 12.00."],
    "refund order A-1001": [
        Ask("lookup_order", {"order_id": "A-1001"}),
        Ask("issue_refund", {"order_id": "A-1001", "amount_cents": 45990}),
        "Done! I have refunded $459.90 to Zoë Müller for order A-1001. ✅",
    ],
    "sales today": [Ask("sales_on"), "A strong day so far: 412 sales."],
}


def main(words: list[str]) -> int:
    """Run the recordings; their tests fail, for that is what is recorded."""
    with ModelServer(said) as server:
        environ = {**os.environ, "MODEL_URL": server.url, "PRICE_URL": server.url}
        command = [sys.executable, "-m", "pytest", "--snapshot-record", str(HERE / "recordings.py"), *words]
        return subprocess.run(command, env=environ, cwd=HERE.parents[1], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
