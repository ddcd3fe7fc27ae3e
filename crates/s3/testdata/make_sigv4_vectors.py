#!/usr/bin/env python3
"""Signs requests with botocore and writes them as vectors: sigv4_botocore.json.

Run once with the botocore at hand; the output is checked in, so that tests need no Python.
"""
import datetime
import json
import pathlib
from unittest import mock

import botocore
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, S3SigV4PostAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

NOW = datetime.datetime(2026, 3, 4, 5, 6, 7)
KEY = "AKIDDEWARTEST"
SECRET = "a+secret/with=signs"
REGION = "eu-dewar-1"


class Clock(datetime.datetime):
    @classmethod
    def utcnow(cls):
        return NOW

    @classmethod
    def now(cls, tz=None):
        return NOW.replace(tzinfo=tz)


REQUESTS = [
    ("GET", "https://s3.example.org/", {}, b""),
    ("GET", "https://s3.example.org:8443/bucket?list-type=2&prefix=a%2Fb%20c&delimiter=%2F", {}, b""),
    ("GET", "http://127.0.0.1:9000/bucket/key", {"Range": "bytes=0-99"}, b""),
    ("GET", "http://bucket.s3.example.org/a//b/../c/.", {}, b""),
    ("PUT", "http://h/bucket/%C3%BCml%C3%A4ut/%E2%82%AC", {"Content-Type": "text/plain; charset=utf-8"}, "über".encode()),
    ("PUT", "http://h/bucket/plus%2Bpercent%25and%20blank", {"x-amz-meta-A": "  two   blanks  "}, b"x" * 1000),
    ("PUT", "http://h/bucket/~tilde!excl%2A%27%28%29", {"x-amz-acl": "private", "x-amz-meta-z": "1,2"}, b"data"),
    ("PUT", "http://h/bucket/key?partNumber=1&uploadId=abc%2Fdef%3D", {"Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}, b""),
    ("POST", "http://h/bucket?delete", {"Content-Type": "application/xml"}, b"<Delete/>"),
    ("POST", "http://h/bucket/key?uploads", {}, b""),
    ("DELETE", "http://h/bucket/key?versionId=null", {}, b""),
    ("HEAD", "http://h/bucket/%20leading%20blank", {}, b""),
    ("GET", "http://h/bucket?prefix=%26%3D%3F%23&marker=%C3%A9&a-b=1&a%2Bb=2&A=3&~=4", {}, b""),
    ("GET", "http://h/bucket/key", {"If-None-Match": '"etag"', "x-amz-checksum-mode": "ENABLED"}, b""),
]


def main():
    cred = Credentials(KEY, SECRET)
    out = []
    with mock.patch("datetime.datetime", Clock), mock.patch(
        "botocore.auth.get_current_datetime", lambda *a, **k: NOW, create=True
    ):
        for method, url, headers, body in REQUESTS:
            for unsigned in (False, True):
                request = AWSRequest(method=method, url=url, headers=dict(headers), data=body)
                request.context["payload_signing_enabled"] = not unsigned
                request.context["client_config"] = None
                if unsigned:
                    request.context["client_config"] = mock.Mock(s3={"payload_signing_enabled": False})
                    if not url.startswith("https"):
                        request.headers["X-Amz-Content-SHA256"] = "UNSIGNED-PAYLOAD"
                auth = S3SigV4Auth(cred, "s3", REGION)
                if unsigned:
                    auth._should_sha256_sign_payload = lambda request: False
                auth.add_auth(request)
                prepared = request.prepare()
                out.append(vector("header", prepared, url))
            request = AWSRequest(method=method, url=url, headers=dict(headers), data=b"")
            S3SigV4QueryAuth(cred, "s3", REGION, expires=3600).add_auth(request)
            prepared = request.prepare()
            out.append(vector("query", prepared, prepared.url))
        post = AWSRequest(method="POST", url="http://h/bucket")
        post.context["s3-presign-post-fields"] = {"key": "up/${filename}"}
        post.context["s3-presign-post-policy"] = {
            "expiration": "2026-03-05T00:00:00Z",
            "conditions": [{"bucket": "bucket"}, ["starts-with", "$key", "up/"], ["content-length-range", 1, 9]],
        }
        S3SigV4PostAuth(cred, "s3", REGION).add_auth(post)
        form = post.context["s3-presign-post-fields"]
    document = {
        "botocore": botocore.__version__,
        "access_key": KEY,
        "secret_key": SECRET,
        "region": REGION,
        "date": NOW.strftime("%Y%m%dT%H%M%SZ"),
        "requests": out,
        "form": form,
    }
    path = pathlib.Path(__file__).with_name("sigv4_botocore.json")
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def vector(kind, prepared, url):
    target = url.split("://", 1)[1]
    host, slash, rest = target.partition("/")
    headers = {k: v.decode() if isinstance(v, bytes) else str(v) for k, v in prepared.headers.items()}
    headers.setdefault("Host", host)
    return {"kind": kind, "method": prepared.method, "target": slash + rest, "headers": headers}


main()
