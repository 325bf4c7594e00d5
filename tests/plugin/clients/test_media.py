"""A picture that is encoded otherwise is another call, unless the test says that its pixels are what counts."""

from tests.support.small_projects import flat, furnished, passed, recorded, summary

AGENT = """
import base64, json, os, struct, zlib
import httpx2

def png(pixels, level):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\\0" + bytes(row) for row in pixels)
    head = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 0, 0, 0, 0)
    packed = zlib.compress(rows, level)
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")

def pixels(data):
    at = data.index(b"IDAT")
    (size,) = struct.unpack(">I", data[at - 4 : at])
    return zlib.decompress(data[at + 4 : at + 4 + size])

def look(question="What is in it?"):
    shade = int(os.environ.get("SHADE", "7"))
    picture = png([[shade] * 40] * 40, int(os.environ.get("LEVEL", "9")))
    link = {"url": "data:image/png;base64," + base64.b64encode(picture).decode()}
    content = [{"type": "text", "text": question}, {"type": "image_url", "image_url": link}]
    messages = [{"role": "user", "content": content}]
    for more in ("And the colour?", None):
        body = {"model": "m", "messages": messages}
        reply = httpx2.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json=body).json()
        messages += [reply["choices"][0]["message"], {"role": "user", "content": more}]
    return messages[-2]["content"]
"""

TESTS = """
import agent

def near(kind, recorded, now):
    assert kind == "image/png"
    return agent.pixels(recorded) == agent.pixels(now)

def test_strict(agentreplay):
    agent.look()

def test_near(agentreplay):
    agentreplay.media(near)
    assert agent.look()
"""


def test_another_encoding_of_a_picture_is_a_divergence_unless_the_test_compares_pixels(shared_project):
    project = recorded(furnished(shared_project(), agent=AGENT, test_look=TESTS))
    passed(project.offline())
    again = project.offline(LEVEL="0", COLUMNS="200")
    assert "[AR-PROMPT]" in summary(again)["strict"]
    assert summary(again).keys() == {"strict"}
    assert "image/png: another picture (sha256:" in flat(again)
    assert "image/png: another picture" in flat(project.offline("-k", "near", SHADE="8"))
    passed(project.run("--replay=off", LEVEL="0"))
