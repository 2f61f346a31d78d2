"""A small OpenID Connect provider on this machine, for tests: it can be told to lie."""

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey

CLIENT, SECRET = "privet", "the-secret-of-the-client"


class Provider:
    """Codes, keys and tokens. ``changes`` are put over the claims of every token."""

    def __init__(self):
        self.key = ECKey.generate_key("P-256", parameters={"kid": "first"})
        self.changes, self.signing_key, self.header = {}, None, {}
        self.codes = {}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def authorize(self, address, *, subject="s-1", email="ann@example.org", verified=True):
        """What the provider does when somebody logs in there: the address to which it sends the browser back."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked | {"sub": subject, "email": email, "email_verified": verified}
        return f"{urlsplit(asked['redirect_uri']).path}?code={code}&state={asked['state']}"

    def _token(self, form, authorization):
        login = self.codes.pop(form.get("code", ""), None)
        wanted = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if login is None or authorization != f"Basic {wanted}":
            return 400, {"error": "invalid_grant"}
        challenge = (
            base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
            .rstrip(b"=")
            .decode()
        )
        if challenge != login["code_challenge"] or form["redirect_uri"] != login["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT, "sub": login["sub"], "nonce": login["nonce"], "iat": now, "exp": now + 300,
            "email": login["email"], "email_verified": login["email_verified"],
        } | self.changes  # fmt: skip
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": "ES256", "kid": "first"} | self.header
        token = jwt.encode(header, claims, self.signing_key or self.key, algorithms=[header["alg"]])
        return 200, {"access_token": "unused", "token_type": "Bearer", "id_token": token}

    def _handler(self):
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path.endswith("/.well-known/openid-configuration"):
                    self._send(200, {
                        "issuer": provider.issuer, "authorization_endpoint": f"{provider.issuer}/authorize",
                        "token_endpoint": f"{provider.issuer}/token", "jwks_uri": f"{provider.issuer}/keys",
                    })  # fmt: skip
                else:
                    self._send(200, {"keys": [provider.key.as_dict(private=False)]})

            def do_POST(self):
                content = self.rfile.read(int(self.headers["content-length"])).decode()
                form = {name: values[0] for name, values in parse_qs(content).items()}
                self._send(*provider._token(form, self.headers.get("authorization")))

            def _send(self, status, body):
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        return Handler
