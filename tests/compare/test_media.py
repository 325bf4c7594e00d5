"""Pictures, sounds and files of requests: found wherever APIs put them, told by type, size and digest, compared as told."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from pytest_agentreplay.backends.backend import Moment, Refused, Replayed
from pytest_agentreplay.compare import diagnose
from pytest_agentreplay.compare.diagnose.progress import ReplayProgress
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.model import media
from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, Run, ToolCall
from pytest_agentreplay.providers import READER, RULES
from tests.support.backends import replayer

ONE, OTHER = b"\x89PNG\r\n\x1a\n" + b"one" * 9, b"\x89PNG\r\n\x1a\n" + b"other" * 9
SOUND, NOISE = b"RIFF\0\0\0\0WAVEfmt " + b"\xff" * 8, b"RIFF\0\0\0\0WAVEfmt " + b"\xfe" * 8


def b64(data):
    return base64.b64encode(data).decode()


def chat(block):
    return {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "what?"}, block]}]}


JSON_PLACES = {
    "openai chat": lambda d: chat({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64(d)}"}}),
    "openai responses": lambda d: {"input": [{"content": [{"image_url": f"data:image/png;base64,{b64(d)}"}]}]},
    "openai file": lambda d: chat({"type": "file", "file": {"file_data": f"data:image/png;base64,{b64(d)}"}}),
    "anthropic": lambda d: chat({"type": "image", "source": {"media_type": "image/png", "data": b64(d)}}),
    "gemini": lambda d: {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": b64(d)}}]}]},
    "gemini by hand": lambda d: {"contents": [{"parts": [{"inline_data": {"mime_type": "image/png", "data": b64(d)}}]}]},
    "bedrock": lambda d: {"messages": [{"content": [{"image": {"format": "png", "source": {"bytes": b64(d)}}}]}]},
    "ollama": lambda d: {"messages": [{"role": "user", "content": "what?", "images": [b64(d)]}]},
    "ollama generate": lambda d: {"prompt": "what?", "images": [b64(d)]},
    "no type said": lambda d: {"page": b64(d * 100)},
}  # fmt: skip


def call(body, url="https://api.test/v1/chat/completions", kind="application/json"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpCall("POST", url, (("content-type", kind),), Body(data))


def multipart(data):
    head = b'content-disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav'
    text = b'--B\r\ncontent-disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--B\r\n' + head
    return call(text + b"\r\n\r\n" + data + b"\r\n--B--\r\n", kind="multipart/form-data; boundary=B")


CALLS = {
    **{name: (call(make(ONE)), call(make(OTHER)), "image/png") for name, make in JSON_PLACES.items()},
    "input_audio": (
        *(call(chat({"type": "input_audio", "input_audio": {"format": "wav", "data": b64(d)}})) for d in (SOUND, NOISE)),
        "audio/wav",
    ),
    "multipart": (multipart(SOUND), multipart(NOISE), "audio/wav"),
    "raw audio": (*(call(d, "https://api.test/listen", "audio/wav") for d in (SOUND, NOISE)), "audio/wav"),
}  # fmt: skip


def replaying(*calls, near=None, lanes=()):
    """What replays calls; `near` says of two files whether one is near enough to the other."""
    lanes = lanes or ["main"] * len(calls)
    exchanges = [
        Exchange(one, HttpReply(200, body=Body(b"%d" % n)), n * 2, n * 2 + 1, lane=lane)
        for n, (one, lane) in enumerate(zip(calls, lanes, strict=True))
    ]
    backend = replayer(Run(Header("t"), tuple(exchanges)))
    if near is not None:
        backend.accept_media(near)
    return backend


def ask(backend, sent, lane="main"):
    return backend.decide(sent, Moment(lane=lane, at=0, attempt=1))


def always(*_):
    return True


@pytest.mark.parametrize(("recorded", "now", "kind"), CALLS.values(), ids=CALLS)
def test_another_picture_is_told_by_type_and_digest_and_is_another_call_until_it_is_near_enough(recorded, now, kind):
    run = replaying(recorded).run
    (found,) = diagnose.explain_miss(ReplayProgress(run, READER, (), Matching(READER, RULES)), now, "main").differences
    word = "picture" if kind == "image/png" else "sound"
    assert found.note.startswith(f"{kind}: another {word} (sha256:")
    assert found.recorded.startswith(f"<{kind} ")
    assert all(side[-9:-1] in found.note for side in (found.recorded, found.now))
    assert isinstance(ask(replaying(recorded), now), Refused)
    assert isinstance(ask(replaying(recorded, near=lambda *_: False), now), Refused)
    seen = []
    lenient = replaying(recorded, near=lambda *sides: seen.append(sides) or True)
    assert ask(lenient, now).exchange.outcome.body.data == b"0"
    assert {side[0] for side in seen} == {kind}
    assert all(old != new for _, old, new in seen)
    [(_, [drift])] = lenient.drift
    assert drift.note.startswith("watch: near enough")


SAME_SIZE = ONE.replace(b"one", b"two")
SAME_SIZES = {
    **{name: (call(make(ONE)), call(make(SAME_SIZE))) for name, make in JSON_PLACES.items()},
    "multipart": (multipart(ONE), multipart(SAME_SIZE)),
    "raw": tuple(call(b"\xff" + d, "https://api.test/put", "application/octet-stream") for d in (ONE, SAME_SIZE)),
    "as digits": tuple(call({"page": d.hex()}, "https://api.test/put") for d in (ONE, SAME_SIZE)),
    "swapped": tuple(call({"images": list(map(b64, both))}) for both in ((ONE, SAME_SIZE), (SAME_SIZE, ONE))),
}


@pytest.mark.parametrize("name", SAME_SIZES)
def test_another_file_of_the_same_size_is_no_random_id(name):
    recorded, now = SAME_SIZES[name]
    missed = diagnose.explain_miss(
        ReplayProgress(replaying(recorded).run, READER, (), Matching(READER, RULES)), now, "main"
    )
    prompts = {"openai chat", "openai file", "anthropic", "bedrock", "ollama"}
    assert missed.kind.code == ("AR-PROMPT" if name in prompts else "AR-REQUEST")


ANTHROPIC, OLLAMA = JSON_PLACES["anthropic"], JSON_PLACES["ollama"]


def test_what_stands_beside_the_picture_still_counts():
    backend = replaying(call(ANTHROPIC(ONE)), near=always)
    assert isinstance(ask(backend, call(ANTHROPIC(OTHER) | {"temperature": 1})), Refused)
    png = {"mime_type": "image/png", "data": b64(ONE)}
    backend = replaying(call({"a": [png]}), near=always)
    others = [call({"a": held}) for held in ([{**png, "mime_type": "image/gif"}], [png] * 2, [])]
    for other in (*others, ToolCall("look")):
        assert isinstance(ask(backend, other), Refused)


def test_each_exchange_is_served_once_in_its_lane_first():
    recorded = [call(OLLAMA(ONE + bytes([n]))) for n in range(4)]
    backend = replaying(*recorded, near=always, lanes=["main.1", "main", "main.1", "main"])
    lanes = ["main", "main.1", "main", "main", "main"]
    answers = [ask(backend, call(OLLAMA(OTHER + bytes([n]))), lane) for n, lane in enumerate(lanes)]
    assert [answer.exchange.start for answer in answers[:4]] == [2, 0, 6, 4]
    assert isinstance(answers[4], Refused)


def test_only_the_pictures_that_differ_are_asked_about_and_all_must_be_near():
    def two(first, second):
        return call({"prompt": "?", "images": [b64(first), b64(second)]})

    seen = []
    backend = replaying(two(ONE, OTHER), near=lambda *sides: seen.append(sides) or sides[2] != SOUND)
    assert isinstance(ask(backend, two(ONE, SOUND)), Refused)
    assert isinstance(ask(backend, two(ONE, NOISE)), Refused)
    backend = replaying(two(ONE, OTHER), near=lambda *sides: seen.append(sides) or True)
    assert isinstance(ask(backend, two(ONE, OTHER + b"!")), Replayed)
    assert all(old != new for _, old, new in seen)


def test_a_later_difference_is_told_without_the_pictures_that_are_near():
    def turn(picture, text):
        history = ANTHROPIC(picture)
        return call({**history, "messages": [*history["messages"], {"role": "user", "content": text}]})

    backend = replaying(call(ANTHROPIC(ONE)), turn(ONE, "and then?"), near=always)
    assert isinstance(ask(backend, call(ANTHROPIC(OTHER))), Replayed)
    refused = ask(backend, turn(OTHER, "and now?"))
    assert [one.note for one in refused.divergence.differences] == ["then -> now"]


def sha(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()[:8]}"


FILES = {
    f"data:;base64,{b64(SOUND)}": f"<audio/wav 24 B {sha(SOUND)}>",
    f"data:image/png;name=a.png;base64,{b64(ONE)}": f"<image/png 35 B {sha(ONE)}>",
    **dict.fromkeys(["data:image/svg+xml,%3Csvg", "data:image/png;base64,%%%", "x" * 3000 + " y", ""], "None"),
}


def test_what_is_a_file_and_what_is_text():
    assert {text: str(media.read_media(text)) for text in FILES} == FILES
    document = {"source": {"type": "text", "media_type": "text/plain", "data": "abcd"}}
    assert media.mark_media(document) == document, "plain text beside a type is no file"
    assert media.mark_media("plain") == "plain"
    assert str(media.make_media(b"x" * 2_500_000, "Image/PNG; q=1")).startswith("<image/png 2.5 MB sha256:")
    assert media.swap("<image/png 3 B sha256:00000000>", "text") == ""
    assert media.swap("<image/png 3 B sha256:00000000>", "<application/pdf 3 B sha256:11111111>") == (
        "image/png -> application/pdf: another file (sha256:00000000 recorded, sha256:11111111 now)"
    )
