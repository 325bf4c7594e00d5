"""Credentials that SDKs read from files: a proof has none, a recording keeps which it used, a replay has placeholders.

No secret of a file is kept: of AWS the names of its sections, of Google what the recorded token request says anyway.
"""

from __future__ import annotations

import json
import os
import re
from configparser import Error, RawConfigParser
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pytest_agentreplay.intercept.environment.machine import PLACEHOLDER
from pytest_agentreplay.snapshots.kit import table
from pytest_agentreplay.snapshots.store import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_agentreplay.model.exchanges import Exchange, JsonObject

    Environ = Mapping[str, str]

AWS, GOOGLE = "AWS_SHARED_CREDENTIALS_FILE", "GOOGLE_APPLICATION_CREDENTIALS"
# Variables by which SDKs find their files, and where they look without them:
# https://github.com/boto/botocore/blob/1.40.0/botocore/configprovider.py,
# https://github.com/googleapis/google-auth-library-python/blob/v2.40.0/google/auth/_cloud_sdk.py,
# https://github.com/huggingface/huggingface_hub/blob/v1.0.0/src/huggingface_hub/constants.py.
PLACES = {
    AWS: "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
    "CLOUDSDK_CONFIG": "~/AppData/Roaming/gcloud" if os.name == "nt" else "~/.config/gcloud",
    "HF_TOKEN_PATH": f"{os.environ.get('HF_HOME', '~/.cache/huggingface')}/token",
}
# botocore/credentials.py (BotoProvider), https://learn.microsoft.com/cli/azure/azure-cli-configuration,
# https://github.com/psf/requests/blob/v2.32.0/src/requests/utils.py (get_netrc_auth; aiohttp reads it, too).
EMPTIED = (*PLACES, "BOTO_CONFIG", "AZURE_CONFIG_DIR", "AZD_CONFIG_DIR", "NETRC")
# Files without a usual place; and what chooses among the sections of AWS's.
UNSET = (GOOGLE, "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_FEDERATED_TOKEN_FILE")
PROFILES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")
PROCESS = "credential_process"
# What of Google's file decides which request is made for a token.
KEPT = ("type", "client_id", "token_uri", "private_key_id", "project_id", "quota_project_id", "universe_domain")


def hide_credential_files(environ: Environ, root: Path) -> dict[str, str | None]:
    """Return the variables, None for one that is unset, under which SDKs find no credentials in files.

    A file of the project (a variable leads below `root`) stays: CI has it, too.
    """
    hidden: dict[str, str | None] = dict.fromkeys(EMPTIED, os.devnull) | dict.fromkeys(UNSET)
    own = {name for name in hidden if environ.get(name) and find_file(name, environ).is_relative_to(root)}
    hidden |= {} if own & {AWS, "AWS_CONFIG_FILE"} else dict.fromkeys(PROFILES)
    return {name: value for name, value in hidden.items() if name not in own}


def find_file(name: str, environ: Environ) -> Path:
    """Return the file, or folder, that an SDK reads by this variable."""
    return Path(environ.get(name) or PLACES.get(name, os.devnull)).expanduser().absolute()


def find_used(environ: Environ, run: Iterable[Exchange], was_sent: Callable[[str], bool]) -> JsonObject:
    """Return which credentials of files `run` has sent, for `write_placeholders`: CI may lack their variables, too."""
    parser, info = RawConfigParser(strict=False), {}
    urls = {getattr(x.call, "url", "") for x in run}
    file = Path(environ.get(GOOGLE) or find_file("CLOUDSDK_CONFIG", environ) / "application_default_credentials.json")
    with suppress(Error, OSError, ValueError, AttributeError):
        parser.read([find_file(name, environ) for name in (AWS, "AWS_CONFIG_FILE")], "utf-8")
        stored = json.loads(file.read_bytes())
        used = stored.get("token_uri", "https://oauth2.googleapis.com/token") in urls
        info = {key: stored[key] for key in KEPT if used and key in stored}
    # What a program prints is not in the file: it counts where AWS was asked.
    is_aws = any(".amazonaws.com" in url for url in urls)
    own = [row for row in parser.values() if was_sent(row.get("aws_access_key_id", "")) or (is_aws and PROCESS in row)]
    return {"aws": [row.name for row in own], "google": info} if own or info else {}


def add_tokens(environ: Environ) -> dict[str, str]:
    """Return the variables, and by their variables the tokens in files that SDKs take from one, too."""
    file = find_file("HF_TOKEN_PATH", environ)
    return ({"HF_TOKEN": file.read_text("utf-8", "replace")} if file.is_file() else {}) | {**environ}


def write_placeholders(used: JsonObject, environ: Environ, stack: ExitStack) -> dict[str, list[str]]:
    """Write files of placeholders for what a run used, until `stack` ends; return the variable for the path of each."""
    written: dict[str, str] = {}
    if isinstance(sections := used.get("aws"), list) and sections:
        names = [*(environ.get(name) or "default" for name in PROFILES), "default", *map(str, sections)]
        names = [name.removeprefix("profile ") for name in names if re.fullmatch(r"[\w .@:/+-]+", name)]
        row = f"[{{1}}]\naws_access_key_id = {PLACEHOLDER}-aws-{{0}}\naws_secret_access_key = {PLACEHOLDER}-aws-{{0}}\n"
        written[AWS] = "".join(row.format(*pair) for pair in enumerate(dict.fromkeys(names)))
    if info := {name: text for name, text in table(used, "google").items() if name in KEPT}:
        info |= dict.fromkeys(("client_secret", "refresh_token"), f"{PLACEHOLDER}-google")
        with suppress(ImportError):  # older versions of google-auth do without cryptography; then CI needs a file
            if info.get("type") == "service_account":
                info |= {"client_email": "nobody@agentreplay.invalid", "private_key": make_private_key()}
            written[GOOGLE] = json.dumps(info)
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="agentreplay-")))
    for name, text in written.items():
        files.write_whole(folder / name, text)
    return {str(folder / name): [name] for name in written}


def make_private_key() -> str:
    """Return a new private key, with which nobody has to agree."""
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    text: bytes = generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return text.decode()
