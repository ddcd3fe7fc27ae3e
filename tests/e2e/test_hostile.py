"""Garbage, slow and hostile clients: a clear error, bounded memory, and neighbours notice nothing."""

import random
import resource
import socket
import threading
import time

import pytest


def connect(server):
    s = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    return s


def talk(server, data, wait=10):
    """Sends bytes, returns all that comes until the server closes or is silent."""
    with connect(server) as s:
        s.settimeout(wait)
        try:
            s.sendall(data)
            answer = b""
            while chunk := s.recv(65536):
                answer += chunk
                if b"\r\n\r\n" in answer and b"content-length: 0" in answer.lower():
                    break
                if answer.endswith(b"</Error>"):
                    break
            return answer
        except (ConnectionError, TimeoutError):
            return b""


def memory(server):
    for line in open(f"/proc/{server.process.pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024


def alive(server):
    server.boto().list_buckets()


def test_garbage(server):
    chance = random.Random(1)
    for size in (1, 10, 1000, 100_000):
        talk(server, chance.randbytes(size), wait=2)
    for data in [b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 10_000, b"PUT /a/b HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                 b"PUT /a/b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                 b"GET /%zz/%ff HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
                 b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 100_000 + b"\r\n",
                 b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: AWS4-HMAC-SHA256 " + b"," * 5000 + b"\r\n\r\n"]:
        answer = talk(server, data, wait=5)
        assert answer == b"" or answer.startswith(b"HTTP/1.") and not answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 5")), (data[:60], answer[:200])
    alive(server)


@pytest.mark.alone
def test_a_thousand_idle_connections(server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    before = memory(server)
    idle = [connect(server) for _ in range(1000)]
    try:
        for s in idle[::2]:
            s.sendall(b"GET / HT")
        alive(server)
        grown = memory(server) - before
        assert grown < 100 << 20, f"{grown >> 20} MiB for a thousand idle connections"
    finally:
        for s in idle:
            s.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    alive(server)


@pytest.mark.alone
def test_a_slow_body_does_not_hold_others_up(server, bucket):
    s3 = server.boto()
    url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "slow"}, ExpiresIn=60)
    path = url.split("/", 3)[3]
    with connect(server) as s:
        s.sendall(f"PUT /{path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 1000000\r\n\r\nabc".encode())
        for number in range(20):
            s3.put_object(Bucket=bucket, Key=f"quick{number}", Body=b"x" * 10_000)
    # Cut in the middle: nothing appears.
    time.sleep(0.2)
    assert not [e for e in s3.list_objects_v2(Bucket=bucket)["Contents"] if e["Key"] == "slow"]


def test_a_cut_upload_leaves_the_old_content(server, bucket):
    s3 = server.boto()
    s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"}, ExpiresIn=60)
    path = url.split("/", 3)[3]
    for size, sent in [(100, 50), (5_000_000, 3_000_000)]:
        with connect(server) as s:
            s.sendall(f"PUT /{path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {size}\r\n\r\n".encode()
                      + b"n" * sent)
        time.sleep(0.2)
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"old"


def test_hostile_documents(server, bucket):
    s3 = server.boto()
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><Delete>&b;</Delete>'
    for query, body in [("delete", bomb), ("delete", b"<Delete>" + b"<Object><Key>x</Key></Object>" * 1001 + b"</Delete>"),
                        ("delete", b"<Delete" * 1000), ("delete", b"\xff\xfe"), ("delete", b"x" * 5_000_000)]:
        import botocore.auth
        import botocore.awsrequest
        import botocore.credentials
        import hashlib
        import requests
        credentials = botocore.credentials.Credentials(server.s3["access_key"], server.s3["secret_key"])
        request = botocore.awsrequest.AWSRequest(
            "POST", f"{server.s3['endpoint']}/{bucket}?{query}=", data=body,
            headers={"x-amz-content-sha256": hashlib.sha256(body).hexdigest(), "Content-MD5": __import__("base64").b64encode(hashlib.md5(body).digest()).decode()})
        botocore.auth.S3SigV4Auth(credentials, "s3", "us-east-1").add_auth(request)
        try:
            answer = requests.post(request.url, data=body, headers=dict(request.headers), timeout=30)
        except requests.exceptions.ConnectionError:
            continue
        assert 400 <= answer.status_code < 500, (body[:40], answer.status_code)
    alive(server)


@pytest.mark.alone
def test_many_at_once_while_others_misbehave(server, bucket):
    stop = threading.Event()

    def misbehave(seed):
        chance = random.Random(seed)
        while not stop.is_set():
            try:
                with connect(server) as s:
                    s.sendall(b"PUT /" + bucket.encode() + b"/x HTTP/1.1\r\n" + chance.randbytes(chance.randrange(2000)))
            except OSError:
                pass
            time.sleep(0.005)

    threads = [threading.Thread(target=misbehave, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    try:
        s3 = server.boto()
        for number in range(100):
            s3.put_object(Bucket=bucket, Key=f"k{number}", Body=str(number).encode() * 1000)
            assert s3.get_object(Bucket=bucket, Key=f"k{number}")["Body"].read() == str(number).encode() * 1000
    finally:
        stop.set()
        for thread in threads:
            thread.join()
