"""boto3 with its default settings: what most Python code does all day."""

import base64
import concurrent.futures
import datetime
import hashlib
import zlib

import botocore.exceptions
import pytest
import requests
import xxhash
from boto3.s3.transfer import TransferConfig
from conftest import content

SIZES = [0, 1, 4095, 4096, 4097, 65536, 65537, 262144, 1048576, 1048577, 10_000_000]


def code(error):
    return error.value.response["Error"]["Code"]


def status(error):
    return error.value.response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize("size", SIZES)
def test_what_goes_in_comes_out(server, bucket, size):
    s3, body = server.boto(), content(size, size)
    put = s3.put_object(Bucket=bucket, Key="dir/key", Body=body)
    assert put["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    got = s3.get_object(Bucket=bucket, Key="dir/key")
    assert got["Body"].read() == body
    assert got["ContentLength"] == size
    assert got["ETag"] == put["ETag"]
    head = s3.head_object(Bucket=bucket, Key="dir/key")
    assert head["ContentLength"] == size
    assert abs((datetime.datetime.now(datetime.UTC) - head["LastModified"]).total_seconds()) < 60


def test_keys_of_all_kinds(server, bucket):
    s3 = server.boto()
    keys = ["a", "a/", "a/b", "a//b", "a/b/", "/lead", "//", "a b", "a+b", "a%20b", "a%2Fb", "ü/ß.root",
            "日本語", "a\tb", "q?x=1&y", "#frag", "~!@$^&*()_=[]{}|;:',.<>", "x" * 1024, "..", "a/../b", "./c"]
    for number, key in enumerate(keys):
        s3.put_object(Bucket=bucket, Key=key, Body=str(number).encode())
    for number, key in enumerate(keys):
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == str(number).encode(), key
    listed = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert listed == sorted(keys, key=lambda key: key.encode())
    assert [entry["Key"] for entry in s3.list_objects(Bucket=bucket)["Contents"]] == listed


def test_ranges(server, bucket):
    s3, size = server.boto(), 3_000_001
    body = content("range", size)
    s3.put_object(Bucket=bucket, Key="r", Body=body)
    for first, last in [(0, 0), (0, 99), (4095, 4097), (65535, 65536), (262143, 262145), (1048570, 2097160),
                        (size - 1, size - 1), (size - 10, size + 1000)]:
        got = s3.get_object(Bucket=bucket, Key="r", Range=f"bytes={first}-{last}")
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
        assert got["Body"].read() == body[first:last + 1]
        assert got["ContentRange"] == f"bytes {first}-{min(last, size - 1)}/{size}"
    assert s3.get_object(Bucket=bucket, Key="r", Range="bytes=-7")["Body"].read() == body[-7:]
    assert s3.get_object(Bucket=bucket, Key="r", Range=f"bytes={size - 5}-")["Body"].read() == body[-5:]
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.get_object(Bucket=bucket, Key="r", Range=f"bytes={size}-")
    assert (code(error), status(error)) == ("InvalidRange", 416)


def test_metadata_and_headers(server, bucket):
    s3 = server.boto()
    sent = dict(ContentType="application/x-root", CacheControl="max-age=1", ContentDisposition='attachment; filename="x"',
                ContentEncoding="gzip", ContentLanguage="de", Metadata={"run": "42", "detector": "tracker"})
    s3.put_object(Bucket=bucket, Key="m", Body=b"x", Expires=datetime.datetime(2031, 1, 2, 3, 4, 5), **sent)
    for got in (s3.head_object(Bucket=bucket, Key="m"), s3.get_object(Bucket=bucket, Key="m")):
        assert {name: got[name] for name in sent} == sent
        assert got["ExpiresString"].startswith("Thu, 02 Jan 2031 03:04:05")
    got = s3.get_object(Bucket=bucket, Key="m", ResponseContentType="text/plain", ResponseCacheControl="no-store")
    assert (got["ContentType"], got["CacheControl"]) == ("text/plain", "no-store")


@pytest.mark.parametrize("algorithm,compute", [
    ("CRC32", lambda b: zlib.crc32(b).to_bytes(4, "big")),
    ("SHA1", lambda b: hashlib.sha1(b).digest()),
    ("SHA256", lambda b: hashlib.sha256(b).digest()),
    ("SHA512", lambda b: hashlib.sha512(b).digest()),
    ("XXHASH64", lambda b: xxhash.xxh64(b).digest()),
    ("XXHASH3", lambda b: xxhash.xxh3_64(b).digest()),
    ("XXHASH128", lambda b: xxhash.xxh3_128(b).digest()),
    ("CRC32C", None), ("CRC64NVME", None)])
def test_checksums(server, bucket, algorithm, compute):
    s3, body = server.boto(), content(algorithm, 300_000)
    member = f"Checksum{algorithm}"
    put = s3.put_object(Bucket=bucket, Key="c", Body=body, ChecksumAlgorithm=algorithm)
    if compute:
        assert put[member] == base64.b64encode(compute(body)).decode()
    head = s3.head_object(Bucket=bucket, Key="c", ChecksumMode="ENABLED")
    assert head[member] == put[member]
    assert head["ChecksumType"] == "FULL_OBJECT"
    # The client verifies against the header while it reads.
    assert s3.get_object(Bucket=bucket, Key="c", ChecksumMode="ENABLED")["Body"].read() == body
    wrong = base64.b64encode(b"\0" * len(base64.b64decode(put[member]))).decode()
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.put_object(Bucket=bucket, Key="c", Body=b"other", **{member: wrong})
    assert (code(error), status(error)) == ("BadDigest", 400)
    assert s3.get_object(Bucket=bucket, Key="c")["Body"].read() == body


def test_conditional_reads(server, bucket):
    s3 = server.boto()
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"v")["ETag"]
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=etag)["Body"].read() == b"v"
    for arguments, expected in [(dict(IfMatch='"0"'), 412), (dict(IfNoneMatch=etag), 304),
                                (dict(IfModifiedSince=datetime.datetime(2100, 1, 1)), 304),
                                (dict(IfUnmodifiedSince=datetime.datetime(2000, 1, 1)), 412)]:
        for verb in (s3.get_object, s3.head_object):
            with pytest.raises(botocore.exceptions.ClientError) as error:
                verb(Bucket=bucket, Key="k", **arguments)
            assert status(error) == expected


