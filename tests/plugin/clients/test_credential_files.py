"""Recorded with credentials that SDKs read from files, replayed where there are none."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.project import NOBODY
from tests.support.small_projects import furnished, passed, runs

pytestmark = [pytest.mark.env("clients"), pytest.mark.skipif("os.name == 'nt'", reason="HOME")]

TESTS = """
import os
import boto3, google.auth, google.oauth2.credentials, pytest, requests
from botocore.exceptions import NoCredentialsError
from google.auth.transport.requests import AuthorizedSession

URL = os.environ["MODEL_URL"]
google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT = URL + "/token"  # of authorized users; no file moves it
ASKED = {"modelId": "m", "messages": [{"role": "user", "content": [{"text": "hi"}]}]}

def converse(**session):
    client = boto3.Session(**session).client("bedrock-runtime", region_name="us-east-1", endpoint_url=URL)
    return client.converse(**ASKED)

def test_default(agentreplay):
    converse()

def test_profile(agentreplay):
    converse(profile_name="work")

def test_process(agentreplay):
    converse(profile_name="made")

def test_none(agentreplay, monkeypatch):
    converse()
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(NoCredentialsError):
        converse()

def test_google(agentreplay):
    credentials, project = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    AuthorizedSession(credentials).post(URL + "/v1/pay", json={"project": project})
"""
AWS = """[default]
aws_access_key_id = AKIAQWERTYUIOPASDFGH
aws_secret_access_key = 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
[work]
aws_access_key_id = AKIAZXCVBNMLKJHGFDSA
aws_secret_access_key = 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
aws_session_token = FwoGZXIvYXdzEBYaDGexampleTokenValue123456
"""
MADE = (
    '#!/bin/sh\necho \'{"Version": 1, "AccessKeyId": "ASIAPOIUYTREWQLKJHGF", "SecretAccessKey": "wJalrXUtnFEMIy"}\'\n'
)
REPLY = {
    "access_token": "ya29.a0AfB_byC0123456789abcdefghij",
    "expires_in": 3600,
    "output": {"message": {"role": "assistant", "content": [{"text": "hello"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
    "metrics": {"latencyMs": 1},
}


@contextmanager
def served():
    """The address of a server that answers everything with `REPLY`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            body = json.dumps(REPLY).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_no_credentials_are_needed_where_a_recording_had_them_from_files(shared_project, tmp_path):
    desk, key = tmp_path / "desk", tmp_path / "key.json"
    (desk / ".aws").mkdir(parents=True)
    (desk / ".config" / "gcloud").mkdir(parents=True)
    (desk / "make").write_text(MADE, encoding="utf-8")
    (desk / "make").chmod(0o755)
    (desk / ".aws" / "credentials").write_text(AWS, encoding="utf-8")
    (desk / ".aws" / "config").write_text(f"[profile made]\ncredential_process = {desk / 'make'}\n", encoding="utf-8")
    project = furnished(shared_project(), test_files=TESTS)
    project.environ, project.proves = {"COLUMNS": "200"}, True
    with served() as url:
        user = {"client_id": "764086051850.apps.googleusercontent.com", "token_uri": f"{url}/token"}
        secrets = {"client_secret": "d-FL95Q19q7MQmFpd7hHD0Ty", "refresh_token": "1//0gABCDEFG-hijklmno0123456"}
        file = desk / ".config" / "gcloud" / "application_default_credentials.json"
        file.write_text(json.dumps(user | secrets | {"type": "authorized_user"}), encoding="utf-8")
        assert "does not replay" not in passed(project.record(HOME=str(desk), MODEL_URL=url)).stdout
        passed(project.replay(HOME=str(tmp_path), MODEL_URL=NOBODY))
        passed(project.replay(HOME=str(desk), MODEL_URL=NOBODY))
        pem = generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        account = {
            "type": "service_account",
            "project_id": "shop",
            "private_key_id": "a1b2c3d4",
            "private_key": pem.decode(),
        }
        account |= {"client_email": "ada@shop.iam.gserviceaccount.com", "token_uri": f"{url}/token"}
        key.write_text(json.dumps(account), encoding="utf-8")
        environ = {"HOME": str(tmp_path), "MODEL_URL": url, "GOOGLE_APPLICATION_CREDENTIALS": str(key)}
        assert "does not replay" not in passed(project.record("-k", "google", **environ)).stdout
    passed(project.replay("-k", "google", HOME=str(tmp_path), MODEL_URL=url))  # the file names its address
    kits = {name: run.header.kit["credentials"] for name, run in runs(project).items()}
    assert kits["google"]["google"]["type"] == "service_account"
    assert kits["profile"]["aws"] == ["work", "profile made"]
    text = "".join(file.read_text(encoding="utf-8") for file in project.files)
    assert not [word for word in ("ada@shop", "QWERTY", "ZXCVBN", "POIUYT", "d-FL95", "0gABC", "BEGIN") if word in text]
