"""What shows that an SDK has no credentials here, and what to set then.

SDKs ask the service of a cloud machine last, or a program such as `az`: a replay in which they do so has none.
"""

from __future__ import annotations

import re

# https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html (ECS, EKS),
# https://github.com/googleapis/google-auth-library-python/blob/v2.40.0/google/auth/compute_engine/_metadata.py,
# https://github.com/Azure/azure-sdk-for-python/blob/main/sdk/identity/azure-identity/azure/identity/_credentials
_HERE = r"^https?://169\.254\.169\.254(?::80)?/"
_SIGNS = {
    "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, and record": r"/latest/[^\0]*/(federation|/sts)",
    "in CI set any AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY": rf"{_HERE}latest/|^https?://(?:169\.254\.170\.|\[fd00:ec2)"
    r"|botocore\.exceptions\.(?:NoCred|PartialCred|CredentialRetr|ProfileNot)|not resolve credentials from session",
    "record with AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET set, and set the first two in CI": rf"{_HERE}"
    r"metadata/|//168\.63\.|azure\.\S*(Unavailable|Authentication)Error|process azd? |process sh (?s:.*)254/metadata/",
    "in CI set GOOGLE_APPLICATION_CREDENTIALS to a file of placeholders": rf"{_HERE}|^https?://metadata(?:\.google\.internal)?"
    r"[:/]|^\d+ child process gcloud |google\.auth\.exceptions\.DefaultCredentialsError",
}


def find_advice(sign: str, *urls: str) -> str:
    """Return what to do where `sign`, a URL, an error or a refused program, shows that credentials are missing.

    `urls` are those of the recorded run: one that fetched credentials needs others than one that had them from a file.
    """
    text = "\n".join((sign, *urls))
    return next((advice for advice, pattern in _SIGNS.items() if re.search(pattern, text)), "")