def test_conditional_writes(server, bucket):
    s3 = server.boto()
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*")
    assert (code(error), status(error)) == ("PreconditionFailed", 412)
    second = s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfMatch=first)["ETag"]
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=first)
    assert status(error) == 412
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"2"
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.delete_object(Bucket=bucket, Key="k", IfMatch=first)
    assert status(error) == 412
    s3.delete_object(Bucket=bucket, Key="k", IfMatch=second)


def test_only_one_of_many_creates_wins(server, bucket):
    s3 = server.boto(max_pool_connections=16)

    def create(number):
        try:
            s3.put_object(Bucket=bucket, Key="once", Body=str(number).encode(), IfNoneMatch="*")
            return number
        except botocore.exceptions.ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] in (409, 412)
            return None

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        won = [n for n in pool.map(create, range(16)) if n is not None]
    assert len(won) == 1
    assert s3.get_object(Bucket=bucket, Key="once")["Body"].read() == str(won[0]).encode()


def test_errors_are_s3s_own(server, bucket):
    s3 = server.boto()
    for call, expected in [
        (lambda: s3.get_object(Bucket=bucket, Key="none"), ("NoSuchKey", 404)),
        (lambda: s3.list_objects_v2(Bucket="no-such-bucket-here"), ("NoSuchBucket", 404)),
        (lambda: s3.put_object(Bucket="no-such-bucket-here", Key="k", Body=b""), ("NoSuchBucket", 404)),
        (lambda: s3.abort_multipart_upload(Bucket=bucket, Key="k", UploadId="0" * 32), ("NoSuchUpload", 404)),
        (lambda: s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentMD5="A" * 22 + "=="), ("BadDigest", 400)),
        (lambda: s3.put_object(Bucket=bucket, Key="x" * 1025, Body=b""), ("KeyTooLongError", 400)),
    ]:
        with pytest.raises(botocore.exceptions.ClientError) as error:
            call()
        assert (code(error), status(error)) == expected
        assert error.value.response["ResponseMetadata"]["RequestId"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.delete_bucket(Bucket=bucket)
    assert (code(error), status(error)) == ("BucketNotEmpty", 409)


def test_bulk_delete(server, bucket):
    s3 = server.boto()
    keys = [f"d/{number:04}" for number in range(1000)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: s3.put_object(Bucket=bucket, Key=key, Body=b"x"), keys))
    done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in [*keys, "absent"]][:1000]})
    assert len(done["Deleted"]) == 1000 and "Errors" not in done
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    assert "Deleted" not in s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "x"}], "Quiet": True})


