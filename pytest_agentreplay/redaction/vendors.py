r"""Vendors: credentials that are known by their looks, because who issues them gives them a prefix of their own.

The patterns (`TABLE`) are our own, over bytes, in the syntax that RE2 shares with `re`. None says what follows,
since a key may be followed by anything, `\"` and `&` included; what comes before is `BORDER`.

Linear by construction: a repeat without bound is made of `[A-Za-z0-9_-]` alone, none of which is a border, or what
follows it may be nothing; so no byte is read by more than a few attempts.

The table has a row per kind: category, vendor, prefix and body, two spaces or more between them. Prefix and body are patterns without groups that capture. The body has to look random too; `mixed` asks for more, since
names begin with that prefix as well, and `fixed` asks nothing more, since the form says enough.
"""

# ruff: noqa: E501  a row of a table is a line

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.redaction.encodings import list_runs, mark_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TABLE = r"""
openai-key        OpenAI              sk-(?:proj|svcacct|service|admin)-       [\w-]{20,}
openai-key        OpenAI              sk-                                      [A-Za-z0-9]{16,64}T3BlbkFJ[A-Za-z0-9]{16,}
openai-key        OpenAI              ek_                                      [0-9a-f]{32}
anthropic-key     Anthropic           sk-ant-(?:[a-z]{2,10}[0-9]{2}-)?         [\w-]{20,}
openrouter-key    OpenRouter          sk-or-(?:v[0-9]-)?                       [A-Za-z0-9]{32,}
langfuse-key      Langfuse            sk-lf-                                   [0-9a-fA-F]{8}-[0-9a-fA-F-]{20,}
helicone-key      Helicone            sk-helicone-                             [\w-]{16,}
sk-key            OpenAI's manner     sk-                                      [\w-]{20,}                       mixed
google-key        Google              AIza(?:Sy)?                              [\w-]{28,}
google-key        Google              AQ\.                                     [\w-]{40,}
google-key        Google              ya29\.(?:[\w-]{1,8}\.){0,2}              [\w-]{20,}
google-key        Google              GOCSPX-                                  [\w-]{20,}
google-key        Google              1//0                                     [\w-]{30,}
google-key        Google              4/0A                                     [\w-]{40,}
aws-key           Amazon              A(?:KIA|SIA|BIA|CCA)                     [A-Z2-7]{16}                      fixed
aws-key           Amazon              (?:ABSK|bedrock-api-key-)                [A-Za-z0-9+/]{32,}={0,2}
aws-key           Amazon              amzn\.mws\.                              [0-9a-f]{8}-[0-9a-f-]{20,}
azure-key         Microsoft           [\w~.]{3}[0-9]Q~                         [\w~.-]{30,33}[\w~-]
azure-key         Microsoft           [A-Za-z0-9]{52}JQQJ9                     [A-Za-z0-9]{20,}                  fixed
azure-key         Microsoft           [A-Za-z0-9]{76}AZDO                      [A-Za-z0-9]{4,}                   fixed
alibaba-key       Alibaba             LTAI                                     [A-Za-z0-9]{16,26}
tencent-key       Tencent             AKID                                     [A-Za-z0-9]{28,}
yandex-key        Yandex              AQVN                                     [\w-]{30,}
yandex-key        Yandex              y[0-3]_                                  [\w-]{40,}
github-key        GitHub              gh[opusr]_                               [A-Za-z0-9]{20,}
github-key        GitHub              ghs_[0-9]{1,12}_ey[JA]                   [\w-]{8,}\.[\w-]{8,}\.[\w-]{16,}  fixed
github-key        GitHub              github_pat_                              \w{20,}
gitlab-key        GitLab              gl(?:pat|rt|rtr|dt|cbt|ptt|soat|ft|imt|agent|wt|oas)-  [\w-]{16,}(?:(?:\.[0-9a-z]{2})?\.[0-9a-z]{7,})?
gitlab-key        GitLab              (?:glffct-|GR1348941)                    [\w-]{16,}
bitbucket-key     Bitbucket           ATBB                                     [A-Za-z0-9]{24,}
atlassian-key     Atlassian           AT(?:ATT|CTT|STT)3                       [\w-]{24,}(?:=[0-9A-F]{8})?
trello-key        Trello              ATTA                                     [0-9a-f]{56,}
slack-key         Slack               xox[a-eo-s](?:\.xox[bp])?-               [A-Za-z0-9-]{16,}
slack-key         Slack               xapp-                                    [0-9]-[A-Za-z0-9-]{16,}
slack-webhook     Slack               https://hooks\.slack(?:-gov)?\.com/services/  [A-Z0-9]{6,}/[A-Z0-9]{6,}/[A-Za-z0-9]{16,}
slack-webhook     Slack               https://hooks\.slack(?:-gov)?\.com/(?:workflows|triggers)/[A-Z0-9]{6,}/(?:A[A-Z0-9]{6,}/)?[0-9]{6,}/  [A-Za-z0-9]{16,}
discord-webhook   Discord             https://(?:[a-z]{2,8}\.)?discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{10,22}/  [\w-]{20,}
discord-key       Discord             [MNO][\w-]{23,27}\.[\w-]{6}\.            [\w-]{27,}
teams-webhook     Microsoft Teams     https://(?:[a-z0-9-]{1,63}\.webhook\.office\.com/webhookb2|outlook\.office(?:365)?\.com/webhook)/  [0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/[0-9a-f]{32}(?:/[0-9a-f-]{36}(?:/[\w-]+)?)?
telegram-key      Telegram            [0-9]{8,10}:                             AA[\w-]{30,}
stripe-key        Stripe, Clerk       [rs]k_(?:live|test|prod)_                [A-Za-z0-9]{16,}
stripe-key        Stripe, Svix        whsec_                                   [A-Za-z0-9+/]{24,}={0,2}
stripe-key        Stripe              (?:pi|seti|cs_live|cs_test)_[A-Za-z0-9]{10,64}_secret_  [A-Za-z0-9]{16,}
facebook-key      Meta                EAA[A-Z]                                 [A-Za-z0-9]{80,}
square-key        Square              sq0[a-z]{3}-                             [\w-]{20,}
square-key        Square              EAAA                                     [\w-]{56,}
paypal-key        PayPal, Braintree   access_token\$(?:production|sandbox)\$   [0-9a-z]{16}\$[0-9a-f]{32}
plaid-key         Plaid               access-(?:sandbox|development|production)-  [0-9a-f]{8}-[0-9a-f-]{20,}
razorpay-key      Razorpay            rzp_(?:live|test)_                       [A-Za-z0-9]{14,}
paddle-key        Paddle              pdl_(?:live|sdbx)_apikey_                \w{20,}
polar-key         Polar               polar_(?:oat|pat|at_[uo]|whs)_           [\w-]{20,}
flutterwave-key   Flutterwave         FLWSECK(?:_TEST)?-                       [A-Za-z0-9]{12,}(?:-X)?
huggingface-key   Hugging Face        (?:hf|api_org)_                          [A-Za-z0-9]{24,}
groq-key          Groq                gsk_                                     [A-Za-z0-9]{20,}
xai-key           xAI                 xai-                                     [\w-]{24,}
perplexity-key    Perplexity          pplx-                                    [A-Za-z0-9]{20,}
replicate-key     Replicate           r8_                                      [A-Za-z0-9]{24,}
fireworks-key     Fireworks           fw_                                      [A-Za-z0-9]{20,}
langsmith-key     LangSmith           lsv2_(?:pt|sk)_                          [0-9A-Za-z]{16,}(?:_[0-9A-Za-z]{6,})?
langsmith-key     LangSmith           ls__                                     [0-9a-f]{24,}
tavily-key        Tavily              tvly-(?:dev-|prod-)?                     [A-Za-z0-9-]{16,}
pinecone-key      Pinecone            pcsk_                                    \w{20,}
cerebras-key      Cerebras            csk-                                     [a-z0-9]{24,}
nvidia-key        NVIDIA              nvapi-                                   [\w-]{24,}
together-key      Together            tgp_v[0-9]_                              [\w-]{20,}
voyage-key        Voyage              pa-                                      [\w-]{40,}                        mixed
jina-key          Jina                jina_                                    [\w-]{24,}
llamacloud-key    LlamaCloud          llx-                                     [A-Za-z0-9]{24,}
elevenlabs-key    ElevenLabs          sk_                                      [0-9a-f]{40,}
sk-key            OpenAI's manner     sk_                                      [\w-]{40,}                       mixed
firecrawl-key     Firecrawl           fc-                                      [0-9a-f]{32}
e2b-key           E2B                 e2b_                                     [0-9a-f]{32,}
apify-key         Apify               apify_api_                               [A-Za-z0-9]{24,}
anyscale-key      Anyscale            esecret_                                 [A-Za-z0-9]{20,}
wandb-key         Weights & Biases    wandb_v[0-9]_                            [\w-]{24,}
logfire-key       Logfire             pylf_v[0-9]_(?:[a-z]{2}_)?               [A-Za-z0-9]{24,}
browserbase-key   Browserbase         bb_(?:live|test)_                        [\w-]{20,}
composio-key      Composio            ak_                                      [\w-]{20,}                       mixed
mem0-key          Mem0                m0-                                      [A-Za-z0-9]{40}
modal-key         Modal               a[ks]-                                   [A-Za-z0-9]{22}
runpod-key        RunPod              rpa_                                     [A-Z0-9]{40,}
zhipu-key         Zhipu AI            [0-9a-f]{32}\.                           [A-Za-z0-9]{16}
npm-key           npm                 npm_                                     [A-Za-z0-9]{30,}
pypi-key          PyPI                pypi-                                    AgE[\w-]{40,}
rubygems-key      RubyGems            rubygems_                                [0-9a-f]{32,}
clojars-key       Clojars             CLOJARS_                                 [0-9a-z]{40,}
crates-key        crates.io           cio                                      [A-Za-z0-9]{32}                   mixed
nuget-key         NuGet               oy2                                      [a-z0-9]{43}
jfrog-key         JFrog               AKCp                                     [A-Za-z0-9]{60,}
jfrog-key         JFrog               cmVmdGtuO                                [A-Za-z0-9]{48,}
docker-key        Docker              dckr_(?:pat|oat)_                        [\w-]{20,}
sendgrid-key      SendGrid            SG\.                                     [\w-]{16,32}\.[\w-]{16,}
mailgun-key       Mailgun             (?:key|pubkey)-                          [0-9a-f]{32}
mailgun-key       Mailgun             [0-9a-f]{32}-[0-9a-f]{8}-                [0-9a-f]{8}                       fixed
mailchimp-key     Mailchimp           [0-9a-f]{32}-us                          [0-9]{1,2}                        fixed
brevo-key         Brevo               x(?:key|smtp)sib-                        [0-9a-f]{40,}-[A-Za-z0-9]{16}
resend-key        Resend              re_                                      [A-Za-z0-9]{8}_[A-Za-z0-9]{20,}
twilio-key        Twilio              SK                                       [0-9a-f]{32}
databricks-key    Databricks          (?:dapi|dose)                            [0-9a-f]{32}(?:-[0-9])?
notion-key        Notion              ntn_                                     [A-Za-z0-9]{30,}
notion-key        Notion              secret_                                  [A-Za-z0-9]{43}
linear-key        Linear              lin_(?:api|oauth|wh)_                    [A-Za-z0-9]{24,}
shopify-key       Shopify             shp(?:at|ca|pa|ss|ua|tka)_               [0-9a-fA-F]{24,}
digitalocean-key  DigitalOcean        do[opr]_v1_                              [0-9a-f]{40,}
vault-key         HashiCorp           hv[bsr]\.                                [\w-]{20,}
terraform-key     HashiCorp           [A-Za-z0-9]{14}\.atlasv1\.               [\w-]{40,}={0,2}
age-key           age                 AGE-SECRET-KEY-(?:PQ-)?1                 [A-Z0-9]{40,}                     fixed
doppler-key       Doppler             dp\.(?:pt|ct|st|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?  [A-Za-z0-9]{30,}
onepassword-key   1Password           ops_ey[JA]                               [\w-]{80,}={0,2}
pulumi-key        Pulumi              pul-                                     [0-9a-f]{40}
supabase-key      Supabase            sbp_                                     [0-9a-f]{40}
supabase-key      Supabase            sb_secret_                               [\w-]{20,}
neon-key          Neon                napi_                                    [a-z0-9]{40,}
planetscale-key   PlanetScale         pscale_(?:tkn|pw|oauth)_                 [\w=.-]{31,63}[\w=-]
mongodb-key       MongoDB Atlas       mdb_sa_sk_                               [\w-]{30,}
heroku-key        Heroku              HRKU-                                    [\w-]{30,}
netlify-key       Netlify             nf[pcoub]_                               [A-Za-z0-9]{30,}
vercel-key        Vercel              vc[pciark]_                              [A-Za-z0-9]{24,}
cloudflare-key    Cloudflare          v1\.0-                                   [0-9a-f]{24}-[0-9a-f]{100,}
cloudflare-key    Cloudflare          cf(?:ut|at|k)_                           [A-Za-z0-9]{40,}
flyio-key         Fly.io              f(?:m[12]|o1)_                           [A-Za-z0-9+/_-]{40,}={0,2}
render-key        Render              rnd_                                     [A-Za-z0-9]{24,}
buildkite-key     Buildkite           bk(?:ua|aj|at|ct|rt)_                    [0-9a-f]{40}
circleci-key      CircleCI            CCI(?:PAT|PRJ)_                          [A-Za-z0-9]{16,}_[0-9a-f]{40}
sonar-key         Sonar               sq[apu]_                                 [0-9a-f]{40}
sourcegraph-key   Sourcegraph         sgp_(?:[0-9a-fA-F]{16}_|local_)?         [0-9a-fA-F]{40}
sentry-key        Sentry              sntry[su]_                               [\w+/-]{40,}={0,2}(?:_[\w+/-]{24,})?
newrelic-key      New Relic           NR(?:AK|RA|II|IQ|BR)-                    [A-Za-z0-9_-]{19,}
newrelic-key      New Relic           [0-9a-f]{36}                             NRAL                              fixed
grafana-key       Grafana             glsa_                                    \w{32,}
grafana-key       Grafana             glc_ey[JA]                               [A-Za-z0-9+/]{32,}={0,2}
grafana-key       Grafana             eyJrIjoi                                 [A-Za-z0-9+/]{40,}={0,2}
dynatrace-key     Dynatrace           dt0[a-z][0-9]{2}\.                       [A-Z0-9]{24}\.[A-Z0-9]{64}
posthog-key       PostHog             ph[xs]_                                  [A-Za-z0-9]{30,}
axiom-key         Axiom               xa(?:at|pt)-                             [0-9a-f]{8}-[0-9a-f-]{20,}
honeycomb-key     Honeycomb           hc[abx][ilm]k_                           [a-z0-9]{40,}
postman-key       Postman             PMA[KT]-                                 [A-Za-z0-9]{24}-[A-Za-z0-9]{20,}
figma-key         Figma               fig[dou]r?_                              [\w-]{32,}
airtable-key      Airtable            pat[A-Za-z0-9]{14}\.                     [0-9a-f]{32,}
contentful-key    Contentful          CFPAT-                                   [\w-]{32,}
hubspot-key       HubSpot             pat-(?:na|eu|ap)[0-9]-                   [0-9a-fA-F]{8}-[0-9a-fA-F-]{20,}
dropbox-key       Dropbox             sl\.(?:u\.)?                             [\w-]{60,}
typeform-key      Typeform            tfp_                                     [\w-]{30,}
clickup-key       ClickUp             pk_[0-9]{6,10}_                          [A-Z0-9]{32}
asana-key         Asana               [12]/[0-9]{10,20}(?:/[0-9]{10,20})?:     [0-9a-f]{32}
mapbox-key        Mapbox              sk\.ey[JA]                               [\w-]{16,}\.[\w-]{16,}
jwt               (any)               e(?:yJ|yA|wo|w0)                         [\w-]{8,}\.e(?:yJ|yA|wo|w0)[\w-]{8,}(?:\.[\w-]+)?  fixed
jwt               (any)               e(?:yJ|yA|wo|w0)                         [\w-]{8,}\.[\w-]*\.[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}  fixed
"""


