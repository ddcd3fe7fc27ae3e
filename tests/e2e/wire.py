"""S3 spoken by hand, byte for byte: what SDKs would put right before it leaves is what these tests are about.
With it a neighbour who must not notice anything, and an eye on the server's memory."""

import datetime
import hashlib
import hmac
import http.client
import re
import socket
import threading
import time
from urllib.parse import quote

from conftest import content

EMPTY = hashlib.sha256(b"").hexdigest()


def encoded(text):
    """Percent-encoded as signatures have it."""
    return quote(text, safe="-_.~")


def stamp(offset=0):
    """Seconds from now, in the form of x-amz-date."""
    moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=offset)
    return moment.strftime("%Y%m%dT%H%M%SZ")


def hmac256(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Request:
    """One request with a signature; whatever a test changes afterwards is not covered by it."""

    def __init__(self, server, method, path, query=(), headers=(), body=b"", digest=None, date=None,
                 access_key=None, secret_key=None, region=None, service="s3"):
        """`path` is as on the wire but for percent-encoding, in bytes or as text; `query` has pairs."""
        self.method, self.body, self.port = method, body, server.port
        self.path = quote(path, safe="/-_.~")
        self.query = "&".join(f"{encoded(name)}={encoded(value)}" for name, value in query)
        self.secret = secret_key or server.s3["secret_key"]
        self.date = date or stamp()
        digest = digest or hashlib.sha256(body).hexdigest()
        self.headers = [("host", f"127.0.0.1:{server.port}"), ("x-amz-content-sha256", digest),
                        ("x-amz-date", self.date), *headers]
        self.scope = f"{self.date[:8]}/{region or server.s3['region']}/{service}/aws4_request"
        signed = sorted((name.lower(), value) for name, value in self.headers)
        names = ";".join(name for name, _ in signed)
        canonical = "\n".join([
            method, self.path, "&".join(sorted(self.query.split("&"))),
            "".join(f"{name}:{value}\n" for name, value in signed), names, digest])
        self.signature = self.sign("AWS4-HMAC-SHA256", hashlib.sha256(canonical.encode()).hexdigest())
        self.headers.append(("authorization", (
            f"AWS4-HMAC-SHA256 Credential={access_key or server.s3['access_key']}/{self.scope},"
            f"SignedHeaders={names},Signature={self.signature}")))
        if body or method in ("PUT", "POST"):
            self.headers.append(("content-length", str(len(body))))

    def sign(self, *lines):
        """Lines of a string to sign; the date and the scope stand after the first."""
        key = f"AWS4{self.secret}".encode()
        for part in self.scope.split("/"):
            key = hmac256(key, part)
        return hmac256(key, "\n".join([lines[0], self.date, self.scope, *lines[1:]])).hex()

    def set(self, name, value):
        self.headers = [(key, old) for key, old in self.headers if key != name]
        if value is not None:
            self.headers.append((name, value))
        return self

    def head(self):
        target = self.path + (f"?{self.query}" if self.query else "")
        lines = [f"{self.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"

    def send(self):
        return ask(self.port, self.head() + self.body, self.method)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        found = re.search(rb"<Code>(\w+)</Code>", body)
        self.code = found and found[1].decode()

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"

    def refused(self, status, code):
        assert (self.status, self.code) == (status, code), self
        return self


def answer(wire, method="GET"):
    """The next answer on a connection; none where the server closed it without one."""
    response = http.client.HTTPResponse(wire, method=method)
    try:
        response.begin()
        return Answer(response.status, response.headers, response.read())
    except (http.client.BadStatusLine, ConnectionError):
        return None


def connect(port, wait=30):
    return socket.create_connection(("127.0.0.1", port), timeout=wait)


def ask(port, data, method="GET", wait=30):
    """Sends bytes on a connection of their own and reads one answer."""
    with connect(port, wait) as wire:
        try:
            wire.sendall(data)
        except ConnectionError:
            pass  # An answer may have come before everything was sent.
        return answer(wire, method)


class Memory:
    """The largest resident size of a server while the block runs, over what it had before."""

    def __init__(self, server, grown_max):
        self.pid, self.max, self.over = server.process.pid, grown_max, threading.Event()

    def now(self):
        with open(f"/proc/{self.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    def watch(self):
        while not self.over.wait(0.02):
            self.peak = max(self.peak, self.now())

    def __enter__(self):
        self.before = self.peak = self.now()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    @property
    def grown(self):
        return self.peak - self.before

    def __exit__(self, kind, *_):
        self.over.set()
        self.thread.join()
        if kind is None:
            assert self.grown < self.max, f"{self.grown >> 20} MiB more from {self.before >> 20} MiB"


class Neighbour:
    """Another client who works all the while: everything must succeed, and nothing may wait for long."""

    WAIT_SECONDS_MAX = 5

    def __init__(self, server):
        self.s3, self.name = server.boto(), f"neighbour-{time.monotonic_ns()}"
        self.over, self.rounds, self.slowest, self.error = threading.Event(), 0, 0.0, None

    def work(self):
        try:
            while not self.over.is_set():
                began, body = time.monotonic(), content(self.rounds, 20_000)
                self.s3.put_object(Bucket=self.name, Key="k", Body=body)
                assert self.s3.get_object(Bucket=self.name, Key="k")["Body"].read() == body
                assert self.s3.list_objects_v2(Bucket=self.name)["KeyCount"] == 1
                self.rounds += 1
                self.slowest = max(self.slowest, time.monotonic() - began)
                time.sleep(0.01)
        except Exception as error:  # noqa: BLE001  (told by the main thread)
            self.error = error

    def __enter__(self):
        self.s3.create_bucket(Bucket=self.name)
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        self.thread.join(60)
        self.s3.delete_object(Bucket=self.name, Key="k")
        self.s3.delete_bucket(Bucket=self.name)
        if kind is None:
            assert self.error is None, self.error
            assert self.rounds, "the neighbour got nothing done"
            assert self.slowest < self.WAIT_SECONDS_MAX, f"the neighbour waited {self.slowest:.1f} s"