def test_listing(server, bucket):
    s3 = server.boto()
    keys = sorted(["a", "a-b", "a/1", "a/2", "a/b/3", "a0", "b/", "b/x", "c/d/e/f", "z"])
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")

    def listed(**arguments):
        got = s3.list_objects_v2(Bucket=bucket, **arguments)
        return ([e["Key"] for e in got.get("Contents", [])], [p["Prefix"] for p in got.get("CommonPrefixes", [])])

    assert listed() == (keys, [])
    assert listed(Delimiter="/") == (["a", "a-b", "a0", "z"], ["a/", "b/", "c/"])
    assert listed(Prefix="a/", Delimiter="/") == (["a/1", "a/2"], ["a/b/"])
    assert listed(Prefix="a", Delimiter="/") == (["a", "a-b", "a0"], ["a/"])
    assert listed(Delimiter="-") == ([k for k in keys if "-" not in k], ["a-"])
    assert listed(StartAfter="a/2") == (keys[keys.index("a/2") + 1:], [])
    assert listed(Prefix="c/d") == (["c/d/e/f"], [])
    for size in (1, 2, 3, 7):
        for arguments in ({}, {"Delimiter": "/"}, {"Prefix": "a"}):
            pages = s3.get_paginator("list_objects_v2").paginate(
                Bucket=bucket, PaginationConfig={"PageSize": size}, **arguments)
            got = [name for page in pages for name in
                   [e["Key"] for e in page.get("Contents", [])] + [p["Prefix"] for p in page.get("CommonPrefixes", [])]]
            whole = listed(**arguments)
            assert sorted(got) == sorted(whole[0] + whole[1]), (size, arguments)
            pages = s3.get_paginator("list_objects").paginate(
                Bucket=bucket, PaginationConfig={"PageSize": size}, **arguments)
            got = [name for page in pages for name in
                   [e["Key"] for e in page.get("Contents", [])] + [p["Prefix"] for p in page.get("CommonPrefixes", [])]]
            assert sorted(got) == sorted(whole[0] + whole[1]), (size, arguments)


def test_copy(server, bucket):
    s3, body = server.boto(), content("copy", 5_000_000)
    s3.put_object(Bucket=bucket, Key="from me+ü", Body=body, Metadata={"a": "1"}, ContentType="x/y")
    s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "from me+ü"})
    got = s3.get_object(Bucket=bucket, Key="to")
    assert (got["Body"].read() == body, got["Metadata"], got["ContentType"]) == (True, {"a": "1"}, "x/y")
    s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "to"},
                   MetadataDirective="REPLACE", Metadata={"b": "2"})
    assert s3.head_object(Bucket=bucket, Key="to")["Metadata"] == {"b": "2"}
    # The copy shares bytes with its source, but must not lose them with it.
    s3.delete_object(Bucket=bucket, Key="from me+ü")
    assert s3.get_object(Bucket=bucket, Key="to")["Body"].read() == body
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "to"})
    assert code(error) == "InvalidRequest"


