"""A known value is found in whatever spelling a program gives it: in plain text, in JSON strings, in packed bodies."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import itertools
import json
import lzma
import quopri
import random
import tarfile
import time
import zipfile
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.model.exchanges import Body, Frame, FramesReply, HttpCall, HttpReply
from pytest_agentreplay.redaction.encodings import secret_guises
from pytest_agentreplay.redaction.known import Known
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.redaction import Redaction
from pytest_agentreplay.redaction.views import View

KEY = "Tr0ub4dor" + "-Kq7Zx9Lm2+Ab/4"
VENDOR = "sk-" + "proj-" + "aB3dE6gH9jK2mN5pQ8rT1vW4"
POST = HttpCall("POST", "https://api.test/v1/x")


def knowing(key=KEY):
    redaction = Redaction(Places({}))
    assert redaction.learn("key", key)
    return redaction


def stored(data, redaction):
    reply = HttpReply(200, headers=(("content-length", str(len(data))),), body=Body(data), cuts=(len(data),))
    after = redaction.redact_outcome(POST, reply)
    assert dict(after.headers)["content-length"] == str(len(after.body.data)) == str(sum(after.cuts))
    return after.body.data


def b64(data):
    return base64.b64encode(data).decode()


def cut(value, between):
    return between.join((value[:6], value[6:13], value[13:]))


SPELLINGS = {
    "upper": str.upper,
    "lower": str.lower,
    "swapped": str.swapcase,
    "octal": lambda value: "".join(f"\\{byte:03o}" for byte in value.encode()),
    "octal-in-part": lambda value: f"\\{ord(value[0]):03o}{value[1:-1]}\\{ord(value[-1]):03o}",
    "octal-dump": lambda value: " ".join(f"{byte:03o}" for byte in value.encode()),
    "hex-dump": lambda value: value.encode().hex(" "),
    "hex-colons": lambda value: value.encode().hex(":").upper(),
    "quoted-printable": lambda value: "".join(f"={byte:02X}" for byte in value.encode()),
    "quoted-printable-lines": lambda value: quopri.encodestring(("x" * 70 + value).encode()).decode(),
    "base64": lambda value: b64(value.encode()),
    "base64-twice": lambda value: b64(b64(value.encode()).encode()),
    "base64-twice-inside": lambda value: b64(b"x: " + b64(b'{"k": "' + value.encode() + b'"}').encode() + b" y"),
    "base64-of-utf16": lambda value: b64(f"echo {value}".encode("utf-16-le")),
    "base64-of-utf16-be": lambda value: b64(f"echo {value}".encode("utf-16-be")),
    "utf16": lambda value: value.encode("utf-16-le").decode(),
    "utf16-be": lambda value: value.encode("utf-16-be").decode(),
    "hex-of-utf16": lambda value: value.encode("utf-16-le").hex(),
}
CUTS = ["=\r\n", "\\\n", "\\\n    ", "\\\r\n", "\n", "''"]


def test_a_known_value_is_found_however_it_is_spelled_and_cut():
    texts = [spell(KEY) for spell in SPELLINGS.values()] + [cut(KEY, between) for between in CUTS]
    for text in texts:
        for spelled in (text, json.dumps({"out": text}), json.dumps({"in": json.dumps({"out": text})})):
            for before in ("", "the key: ", "x"):
                data, redaction = f"{before}{spelled} and more".encode(), knowing()
                after = stored(data, redaction)
                assert b"[[redacted:key:1]]" in after, data
                assert redaction.text.leaks(data) == ("key",), data
                assert redaction.text.leaks(after) == (), data


@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be", "utf-16"])
def test_a_known_value_in_a_body_of_utf_16_is_found(coding):
    redaction = knowing()
    data = f"clé: {KEY}\n".encode(coding) + b"plain ASCII behind it, much longer than that" * 3
    after = stored(data, redaction)
    assert b"[[redacted:key:1]]" in after
    assert redaction.text.leaks(after) == ()


@given(st.text(st.sampled_from("abXY9+=&\\\"' \n%-_]["), min_size=8, max_size=24), st.sampled_from([*SPELLINGS]))
def test_any_value_is_found_in_any_spelling(value, spelling):
    redaction, value = Redaction(Places({})), value.strip()
    if spelling == "octal-in-part":
        value = value.replace("\\", "")  # which a writer of escapes does not leave bare
    if not redaction.learn("key", value) or value.upper().lower() != value.lower() or len(value) < 8:
        return
    after = stored(SPELLINGS[spelling](value).encode(), redaction)
    assert b"[[redacted:key:1]]" in after
    assert redaction.text.leaks(after) == ()


OTHER_TEXTS = [
    "a troubador and a key", "Tr0ub4dor alone \\n Kq7Zx9Lm2", "https://api.test/?a=12&b=34=56",
    r"C:\temp\new\105 \101 and \\163\\150", "=3D=41 =\nAbc", "54 72 30 75 62 00 11",
    b64(b"any other text that is long enough to be looked at"),
    b64(b64(b"any other text that is long enough to be looked at").encode()), "plain".encode("utf-16-le").decode(),
]  # fmt: skip


def test_what_only_resembles_a_known_value_stays():
    texts = [text.encode() for other in OTHER_TEXTS for text in (other, json.dumps({"t": other}))]
    assert [text for text in texts if stored(text, knowing()) != text] == []


# --- JSON inside JSON


PLAIN = "sk-live-0123456789abcdef"
VALUES = [
    PLAIN, 'quo"ted-secret', "apo'strophe-secret", "back\\slashed-secret", "lines\nof\ta-key", "schlüssel-4711",
    "a/b/c-secret", '{"k": "-----BEGIN\\\\nMII"}',
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_json_inside_json_and_what_python_shows_are_found(value):
    texts = [repr({"held": [value]}), repr(value.encode()), json.dumps({"held": str([value])})]
    for depth in range(6):
        for levels in itertools.product([False, True], repeat=depth):
            text = value
            for ascii_only in levels:
                text = json.dumps({"held": text}, ensure_ascii=ascii_only)
            texts.append(text)
    texts += [text.replace("/", "\\/") for text in texts]
    assert [text for text in texts if b"[[redacted:key:1]]" not in stored(text.encode(), knowing(value))] == []


def test_a_plain_value_costs_no_further_needle():
    needles = [needle for guise in secret_guises(PLAIN) for needle in guise.needles]
    assert [needle for needle in needles if PLAIN.encode() in needle and len(needle) != len(PLAIN)] == []


def cost_of_learning_and_searching(known, first, count, text):
    begun = time.process_time()
    for number in range(first, first + count):
        known.learn("cookie", f"{random.Random(number).getrandbits(128):032x}")
        assert [*known.find(View(text))] == []
    return time.process_time() - begun


def test_a_server_that_sets_a_new_cookie_with_each_reply_costs_as_much_at_the_thousandth_as_at_the_hundredth():
    known = Known()
    text = json.dumps({"id": "chatcmpl-1", "content": "Your order arrives on Tuesday.", "digest": "ab" * 40}).encode()
    cost_of_learning_and_searching(known, 0, 100, text)
    early = cost_of_learning_and_searching(known, 100, 100, text)
    cost_of_learning_and_searching(known, 200, 800, text)
    assert cost_of_learning_and_searching(known, 1000, 100, text) < 3 * early


@pytest.mark.parametrize("spell", [bytes.decode, b64, lambda data: data.hex(":"), lambda data: data.hex(" ")])
def test_each_of_many_known_values_is_found(spell):
    redaction = Redaction(Places({}))
    values = [f"{random.Random(number).getrandbits(128):032x}" for number in range(300)]
    for value in values:
        redaction.learn("cookie", value)
    for value in values:
        text = f"so {spell(value.encode())} it is".encode()
        assert [category for _, _, category in redaction.text.findings(text)] == ["cookie"]


# --- packed bodies that no header announces


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
OPAQUE = b"[[redacted:opaque:1]]"
CLEAN = b"nothing to find at all"


@pytest.mark.parametrize("pack", OPENED)
def test_a_secret_in_a_packed_body_is_replaced_and_the_body_still_opens(pack):
    for secret, category in ((KEY, "key"), (VENDOR, "openai-key")):
        redaction = knowing()
        after = stored(pack(f"the key is {secret}.\n".encode()), redaction)
        assert OPENED[pack](after).endswith(f"the key is [[redacted:{category}:1]].\n")
        assert stored(after, redaction) == after
    assert stored(pack(CLEAN), knowing()) == pack(CLEAN)


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
def test_what_nothing_here_packs_again_is_replaced_where_a_secret_is_in_it(pack):
    assert stored(pack(KEY.encode()), knowing()) == OPAQUE
    assert stored(pack(CLEAN), knowing()) == pack(CLEAN)


UNREADABLE = [
    gzip.compress(b"0" * 20_000_000), zipped(b"0" * 20_000_000), b"PK\x03\x04 and what is no archive",
    zipped(b"cut off")[:-30], zlib.compress(b"0" * 20_000_000), zlib.compress(b"one") + zlib.compress(b"the second"),
    zlib.compress(b"damaged at its end")[:-4] + b"\xff" * 4,
]  # fmt: skip
NO_ZLIB = [b"x^2 + y^2 = 1", "x^2 ≤ 1: un café".encode(), b"x\x01\xff\xff\xff\xff", b"\r\n\r\nx\x9c and no archive"]


def test_what_cannot_be_read_is_replaced_and_what_only_begins_as_zlib_does_stays():
    assert [data[:40] for data in UNREADABLE if stored(data, knowing()) != OPAQUE] == []
    assert [data for data in NO_ZLIB if stored(data, knowing()) != data] == []


def test_zlib_is_known_at_every_level():
    for level in (1, 5, 6, 9):
        after = stored(zlib.compress(f"{'no secret here, ' * 90}the key is {KEY}.".encode(), level), knowing())
        assert zlib.decompress(after).endswith(b"the key is [[redacted:key:1]]."), level


def test_the_file_of_a_form_and_a_message_of_a_connection_are_opened():
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.zip"\r\n\r\n'
    call = HttpCall("POST", "https://api.test/v1/files", body=Body(head + zipped(KEY.encode()) + b"\r\n--b--\r\n"))
    after = knowing().redact_content(call).body.data
    assert unzipped(after.removeprefix(head).removesuffix(b"\r\n--b--\r\n")).endswith("[[redacted:key:1]]")
    frames = FramesReply.from_frames([Frame(b"hello"), Frame(gzip.compress(KEY.encode()), binary=True)])
    kept = knowing().redact_outcome(POST, frames).frames()
    assert [gzip.decompress(frame.data) for frame in kept if frame.binary] == [b"[[redacted:key:1]]"]


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress, zipped, bz2.compress, lzma.compress])
def test_an_archive_in_base64_goes_whole_where_a_secret_is_in_it(pack):
    redaction = knowing()
    body = json.dumps({"file": b64(pack(f"the key is {KEY} and {'more ' * 40}".encode())), "name": "a"}).encode()
    assert redaction.text.leaks(body) == ("key",)
    assert json.loads(stored(body, redaction)) == {"file": "[[redacted:key:1]]", "name": "a"}
    clean = json.dumps({"file": b64(pack(CLEAN))}).encode()
    assert stored(clean, redaction) == clean


def tarred(data):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("notes.bin")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


PACKERS = {"z": zipped, "t": tarred, "g": gzip.compress, "l": zlib.compress, "x": lzma.compress}


def opened(data):
    """What is packed in some bytes, by the library for what they begin as."""
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [archive.read(name) for name in archive.namelist()]
    if data[257:262] == b"ustar":
        return [data[512 : 512 + int(data[124:135], 8)]]
    begins = {b"\x1f\x8b": gzip.decompress, b"\xfd7": lzma.decompress, b"x\x9c": zlib.decompress}
    return [begins[data[:2]](data)] if data[:2] in begins else []


def all_within(data):
    yield data
    for inner in opened(data):
        yield from all_within(inner)


@pytest.mark.parametrize("depth", [2, 3, 6])
def test_what_is_packed_in_what_is_packed_is_replaced_where_a_secret_is_in_it_or_too_deep_to_be_read(depth):
    chance = random.Random(depth)
    combinations = list(itertools.product(PACKERS, repeat=depth))
    for packers in chance.sample(combinations, min(len(combinations), 60)):
        clean = " ".join(f"{chance.random()}" for _ in range(200)).encode()  # a tar file of less is mostly zeros
        secret = clean + f" and the key is {VENDOR}".encode()
        for packer in packers:
            secret, clean = PACKERS[packer](secret), PACKERS[packer](clean)
        kept = stored(secret, Redaction(Places({})))
        assert not any(VENDOR.encode() in inner for inner in all_within(kept)), packers
        whole = depth < 4 and not any(f"{packer}t" in "".join(packers) for packer in "zglx")  # a tar file of archives
        assert (stored(clean, Redaction(Places({}))) == clean) or not whole, packers
