"""Packed bodies that no header announces: what is in them is searched, and they can still be opened."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import zipfile
import zlib

import pytest

from pytest_agentreplay.core.model import Body, Frame, FramesReply, HttpCall, HttpReply
from pytest_agentreplay.core.redaction import Redaction
from pytest_agentreplay.core.redaction.places import Places

KEY = "Tr0ub4dor" + "-Kq7Zx9Lm2"
VENDOR = "sk-" + "proj-" + "aB3dE6gH9jK2mN5pQ8rT1vW4"
POST = HttpCall("POST", "https://api.test/v1/x")


def zipped(text, name="notes.txt", mode=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", mode) as archive:
        archive.writestr("first.txt", "nothing here")
        archive.writestr(name, text)
    return buffer.getvalue()


def unzipped(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return "\n".join(archive.read(name).decode() for name in archive.namelist())


def zipped_as_it_is(text):
    return zipped(text, mode=zipfile.ZIP_STORED)


OPENED = {
    gzip.compress: lambda data: gzip.decompress(data).decode(),
    zlib.compress: lambda data: zlib.decompress(data).decode(),
    zipped: unzipped,
    zipped_as_it_is: unzipped,
}


def redaction():
    made = Redaction(Places({}))
    assert made.learn("key", KEY)
    return made


def stored(data, made=None):
    reply = HttpReply(200, headers=(("content-length", str(len(data))),), body=Body(data), cuts=(len(data),))
    after = (made or redaction()).outcome(POST, reply)
    assert dict(after.headers)["content-length"] == str(len(after.body.data)) == str(sum(after.cuts))
    return after.body.data


@pytest.mark.parametrize("secret", [KEY, VENDOR], ids=["known", "vendor"])
@pytest.mark.parametrize("pack", OPENED)
def test_a_secret_in_a_packed_body_is_replaced_and_the_body_still_opens(pack, secret):
    made = redaction()
    before = pack(f"the key is {secret}.\n".encode())
    after = stored(before, made)
    assert OPENED[pack](after).endswith(f"the key is [[redacted:{'key' if secret is KEY else 'openai-key'}:1]].\n")
    assert stored(after, made) == after
    clean = pack(b"nothing to find")
    assert stored(clean) == clean


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
def test_what_nothing_here_packs_again_is_replaced_where_a_secret_is_in_it(pack):
    assert stored(pack(KEY.encode())) == b"[[redacted:opaque:1]]"
    assert stored(pack(b"nothing to find")) == pack(b"nothing to find")


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(b"0" * 20_000_000), zipped(b"0" * 20_000_000), b"PK\x03\x04 and what is no archive",
        zipped(b"cut off")[:-30], zlib.compress(b"0" * 20_000_000),
        zlib.compress(b"the first") + zlib.compress(b"the second"),
        zlib.compress(b"damaged at its end")[:-4] + b"\xff" * 4,
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_replaced(data):
    assert stored(data) == b"[[redacted:opaque:1]]"


@pytest.mark.parametrize(
    "data", [b"x^2 + y^2 = 1", "x^2 ≤ 1: un café".encode(), b"x\x01\xff\xff\xff\xff", b"\r\n\r\nx\x9c and no archive"]
)
def test_what_only_begins_as_zlib_does_is_left_as_it_is(data):
    assert stored(data) == data


@pytest.mark.parametrize("level", [1, 5, 6, 9])
def test_zlib_is_known_at_every_level(level):
    after = stored(zlib.compress(f"{'no secret here, ' * 90}the key is {KEY}.".encode(), level))
    assert zlib.decompress(after).endswith(b"the key is [[redacted:key:1]].")


def test_the_file_of_a_form_is_opened():
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.zip"\r\n\r\n'
    call = HttpCall("POST", "https://api.test/v1/files", body=Body(head + zipped(KEY.encode()) + b"\r\n--b--\r\n"))
    after = redaction().call(call).body.data
    assert unzipped(after.removeprefix(head).removesuffix(b"\r\n--b--\r\n")).endswith("[[redacted:key:1]]")


def test_a_message_of_a_connection_is_opened():
    after = redaction().outcome(
        POST, FramesReply.of([Frame(b"hello"), Frame(gzip.compress(KEY.encode()), binary=True)])
    )
    assert [gzip.decompress(frame.data) for frame in after.frames() if frame.binary] == [b"[[redacted:key:1]]"]


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress, zipped, bz2.compress, lzma.compress])
def test_an_archive_in_base64_goes_whole_where_a_secret_is_in_it(pack):
    made = redaction()
    text = base64.b64encode(pack(f"the key is {KEY} and {'more ' * 40}".encode())).decode()
    body = json.dumps({"file": text, "name": "a"}).encode()
    assert made.leaks(body) == ("key",)
    assert json.loads(stored(body, made)) == {"file": "[[redacted:key:1]]", "name": "a"}
    clean = json.dumps({"file": base64.b64encode(pack(b"nothing to find at all")).decode()}).encode()
    assert stored(clean, made) == clean