def test_multipart_transfer(server, bucket, tmp_path):
    s3, body = server.boto(), content("multi", 23_456_789)
    source, target = tmp_path / "up", tmp_path / "down"
    source.write_bytes(body)
    config = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20, max_concurrency=4)
    s3.upload_file(str(source), bucket, "big", Config=config)
    head = s3.head_object(Bucket=bucket, Key="big")
    parts = [body[at:at + (5 << 20)] for at in range(0, len(body), 5 << 20)]
    joined = hashlib.md5(b"".join(hashlib.md5(part).digest() for part in parts)).hexdigest()
    assert head["ETag"] == f'"{joined}-{len(parts)}"'
    s3.download_file(bucket, "big", str(target), Config=config)
    assert target.read_bytes() == body
    got = s3.get_object(Bucket=bucket, Key="big", PartNumber=2)
    assert (got["Body"].read() == parts[1], got["PartsCount"]) == (True, len(parts))
    across = s3.get_object(Bucket=bucket, Key="big", Range="bytes=5242870-5242890")["Body"].read()
    assert across == body[5242870:5242891]


def test_multipart_by_hand(server, bucket):
    s3, part = server.boto(), content("part", 5 << 20)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m", Metadata={"x": "y"})["UploadId"]
    wrong = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"replaced")["ETag"]
    one = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=part)["ETag"]
    s3.put_object(Bucket=bucket, Key="source", Body=part)
    two = s3.upload_part_copy(Bucket=bucket, Key="m", UploadId=upload, PartNumber=7,
                              CopySource={"Bucket": bucket, "Key": "source"},
                              CopySourceRange="bytes=1000-2000")["CopyPartResult"]["ETag"]
    listed = s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)["Parts"]
    assert [(p["PartNumber"], p["Size"]) for p in listed] == [(1, 5 << 20), (7, 1001)]
    assert [u["UploadId"] for u in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == [upload]

    def complete(*parts):
        return s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={
            "Parts": [{"PartNumber": number, "ETag": etag} for number, etag in parts]})

    for parts, expected in [([(1, wrong), (7, two)], "InvalidPart"), ([(7, two), (1, one)], "InvalidPartOrder"),
                            ([(1, one), (2, two)], "InvalidPart")]:
        with pytest.raises(botocore.exceptions.ClientError) as error:
            complete(*parts)
        assert code(error) == expected
    done = complete((1, one), (7, two))
    assert complete((1, one), (7, two))["ETag"] == done["ETag"], "a retry of Complete is answered alike"
    got = s3.get_object(Bucket=bucket, Key="m")
    assert (got["Body"].read() == part + part[1000:2001], got["Metadata"]) == (True, {"x": "y"})
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_multipart_too_small_and_abort(server, bucket):
    s3 = server.boto()
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    etags = [s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=n, Body=b"tiny")["ETag"] for n in (1, 2)]
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={
            "Parts": [{"PartNumber": n + 1, "ETag": etag} for n, etag in enumerate(etags)]})
    assert code(error) == "EntityTooSmall"
    s3.abort_multipart_upload(Bucket=bucket, Key="m", UploadId=upload)
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=3, Body=b"x")
    assert code(error) == "NoSuchUpload"


def test_a_checksum_that_the_client_does_not_compute(server, bucket):
    s3, body = server.boto(), b"hello"
    value = base64.b64encode(hashlib.md5(body).digest()).decode()
    s3.put_object(Bucket=bucket, Key="c", Body=body, ChecksumMD5=value)
    assert s3.head_object(Bucket=bucket, Key="c", ChecksumMode="ENABLED")["ChecksumMD5"] == value
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.put_object(Bucket=bucket, Key="c", Body=b"other", ChecksumMD5=value)
    assert code(error) == "BadDigest"


@pytest.mark.parametrize("kind,algorithm", [("FULL_OBJECT", "CRC32"), ("FULL_OBJECT", "CRC64NVME"), ("COMPOSITE", "SHA256"), ("COMPOSITE", "CRC32C"),
                                            ("COMPOSITE", "SHA512"), ("COMPOSITE", "XXHASH3"), ("COMPOSITE", "XXHASH128")])
