"""For replays by hand: the SDK does not start without a key, and a replay sends nothing to the address."""

import os

os.environ.setdefault("OPENAI_API_KEY", "demo-key-not-real")
os.environ.setdefault("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
