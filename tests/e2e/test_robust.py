"""What a hostile or broken client may do over S3: each gets the answer that the protocol has for it, the server's
memory stays bounded, and a neighbour who works meanwhile notices nothing."""

import base64
import concurrent.futures
import hashlib
import os
import re
import socket
import struct
import time
import xml.etree.ElementTree as ElementTree
from urllib.parse import quote, unquote, unquote_to_bytes

import pytest
import requests
from botocore.exceptions import ClientError
from conftest import content
from server import Server
from test_attacks import configure
from wire import EMPTY, Memory, Neighbour, Request, answer, ask, connect, stamp

MIB = 1 << 20
UNSIGNED = "UNSIGNED-PAYLOAD"


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A server with little patience, so that the tests need not have much."""
    server = Server(tmp_path_factory.mktemp("hasty")).start()
    server.stop()
    configure(server, "[s3]\n", '[s3]\nheader_timeout = "1s"\nbody_timeout = "2s"\n')
    server.start()
    yield server
    server.kill()


@pytest.fixture
def bad(hasty):
    """The hasty server, which must not complain, with an empty bucket and a neighbour."""
    before, s3 = len(hasty.unexpected()), hasty.boto()
    s3.create_bucket(Bucket="data")
    with Neighbour(hasty):
        yield hasty
    for upload in s3.list_multipart_uploads(Bucket="data").get("Uploads", []):
        s3.abort_multipart_upload(Bucket="data", Key=upload["Key"], UploadId=upload["UploadId"])
    while found := s3.list_objects_v2(Bucket="data").get("Contents"):
        s3.delete_objects(Bucket="data", Delete={"Objects": [{"Key": entry["Key"]} for entry in found]})
    s3.delete_bucket(Bucket="data")
    new = hasty.unexpected()[before:]
    assert not new, "the server complained:\n" + "\n".join(new)


def in_threads(count, work, items):
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, items))


def keys(server, bucket="data"):
    return [entry["Key"] for page in server.boto().get_paginator("list_objects_v2").paginate(Bucket=bucket)
            for entry in page.get("Contents", [])]


def eventually(true, seconds):
    give_up = time.monotonic() + seconds
    while not true() and time.monotonic() < give_up:
        time.sleep(0.1)
    return true()


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def answering(server, wires):
    """The connections among these that the server has open, and what the kernel holds of the answer of each. A
    connection that the server has not accepted yet, or has closed, has no inode."""
    ports, found = {wire.getsockname()[1] for wire in wires}, {}
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            fields = line.split()
            local, remote = (int(fields[at].split(":")[1], 16) for at in (1, 2))
            if local == server.port and remote in ports and fields[9] != "0":
                found[remote] = fields[4]
    return found


def closed_within(wires, seconds, keep_sending=None):
    """How many of the connections the server has closed within a time, while bytes drip into all of them."""
    give_up, open_yet = time.monotonic() + seconds, list(wires)
    while open_yet and time.monotonic() < give_up:
        for wire in list(open_yet):
            try:
                if keep_sending:
                    wire.send(keep_sending)
                wire.settimeout(0)
                if wire.recv(65536) == b"":
                    open_yet.remove(wire)
            except BlockingIOError:
                pass
            except OSError:
                open_yet.remove(wire)
        time.sleep(0.1)
    return len(wires) - len(open_yet)


@pytest.mark.alone
def test_slow_heads_are_cut(bad):
    with Memory(bad, 32 * MIB):
        wires = [connect(bad.port) for _ in range(300)]
        for number, wire in enumerate(wires):
            if number % 3 == 0:  # Not only the first request of a connection.
                wire.sendall(Request(bad, "GET", "/data").head())
                assert answer(wire).status == 200
            wire.sendall(b"GET /data HTTP/1.1\r\nHost: x\r\nx-slow: ")
        assert closed_within(wires, 8, keep_sending=b"y") == len(wires)
    for wire in wires:
        wire.close()


@pytest.mark.alone
def test_bodies_that_stand_still_are_given_up(bad):
    with Memory(bad, 64 * MIB):
        wires = []
        for number in range(100):
            put = Request(bad, "PUT", f"/data/still{number}", digest=UNSIGNED).set("content-length", "1000000")
            wires.append(connect(bad.port))
            wires[-1].sendall(put.head() + b"x" * (100 * number))
        for wire in wires:
            wire.settimeout(20)
            told = answer(wire, "PUT")
            assert told.status == 400 and b"RequestTimeout" in told.body, told
        assert closed_within(wires, 8) == len(wires)
    assert keys(bad) == []


@pytest.mark.alone
def test_answers_that_nobody_takes_are_given_up(bad):
    bad.boto().put_object(Bucket="data", Key="large", Body=content("large", 32 * MIB))
    wires = []
    # A stream holds three windows of 1 MiB, and as much again while their shards are read. Beside busy processors all
    # streams do so at the same moment.
    with Memory(bad, 256 * MIB):
        for _ in range(40):
            wire = socket.socket()
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            wire.connect(("127.0.0.1", bad.port))
            wire.sendall(Request(bad, "GET", "/data/large").head())
            wires.append(wire)
        # First the server fills the kernel's buffers with more than 100 MiB, which takes long beside busy processors. The
        # kernel holds them for as long as this side is open; the server must not wait for that.
        seen, last, give_up = set(), None, time.monotonic() + 10
        while (now := answering(bad, wires)) or len(seen) < len(wires):
            seen |= set(now)
            if now != last:
                last, give_up = now, time.monotonic() + 10
            assert time.monotonic() < give_up, f"{len(now)} of {len(wires)} are open, and nothing moves"
            time.sleep(0.1)
    for wire in wires:
        wire.close()


def flood(server, head, piece, status):
    """Sends one thing without end. The server must end it, soon, with this status if any."""
    with connect(server.port) as wire:
        sent, give_up = 0, time.monotonic() + 10
        try:
            wire.sendall(head)
            while time.monotonic() < give_up:
                sent += wire.send(piece)
                if sent > 64 * MIB:
                    break
        except ConnectionError:
            pass
        # After its answer the server reads on for a moment, lest a reset takes the answer away again.
        assert sent <= 48 * MIB, f"{head[:40]}: {sent} bytes were taken"
        got = answer(wire)
        assert got is None or got.status in status, got


@pytest.mark.alone
def test_endless_heads_chunks_and_trailers_are_ended(bad):
    put = Request(bad, "PUT", "/data/endless", digest=UNSIGNED).set("content-length", None)
    put = put.set("transfer-encoding", "chunked").head()
    streamed = Request(bad, "PUT", "/data/endless", digest="STREAMING-UNSIGNED-PAYLOAD-TRAILER",
                       headers=[("content-encoding", "aws-chunked"), ("x-amz-decoded-content-length", "1"),
                                ("x-amz-trailer", "x-amz-checksum-crc32")]).set("content-length", "5000000000").head()
    with Memory(bad, 48 * MIB):
        for head, piece, status in [
            (b"GET /data HTTP/1.1\r\n", b"x-more: and more\r\n" * 1000, {431}),
            (b"GET /data HTTP/1.1\r\nHost: x\r\nx-long: ", b"y" * 65536, {431}),
            (b"GET /", b"k" * 65536, {414, 431}),
            (b"G", b"E" * 65536, {400, 414, 431}),
            (b"GET /data?", b"a=b&" * 10000, {414, 431}),
            (put + b"1", b";extension" * 1000, {400}),
            (put + b"1\r\nx\r\n0\r\n", b"x-more: and more\r\n" * 1000, {400}),
            (streamed, b"0" * 65536, {400}),
            (streamed + b"1;", b"a=b" * 20000, {400}),
            (streamed + b"1\r\nx\r\n0\r\n", b"x-amz-more: and more\r\n" * 1000, {400}),
        ]:
            flood(bad, head, piece, status)
        # A size may have any number of zeros in front; the body stands still meanwhile, and is given up for that.
        with connect(bad.port) as wire:
            wire.sendall(put)
            for _ in range(100):
                wire.sendall(b"0" * 65536)
    assert keys(bad) == []
    # As many at once as come: what one may take, times their number.
    with Memory(bad, 48 * MIB):
        in_threads(16, lambda _: flood(bad, b"GET /data HTTP/1.1\r\n", b"x: y\r\n" * 5000, {431}), range(64))


def test_blank_lines_do_not_keep_a_connection(bad):
    """They may stand before a request, but the time for its head is running."""
    wires = [connect(bad.port) for _ in range(20)]
    assert closed_within(wires, 8, keep_sending=b"\r\n") == len(wires)


def complete(server, key, upload, parts):
    body = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in parts)
    body = f"<CompleteMultipartUpload>{body}</CompleteMultipartUpload>".encode()
    return Request(server, "POST", f"/data/{key}", [("uploadId", upload)], body=body).send()


@pytest.mark.alone
def test_ten_thousand_parts(bad):
    """Made by copying, so that fifty gigabytes cost nothing; each part is 5 MiB, as they must be."""
    s3, piece = bad.boto(), content("part", 5 * MIB)
    # Both without a word on checksums, so that they have the same and no copy has to be read.
    assert Request(bad, "PUT", "/data/piece", body=piece).send().status == 200
    etag = hashlib.md5(piece).hexdigest()
    begun = Request(bad, "POST", "/data/whole", [("uploads", "")]).send()
    upload = re.search(rb"<UploadId>(.*)</UploadId>", begun.body)[1].decode()

    def copy(numbers):
        with connect(bad.port) as wire:
            for number in numbers:
                request = Request(bad, "PUT", "/data/whole", [("partNumber", str(number)), ("uploadId", upload)],
                                  [("x-amz-copy-source", "data/piece")])
                wire.sendall(request.head())
                assert answer(wire, "PUT").status == 200

    with Memory(bad, 96 * MIB):
        in_threads(8, copy, [range(first, 10_001, 8) for first in range(1, 9)])
        over = Request(bad, "PUT", "/data/whole", [("partNumber", "10001"), ("uploadId", upload)],
                       [("x-amz-copy-source", "data/piece")])
        over.send().refused(400, "InvalidArgument")
        parts = [(number, etag) for number in range(1, 10_001)]
        complete(bad, "whole", upload, [*parts, (10_001, etag)]).refused(400, "InvalidArgument")
        complete(bad, "whole", upload, parts[::-1]).refused(400, "InvalidPartOrder")
        complete(bad, "whole", upload, [*parts[:-1], (10_000, "0" * 32)]).refused(400, "InvalidPart")
        complete(bad, "whole", upload, [*parts[:-2], parts[-1], parts[-2]]).refused(400, "InvalidPartOrder")
        done = complete(bad, "whole", upload, parts)
        assert done.status == 200 and done.code is None, done
        whole = hashlib.md5(bytes.fromhex(etag) * 10_000).hexdigest()
        assert f"{whole}-10000".encode() in done.body
        assert complete(bad, "whole", upload, parts).body.count(b"-10000") == 1, "repeating is answered alike"
        head = s3.head_object(Bucket="data", Key="whole", PartNumber=10_000)
        assert (head["PartsCount"], head["ContentLength"]) == (10_000, 5 * MIB)
        across = s3.get_object(Bucket="data", Key="whole", Range=f"bytes={5 * MIB * 7777 - 5}-{5 * MIB * 7777 + 4}")
        assert across["Body"].read() == piece[-5:] + piece[:5]
        pages = [bad.boto().get_object_attributes(Bucket="data", Key="whole", ObjectAttributes=["ObjectParts"],
                                                  PartNumberMarker=marker)["ObjectParts"] for marker in (0, 9_500)]
        assert [page["TotalPartsCount"] for page in pages] == [10_000] * 2


def bulk(server, names, bucket="data"):
    body = "".join(f"<Object><Key>{name}</Key></Object>" for name in names)
    body = f"<Delete><Quiet>true</Quiet>{body}</Delete>".encode()
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    return Request(server, "POST", f"/{bucket}", [("delete", "")], [("content-md5", md5)], body)


@pytest.mark.alone
def test_a_million_keys_are_not_deleted_at_once(bad):
    """A thousand a request it is, and whoever sends more learns that before the server has read it all."""
    bad.boto().put_object(Bucket="data", Key="k0", Body=b"x")
    request = bulk(bad, (f"k{number}" for number in range(1_000_000)))
    with Memory(bad, 24 * MIB):
        began = time.monotonic()
        with connect(bad.port) as wire:
            try:
                wire.sendall(request.head() + request.body)
            except ConnectionError:
                pass
            told = answer(wire, "POST")
        assert told is None or told.code in ("MalformedXML", "EntityTooLarge", "MaxMessageLengthExceeded"), told
        assert time.monotonic() - began < 10
        bulk(bad, (f"k{number}" for number in range(1001))).send().refused(400, "MalformedXML")
    assert keys(bad) == ["k0"]


@pytest.mark.alone
def test_keys_by_the_thousand_are_deleted(bad):
    """Two thousand that are there, among eighteen thousand that are not; several clients at once."""
    def put(numbers):
        with connect(bad.port) as wire:
            for number in numbers:
                request = Request(bad, "PUT", f"/data/d/{number}", body=b"x")
                wire.sendall(request.head() + b"x")
                assert answer(wire, "PUT").status == 200

    in_threads(8, put, [range(first, 20_000, 80) for first in range(0, 80, 10)])
    assert len(keys(bad)) == 2_000
    with Memory(bad, 64 * MIB):
        def delete(first):
            done = bulk(bad, (f"d/{number}" for number in range(first, first + 1000))).send()
            assert done.status == 200 and b"<Error>" not in done.body, done
        in_threads(4, delete, range(0, 20_000, 1000))
    assert keys(bad) == []


DEEP = 100_000


def nested(name, inside=b"", depth=DEEP):
    return b"<%s>" % name * depth + inside + b"</%s>" % name * depth


@pytest.mark.alone
def test_deep_documents(bad):
    """Every verb that reads a document, and every way to make one that is no work to write and much to read."""
    bad.boto().put_object(Bucket="data", Key="k", Body=b"x")
    upload = bad.boto().create_multipart_upload(Bucket="data", Key="m")["UploadId"]
    bomb = (b'<!DOCTYPE x [<!ENTITY a "' + b"a" * 1000 + b'">'
            + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9)) + b"]>")
    outside = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    vague = (b"CreateBucketConfiguration", b"PublicAccessBlockConfiguration", b"VersioningConfiguration")
    targets = [("POST", "/data", [("delete", "")], b"Delete"),
               ("POST", "/data/m", [("uploadId", upload)], b"CompleteMultipartUpload"),
               ("PUT", "/data/k", [("tagging", "")], b"Tagging"),
               ("PUT", "/data", [("tagging", "")], b"Tagging"),
               ("PUT", "/data", [("cors", "")], b"CORSConfiguration"),
               ("PUT", "/data", [("acl", "")], b"AccessControlPolicy"),
               ("PUT", "/data", [("lifecycle", "")], b"LifecycleConfiguration"),
               ("PUT", "/data", [("versioning", "")], b"VersioningConfiguration"),
               ("PUT", "/data", [("encryption", "")], b"ServerSideEncryptionConfiguration"),
               ("PUT", "/data", [("object-lock", "")], b"ObjectLockConfiguration"),
               ("PUT", "/data", [("ownershipControls", "")], b"OwnershipControls"),
               ("PUT", "/data", [("publicAccessBlock", "")], b"PublicAccessBlockConfiguration"),
               ("PUT", "/data", [], b"CreateBucketConfiguration")]
    with Memory(bad, 96 * MIB):
        for method, path, query, root in targets:
            for body in [nested(root), b"<%s>" % root + nested(b"a", b"x") + b"</%s>" % root, b"<%s>" % root * DEEP,
                         b"<%s " % root + b" ".join(b'a%d="b"' % n for n in range(DEEP)) + b"/>",
                         b"<%s " % root + b'a="b" ' * DEEP + b"/>",
                         bomb + b"<%s>&j;</%s>" % (root, root), outside + b"<%s>&e;</%s>" % (root, root),
                         b"<%s><!--" % root + b"-" * 1_000_000, b"<%s><![CDATA[" % root + b"]" * 1_000_000,
                         b"<?" + b"x" * 1_000_000, b"<%s>" % root + b"&amp;" * 200_000,
                         b"\x00" * 1000, b"\xff\xfe" + f"<{root.decode()}/>".encode("utf-16-le"), b""]:
                md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
                told = Request(bad, method, path, query, [("content-md5", md5)], body).send()
                # Where every element may be left out, a document without known ones says nothing.
                assert told is not None and (400 <= told.status < 500 or told.status == 200 and root in vague), (
                    root, body[:50], told)
                assert b"root:" not in told.body
        policy = Request(bad, "PUT", "/data", [("policy", "")],
                         body=b'{"Version":"2012-10-17","Statement":' + b"[" * DEEP + b"]" * DEEP + b"}")
        told = policy.send()
        assert 400 <= told.status < 500, told
        policy = Request(bad, "PUT", "/data", [("policy", "")], body=b'{"a":' * 10_000)
        assert 400 <= policy.send().status < 500
    assert keys(bad) == ["k"]


def test_what_is_given_twice(bad):
    bad.boto().put_object(Bucket="data", Key="k", Body=b"0123456789")
    for path, name, first, second in [
        ("/data", "prefix", "a", "b"), ("/data", "max-keys", "1", "1000"), ("/data", "list-type", "2", "2"),
        ("/data", "location", "", ""), ("/data/k", "versionId", "null", "null"),
        ("/data/k", "partNumber", "1", "2"), ("/data/k", "response-content-type", "a/b", "text/html"),
        ("/data/k", "x-id", "GetObject", "GetObject"),
    ]:
        Request(bad, "GET", path, [(name, first), (name, second)]).send().refused(400, "InvalidArgument")
    many = [(f"a{number}", "b") for number in range(1000)]
    assert Request(bad, "GET", "/data", many).send().status == 400
    # Twice in the head: none of the two is the right one.
    for name, value in [("x-amz-date", stamp(-60)), ("x-amz-content-sha256", EMPTY), ("authorization", "AWS a:b"),
                        ("authorization", "Bearer x"), ("range", "bytes=0-1"), ("host", "elsewhere"),
                        ("content-length", "7")]:
        request = Request(bad, "PUT" if name == "content-length" else "GET", "/data/k", body=b"")
        request.headers += [(name, value)] if name != "range" else [(name, value), (name, "bytes=2-3")]
        told = request.send()
        assert 400 <= told.status < 500, (name, told)
    # Two who say who they are.
    url = bad.boto().generate_presigned_url("get_object", Params={"Bucket": "data", "Key": "k"}, ExpiresIn=60)
    assert requests.get(url, timeout=20).status_code == 200
    for more in ("&X-Amz-Signature=" + "0" * 64, "&X-Amz-Expires=604800", "&X-Amz-Algorithm=AWS4-HMAC-SHA256"):
        assert requests.get(url + more, timeout=20).status_code == 400, more
    both = requests.get(url, headers={"Authorization": "AWS a:b"}, timeout=20)
    assert both.status_code == 400 and "InvalidArgument" in both.text
    assert bad.boto().get_object(Bucket="data", Key="k")["Body"].read() == b"0123456789"


def test_lengths_that_are_wrong(bad):
    port, body = bad.port, b"GET /data HTTP/1.1\r\nHost: x\r\n\r\n"
    for length, status in [("-1", 400), ("+5", 400), ("0x5", 400), ("5 5", 400), ("5, 6", 400), ("5.0", 400), ("", 400),
                           ("99999999999999999999", 400), ("18446744073709551615", 431), ("18446744073709551614", 431),
                           ("5368709121", 400), (None, 411)]:
        told = ask(port, Request(bad, "PUT", "/data/k", body=body).set("content-length", length).head())
        assert told.status == status, (length, told)
    twice = Request(bad, "PUT", "/data/k", body=body)
    twice.headers.append(("content-length", str(len(body) + 1)))
    assert twice.send().status == 400
    # Fewer bytes than announced, and the connection's end: nothing was written.
    for cut in (0, 1, len(body) - 1):
        with connect(port) as wire:
            wire.sendall(Request(bad, "PUT", "/data/k", body=body).head() + body[:cut])
            wire.shutdown(socket.SHUT_WR)
            told = answer(wire, "PUT")
            assert told is None or told.status == 400, told
    # More than announced: the rest is not of this request. It is signed for, so it is refused; and what follows
    # must not be taken for a request of the one who signed the first.
    told = Request(bad, "PUT", "/data/k", body=body).set("content-length", "5").send()
    told.refused(400, "XAmzContentSHA256Mismatch")
    with connect(port) as wire:
        wire.sendall(Request(bad, "PUT", "/data/k", body=body, digest=UNSIGNED).set("content-length", "5").head() + body)
        assert answer(wire, "PUT").status == 200
        rest = answer(wire)
        assert rest is None or rest.status in (400, 403, 405), rest
    assert bad.boto().get_object(Bucket="data", Key="k")["Body"].read() == body[:5]
    # Two opinions about where the body ends: who stands before the server may have the other one, so that the
    # connection ends here (RFC 9112 section 6.1).
    both = Request(bad, "PUT", "/data/k", digest=UNSIGNED).set("content-length", "5")
    both.headers.append(("transfer-encoding", "chunked"))
    with connect(port) as wire:
        wire.sendall(both.head() + b"0\r\n\r\n" + Request(bad, "GET", "/data").head())
        assert answer(wire, "PUT").status in (200, 400)
        assert answer(wire) is None
    for encoding in ("gzip", "chunked, gzip", "xchunked", "chunked, chunked", " chunked\r\ntransfer-encoding: identity"):
        odd = Request(bad, "PUT", "/data/k", digest=UNSIGNED).set("content-length", None).set("transfer-encoding", encoding)
        told = ask(port, odd.head() + b"5\r\nhello\r\n0\r\n\r\n", "PUT")
        assert told is None or told.status in (400, 501), (encoding, told)
    # The length within an aws-chunked body is a length too.
    for decoded in ("4", "6", "-1", "x", "5368709121"):
        trailing = Request(bad, "PUT", "/data/k2", headers=[("x-amz-decoded-content-length", decoded)],
                           digest="STREAMING-UNSIGNED-PAYLOAD-TRAILER")
        data = b"5\r\nhello\r\n0\r\n\r\n"
        told = ask(port, trailing.set("content-length", str(len(data))).head() + data, "PUT")
        assert told.status == 400, (decoded, told)
    assert keys(bad) == ["k"]


def files(server):
    return sorted(path for number in range(1, 7) for path in server.disk(number).glob("blobs/*/*"))


@pytest.mark.alone
def test_aborted_uploads_by_the_thousand(bad):
    s3, before = bad.boto(max_pool_connections=16), files(bad)
    open_before = descriptors(bad)

    def cut(number):
        size = 4_000_000 if number % 40 == 0 else 100_000
        request = Request(bad, "PUT", f"/data/cut{number}", digest=UNSIGNED).set("content-length", str(size))
        with connect(bad.port) as wire:
            if number % 2:  # A reset, where the others say goodbye.
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            try:
                wire.sendall(request.head() + b"x" * (size * (number % 10) // 10))
            except ConnectionError:
                pass

    def give_up(number):
        upload = s3.create_multipart_upload(Bucket="data", Key=f"given-up{number % 10}")["UploadId"]
        named = {"Bucket": "data", "Key": f"given-up{number % 10}", "UploadId": upload}
        s3.upload_part(**named, PartNumber=1, Body=b"x" * 1000)
        if number % 2:  # A part that is cut, and an abort that does not wait for its end.
            query = [("partNumber", "2"), ("uploadId", upload)]
            request = Request(bad, "PUT", f"/data/{named['Key']}", query, digest=UNSIGNED).set("content-length", "5000000")
            with connect(bad.port) as wire:
                wire.sendall(request.head() + b"x" * 300_000)
        s3.abort_multipart_upload(**named)
        with pytest.raises(ClientError, match="NoSuchUpload"):
            s3.upload_part(**named, PartNumber=3, Body=b"x")

    with Memory(bad, 128 * MIB):
        in_threads(8, cut, range(1000))
        in_threads(8, give_up, range(200))
    # What was there may be sealed meanwhile, but there is not more.
    assert eventually(lambda: len(files(bad)) <= len(before) + 12, 20), "what was cut is still there"
    assert not s3.list_multipart_uploads(Bucket="data").get("Uploads")
    assert keys(bad) == []
    head = Request(bad, "HEAD", "/data", [("read-stats", "true")]).send()
    assert (head.headers["x-rgw-object-count"], head.headers["x-rgw-bytes-used"]) == ("0", "0")
    assert eventually(lambda: descriptors(bad) < open_before + 20, 10), (open_before, descriptors(bad))


def test_clocks_that_are_wrong(bad):
    bad.boto().put_object(Bucket="data", Key="k", Body=b"x")
    for minutes in (-14, 0, 14):
        assert Request(bad, "GET", "/data/k", date=stamp(60 * minutes)).send().status == 200, minutes
    for seconds in (-16 * 60, 16 * 60, -86400, 86400, 10 * 365 * 86400):
        told = Request(bad, "GET", "/data/k", date=stamp(seconds)).send()
        told.refused(403, "RequestTimeTooSkewed")
        # With this a client can set itself right.
        assert b"<ServerTime>" in told.body and b"<MaxAllowedSkewMilliseconds>900000<" in told.body
        assert told.headers["date"]
    for date in ("20261123T000000", "20261301T000000Z", "99999999T999999Z", "00000000T000000Z", "now"):
        told = Request(bad, "GET", "/data/k", date=date).send()
        assert told.status in (400, 403), (date, told)
    # The day of the key must be that of the date.
    mixed = Request(bad, "GET", "/data/k", date=stamp(-86400)).set("x-amz-date", stamp()).send()
    assert mixed.status in (400, 403), mixed
    for ago, expires, status in [(120, "60", {403}), (-1200, "60", {403}), (120, "180", {200}), (0, "604800", {200}),
                                 (0, "604801", {400, 403}), (0, "-1", {400, 403}), (0, "0", {400, 403}), (0, "1e9", {400}),
                                 (0, "99999999999999999999", {400, 403}), (0, None, {400, 403})]:
        query = [("X-Amz-Date", stamp(-ago)), *([("X-Amz-Expires", expires)] if expires else [])]
        told = presigned(bad, "GET", "/data/k", query)
        assert told.status in status, (ago, expires, told)


def presigned(server, method, path, query, body=b""):
    """A signature in the address, whatever else the address says."""
    date = dict(query)["X-Amz-Date"]
    request = Request(server, method, path, date=date)
    query = sorted([*query, ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"), ("X-Amz-SignedHeaders", "host"),
                    ("X-Amz-Credential", f"{server.s3['access_key']}/{request.scope}")])
    request.query = "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in query)
    canonical = "\n".join([method, request.path, request.query, f"host:127.0.0.1:{server.port}\n", "host", UNSIGNED])
    signature = request.sign("AWS4-HMAC-SHA256", hashlib.sha256(canonical.encode()).hexdigest())
    request.query += f"&X-Amz-Signature={signature}"
    request.headers = [("host", f"127.0.0.1:{server.port}")]
    if body:
        request.headers.append(("content-length", str(len(body))))
        request.body = body
    return request.send()


def test_signatures_that_are_replayed(bad):
    s3 = bad.boto()
    s3.put_object(Bucket="data", Key="k", Body=b"mine")
    s3.create_bucket(Bucket="others")
    read = Request(bad, "GET", "/data/k")
    assert [read.send().body for _ in range(2)] == [b"mine"] * 2, "within its minutes a request may be repeated, as S3 has it"
    write = Request(bad, "PUT", "/data/k", body=b"ours")
    assert write.send().status == 200

    def again(**changes):
        copy = Request(bad, "PUT", "/data/k", body=b"ours", date=write.date)
        assert copy.signature == write.signature
        for name, value in changes.items():
            setattr(copy, name, value)
        return copy

    again(body=b"evil").send().refused(400, "XAmzContentSHA256Mismatch")
    for changes in [{"path": "/data/other"}, {"path": "/others/k"}, {"path": "/data/k%20"}, {"path": "//data/k"},
                    {"path": "/data//k"}, {"path": "/data/./k"}, {"query": "acl"}, {"query": "tagging="},
                    {"query": "partNumber=1&uploadId=x"}, {"query": "x=y"}, {"method": "POST"}, {"method": "GET"},
                    {"method": "DELETE"}]:
        told = again(**changes).send()
        told.refused(403, "SignatureDoesNotMatch")
    for name, value in [("host", "elsewhere"), ("x-amz-date", stamp(-61)), ("x-amz-content-sha256", UNSIGNED),
                        ("x-amz-content-sha256", EMPTY)]:
        again().set(name, value).send().refused(403, "SignatureDoesNotMatch")
    # What changes the request's meaning and was not signed.
    for name, value in [("x-amz-acl", "public-read"), ("x-amz-copy-source", "data/k"), ("x-amz-tagging", "a=b"),
                        ("x-amz-security-token", "x"), ("x-amz-meta-a", "b"), ("x-amz-storage-class", "STANDARD"),
                        ("x-amz-server-side-encryption", "AES256"), ("x-amz-website-redirect-location", "/evil"),
                        ("x-amz-bypass-governance-retention", "true"), ("x-amz-decoded-content-length", "4")]:
        again().set(name, value).send().refused(403, "AccessDenied")
    assert s3.get_object(Bucket="data", Key="k")["Body"].read() == b"ours"
    assert keys(bad) == ["k"] and keys(bad, "others") == []
    # A key that is gone opens nothing, however fresh the signature.
    bad.admin("user", "add", "gone")
    key = bad.admin("key", "add", "--user", "gone")
    gone = Request(bad, "GET", "/", access_key=key["access_key"], secret_key=key["secret_key"])
    assert gone.send().status == 200
    bad.admin("key", "remove", key["access_key"])
    gone.send().refused(403, "InvalidAccessKeyId")
    s3.delete_bucket(Bucket="others")


def test_signatures_that_are_forged(bad):
    s3 = bad.boto()
    s3.put_object(Bucket="data", Key="k", Body=b"secret")

    def forged(**changes):
        request = Request(bad, "GET", "/data/k")
        line = dict(request.headers)["authorization"]
        for old, new in changes.values():
            assert old in line
            line = line.replace(old, new)
        return request.set("authorization", line).send()

    right = Request(bad, "GET", "/data/k").signature
    request = Request(bad, "GET", "/data/k")
    line = dict(request.headers)["authorization"]
    with connect(bad.port) as wire:
        for at in range(64):
            digit = "0" if request.signature[at] != "0" else "1"
            wrong = request.signature[:at] + digit + request.signature[at + 1:]
            wire.sendall(request.set("authorization", line.replace(request.signature, wrong)).head())
            answer(wire).refused(403, "SignatureDoesNotMatch")
    for wrong in ("", "0", right[:-1], right + "0", right[:63] + "g", "0" * 64, " " * 64, "é" * 32, "a" * 100_000):
        told = request.set("authorization", line.replace(request.signature, wrong)).send()
        assert told is None or told.status in (400, 403, 431), (wrong[:70], told)
        assert told is None or b"secret" != told.body
    key = bad.s3["access_key"]
    for changes, status in [
        ({"key": (key, "NOBODY")}, 403), ({"key": (key, "")}, 400), ({"key": (key, key.lower())}, 403),
        ({"scope": ("/s3/", "/iam/")}, 400), ({"scope": ("/us-east-1/", "/us-west-1/")}, 400),
        ({"scope": ("aws4_request", "aws5_request")}, 400), ({"scope": ("us-east-1/", "us-east-1/us-east-1/")}, 400),
        ({"names": ("host;", "")}, 400), ({"names": ("host;", "host;host;")}, 403),
        ({"names": ("SignedHeaders=host;x-amz-content-sha256;x-amz-date", "SignedHeaders=")}, 400),
        ({"names": ("x-amz-date", "x-amz-date;x-not-there")}, 403),
        ({"algorithm": ("HMAC-SHA256", "HMAC-SHA1")}, 400), ({"algorithm": ("AWS4-HMAC-SHA256 ", "")}, 400),
        ({"algorithm": ("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256")}, 400),
    ]:
        told = forged(**changes)
        assert told.status in {status, 400, 403}, (changes, told)
        assert told.body != b"secret"
    # Without the secret, one has none of the keys that follow from it.
    for secret in ("", "x", bad.s3["secret_key"][:-1], bad.s3["secret_key"].lower()):
        request = Request(bad, "GET", "/data/k")
        request.secret = secret
        wrong = request.sign("AWS4-HMAC-SHA256", EMPTY)
        request.set("authorization", dict(request.headers)["authorization"].replace(request.signature, wrong))
        request.send().refused(403, "SignatureDoesNotMatch")
    # An answer to a forgery tells nothing that was not known: no key, no signature that would be right.
    told = request.send()
    assert right.encode() not in told.body and bad.s3["secret_key"].encode() not in told.body


def streamed(server, key, chunks):
    """A PUT whose chunks are signed each; a chunk is a pair of what is signed and what is sent, or a signature too."""
    length = sum(len(sent) for _, sent in chunks)
    request = Request(server, "PUT", f"/data/{key}", digest="STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
                      headers=[("content-encoding", "aws-chunked"), ("x-amz-decoded-content-length", str(length))])
    before, parts = request.signature, []
    for signed, sent in [*chunks, (b"", b"")]:
        before = request.sign("AWS4-HMAC-SHA256-PAYLOAD", before, EMPTY, hashlib.sha256(signed).hexdigest())
        parts.append(f"{len(sent):x};chunk-signature={before}\r\n".encode() + sent + b"\r\n")
    return request, parts


def test_chunks_that_are_replayed_swapped_or_left_out(bad):
    first, second = content(1, 65536), content(2, 65536)
    right = [(first, first), (second, second)]

    def put(key, chunks, arrange=lambda parts: parts):
        request, parts = streamed(bad, key, chunks)
        body = b"".join(arrange(parts))
        return ask(bad.port, request.set("content-length", str(len(body))).head() + body, "PUT")

    assert put("right", right).status == 200
    put("changed", [(first, second), right[1]]).refused(403, "SignatureDoesNotMatch")
    put("swapped", right, lambda parts: [parts[1], parts[0], parts[2]]).refused(403, "SignatureDoesNotMatch")
    put("repeated", right, lambda parts: [parts[0], parts[0], parts[2]]).refused(403, "SignatureDoesNotMatch")
    _, others = streamed(bad, "other", right)
    put("of-another", right, lambda parts: [parts[0], others[1], parts[2]]).refused(403, "SignatureDoesNotMatch")
    for name, arrange in [("without-end", lambda parts: parts[:2]), ("without-one", lambda parts: [parts[0], parts[2]]),
                          ("one-more", lambda parts: [*parts, parts[1]])]:
        told = put(name, right, arrange)
        assert told.status in (400, 403), (name, told)
    assert keys(bad) == ["right"]
    assert bad.boto().get_object(Bucket="data", Key="right")["Body"].read() == first + second


# Every one of these is another key than each of the others.
TRICKS = ["..", "../x", "../../../../tmp/dewar-trick", "a/../b", "a/./b", ".", "./a", "/", "//", "a//b", "/a", "a/", "a", "a/b",
          "/etc/passwd", "a\\..\\b", "a%2Fb", "%2e%2e/b", "%00", "a\0b", "\0", "a\nb", "a\rb", "a\tb", "\x01", "\x7f",
          " ", "a b", "a+b", "?", "a?versions", "#", "a;b", "a&b", "<a>", "\"'", "]]>", "${filename}", "\ufeff", "\ufffe", "é",
          "e\u0301", "\u202egpj", "\U0001f600", "k" * 1024, "é" * 512, "/" * 1024, "a/" * 512, "../" * 341]


def test_tricks_with_paths_in_keys(bad):
    s3, space = bad.boto(), "{http://s3.amazonaws.com/doc/2006-03-01/}"
    with Memory(bad, 48 * MIB):
        for key in TRICKS:
            told = Request(bad, "PUT", f"/data/{key}", body=key.encode()).send()
            assert told.status == 200, (key, told)
        assert keys(bad) == sorted(TRICKS, key=str.encode)
        for key in TRICKS:
            got = Request(bad, "GET", f"/data/{key}").send()
            assert (got.status, got.body) == (200, key.encode()), (key, got)
            listed = Request(bad, "GET", "/data", [("prefix", key), ("encoding-type", "url"), ("max-keys", "1")]).send()
            named = ElementTree.fromstring(listed.body).find(f"{space}Contents/{space}Key").text
            assert unquote_to_bytes(named.replace("+", " ")) == key.encode(), (key, listed)
            copied = Request(bad, "PUT", "/data/copied", headers=[("x-amz-copy-source", quote(f"data/{key}", safe=""))])
            assert copied.send().status == 200, key
            assert s3.get_object(Bucket="data", Key="copied")["Body"].read() == key.encode()
            assert Request(bad, "DELETE", f"/data/{key}").send().status == 204
            Request(bad, "GET", f"/data/{key}").send().refused(404, "NoSuchKey")
        assert keys(bad) == ["copied"]
    assert not os.path.exists("/tmp/dewar-trick") and not list(bad.folder.rglob("*dewar-trick*"))


def test_what_is_no_key(bad):
    s3 = bad.boto()
    for key, code in [(b"\xff", "InvalidURI"), (b"a\xc0\xafb", "InvalidURI"), (b"\xed\xa0\x80", "InvalidURI"),
                      (b"\xf8\x88\x80\x80\x80", "InvalidURI"), (b"a\x80", "InvalidURI"), (b"k" * 1025, "KeyTooLongError"),
                      ("é".encode() * 513, "KeyTooLongError"), (b"/" * 1025, "KeyTooLongError"), (b"../" * 342, "KeyTooLongError")]:
        for method in ("PUT", "GET", "DELETE"):
            Request(bad, method, b"/data/" + key).send().refused(400, code)
        assert Request(bad, "HEAD", b"/data/" + key).send().status == 400
        Request(bad, "POST", b"/data/" + key, [("uploads", "")]).send().refused(400, code)
    for raw in ("/data/%", "/data/%zz", "/data/%4", "/data/%u0041", "/data/a%"):
        request = Request(bad, "GET", "/data/a")
        request.path = raw
        told = request.send()
        assert told.status in (400, 403), (raw, told)
    for bucket in ("..", ".", "a", "%2e%2e", "Data", "data%00", "data%2fk", "-data", "data..x", "127.0.0.1", "d" * 64):
        told = Request(bad, "GET", f"/{unquote(bucket)}/k").send()
        assert told.status in (400, 404), (bucket, told)
    # A source is named by bucket and key, and there is no way up from a bucket.
    s3.create_bucket(Bucket="others")
    s3.put_object(Bucket="others", Key="k", Body=b"x")
    for source, status in [("data/../others/k", 404), ("/data/..%2Fothers/k", 404), ("..%2Fothers/k", 400), ("/../others/k", 400),
                           ("others", 400), ("", 400), ("/", 400), ("others/%ff", 400), ("others/" + "k" * 1025, 400),
                           ("others/k?versionId=../k", 400), ("http://127.0.0.1/others/k", 400)]:
        told = Request(bad, "PUT", "/data/copied", headers=[("x-amz-copy-source", source)]).send()
        assert told.status == status, (source, told)
    # Percent-encoded or not, a slash is a slash; and nothing is resolved before it is looked up.
    direct = Request(bad, "GET", "/data/../others/k").send()
    direct.refused(404, "NoSuchKey")
    assert keys(bad) == []
    s3.delete_object(Bucket="others", Key="k")
    s3.delete_bucket(Bucket="others")