def test_multipart_checksums(server, bucket, kind, algorithm):
    s3, parts = server.boto(), [content(n, 5 << 20) for n in range(2)]
    member = f"Checksum{algorithm}"
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m", ChecksumAlgorithm=algorithm, ChecksumType=kind)["UploadId"]
    done = []
    for number, part in enumerate(parts, 1):
        put = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=number, Body=part, ChecksumAlgorithm=algorithm)
        done.append({"PartNumber": number, "ETag": put["ETag"], member: put[member]})
    listed = s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)
    assert [part[member] for part in listed["Parts"]] == [part[member] for part in done]
    result = s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": done})
    assert result["ChecksumType"] == kind
    assert result["Location"] == f"{server.s3['endpoint']}/{bucket}/m"
    told = s3.get_object_attributes(Bucket=bucket, Key="m", ObjectAttributes=["Checksum", "ObjectParts"])
    assert told["Checksum"][member] == result[member]
    if kind == "COMPOSITE":
        assert [part[member] for part in told["ObjectParts"]["Parts"]] == [part[member] for part in done]
    whole = b"".join(parts)
    if algorithm == "CRC32":
        assert result[member] == base64.b64encode(zlib.crc32(whole).to_bytes(4, "big")).decode()
    if algorithm == "XXHASH128":
        inner = b"".join(xxhash.xxh3_128(part).digest() for part in parts)
        assert result[member] == base64.b64encode(xxhash.xxh3_128(inner).digest()).decode() + "-2"
    if algorithm == "SHA256":
        inner = b"".join(hashlib.sha256(part).digest() for part in parts)
        assert result[member] == base64.b64encode(hashlib.sha256(inner).digest()).decode() + "-2"
    assert s3.get_object(Bucket=bucket, Key="m", ChecksumMode="ENABLED")["Body"].read() == whole


def test_presigned(server, bucket):
    s3, body = server.boto(signature_version="s3v4"), content("presigned", 100_000)
    url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "p q"}, ExpiresIn=60)
    assert requests.put(url, data=body, timeout=30).status_code == 200
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "p q", "ResponseContentType": "a/b"}, ExpiresIn=60)
    got = requests.get(url, timeout=30)
    assert (got.content == body, got.headers["content-type"]) == (True, "a/b")
    assert requests.get(url.replace("p%20q", "other"), timeout=30).status_code == 403
    assert requests.get(url + "&x=1", timeout=30).status_code == 403
    late = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "p q"}, ExpiresIn=1)
    import time
    time.sleep(2.1)
    assert requests.get(late, timeout=30).status_code == 403


def test_post_form(server, bucket):
    s3 = server.boto(signature_version="s3v4")
    form = s3.generate_presigned_post(bucket, "up/${filename}", Conditions=[["content-length-range", 1, 1000]], ExpiresIn=60)
    answer = requests.post(form["url"], data=form["fields"], files={"file": ("f.txt", b"from a form")}, timeout=30)
    assert answer.status_code == 204, answer.text
    assert s3.get_object(Bucket=bucket, Key="up/f.txt")["Body"].read() == b"from a form"
    answer = requests.post(form["url"], data=form["fields"], files={"file": ("g.txt", b"x" * 1001)}, timeout=30)
    assert answer.status_code == 400 and "EntityTooLarge" in answer.text
    bad = dict(form["fields"], key="elsewhere")
    assert requests.post(form["url"], data=bad, files={"file": ("h.txt", b"x")}, timeout=30).status_code == 403


def test_nobody_gets_in(server, bucket):
    s3 = server.boto()
    s3.put_object(Bucket=bucket, Key="secret", Body=b"x")
    endpoint = server.s3["endpoint"]
    for path in ("/", f"/{bucket}", f"/{bucket}/secret", f"/{bucket}/none", "/no-such-bucket/x"):
        for verb in ("GET", "HEAD", "PUT", "DELETE", "POST"):
            answer = requests.request(verb, endpoint + path, data=b"" if verb in ("PUT", "POST") else None, timeout=30)
            assert answer.headers["x-amz-request-id"]
            if (verb, path) == ("GET", "/"):
                # Nobody owns nothing: the list is empty, as Ceph answers.
                assert answer.status_code == 200 and "<Bucket>" not in answer.text
                continue
            assert answer.status_code == 403, (verb, path)
    for key, secret, expected in [("AKNOBODY000000000000", "x" * 40, "InvalidAccessKeyId"),
                                  (server.s3["access_key"], "wrong" * 8, "SignatureDoesNotMatch")]:
        import boto3
        other = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=key,
                             aws_secret_access_key=secret)
        with pytest.raises(botocore.exceptions.ClientError) as error:
            other.list_buckets()
        assert (code(error), status(error)) == (expected, 403)


