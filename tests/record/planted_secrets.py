"""Secrets to plant, of many kinds, and harmless texts that look a little like them.

Each secret is made anew from a source of chance; none was ever valid anywhere.
"""

import base64
import json
import string
import uuid
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

LETTERS: Final = string.ascii_letters + string.digits
DASHED: Final = LETTERS + "-_"
HEX: Final = "0123456789abcdef"
UPPER: Final = string.ascii_uppercase + string.digits
BASE64: Final = LETTERS + "+/"
PASSWORD: Final = LETTERS + "!#$%*+-.?^_~"


class Plant(NamedTuple):
    """A text with a secret in it."""

    text: str
    secret: str
    """What may not be seen anywhere."""


def _of(alphabet: str, count: int) -> Callable[[Random], str]:
    return lambda chance: "".join(chance.choices(alphabet, k=count))


def _shaped(before: str, alphabet: str, count: int, after: str = "") -> Callable[[Random], Plant]:
    """A token that is known by its shape, in a sentence."""

    def plant(chance: Random) -> Plant:
        body = _of(alphabet, count)(chance)
        return Plant(f"use {before}{body}{after} for that", body)

    return plant


def _password(chance: Random) -> str:
    return _of(LETTERS, 1)(chance) + _of(PASSWORD, 14)(chance) + _of(LETTERS, 1)(chance)


def _said(template: str) -> Callable[[Random], Plant]:
    """A password where the words around it tell."""

    def plant(chance: Random) -> Plant:
        secret = _password(chance)
        return Plant(template.replace("@@", secret), secret)

    return plant


def _jwt(chance: Random) -> Plant:
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "HS256", "typ": "JWT"}, {"sub": _of(LETTERS, 12)(chance)})
    )
    signature = _of(DASHED, 43)(chance)
    return Plant(f"Cookie jar: {head}.{body}.{signature}", signature)


def _pem(title: str) -> Callable[[Random], Plant]:
    def plant(chance: Random) -> Plant:
        lines = [_of(BASE64, 64)(chance) for _ in range(4)]
        text = "\n".join((f"-----BEGIN {title}-----", *lines, f"-----END {title}-----"))
        return Plant(text, chance.choice(lines))

    return plant


def _basic(chance: Random) -> Plant:
    digits = base64.b64encode(f"alice:{_password(chance)}".encode()).decode()
    return Plant(f"Authorization: Basic {digits}", digits)


def _service_account(chance: Random) -> Plant:
    key = _pem("PRIVATE KEY")(chance)
    account = {"type": "service_account", "private_key_id": "1", "private_key": key.text}
    return Plant(json.dumps(account), key.secret)


def _sendgrid(chance: Random) -> Plant:
    secret = _of(DASHED, 43)(chance)
    return Plant(f"SG.{_of(DASHED, 22)(chance)}.{secret}", secret)


def _telegram(chance: Random) -> Plant:
    secret = "AA" + _of(DASHED, 33)(chance)
    return Plant(f"bot{_of('123456789', 10)(chance)}:{secret}", secret)


def _discord_bot(chance: Random) -> Plant:
    owner = base64.b64encode(_of("123456789", 18)(chance).encode()).decode()
    secret = _of(DASHED, 38)(chance)
    return Plant(f"{owner}.{_of(DASHED, 6)(chance)}.{secret}", secret)


def _slack_webhook(chance: Random) -> Plant:
    secret = _of(LETTERS, 24)(chance)
    return Plant(
        f"https://hooks.slack.com/services/T0{_of(UPPER, 8)(chance)}/B0123ABCD/{secret}", secret
    )


def _discord_webhook(chance: Random) -> Plant:
    secret = _of(DASHED, 68)(chance)
    return Plant(
        f"https://discord.com/api/webhooks/{_of('123456789', 18)(chance)}/{secret}", secret
    )


def _account_key(chance: Random) -> Plant:
    secret = _of(BASE64, 86)(chance)
    return Plant(f"AccountName=blobs;AccountKey={secret}==;EndpointSuffix=core.windows.net", secret)


def _shared_signature(chance: Random) -> Plant:
    secret = _of(LETTERS, 40)(chance)
    return Plant(f"https://x.blob.core.windows.net/c?sv=2024-01-01&sig={secret}%3D&se=2027", secret)


