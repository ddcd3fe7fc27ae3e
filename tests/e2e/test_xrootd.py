"""root:// with the clients that physicists have, of both generations."""

import base64
import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib

import pytest
from conftest import content
from xrootd_tools import (TOOLS, Certificate, address, bindings_environment, environment, python, run, url, xrdcp,
                          xrdfs)

@pytest.fixture
def bucket(server, bucket):
    """One whose directories go too: those that were made stay when they are empty."""
    yield bucket
    s3 = server.boto()
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for entry in page.get("Contents", []):
            s3.delete_object(Bucket=bucket, Key=entry["Key"])
    names = xrdfs(server, "ls", "-R", f"/{bucket}").stdout.split("\n")
    for name in sorted(filter(None, names), reverse=True):
        xrdfs(server, "rmdir", name)


SIZES = [0, 1, 4095, 4097, 100_000, 9_000_001]


@pytest.mark.parametrize("size", SIZES)
def test_files_of_every_size_go_up_and_down(server, bucket, tmp_path, size):
    data = content(size, size)
    (tmp_path / "up").write_bytes(data)
    path = f"/{bucket}/some/dir/file"
    xrdcp(tmp_path / "up", url(server, path))
    assert server.boto().get_object(Bucket=bucket, Key="some/dir/file")["Body"].read() == data
    for name, options in [("pages", {}), ("plain", {"XRD_CPUSEPGWRTRD": "0"})]:
        xrdcp(url(server, path), tmp_path / name, **options)
        assert (tmp_path / name).read_bytes() == data
    # Without -f what is there stays.
    (tmp_path / "other").write_bytes(b"other")
    assert xrdcp(tmp_path / "other", url(server, path), check=False).returncode != 0
    xrdcp("-f", tmp_path / "other", url(server, path))
    assert server.boto().get_object(Bucket=bucket, Key="some/dir/file")["Body"].read() == b"other"