BORDER = (
    rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})"
    rb"|(?<=\x1b\[[0-9]m)|(?<=[\[;][0-9]{2}m)|(?<=/bot))"
)
"""What stands before a key: no letter, digit, `_` or `-`; or an escape that ends in one (`\\n`, `%3D`, a colour)."""


class Vendor(NamedTuple):
    """One kind of key. `prefix` and `body` are patterns; `looks` is what the body must look like beyond them."""

    category: str
    name: str
    prefix: bytes
    body: bytes
    heads: bytes
    """The characters that its keys begin with; b"" where that is a class of many."""
    looks: str = "random"

    @property
    def pattern(self) -> bytes:
        """The whole key as a pattern."""
        return self.prefix + self.body

    def holds(self, value: bytes) -> bool:
        """Return whether `value`, which the pattern matches, is a key: `sk-ant-your-key-goes-here` is not."""
        if self.looks == "fixed":
            return not value.endswith(b"EXAMPLE")
        body = re.sub(self.prefix, b"", value, count=1)
        return looks_random(body) and (self.looks != "mixed" or is_mixed(body))


def read_row(line: str) -> Vendor:
    """Return a row of the table."""
    category, name, prefix, body, *looks = re.split(" {2,}", line)
    # A prefix begins with one character of a class, with one of several words, or with a character.
    words = prefix[3 : prefix.index(")")].split("|") if prefix.startswith("(?:") else [prefix]
    heads = "" if prefix.startswith("[") else "".join(word[0] for word in words)
    return Vendor(category, name, prefix.encode(), body.encode(), heads.encode(), *looks)