KINDS: Final[dict[str, Callable[[Random], Plant]]] = {
    "aws-access-key": _shaped("AKIA", UPPER, 16),
    "aws-session-key": _shaped("ASIA", UPPER, 16),
    "aws-secret": _said("aws_secret_access_key = @@/4"),
    "github-personal": _shaped("ghp_", LETTERS, 36),
    "github-server": _shaped("ghs_", LETTERS, 36),
    "github-fine": _shaped("github_pat_11", LETTERS, 57),
    "gitlab": _shaped("glpat-", DASHED, 20),
    "atlassian": _shaped("ATATT3xFfGF0", DASHED, 60),
    "npm": _shaped("npm_", LETTERS, 36),
    "pypi": _shaped("pypi-AgEIcHlwaS5vcmc", DASHED, 80),
    "rubygems": _shaped("rubygems_", HEX, 48),
    "docker": _shaped("dckr_pat_", DASHED, 27),
    "hugging-face": _shaped("hf_", LETTERS, 34),
    "openai": _shaped("sk-proj-", DASHED, 48),
    "openai-old": _shaped("sk-", LETTERS, 48),
    "anthropic": _shaped("sk-ant-api03-", DASHED, 93, "AA"),
    "groq": _shaped("gsk_", LETTERS, 52),
    "xai": _shaped("xai-", LETTERS, 80),
    "replicate": _shaped("r8_", LETTERS, 37),
    "google-api": _shaped("AIza", DASHED, 35),
    "google-oauth": _shaped("ya29.", DASHED, 60),
    "google-client-secret": _shaped("GOCSPX-", DASHED, 28),
    "google-service-account": _service_account,
    "azure-account-key": _account_key,
    "azure-shared-signature": _shared_signature,
    "digitalocean": _shaped("dop_v1_", HEX, 64),
    "databricks": _shaped("dapi", HEX, 32),
    "vault": _shaped("hvs.", DASHED, 90),
    "grafana": _shaped("glsa_", LETTERS, 32, "_1a2b3c4d"),
    "doppler": _shaped("dp.pt.", LETTERS, 43),
    "new-relic": _shaped("NRAK-", UPPER, 27),
    "linear": _shaped("lin_api_", LETTERS, 40),
    "notion": _shaped("ntn_", LETTERS, 46),
    "airtable": _shaped("patAbCdEf01234567.", HEX, 64),
    "slack-bot": _shaped("xoxb-123456789012-", LETTERS, 24),
    "slack-app": _shaped("xapp-1-A0123456789-", HEX, 64),
    "slack-webhook": _slack_webhook,
    "discord-webhook": _discord_webhook,
    "discord-bot": _discord_bot,
    "telegram": _telegram,
    "sendgrid": _sendgrid,
    "mailgun": _shaped("key-", HEX, 32),
    "twilio": _shaped("SK", HEX, 32),
    "stripe": _shaped("sk_live_", LETTERS, 24),
    "stripe-webhook": _shaped("whsec_", LETTERS, 32),
    "shopify": _shaped("shpat_", HEX, 32),
    "square": _shaped("sq0atp-", DASHED, 22),
    "postman": _shaped("PMAK-", HEX, 24, "-0123456789abcdef0123456789abcdef01"),
    "age": _shaped("AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    "jwt": _jwt,
    "pem-rsa": _pem("RSA PRIVATE KEY"),
    "pem-openssh": _pem("OPENSSH PRIVATE KEY"),
    "pem-encrypted": _pem("ENCRYPTED PRIVATE KEY"),
    "pgp": _pem("PGP PRIVATE KEY BLOCK"),
    "basic": _basic,
    "bearer": _shaped("Bearer ", LETTERS, 24),
    "cookie": _said("Cookie: theme=dark; sid=@@"),
    "set-cookie": _said("Set-Cookie: id=@@; Path=/; HttpOnly"),
    "address": _said("postgres://app:@@@db.example.com:5432/shop"),
    "connection-string": _said("Server=db;Database=shop;User Id=sa;Password=@@;Encrypt=true"),
    "assignment": _said("export DB_PASSWORD=@@"),
    "quoted-assignment": _said('client_secret: "@@"'),
    "json-in-text": _said('{"user": "bob", "password": "@@"}'),
    "twice-quoted": _said('log: {\\"api_key\\":\\"@@\\"}'),
    "yaml": _said("db:\n  password: @@9\n  host: x"),
    "ini": _said("[db]\npasswd = @@9\n"),
    "query": _said("GET /v1/me?access_token=@@&x=1"),
    "flag": _said("mysql --user root --password @@ shop"),
    "curl": _said("curl -u alice:@@ https://example.com"),
    "netrc": _said("machine example.com login bob password @@"),
    "xml": _said("<login><user>bob</user><password>@@</password></login>"),
    "header-key": _said("X-Api-Key: @@9"),
}

NAMED: Final = (
    *("password", "passwd", "db_password", "secret", "clientSecret", "token", "access_token"),
    *("refreshToken", "API_KEY", "api-key", "apiKey", "x-api-key", "accessKey", "private_key"),
    *("Authorization", "cookie", "Set-Cookie", "credential", "credentials", "session_id"),
    *("passphrase", "connectionString"),
)
"""Names of members whose text is a secret, whatever it looks like."""

PROSE: Final = (
    "The quick brown fox jumps over the lazy dog, twice.",
    "El token de autenticación no es necesario para leer esta página.",
    "Der Schlüssel liegt unter der Matte; das Passwort kennt niemand.",
    "Пароль не нужен, чтобы прочитать этот текст.",
    "この文章には秘密は含まれていません。",
    "密码:请在设置中修改。",
    "Password: required. Must be at least 8 characters.",
    "The secret of good tea is patience, and the key is the pot.",
    "Bearer authentication required",
    "Basic usage: run the command and read what it says.",
    "Set max_tokens to 4096 and total_tokens is counted for you.",
    "Authorization is described in the next chapter.",
    "نص عربي بلا أسرار على الإطلاق",
    "Le mot de passe est demandé à la connexion.",
    "See https://docs.example.com/guides/authentication/tokens?page=2#api-keys for more.",
    "Write to support@example.com or visit http://example.com:8080/path?user=a@b.c today.",
    "cookies and credentials are explained in section 4.2 (page 117)",
)
CODE: Final = (
    "def token(self) -> str:\n    return self._token\n",
    "const token = await getToken(user.id);",
    "password: string;\n  token?: string;",
    "if (!apiKey) throw new Error('API key missing');",
    "for token in tokenizer.encode(text): print(token)",
    "SELECT id, name FROM users WHERE password_hash IS NOT NULL;",
    "token = os.environ['GITHUB_TOKEN']",
    "secret = config.get(name)",
    "password = getpass.getpass()",
    "auth: { type: 'oauth2', flows: {} }",
    "git commit -m 'Rotate the token' && git push origin main",
    "docker run -u 1000:1000 -v $PWD:/work image:latest",
    "import { Cookie } from './cookie';",
    "x = a[i:j] == b[k::-1]",
    "token: ${{ secrets.GITHUB_TOKEN }}",
    "password = None",
    "pip install scikit-learn==1.5.0 sk-dist-utils-and-others",
)


def harmless(chance: Random) -> str:
    """A payload with nothing to hide."""
    body: object = chance.choice(
        (
            lambda: {"text": chance.choice(PROSE)},
            lambda: {"text": chance.choice(CODE), "path": "src/auth/token_store.py"},
            lambda: {"id": str(uuid.UUID(int=chance.getrandbits(128)))},
            lambda: {"commit": _of(HEX, 40)(chance), "tree": _of(HEX, 64)(chance)},
            lambda: {"image": base64.b64encode(chance.randbytes(3000)).decode()},
            lambda: {"icon": "data:image/png;base64," + _of(BASE64, 400)(chance)},
            lambda: {
                "url": f"https://example.com/{_of(LETTERS, 22)(chance)}?q={_of(HEX, 8)(chance)}"
            },
            lambda: {"email": f"{_of(LETTERS, 9)(chance)}@example.com", "n": chance.random()},
            lambda: {"max_tokens": chance.randrange(9999), "usage": {"tokens": 17}},
            lambda: {
                "_meta": {"progressToken": _of(HEX, 8)(chance)},
                "nextCursor": _of(LETTERS, 24)(chance),
            },
            lambda: {"integrity": "sha512-" + _of(BASE64, 86)(chance) + "=="},
            lambda: {"key": "PROJ-1234", "name": "report", "value": _of(LETTERS, 12)(chance)},
            lambda: {"digest": "sha256:" + _of(HEX, 64)(chance)},
            lambda: {"trace": f"00-{_of(HEX, 32)(chance)}-{_of(HEX, 16)(chance)}-01"},
            lambda: {"file": "/usr/lib/python3.11/site-packages/authlib/oauth2/rfc6749/tokens.py"},
            lambda: {
                "properties": {"password": {"type": "string", "description": "Your password"}}
            },
        )
    )()
    return json.dumps(body, ensure_ascii=chance.random() < 0.5)
