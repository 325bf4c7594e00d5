"""What must come of each row of the hostile corpus, by its class: `CHECKS[class](row, folder)` raises AssertionError."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import policy_rows
from making import TEST, changed, run_of, sealed, stored, unfolded
from shown import everything_shown, forbidden, speaks_to_ci

from pytest_agentreplay.errors import CannotWrite, SnapshotError
from pytest_agentreplay.model import content_coding
from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.report import escape
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, layout, projects
from pytest_agentreplay.snapshots.store.snapshots import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Row = dict[str, Any]

CORPUS = Path(os.environ.get("AGENTREPLAY_CORPUS") or Path(__file__).parents[1] / "corpus") / "hostile_corpus.jsonl"
ROWS: list[Row] = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]

OURS = (layout.SUFFIX, ".jsonl", ".gitignore")
SLUG = re.compile(r"[a-z0-9._-]{1,100}")
MINUTE = 60
PATIENCE = 5.0
"""Seconds of processor time within which a file is refused; a generous bound against hanging."""


def refused(data: str | bytes, *says: str) -> SnapshotError:
    """The error that `data` is refused with: typed, in one line, with file and place, and soon."""
    began = time.process_time()
    try:
        snapshot = codec.loads(data, file="some.snapshot.json")
        for x in snapshot.run.exchanges:
            for side in (x.call, x.outcome):
                getattr(side, "body", Body(b"")).data  # noqa: B018  bodies are looked at when they are read
    except SnapshotError as error:
        said = str(error)
        assert time.process_time() - began < PATIENCE, "it hangs"
        assert said.startswith("some.snapshot.json"), said
        assert "\n" not in said, said
        assert len(said) < 400, said
        for word in says:
            assert word in said, said
        return error
    raise AssertionError("it was read")


def path(row: Row, folder: Path) -> None:
    name, root = row["payload"], folder / "root"
    module = root / "tests" / "test_shop.py"
    module.parent.mkdir(parents=True)
    module.touch()
    before = every_file(folder)
    store = Store(root)
    for nodeid in (f"tests/test_shop.py::test_it[{name}]", f"tests/test_shop.py::{name}"):
        run = Run(Header(test=nodeid), (Exchange(ToolCall(name), ToolReply(name), start=0, finish=1),))
        where = store.path_of(module, nodeid)
        slug = where.name.removesuffix(layout.SUFFIX)
        assert SLUG.fullmatch(slug), slug
        assert not layout.RESERVED.match(slug), slug
        assert not slug.endswith((".", " ")), slug
        store.save(where, codec.dumps(run))
        assert store.load(where, nodeid).run == run
        pending = store.save_pending(where, codec.dumps(run))
        assert layout.home_path(pending) == where
        store.journal_for(where, run.header).close(keep=True)
    for new in every_file(folder) - before:
        assert new.is_relative_to(root), f"{new} lies outside"
        assert new.name.endswith(OURS), f"{new} is none of ours"
    # A file that states such a test leads nowhere.
    there = where.with_name("moved" + layout.SUFFIX)
    for stated in (name, f"{name}::test_it", f"x/{name}::test_it"):
        try:
            found = projects.file_of_test(there, stated)[1]
        except SnapshotError:
            continue
        assert found.is_relative_to(root), found


def every_file(folder: Path) -> set[Path]:
    return {file for file in folder.rglob("*") if not file.is_dir()}


def placed(folder: Path) -> tuple[Store, Path]:
    store = Store(folder)
    where = store.path_of(folder / "test_shop.py", TEST)
    where.parent.mkdir(parents=True)
    return store, where


def not_followed(store: Store, where: Path, secret: str = "") -> None:
    said = error_of(SnapshotError, lambda: store.load(where, TEST))
    assert said, "it was followed"
    assert where.name in said, said
    assert not secret or secret not in said, said


def error_of(kind: type[Exception], action: Callable[[], object]) -> str:
    """What `action` is refused with, "" when it is not."""
    try:
        action()
    except kind as error:
        return str(error)
    return ""


def symlink(row: Row, folder: Path) -> None:
    secret = "the-content-of-another-file"
    store, where = placed(folder)
    if "tmp" in row["payload"]:
        target = folder / "target.txt"
        target.write_text(secret, encoding="utf-8")
        original, files.secrets = files.secrets, type("Known", (), {"token_hex": staticmethod(lambda _: "0" * 12)})
        try:
            (where.parent / f"{files.TEMPORARY}{'0' * 12}.tmp").symlink_to(target)
            said = error_of(CannotWrite, lambda: store.save(where, codec.dumps(run_of("x"))))
            assert not said or where.name in said
        finally:
            files.secrets = original
        assert target.read_text(encoding="utf-8") == secret
        return
    named = Path(row["payload"].partition("->")[2].strip() or "/etc/passwd")
    mine = folder / "mine.txt"
    mine.write_text(secret, encoding="utf-8")
    for target in (named, mine, folder / "gone"):
        where.symlink_to(target)
        not_followed(store, where, secret)
        where.unlink()
    # A folder on the way, and our own folder.
    away = folder.with_name(f"{folder.name}-away")
    for link in (where.parent, where.parent.parent, folder / layout.PRIVATE):
        shutil.rmtree(link, ignore_errors=True)
        away.mkdir()
        link.symlink_to(away, target_is_directory=True)
        write = store.save_pending if link.name == layout.PRIVATE else store.save
        said = error_of(CannotWrite, lambda write=write: write(where, codec.dumps(run_of("x"))))
        assert "link" in said, f"{link} was followed"
        assert not list(away.iterdir())
        link.unlink()
        away.rmdir()
        where.parent.mkdir(parents=True, exist_ok=True)


def fifo(row: Row, folder: Path) -> None:
    store, where = placed(folder)
    os.mkfifo(where)
    not_followed(store, where)
    assert stat.S_ISFIFO(where.lstat().st_mode)


def device(row: Row, folder: Path) -> None:
    store, where = placed(folder)
    target = row["payload"].partition("->")[2].strip() or "/dev/zero"
    where.symlink_to(target)
    not_followed(store, where)
    with open(target, "rb", buffering=0) as endless:  # the cap holds while reading, whatever the size is said to be
        said = error_of(SnapshotError, lambda: files.read_bounded(endless.fileno(), where, files.LARGEST))
        assert f"{files.LARGEST:,}" in said or target != "/dev/zero", "no end was found"


def text_of(row: Row) -> str:
    return unfolded(row["gen"]) if "gen" in row else row["payload"]


def not_json(row: Row, folder: Path) -> None:
    """Refused as a file, and wherever in a file a value can stand, sealed or not."""
    text = text_of(row)
    refused(text)
    whole = sealed({**stored(), "x-note": "HERE"})
    refused(whole.replace('"HERE"', text))
    good = json.dumps(stored()["header"]["outcome"])
    assert good in whole
    refused(whole.replace(good, '{"status": ' + text + "}"))


def doubled(row: Row, folder: Path) -> None:
    not_json(row, folder)
    # The last one is the sealed one: a reviewer reads the first.
    whole = sealed(stored())
    refused(whole.replace('"schemaVersion"', '"schemaVersion": "0.1", "schemaVersion"', 1), "twice")
    refused(whole.replace('"header": {', '"header": {"test": "another", ', 1), "twice")


def surrogate(row: Row, folder: Path) -> None:
    not_json(row, folder)
    preserved(row, folder)
    for half in re.findall(r"\\\\u[0-9a-fA-F]{4}", row["payload"]):
        for place, shown in everything_shown(run_of(json.loads(f'"{half}"'))):
            shown.encode()
            assert not forbidden(shown), place


def preserved(row: Row, folder: Path) -> None:
    """Recorded, such a text comes back to the byte, in bodies and in values."""
    text = row["payload"]
    value = json.loads(text)
    answer = Body(text.encode())
    asked_of_model = f'{{"model": "m", "messages": [{{"role": "user", "content": {text}}}]}}'
    for data in (text, asked_of_model, f"data: {text}\n\n" * 4):
        asked = HttpCall("POST", "http://127.0.0.1:1/v1/chat/completions", (), Body(data.encode()))
        reply = HttpReply(200, body=answer, cuts=(len(answer),))
        exchanges = (
            Exchange(asked, reply, start=0, finish=1),
            Exchange(asked, HttpReply(200, body=asked.body, cuts=(len(asked.body),)), start=2, finish=3),
            Exchange(ToolCall("t", {"a": value}), ToolReply(value), start=4, finish=5),
        )
        run = Run(Header(test=TEST), exchanges)
        back = codec.loads(codec.dumps(run), file="f").run
        assert [x.call.body.data for x in back.exchanges[:2]] == [data.encode()] * 2
        assert [x.outcome.body.data for x in back.exchanges[:2]] == [text.encode(), data.encode()]
        assert repr(back.exchanges[2].outcome.value) == repr(value)


def encoding(row: Row, folder: Path) -> None:
    text = sealed(stored())
    for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"):
        refused(text.encode(name))
    refused(text.encode().replace(b"hello", b"h\xe9llo"))


def grown(statement: str) -> str:
    """A program that runs `statement` and prints by how many kB it has grown."""
    return f"""import resource, sys
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.model import content_coding
from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.model.exchanges import Body
from pytest_agentreplay.errors import SnapshotError
from pytest_agentreplay.snapshots.store import files, reading
from pathlib import Path
now = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
data = Path(sys.argv[1]).read_bytes() if sys.argv[1:] and not sys.argv[2:] else b''
before = now()
{statement}
print('grown', (now() - before) // (1024 if sys.platform == 'darwin' else 1))
"""


def ran(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A Python of its own that ran to its end."""
    options = {"capture_output": True, "encoding": "utf-8", "timeout": MINUTE, "check": False, **options}
    done = subprocess.run([sys.executable, *words], **options)
    assert done.returncode == 0, done.stdout + done.stderr[-800:]
    return done


def in_child(statement: str, *words: str | Path) -> str:
    """What `statement` prints in a process of its own, which must not grow by 64 MB."""
    done = ran("-c", grown(statement), *map(str, words), cwd=Path(__file__).parents[2])
    kilobytes = int(done.stdout.rpartition("grown")[2])
    assert kilobytes < 64 * 1024, f"it grew by {kilobytes} kB"
    return done.stdout


def bombs(row: Row) -> Iterator[tuple[str, bytes]]:
    if re.search("zstd|br", row["where"] + row["payload"]):
        # A frame that asks for a window of 2 GB, and bodies of many zeros.
        yield "zstd", b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x00" * 32
        for coding in ("zstd", "br"):
            yield coding, content_coding.encode(coding, bytes(64 << 20), (64 << 20,), complete=True)[0]
        return
    megabytes = int((re.search(r"(\d+) MB", row["payload"]) or [0, "200"])[1])
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    once = b"".join(packer.compress(bytes(1 << 20)) for _ in range(megabytes)) + packer.flush()
    yield "gzip", once
    yield "gzip, gzip", gzip.compress(once)
    yield "deflate", zlib.compress(bytes(1 << 24), 9)


def bomb(row: Row, folder: Path) -> None:
    for coding, data in bombs(row):
        file = folder / "body"
        file.write_bytes(data)
        said = in_child(
            f"try: content_coding.decode({coding!r}, data, ())\n"
            "except content_coding.Opaque: print('opaque')\n"
            f"print(content((('content-encoding', {coding!r}),), Body(data)).kind)",
            file,
        )
        assert "opaque" in said
        assert "bytes" in said
        if len(data) > 64:
            body = {"base64": [base64.b64encode(data).decode()]}
            response = {"status": 200, "headers": [f"content-encoding: {coding}"], "body": body}
            told = {"request": {"method": "GET", "url": "http://x/"}, "response": response}
            line = {"order": [0, 1], "response": [len(data), Body(data).digest]}
            bomb = changed(lambda doc, told=told, line=line: doc.update(exchanges=[told], volatile=[line]))
            refused(bomb, "decodes to more than", "exchange 1")


def b64_bomb(row: Row, folder: Path) -> None:
    file = folder / f"big{layout.SUFFIX}"
    with file.open("wb") as sparse:
        sparse.write(b'{"schemaVersion": "1.0", "blobs": {"a": ["')
        sparse.truncate(1 << 30)
    said = in_child("try: reading.load(sys.argv[1])\nexcept SnapshotError as error: print(error)", file, "")
    assert "larger than 33,554,432 bytes" in said
    assert "raise largest in agentreplay_checks" in said


def terminal(row: Row, folder: Path) -> None:
    for place, shown in everything_shown(run_of(row["payload"])):
        assert not forbidden(shown), f"{place}: {forbidden(shown)!r}"


def ci_command(row: Row, folder: Path) -> None:
    for payload in (row["payload"], f"  {row['payload']}", f"x\n\u3000{row['payload']}"):
        for place, shown in everything_shown(run_of(payload)):
            assert not speaks_to_ci(shown), f"{place}: {speaks_to_ci(shown)!r}"


def markdown(row: Row, folder: Path) -> None:
    from markdown_it import MarkdownIt

    tokens = (
        MarkdownIt("commonmark").enable("table").parse(f"before\n\n{escape.escape_markdown(row['payload'])}\n\nafter")
    )
    assert [token.type for token in tokens if not token.type.startswith(("paragraph", "inline"))] == ["fence"]
    (block,) = [token for token in tokens if token.type == "fence"]
    assert block.content == f"{row['payload']}\n"


def html(row: Row, folder: Path) -> None:
    from pages import attributes_and_texts, page

    text, value = attributes_and_texts(page(row["payload"]))
    shown = escape.escape_text(row["payload"])
    assert text == [shown] * 2, text
    assert value == row["payload"]


def inert(row: Row, folder: Path) -> None:
    """A literal text through record, read, show, diff and replay; nothing opens, dials, starts or imports."""
    paths = os.pathsep.join(map(str, (Path(__file__).parents[2], Path(__file__).parent)))
    environ = {**os.environ, "OPENAI_API_KEY": "value-of-the-key", "PYTHONPATH": paths}
    program = str(Path(__file__).with_name("inert.py"))
    done = ran(program, input=json.dumps(row["payload"]), cwd=folder, env=environ)
    assert done.stdout.splitlines()[-1] == "inert", done.stdout
    assert "value-of-the-key" not in done.stdout
    assert not list(folder.iterdir())


def command(row: Row, folder: Path) -> None:
    inert(row, folder)
    for line in row["payload"].splitlines():
        name = line.partition(":")[0].strip()
        refused(sealed({**stored(), name: line.partition(":")[2].strip()}), "no top-level key")


def schema(row: Row, folder: Path) -> None:
    if "digest" in row["payload"]:
        doc = stored()
        doc.pop("integrity")
        snapshot = codec.loads(json.dumps(doc), file="f")
        assert not snapshot.sealed, "what is served is told as edited, and refused where CI is set"
        assert codec.list_edits(json.dumps(doc), file="f") == ["the seal is gone"]
        return
    said = row["payload"].partition(":")[2].strip() or "999"
    for version in (said, '"999.0"', "999", '"2.0"', "1", "null", '"1.x"', '"1.0.0"', '"\\u0661.0"'):
        refused(sealed({**stored(), "schemaVersion": json.loads(version)}) if version.strip() else "{}")
    refused(changed(lambda doc: doc.update(evil=1)), "no top-level key")
    codec.loads(changed(lambda doc: doc.update({"x-ours": 1})), file="f")
    for seal in ({"form": "none"}, {"digest": "0" * 64}, [], "x"):
        refused(json.dumps({**stored(), "integrity": seal}))


def merge(row: Row, folder: Path) -> None:
    lines = codec.dumps(run_of("x")).splitlines()
    mark = row["payload"].split(" conflict")[0]
    middle = len(lines) // 2
    refused(
        "\n".join([*lines[:middle], mark, "x", "=======", "y", ">>>>>>> theirs", *lines[middle:]]), "merge conflict"
    )


def lfs(row: Row, folder: Path) -> None:
    refused(f"{row['payload']}\noid sha256:{'0' * 64}\nsize 12\n", "LFS", "git lfs pull")


def empty(row: Row, folder: Path) -> None:
    for blank in ("", " ", "\n\n"):
        refused(blank, "empty")
    text = codec.dumps(run_of("x"))
    for at in range(1, len(text) - 1, max(1, len(text) // 60)):
        refused(text[:at])
    store, where = placed(folder)
    where.write_bytes(b"")
    not_followed(store, where)
    assert where.read_bytes() == b""


def header_smuggle(row: Row, folder: Path) -> None:
    for header in ("a: b\r\nset-cookie: x", "a\r\nb: c", "a: b\nc", "a: b\rc", "a: b\0c", ["a\n", "b"], ["a", "b\r\n"]):
        for place in ("request", "response"):
            refused(changed(lambda doc, p=place, h=header: doc["exchanges"][0][p].update(headers=[h])), "line break")
    smuggled = HttpCall("GET", "http://x/", (("a", "b\r\nc"),))
    run = Run(Header(test=TEST), (Exchange(smuggled, None, start=0, finish=None),))
    assert "line break" in error_of(CannotWrite, lambda: codec.dumps(run)), "it was written"


def exit_(row: Row, folder: Path) -> None:
    numbers = {int(found) for found in re.findall(r"-?\d+", row["payload"])} | {0, 99, 600, -1, 10**30}
    for status in numbers:
        refused(changed(lambda doc, s=status: doc["exchanges"][0]["response"].update(status=s)), "exchange 1")
    for value in ("-5", " -1", "-0"):
        refused(changed(lambda doc, v=value: doc["exchanges"][0]["response"].update(headers=[f"Content-Length: {v}"])))
    for size in (-1, 1.5, "1", None, True):
        refused(changed(lambda doc, s=size: doc["exchanges"][0]["response"]["body"].update(size=s)))
        refused(changed(lambda doc, s=size: doc["exchanges"][0]["response"].update(cuts=[s])))


CHECKS: dict[str, Callable[[Row, Path], None]] = {
    "path": path, "symlink": symlink, "fifo": fifo, "device": device, "json-depth-size": not_json,
    "json-dup": doubled, "json-nonfinite": not_json, "surrogate": surrogate, "json-bignum": preserved,
    "json-float": preserved, "encoding": encoding, "bomb": bomb, "b64-bomb": b64_bomb, "terminal": terminal,
    "ci-command": ci_command, "markdown": markdown, "html": html, "env-exfil": inert, "command": command,
    "pickle": inert, "tool-shadow": inert, "url": inert, "schema": schema, "merge": merge, "lfs": lfs, "empty": empty,
    "header-smuggle": header_smuggle, "exit": exit_, **policy_rows.CHECKS,
}  # fmt: skip
"""What a class must come to."""