VENDORS = tuple(map(read_row, TABLE.strip().splitlines()))
SEPARATOR = re.compile(rb"[^A-Za-z0-9]")
WORD = re.compile(rb"(?:[A-Z]?[a-z]+(?:[A-Z][a-z]{2,})*[A-Z]?|[A-Z]*)[0-9]{0,4}|[0-9]+")
LONG_PART = 20
BASE64 = re.compile(rb"[A-Za-z0-9+/]{64}")


def looks_random(body: bytes) -> bool:
    """Return whether some part of `body` is neither a word, nor a number, nor a name in camel case, nor `xxxxxx`."""
    return len(set(body)) > 5 and any(map(is_random, SEPARATOR.split(body)))


def is_random(part: bytes) -> bool:
    """Return whether letters and digits are mixed as chance mixes them."""
    return len(part) > 5 and WORD.fullmatch(part) is None


def is_mixed(body: bytes) -> bool:
    """Return whether both cases occur or one piece is long: for prefixes that names in kebab case have as well."""
    return body not in (body.lower(), body.upper()) or max(map(len, SEPARATOR.split(body))) >= LONG_PART


SHORTEST = 20
RUN = mark_bytes(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~:+/=@$-")


@cache
def any_beginning_with(first: bytes) -> re.Pattern[bytes]:
    """Return all rows in one pattern whose keys begin with the character `first`; b"" is for those with a class.

    Compiling all rows takes some 40 ms, and a test meets few first characters. Groups would cost tenfold.
    """
    patterns = [vendor.pattern for vendor in VENDORS if (first in vendor.heads if first else not vendor.heads)]
    return re.compile(b"|".join(patterns) or b"(?!)")


@cache
def matchers(first: bytes) -> tuple[tuple[Vendor, Callable[[bytes, int], re.Match[bytes] | None]], ...]:
    """Return every row whose keys may begin with `first`, with what matches it, for the few places where one does."""
    rows = (vendor for vendor in VENDORS if not vendor.heads or first in vendor.heads)
    return tuple((vendor, re.compile(vendor.pattern).match) for vendor in rows)


def match_at(data: bytes, at: int) -> tuple[int, Vendor | None] | None:
    """Return where ends what looks like a key and begins at `at`, and of which row it is, if it is a key.

    None where nothing looks like one.
    """
    first = data[at : at + 1]
    if not (any_beginning_with(b"").match(data, at) or any_beginning_with(first).match(data, at)):
        return None
    hits = [(hit, vendor) for vendor, match in matchers(first) if (hit := match(data, at)) is not None]
    for hit, vendor in hits:
        if vendor.holds(hit[0]) and not within_base64(data, at):
            return hit.end(), vendor
    return hits[0][0].end(), None


@cache
def starts() -> re.Pattern[bytes]:
    """Return where a key may begin."""
    return re.compile(BORDER + rb"[A-Za-z0-9_~.]")


ESCAPED = 10
"""So far into a run an escape before it may reach: `\\u0022`, `%3D`, the number of a colour."""
ESCAPES = frozenset((b"", b"\\", b"%", b"[", b";"))
"""What may stand before a run that begins with the end of an escape; no other run needs the search for one."""
FIRST = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~")
SIGN = re.compile(rb"(?:/bot|[.~:+/=@$])(?=[A-Za-z0-9_~.])")


def borders_in(data: bytes, begin: int, end: int) -> Iterator[int]:
    """Yield where in a run a key may begin, in order: at its head, behind a sign, behind an escape that ends in it."""
    head = begin
    if data[begin - 1 : begin] in ESCAPES:
        head = min(begin + ESCAPED, end)
        for start in starts().finditer(data, begin, head):
            yield start.start()
    elif begin < end and data[begin] in FIRST:
        head = begin + 1
        yield begin
    for sign in SIGN.finditer(data, max(begin, head - 4), end):
        if head <= sign.end() < end:
            yield sign.end()


def within_base64(data: bytes, at: int) -> bool:
    """Return whether long base64 stands before, in which `/` and `+` are no borders and any four letters occur."""
    return data[at - 1 : at] in (b"/", b"+") and BASE64.fullmatch(data, max(at - 64, 0), at) is not None


MEDIA = 4096
"""So long a run without a full stop is a picture, a sound or a file in base64: it is hashed, and not looked at."""


def find_vendors(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Every key in a text, in order, as (start, end, category). Looks only where enough characters of a key stand.

    What looks like a key and holds no part that looks random is read once: there is none inside it either.
    """
    done = 0
    for begin, end in list_runs(data, RUN, SHORTEST):
        is_media = end - begin >= MEDIA and b"." not in data[begin:end]
        for at in () if is_media else borders_in(data, begin, end - SHORTEST + 1):
            if at >= done and (hit := match_at(data, at)) is not None:
                done, vendor = hit
                if vendor is not None:
                    yield at, done, vendor.category
