"""The figure of streams: chunks and time to the first byte of a streamed reply while it is recorded, over loopback."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import httpx2
import openai
import ours
import theirs
from measuring import Row, middle, say

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.model_server import ModelServer

PACE = 0.01
"""Seconds between two events."""

WORDS = " ".join(f"word{n}" for n in range(30))


def teed(rows, rounds=5):
    """The same stream, bare, recorded by vcrpy and recorded by us, in turn."""
    with ModelServer(lambda body, number: WORDS, pace=PACE) as server:
        client = openai.OpenAI(
            api_key="sk-any", base_url=server.url + "/v1", max_retries=0, http_client=httpx2.Client()
        )
        bare, mine, others = [], [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                bare.append(streamed(client))
                with ours.Project(folder).body("record"):
                    mine.append(streamed(client))
                with theirs.Theirs(folder).use(theirs.DEFAULT, "all"):
                    others.append(streamed(client))
    plain, told, other = (tuple(map(middle, zip(*readings, strict=True))) for readings in (bare, mine, others))
    holds = told[0] == plain[0] and told[1] <= plain[1] + PACE * 1000 / 2
    rows.append(
        Row(
            "8 streamed reply while recording",
            f"chunks, time to first byte (of {plain[2]:.0f} ms)",
            bare=shown(plain),
            vcrpy=shown(other),
            ours=shown(told),
            bound="as the bare SDK",
            holds=holds,
        )
    )
    say(f"{rows[-1].figure}: bare {rows[-1].bare}, ours {rows[-1].ours}, vcrpy {rows[-1].vcrpy}")


def streamed(client):
    """Chunks, milliseconds until the first of them, milliseconds until the end."""
    began = time.perf_counter()
    arrived = []
    asked = client.chat.completions.with_streaming_response.create(
        model="gpt-5-mini", stream=True, messages=[{"role": "user", "content": "Say a lot."}]
    )
    with asked as reply:
        arrived.extend(time.perf_counter() for chunk in reply.iter_bytes() if chunk)
    return len(arrived), (arrived[0] - began) * 1000, (arrived[-1] - began) * 1000


def shown(reading):
    """Chunks and time to first byte, for the table."""
    return f"{reading[0]:.0f}, {reading[1]:.0f} ms"
