"""Every SDK whose base URL is a variable, in a child that is told by nothing else; and requests signed anew for AWS."""

import json
import re

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.intercept.gateway.server import sign_for_upstream
from pytest_agentreplay.model.exchanges import Body, HttpCall
from tests.support.project import NOBODY
from tests.support.small_projects import furnished, passed, recorded

pytestmark = pytest.mark.env("clients")

AGENT = """
import sys, warnings
warnings.simplefilter("ignore")
USER = [{"role": "user", "content": "Who are you?"}]
TURN = [{"role": "user", "content": [{"text": "Who are you?"}]}]

def boto3():
    import boto3
    client = boto3.client("bedrock-runtime", region_name="eu-west-1")
    said = client.converse(modelId="a.b:0", messages=TURN)["output"]["message"]["content"][0]["text"]
    events = client.converse_stream(modelId="a.b:0", messages=TURN)["stream"]
    return said + "|" + "".join(event.get("contentBlockDelta", {}).get("delta", {}).get("text", "") for event in events)

def genai():
    from google import genai
    client = genai.Client()
    said = client.models.generate_content(model="gemini-x", contents="Who are you?").text
    return said + "|" + "".join(c.text or "" for c in client.models.generate_content_stream(model="gemini-x", contents="Who?"))

def groq():
    from groq import Groq
    return Groq().chat.completions.create(model="m", messages=USER).choices[0].message.content

def cohere():
    import cohere
    return cohere.ClientV2().chat(model="m", messages=USER).message.content[0].text

def ollama():
    import ollama
    return ollama.chat(model="m", messages=USER).message.content

def mistral():
    from mistralai.client import Mistral
    client = Mistral(server_url=sys.argv[2], api_key="any")
    return client.chat.complete(model="mistral-x", messages=USER).choices[0].message.content

print(globals()[sys.argv[1]]())
"""

TESTS = """
import os, pathlib, subprocess, sys
import pytest

@pytest.mark.parametrize("sdk", ["boto3", "genai", "groq", "cohere", "ollama", "mistral"])
def test_sdk(agentreplay, sdk):
    gateway = agentreplay.gateway
    words = [sys.executable, "sdk_main.py", sdk, gateway.through(os.environ["MISTRAL"])]
    done = subprocess.run(words, env={**os.environ, **gateway.env}, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    with pathlib.Path("said.txt").open("a") as file:
        print(sdk, done.stdout.strip(), file=file)
"""

KEYS = ("GEMINI_API_KEY", "GROQ_API_KEY", "CO_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
BASES = ("GOOGLE_GEMINI_BASE_URL", "GROQ_BASE_URL", "CO_API_URL", "OLLAMA_HOST", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME")


def test_a_child_that_is_told_by_variables_alone_replays_without_them(shared_project):
    project = furnished(shared_project(), sdk_main=AGENT, test_sdks=TESTS)
    project.environ |= {"MISTRAL": project.server.url, "AWS_EC2_METADATA_DISABLED": "true"}
    there = dict.fromkeys(KEYS, "AKIALIVE0123456789AB") | dict.fromkeys(BASES, project.server.url)
    recorded(project, **there)
    texts = "".join(file.read_text(encoding="utf-8") for file in project.files)
    assert "AKIALIVE0123456789AB" not in texts
    assert "/t/" not in re.sub(r"\s", "", texts)

    passed(project.offline(MISTRAL=NOBODY))
    said = (project.root / "said.txt").read_text(encoding="utf-8").splitlines()
    assert said[:6] == said[6:]
    assert len(set(said)) == 6


def aws_call(access_key, secret):
    """A request to AWS as a child of the gateway signs it, for the wrong host."""
    body = json.dumps({"messages": []}).encode()
    signed = AWSRequest(
        "POST", "http://127.0.0.1:5/t/0.0/p/bedrock/model/a.b%3A0/converse", {"content-type": "application/json"}, body
    )
    SigV4Auth(Credentials(access_key, secret), "bedrock", "eu-west-1").add_auth(signed)
    url = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/a.b%3A0/converse"
    return HttpCall("POST", url, tuple(signed.headers.items()), Body(body))


@pytest.fixture
def credentials(monkeypatch):
    def use(access_key):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    return use


def test_a_request_to_aws_is_signed_anew_for_its_real_host(credentials):
    credentials("AKIAMINE")
    call = aws_call("AKIAMINE", "secret")
    sent = dict(sign_for_upstream(call).headers)
    check = AWSRequest("POST", call.url, {"content-type": "application/json"}, call.body.data)
    auth = SigV4Auth(Credentials("AKIAMINE", "secret"), "bedrock", "eu-west-1")
    check.context["timestamp"] = check.headers["X-Amz-Date"] = sent["X-Amz-Date"]
    expected = auth.signature(auth.string_to_sign(check, auth.canonical_request(check)), check)
    assert sent["Authorization"].endswith(f"Signature={expected}")
    assert sent["Authorization"] != dict(call.headers)["Authorization"]


def test_what_cannot_be_signed_anew_says_why_and_what_goes_to_no_aws_host_is_left_as_it_is(credentials):
    credentials("AKIAOTHER")
    call = aws_call("AKIAMINE", "secret")
    with pytest.raises(
        CannotFreeze, match="other credentials here than the child has used; call AWS in the test's own"
    ):
        sign_for_upstream(call)
    elsewhere = HttpCall("POST", "http://127.0.0.1:9/model/a/converse", call.headers)
    assert sign_for_upstream(elsewhere) is elsewhere