def test_many_streams_and_trees(server, bucket, tmp_path):
    data = content("streams", 30_000_000)
    (tmp_path / "big").write_bytes(data)
    xrdcp("-S", "4", tmp_path / "big", url(server, f"/{bucket}/big"))
    xrdcp("-S", "4", url(server, f"/{bucket}/big"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data
    tree = tmp_path / "tree"
    for number in range(12):
        folder = tree / f"d{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}").write_bytes(content(number, 1000 * number))
    xrdfs(server, "mkdir", f"/{bucket}/up")
    xrdcp("-r", "--parallel", "4", tree, url(server, f"/{bucket}/up/"))
    (tmp_path / "down").mkdir()
    xrdcp("-r", url(server, f"/{bucket}/up/tree"), tmp_path / "down")
    copies = {path.name: path.read_bytes() for path in (tmp_path / "down").rglob("f*")}
    assert copies == {f"f{number}": content(number, 1000 * number) for number in range(12)}


def test_checksums_come_from_the_catalog(server, bucket, tmp_path):
    data = content("sums", 5_000_000)
    (tmp_path / "up").write_bytes(data)
    path = f"/{bucket}/f"
    xrdcp("--cksum", "adler32:source", tmp_path / "up", url(server, path))
    xrdcp("--cksum", "adler32:source", url(server, path), tmp_path / "down")
    told = xrdfs(server, "query", "checksum", path).stdout.split()
    assert told == ["adler32", f"{zlib.adler32(data):08x}"]
    assert xrdfs(server, "query", "checksum", f"{path}?cks.type=crc32c").stdout.split()[0] == "crc32c"
    # Over S3 it was.
    server.boto().put_object(Bucket=bucket, Key="s3", Body=b"hello")
    told = xrdfs(server, "query", "checksum", f"/{bucket}/s3?cks.type=md5").stdout.split()
    assert told == ["md5", "5d41402abc4b2a76b9719d911017c592"]


@pytest.mark.parametrize("algorithm", ["adler32", "crc32", "crc32c", "md5", "zcrc32"])
def test_checksums_that_nobody_asked_for_before_are_computed(server, bucket, tmp_path, algorithm):
    data = content("sums", 5_000_000)
    (tmp_path / "up").write_bytes(data)
    path = f"/{bucket}/f"
    # The client computes its own and compares.
    xrdcp("--cksum", f"{algorithm}:source", tmp_path / "up", url(server, path))
    xrdcp("--cksum", f"{algorithm}:source", url(server, path), tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == data
    told = [xrdfs(server, "query", "checksum", f"{path}?cks.type={algorithm}").stdout.split() for _ in range(2)]
    assert told[0] == told[1] and told[0][0] == algorithm
    known = {"md5": hashlib.md5(data).hexdigest(), "zcrc32": zlib.crc32(data).to_bytes(4, "little").hex()}
    assert told[0][1] == known.get(algorithm, told[0][1])


def test_names(server, bucket, tmp_path):
    fs = lambda *arguments, check=True: xrdfs(server, *arguments, check=check)
    (tmp_path / "f").write_bytes(b"12345")
    fs("mkdir", "-p", f"/{bucket}/a/b/c")
    fs("mkdir", f"/{bucket}/a/b/c")
    xrdcp(tmp_path / "f", url(server, f"/{bucket}/a/b/f"))
    assert fs("ls", f"/{bucket}/a/b").stdout.split() == [f"/{bucket}/a/b/c", f"/{bucket}/a/b/f"]
    long = fs("ls", "-l", f"/{bucket}//a/./b/").stdout.splitlines()
    assert long[0].startswith("d") and long[1].startswith("-") and " 5 " in long[1]
    assert "Size:   5" in fs("stat", f"/{bucket}/a/b/f").stdout
    assert "IsDir" in fs("stat", f"/{bucket}/a").stdout
    assert f"/{bucket}" in fs("ls", "/").stdout.split()
    assert fs("rmdir", f"/{bucket}/a/b", check=False).returncode != 0
    fs("mv", f"/{bucket}/a/b/f", f"/{bucket}/a/g h")
    assert fs("cat", f"/{bucket}/a/g h").stdout == "12345"
    fs("mv", f"/{bucket}/a", f"/{bucket}/z")
    assert fs("tail", "-c", "2", f"/{bucket}/z/g h").stdout.endswith("45")
    fs("truncate", f"/{bucket}/z/g h", "3")
    assert fs("cat", f"/{bucket}/z/g h").stdout == "123"
    fs("rm", f"/{bucket}/z/g h")
    missing = fs("stat", f"/{bucket}/z/g h", check=False)
    assert missing.returncode == 54 and "[3011]" in missing.stderr
    fs("rmdir", f"/{bucket}/z/b/c")
    fs("rm", f"/{bucket}/z/b")
    assert fs("ls", "/no-such-bucket", check=False).returncode != 0
    above = fs("ls", f"/{bucket}/../../etc", check=False)
    assert above.returncode != 0 and "[3010]" in above.stderr


def test_attributes(server, bucket, tmp_path):
    fs = lambda *arguments, check=True: xrdfs(server, *arguments, check=check)
    (tmp_path / "f").write_bytes(b"12345")
    for path in (f"/{bucket}/f", f"/{bucket}/d"):
        if path.endswith("f"):
            xrdcp(tmp_path / "f", url(server, path))
        else:
            fs("mkdir", path)
        fs("xattr", path, "set", "user.run=17")
        fs("xattr", path, "set", "user.note=two words")
        assert "17" in fs("xattr", path, "get", "user.run").stdout
        listed = fs("xattr", path, "list").stdout
        assert "user.run" in listed and "two words" in listed
        fs("xattr", path, "del", "user.run")
        assert "user.run" not in fs("xattr", path, "list").stdout
        assert fs("xattr", path, "get", "user.run", check=False).stdout.count("17") == 0
        fs("chmod", path, "rwxr-x---")
        assert "2750" in fs("stat", path).stdout or "0750" in fs("stat", path).stdout
    # A copy has them if that is asked for: they are set before it is closed.
    xrdcp("--xattr", url(server, f"/{bucket}/f"), url(server, f"/{bucket}/copy"))
    assert "two words" in fs("xattr", f"/{bucket}/copy", "list").stdout
    # Replaced, they are gone.
    xrdcp("-f", tmp_path / "f", url(server, f"/{bucket}/f"))
    assert "note" not in fs("xattr", f"/{bucket}/f", "list").stdout


def test_readers_of_s3_see_the_checksum_of_what_was_written(server, bucket, tmp_path):
    (tmp_path / "f").write_bytes(content("crc", 3_000_000))
    xrdcp(tmp_path / "f", url(server, f"/{bucket}/f"))
    head = server.boto().head_object(Bucket=bucket, Key="f", ChecksumMode="ENABLED")
    told = xrdfs(server, "query", "checksum", f"/{bucket}/f?cks.type=crc32c").stdout.split()[1]
    assert base64.b64decode(head["ChecksumCRC32C"]).hex() == told and head["ChecksumType"] == "FULL_OBJECT"
    got = server.boto().get_object(Bucket=bucket, Key="f", ChecksumMode="ENABLED")
    assert got["Body"].read() == content("crc", 3_000_000)


def test_what_a_server_is_asked_about_itself(server, bucket):
    fs = lambda *arguments: xrdfs(server, *arguments).stdout
    assert fs("query", "config", "readv_iov_max").split() == ["1024"]
    assert fs("query", "config", "nonsense").split() == ["nonsense"]
    assert "0:adler32" in fs("query", "config", "chksum")
    assert "oss.free=" in fs("query", "space", f"/{bucket}")
    assert "oss.type=d" in fs("query", "xattr", f"/{bucket}")
    assert "<statistics" in fs("query", "stats", "a")
    assert f":{address(server).rsplit(':', 1)[1]}" in fs("locate", f"/{bucket}")
    assert "Nodes with RW" in fs("statvfs", f"/{bucket}") or "RW" in fs("statvfs", f"/{bucket}")
    fs("spaceinfo", f"/{bucket}")
    server.boto().put_object(Bucket=bucket, Key="f", Body=b"x")
    request = fs("prepare", "-s", f"/{bucket}/f").strip()
    told = json.loads(fs("query", "prepare", request, f"/{bucket}/f"))
    assert told["responses"][0]["online"] is True


def test_a_directory_of_many_names(server, bucket):
    s3 = server.boto()
    for number in range(2500):
        s3.put_object(Bucket=bucket, Key=f"many/{number:05}", Body=b"")
    assert len(xrdfs(server, "ls", f"/{bucket}/many").stdout.split()) == 2500
    assert len(xrdfs(server, "ls", "-l", f"/{bucket}/many").stdout.splitlines()) == 2500
    code = """
import sys
from XRootD import client
from XRootD.client.flags import DirListFlags
status, names = client.FileSystem(sys.argv[1]).dirlist(sys.argv[2], DirListFlags.STAT)
assert status.ok, status
print(len({entry.name for entry in names}), names.size)
"""
    assert python(code, url(server, "/"), f"/{bucket}/many").split() == ["2500", "2500"]


BINDINGS = """
import os, random, sys
from XRootD import client
from XRootD.client.flags import OpenFlags, MkDirFlags, QueryCode
base = sys.argv[1]
def ok(answer):
    status, value = answer
    assert status.ok, status
    return value
# Vectors over a file, in any order and overlapping.
data = random.Random(1).randbytes(6_000_000)
with client.File() as f:
    ok(f.open(base + "/v", OpenFlags.NEW))
    ok(f.write(data))
with client.File() as f:
    ok(f.open(base + "/v", OpenFlags.READ))
    chunks = [(random.Random(i).randrange(5_900_000), 1 + i * 37) for i in range(1000)]
    for got, (at, size) in zip(ok(f.vector_read(chunks)).chunks, chunks):
        assert got.buffer == data[at:at + size]
    assert ok(f.read(5_999_990, 1000)) == data[-10:]
    assert ok(f.read(7_000_000, 10)) == b""
    assert b"".join(f.readchunks(0, 1_000_000)) == data
    status, _ = f.vector_read([(5_999_999, 2)])
    assert not status.ok
# Changed in place: nobody sees it before it is closed.
with client.File() as f, client.File() as reader:
    ok(f.open(base + "/v", OpenFlags.UPDATE))
    ok(reader.open(base + "/v", OpenFlags.READ))
    ok(f.write(b"patched", 1_000_000))
    assert ok(f.read(999_999, 9)) == data[999_999:1_000_000] + b"patched" + data[1_000_007:1_000_008]
    assert ok(reader.read(1_000_000, 7)) == data[1_000_000:1_000_007]
    ok(f.truncate(2_000_000))
    ok(f.sync())
    assert ok(f.stat(True)).size == 2_000_000
    ok(f.close())
    assert ok(reader.read(1_000_000, 7)) == data[1_000_000:1_000_007]
with client.File() as f:
    ok(f.open(base + "/v", OpenFlags.READ))
    want = data[:1_000_000] + b"patched" + data[1_000_007:2_000_000]
    assert ok(f.read()) == want
# Out of order, with holes.
with client.File() as f:
    ok(f.open(base + "/holes", OpenFlags.DELETE))
    for at in (300_000, 100_000, 200_000):
        ok(f.write(data[at:at + 50_000], at))
    assert ok(f.read(90_000, 20_000)) == bytes(10_000) + data[100_000:110_000]
want = bytearray(350_000)
for at in (300_000, 100_000, 200_000):
    want[at:at + 50_000] = data[at:at + 50_000]
with client.File() as f:
    ok(f.open(base + "/holes", OpenFlags.READ))
    assert ok(f.read()) == want
# What is not closed was never there.
lost = client.File()
ok(lost.open(base + "/lost", OpenFlags.NEW))
ok(lost.write(b"x" * 100_000))
server, _, path = base.removeprefix("root://").partition("/")
fs = client.FileSystem("root://" + server)
status, _ = fs.stat(path + "/lost")
assert status.errno == 3011, status
status, _ = fs.stat("/" + path + "/none")
assert status.errno == 3011
value = ok(fs.query(QueryCode.CONFIG, "readv_iov_max readv_ior_max tpc"))
assert value == b"1024\\n2097136\\n1\\n", value
assert ok(fs.query(QueryCode.SPACE, path)).startswith(b"oss.cgroup=public")
os._exit(0)  # without a close
"""


def test_the_bindings(server, bucket):
    python(BINDINGS, url(server, f"/{bucket}"))
    time.sleep(0.5)
    assert xrdfs(server, "stat", f"/{bucket}/lost", check=False).returncode == 54


def test_fsspec_writes_and_lists(server, bucket):
    code = """
import sys, fsspec
server, path = sys.argv[1:]
fs = fsspec.filesystem("root", hostid=server)
with fs.open(path + "/d/f", "wb") as f:
    f.write(b"abc" * 2_000_000)
assert [entry["name"] for entry in fs.ls(path + "/d", detail=True)] == [path + "/d/f"]
assert fs.info(path + "/d/f")["size"] == 6_000_000
with fs.open(path + "/d/f", "rb") as f:
    f.seek(3_000_000)
    assert f.read(6) == b"abcabc"
assert fs.cat_ranges([path + "/d/f"] * 3, [0, 3, 6], [3, 6, 9]) == [b"abc"] * 3
# It sends the removal of all in a tree, directories too, without waiting for answers.
for made in (True, False):
    for n in range(40):
        if made:
            fs.makedirs(f"{path}/t/{n % 7}/{n % 3}", exist_ok=True)
        with fs.open(f"{path}/t/{n % 7}/{n % 3}/{n}", "wb") as f:
            f.write(b"x")
    fs.rm(path + "/t", recursive=True)
    # It would ask its own cache.
    fs.invalidate_cache()
    assert not fs.exists(path + "/t"), made
fs.rm(path + "/d/f")
assert not fs.exists(path + "/d/f")
"""
    python(code, address(server), f"/{bucket}")


def test_uproot_reads_what_was_put_over_s3(server, bucket, samples):
    """Branch by branch as from the local file."""
    import physics
    chosen = physics.chosen(samples)[:6]
    s3 = server.boto()
    for path in chosen:
        s3.upload_file(str(path), bucket, path.name)
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import physics
from pathlib import Path
read = 0
for path in sys.argv[3:]:
    read += physics.compare_url(Path(path), f"{sys.argv[2]}/{Path(path).name}")
print(read)
"""
    told = python(code, os.path.dirname(__file__), url(server, f"/{bucket}"), *chosen)
    assert int(told.split()[-1]) > 500


def frame(stream, code, body=bytes(16), data=b""):
    return struct.pack(">HH", stream, code) + body + struct.pack(">i", len(data)) + data


def hello(server):
    host, port = address(server).rsplit(":", 1)
    s = socket.create_connection((host, int(port)), timeout=20)
    s.sendall(struct.pack(">5i", 0, 0, 0, 4, 2012) + frame(0, 3006, struct.pack(">iBB10x", 0x520, 0, 3)))
    assert receive(s, 16)[8:12] == struct.pack(">i", 0x520)
    assert answer(s)[1] == 0
    return s


def receive(s, size):
    data = b""
    while len(data) < size:
        more = s.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def answer(s):
    stream, status, size = struct.unpack(">HHi", receive(s, 8))
    return stream, status, receive(s, size)


def login(s):
    s.sendall(frame(0, 3007, struct.pack(">i8s4B", os.getpid(), b"test", 0, 0, 0x85, 0)))
    _, status, body = answer(s)
    assert status == 0 and len(body) == 16
    return body


def test_hostile_frames_hurt_nobody(server, bucket):
    # Before the login there is nothing to be had.
    s = hello(server)
    s.sendall(frame(1, 3017, data=b"/"))
    assert answer(s)[1:] == (4003, struct.pack(">i", 3006) + b"Invalid request; user not logged in\0")
    assert s.recv(1) == b""
    # Lengths below zero and beyond all measure.
    for size in (-1, 2**31 - 1):
        s = hello(server)
        login(s)
        s.sendall(frame(1, 3017)[:-4] + struct.pack(">i", size))
        try:
            answer(s)
            assert s.recv(1) == b""
        except (EOFError, ConnectionError):
            pass
    # An unknown request, one that is none, handles of nobody: the connection goes on.
    s = hello(server)
    login(s)
    for code, body, data, error in [
        (9999, bytes(16), b"", 3006), (3032, bytes(16), b"", 3004), (3010, bytes(16), b"", 3001),
        (3013, bytes(12) + struct.pack(">i", 10), b"", 3004), (3003, b"\0\0\0\7" + bytes(12), b"", 3004),
        (3025, bytes(16), bytes(17), 3000), (3025, bytes(16), bytes(16 * 1025), 3002),
        (3017, bytes(16), b"/\xff\xfe", 3000), (3019, bytes(16), bytes(100_000), 3004),
        (3026, bytes(16), bytes(100_000), 3004), (3012, bytes(16), b"", 3004),
    ]:
        s.sendall(frame(7, code, body, data))
        stream, status, told = answer(s)
        assert (stream, status, struct.unpack(">i", told[:4])[0]) == (7, 4003, error), code
    s.sendall(frame(8, 3011))
    assert answer(s) == (8, 0, b"")
    # A session that is not there, and one of another.
    other = hello(server)
    other.sendall(frame(0, 3024, bytes(range(16))))
    assert answer(other)[1] == 4003
    # Byte by byte, in one go with what follows.
    slow = socket.create_connection(s.getpeername(), timeout=20)
    for byte in struct.pack(">5i", 0, 0, 0, 4, 2012) + frame(0, 3006, struct.pack(">iBB10x", 0x520, 0, 3)):
        slow.sendall(bytes([byte]))
    assert receive(slow, 16)[7] == 8
    # Another protocol.
    web = socket.create_connection(s.getpeername(), timeout=20)
    web.sendall(b"GET / HTTP/1.1\r\n\r\n")
    try:
        assert web.recv(10) == b""
    except ConnectionError:
        pass


def test_pages_that_come_damaged_are_asked_for_again(server, bucket):
    crc = lambda page: struct.pack(">I", crc32c(page))
    s = hello(server)
    login(s)
    s.sendall(frame(1, 3010, struct.pack(">HHH10x", 0o644, 0x0402, 0), f"/{bucket}/pages".encode()))
    _, status, body = answer(s)
    assert status == 0
    handle = body[:4]
    pages = [content(number, 4096) for number in range(3)] + [b"end"]
    wire = b"".join(crc(page if number != 1 else b"?") + page for number, page in enumerate(pages))
    write = lambda offset, flags: handle + struct.pack(">qBBxx", offset, 0, flags)
    s.sendall(frame(2, 3026, write(0, 0), wire))
    _, status, body = answer(s)
    assert status == 4007
    size = struct.unpack(">i", body[12:16])[0]
    bad = receive(s, size)
    assert struct.unpack(">hhq", bad[4:]) == (4096, 4096, 4096)
    # Read back, it is all but that page.
    s.sendall(frame(3, 3003, handle + bytes(12)))
    _, status, body = answer(s)
    assert status == 4003 and struct.unpack(">i", body[:4])[0] == 3019
    assert xrdfs(server, "stat", f"/{bucket}/pages", check=False).returncode == 54
    # The same, and the page comes again.
    s.sendall(frame(1, 3010, struct.pack(">HHH10x", 0o644, 0x0402, 0), f"/{bucket}/pages".encode()))
    handle = answer(s)[2][:4]
    s.sendall(frame(2, 3026, write(0, 0), wire))
    receive(s, struct.unpack(">i", answer(s)[2][12:16])[0])
    s.sendall(frame(2, 3026, write(4096, 1), crc(pages[1]) + pages[1]))
    assert struct.unpack(">i", answer(s)[2][12:16])[0] == 0
    s.sendall(frame(3, 3003, handle + bytes(12)))
    assert answer(s)[1] == 0
    assert server.boto().get_object(Bucket=bucket, Key="pages")["Body"].read() == b"".join(pages)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_a_cut_upload_leaves_nothing(server, bucket, tmp_path):
    (tmp_path / "up").write_bytes(content("cut", 200_000_000))
    for _ in range(3):
        upload = subprocess.Popen([str(TOOLS / "bin" / "xrdcp"), "-f", "--nopbar", str(tmp_path / "up"),
                                   url(server, f"/{bucket}/cut")], env=environment())
        time.sleep(0.15)
        upload.send_signal(signal.SIGKILL)
        upload.wait()
        assert xrdfs(server, "stat", f"/{bucket}/cut", check=False).returncode == 54
    xrdcp("-f", tmp_path / "up", url(server, f"/{bucket}/cut"))
    xrdcp(url(server, f"/{bucket}/cut"), tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == (tmp_path / "up").read_bytes()


def test_two_disks_gone_and_a_kill(own_server, tmp_path):
    data = content("two", 20_000_000)
    (tmp_path / "up").write_bytes(data)
    own_server.allow("disk|shard|decoded|journal|holder|missing|epoch|away")
    xrdcp(tmp_path / "up", url(own_server, "/demo/before"))
    own_server.kill()
    for number in (2, 5):
        own_server.disk(number).rename(own_server.folder / f"gone{number}")
    own_server.start()
    xrdcp(url(own_server, "/demo/before"), tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == data
    xrdcp(tmp_path / "up", url(own_server, "/demo/after"))
    own_server.kill()
    own_server.start()
    xrdcp("-f", url(own_server, "/demo/after"), tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == data


def test_nobody_else_is_let_in(own_server, tmp_path):
    """A demo lets its own Unix user in; another, or a server without a word of it, nobody."""
    if os.getuid() != 0:
        pytest.skip("only root can become somebody else")
    code = """
import os, socket, struct, sys
os.setuid(65534)
s = socket.socket()
s.connect(("127.0.0.1", int(sys.argv[1])))
frame = lambda code, body: struct.pack(">HH", 0, code) + body + struct.pack(">i", 0)
s.sendall(struct.pack(">5i", 0, 0, 0, 4, 2012) + frame(3006, struct.pack(">iBB10x", 0x520, 0, 3))
          + frame(3007, struct.pack(">i8s4B", 1, b"demo", 0, 0, 0x85, 0))
          + struct.pack(">HH16xi", 0, 3017, 5) + b"/demo")
# Behind the answers to handshake, protocol and login, the first request hears why.
data = b""
while len(data) < 72:
    more = s.recv(1000)
    assert more, data
    data += more
status, _, error = struct.unpack(">Hii", data[58:68])
assert (status, error) == (4003, 3030), data
"""
    python(code, address(own_server).rsplit(":", 1)[1])


def test_clients_that_can_are_encrypted(own_server, tmp_path):
    """TLS begins right after the protocol's reply, for whoever says that it can."""
    tls = Certificate(tmp_path)
    own_server.stop()
    tls.configure(own_server)
    own_server.start()
    endpoint = own_server.ready["xrootd"]["endpoint"]
    assert endpoint.startswith("roots://")
    data = content("tls", 20_000_000)
    (tmp_path / "up").write_bytes(data)
    for scheme in ("root", "roots"):
        target = f"{scheme}://localhost:{endpoint.rsplit(':', 1)[1]}//demo/{scheme}"
        xrdcp(tmp_path / "up", target, **tls.trusted)
        xrdcp("-f", target, tmp_path / "down", **tls.trusted)
        assert (tmp_path / "down").read_bytes() == data
    # And by hand, so that it is known to be encrypted.
    import ssl
    context = ssl.create_default_context(cafile=str(tls.authority))
    plain = socket.create_connection(("127.0.0.1", int(endpoint.rsplit(":", 1)[1])), timeout=20)
    plain.sendall(struct.pack(">5i", 0, 0, 0, 4, 2012) + frame(0, 3006, struct.pack(">iBB10x", 0x520, 2, 3)))
    receive(plain, 16)
    flags = struct.unpack(">II", answer(plain)[2])[1]
    assert flags & 0xC4000000 == 0xC4000000
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
        login(secure)
        secure.sendall(frame(1, 3011))
        assert answer(secure) == (1, 0, b"")


STOP = """
import os, signal, sys, time
from XRootD.client import File
from XRootD.client.flags import OpenFlags
server, pid = sys.argv[1], int(sys.argv[2])
def ok(answer):
    status, value = answer
    assert status.ok, status.message
    return value
up, down = File(), File()
ok(up.open(server + "//demo/up", OpenFlags.NEW))
ok(up.write(b"before ", offset=0))
ok(down.open(server + "//demo/down", OpenFlags.READ))
assert ok(down.read(0, 4)) == b"abcd"
os.kill(pid, signal.SIGTERM)
time.sleep(1)
assert ok(down.read(4, 4)) == b"efgh"
ok(up.write(b"and after", offset=7))
ok(up.close())
ok(down.close())
# Nothing begins any more; what is asked now is answered by the server that comes next.
print("closed", flush=True)
late = File()
ok(late.open(server + "//demo/up", OpenFlags.READ))
assert ok(late.read(0, 100)) == b"before and after"
ok(late.close())
"""


def test_a_stop_lets_transfers_end_and_the_next_server_goes_on(own_server):
    own_server.boto().put_object(Bucket="demo", Key="down", Body=b"abcdefgh")
    patient = {"XRD_CONNECTIONWINDOW": "2", "XRD_CONNECTIONRETRY": "60"}
    server = url(own_server, "").rstrip("/")
    client = subprocess.Popen([sys.executable, "-c", STOP, server, str(own_server.process.pid)],
                              env=dict(bindings_environment(), **patient), stdout=subprocess.PIPE, text=True)
    assert client.stdout.readline() == "closed\n"
    assert own_server.process.wait(30) == 0
    own_server.start()
    assert client.wait(60) == 0
