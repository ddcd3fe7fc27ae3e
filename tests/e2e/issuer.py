"""A tiny issuer of tokens: a web server with metadata and keys, that signs whatever a test asks for."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

AUDIENCE = "https://storage.example.org"


def b64(data):
    if isinstance(data, (dict, list)):
        data = json.dumps(data)
    if isinstance(data, str):
        data = data.encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value, size):
    return b64(value.to_bytes(size, "big"))


class Key:
    def __init__(self, kid, alg="ES256"):
        self.kid, self.alg = kid, alg
        if alg.startswith("RS"):
            self.private = rsa.generate_private_key(65537, 2048)
        else:
            curve = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}[alg]
            self.private = ec.generate_private_key(curve())

    def jwk(self):
        numbers = self.private.public_key().public_numbers()
        if self.alg.startswith("RS"):
            return {"kty": "RSA", "kid": self.kid, "use": "sig", "alg": self.alg,
                    "n": number(numbers.n, 256), "e": number(numbers.e, 3)}
        size = (self.private.key_size + 7) // 8
        return {"kty": "EC", "kid": self.kid, "use": "sig", "crv": f"P-{self.private.key_size}",
                "x": number(numbers.x, size), "y": number(numbers.y, size)}

    def sign(self, message, alg=None):
        digest = getattr(hashes, "SHA" + (alg or self.alg)[2:])()
        if self.alg.startswith("RS"):
            return self.private.sign(message, padding.PKCS1v15(), digest)
        size = (self.private.key_size + 7) // 8
        r, s = utils.decode_dss_signature(self.private.sign(message, ec.ECDSA(digest)))
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")


class Issuer:
    """Serves on a loopback port; `answers` changes what a path answers."""

    def __init__(self, alg="ES256", path="/realms/lab"):
        self.key = Key("first", alg)
        self.published = [self.key]
        self.asked = []
        self.answers = {}
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.asked.append(self.path)
                answer = issuer.answer(self.path)
                status, body, headers = answer if answer else (404, b"", {})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                text = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(text).items()}
                status, answer = issuer.post(self.path, form)
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server.server_port}"
        self.url = self.origin + path
        self.path = path
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def name(self):
        return self.url.removeprefix("http://")

    def answer(self, path):
        if path in self.answers:
            return self.answers[path]
        if path == self.path + "/.well-known/openid-configuration":
            metadata = {"issuer": self.url, "jwks_uri": self.url + "/keys"}
            return 200, json.dumps(metadata).encode(), {}
        if path == self.path + "/keys":
            keys = {"keys": [key.jwk() for key in self.published]}
            return 200, json.dumps(keys).encode(), {}
        return None

    def post(self, path, form):
        return 404, {}

    def claims(self, **changes):
        now = int(time.time())
        claims = {"iss": self.url, "sub": "alice", "aud": AUDIENCE, "iat": now, "exp": now + 3600,
                  "jti": str(time.monotonic_ns()), "wlcg.ver": "1.0", "groups": ["/atlas"]}
        claims.update(changes)
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key=None, header=None, **changes):
        key = key or self.key
        head = {"alg": key.alg, "kid": key.kid, "typ": "at+jwt"} | (header or {})
        message = b64(head) + "." + b64(self.claims(**changes))
        return message + "." + b64(key.sign(message.encode()))

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