def test_users_see_only_their_own(server, bucket):
    import boto3
    server.boto().put_object(Bucket=bucket, Key="k", Body=b"x")
    server.admin("user", "add", "mallory")
    key = server.admin("key", "add", "--user", "mallory")
    other = boto3.client("s3", endpoint_url=server.s3["endpoint"], region_name="us-east-1",
                         aws_access_key_id=key["access_key"], aws_secret_access_key=key["secret_key"])
    assert other.list_buckets()["Buckets"] == []
    for call in (lambda: other.get_object(Bucket=bucket, Key="k"), lambda: other.get_object(Bucket=bucket, Key="none"),
                 lambda: other.list_objects_v2(Bucket=bucket), lambda: other.put_object(Bucket=bucket, Key="k", Body=b"y"),
                 lambda: other.delete_object(Bucket=bucket, Key="k"), lambda: other.delete_bucket(Bucket=bucket),
                 lambda: other.create_multipart_upload(Bucket=bucket, Key="k"),
                 lambda: other.copy_object(Bucket=bucket, Key="z", CopySource=f"{bucket}/k")):
        with pytest.raises(botocore.exceptions.ClientError) as error:
            call()
        assert (code(error), status(error)) == ("AccessDenied", 403)
    server.admin("key", "disable", key["access_key"])
    with pytest.raises(botocore.exceptions.ClientError) as error:
        other.list_buckets()
    assert status(error) == 403
    server.admin("user", "remove", "mallory")


def test_buckets(server):
    s3 = server.boto()
    s3.create_bucket(Bucket="another-one")
    assert "another-one" in [b["Name"] for b in s3.list_buckets()["Buckets"]]
    assert s3.head_bucket(Bucket="another-one")["BucketRegion"] == server.s3["region"]
    assert s3.get_bucket_location(Bucket="another-one")["LocationConstraint"] is None
    s3.delete_bucket(Bucket="another-one")
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.head_bucket(Bucket="another-one")
    assert status(error) == 404
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.create_bucket(Bucket="UPPER_case")
    assert code(error) == "InvalidBucketName"


def test_unknown_subresources_are_refused(server, bucket):
    s3 = server.boto()
    for call in (lambda: s3.get_bucket_policy(Bucket=bucket), lambda: s3.get_bucket_lifecycle_configuration(Bucket=bucket),
                 lambda: s3.get_bucket_cors(Bucket=bucket), lambda: s3.get_bucket_website(Bucket=bucket),
                 lambda: s3.get_bucket_replication(Bucket=bucket)):
        with pytest.raises(botocore.exceptions.ClientError) as error:
            call()
        assert status(error) in (404, 501)


def test_virtual_host_style(server, bucket):
    s3 = server.boto()
    s3.put_object(Bucket=bucket, Key="v/h", Body=b"virtual")
    import boto3
    from botocore.config import Config
    host = boto3.client("s3", endpoint_url=f"http://localhost:{server.port}", region_name="us-east-1",
                        aws_access_key_id=server.s3["access_key"], aws_secret_access_key=server.s3["secret_key"],
                        config=Config(s3={"addressing_style": "virtual"}))
    # *.localhost resolves to loopback by RFC 6761, but not by every resolver.
    import socket
    resolve = socket.getaddrinfo
    socket.getaddrinfo = lambda name, *rest, **more: resolve("127.0.0.1" if str(name).endswith("localhost") else name, *rest, **more)
    try:
        assert host.get_object(Bucket=bucket, Key="v/h")["Body"].read() == b"virtual"
    finally:
        socket.getaddrinfo = resolve
