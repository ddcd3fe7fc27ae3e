"""root:// while things break: two disks gone, kills in the middle, clients that resume, a thousand of them."""

import os
import random
import re
import resource
import socket
import struct
import subprocess
import sys
import threading
import time

import physics
import pytest
from conftest import content, until
from relay import Gate, Relay
from test_hostile import memory
from test_xrootd import answer, frame, hello, login
from xrootd_tools import TOOLS, address, bindings_environment, environment, python, url, xrdcp, xrdfs

# A client that waits for a server to come back, and asks it for the rest.
PATIENT = {"XRD_CONNECTIONWINDOW": "2", "XRD_CONNECTIONRETRY": "60", "XRD_STREAMERRORWINDOW": "60"}

READS_ON = """
import sys
from XRootD import client
with client.File() as f:
    status, _ = f.open(sys.argv[1])
    assert status.ok, status
    found = b""
    while len(found) < 50_000_000:
        status, piece = f.read(len(found), 4_000_000)
        assert status.ok, status
        found += piece
open(sys.argv[2], "wb").write(found)
"""


def without(server, *numbers):
    """Starts it without some of its disks."""
    if numbers:
        server.allow("disk|shard|decoded|journal|holder|missing|epoch|away")
    server.kill()
    for number in numbers:
        server.disk(number).rename(server.folder / f"gone{number}")
    server.start()


def port_of(server):
    return int(address(server).rsplit(":", 1)[1])


def test_real_files_of_real_clients_without_two_disks(own_server, samples, tmp_path):
    """uproot, both generations of the library's reads, xrdfs: all as with all disks."""
    chosen = physics.chosen(samples)[:4]
    big = content("without", 30_000_001)
    (tmp_path / "big").write_bytes(big)
    for path in chosen:
        xrdcp(path, url(own_server, f"/demo/{path.name}"))
    xrdcp(tmp_path / "big", url(own_server, "/demo/big"))
    sums = xrdfs(own_server, "query", "checksum", "/demo/big").stdout
    without(own_server, 1, 4)
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import physics
from pathlib import Path
print(sum(physics.compare_url(Path(path), f"{sys.argv[2]}/{Path(path).name}") for path in sys.argv[3:]))
"""
    told = python(code, os.path.dirname(__file__), url(own_server, "/demo"), *chosen)
    assert int(told.split()[-1]) > 300
    xrdcp("--cksum", "adler32:source", url(own_server, "/demo/big"), tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == big
    assert xrdfs(own_server, "query", "checksum", "/demo/big").stdout == sums
    vectors = """
import random, sys
from XRootD import client
data = open(sys.argv[2], "rb").read()
with client.File() as f:
    status, _ = f.open(sys.argv[1])
    assert status.ok, status
    chance = random.Random(3)
    chunks = [(chance.randrange(len(data) - 8192), 8192) for _ in range(1000)]
    status, got = f.vector_read(chunks)
    assert status.ok, status
    assert all(its.buffer == data[at:at + size] for its, (at, size) in zip(got.chunks, chunks))
"""
    python(vectors, url(own_server, "/demo/big"), tmp_path / "big")
    # What is written then, is changed and read by the others.
    xrdcp("-f", "-S", "3", tmp_path / "big", url(own_server, "/demo/new"))
    update = """
import sys
from XRootD import client
from XRootD.client.flags import OpenFlags
with client.File() as f:
    for status, _ in (f.open(sys.argv[1], OpenFlags.UPDATE), f.write(b"changed", 20_000_000), f.close()):
        assert status.ok, status
"""
    python(update, url(own_server, "/demo/new"))
    xrdcp("-f", url(own_server, "/demo/new"), tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == big[:20_000_000] + b"changed" + big[20_000_007:]
    own_server.kill()
    own_server.start()
    xrdcp("-f", url(own_server, "/demo/new"), tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == big[:20_000_000] + b"changed" + big[20_000_007:]


@pytest.mark.parametrize("gone", [(), (1, 3)], ids=["whole", "degraded"])
def test_a_download_goes_on_after_a_kill(own_server, tmp_path, gone):
    """By itself, where the client waits for the server; from where it was, where the client was killed too."""
    data = content("resumed", 50_000_000)
    (tmp_path / "up").write_bytes(data)
    xrdcp(tmp_path / "up", url(own_server, "/demo/f"))
    gate = Gate(port_of(own_server), 15_000_000)
    source = f"root://127.0.0.1:{gate.port}//demo/f"
    client = subprocess.Popen([str(TOOLS / "bin" / "xrdcp"), "--nopbar", source, str(tmp_path / "down")],
                              env=dict(environment(), **PATIENT), stderr=subprocess.PIPE, text=True)
    assert gate.reached.wait(30)
    own_server.kill()
    gate.opened.set()
    without(own_server, *gone)
    _, said = client.communicate(timeout=120)
    assert client.returncode == 0, said
    assert (tmp_path / "down").read_bytes() == data
    # The sixth generation.
    gate = Gate(port_of(own_server), 15_000_000)
    source = f"root://127.0.0.1:{gate.port}//demo/f"
    client = subprocess.Popen([sys.executable, "-c", READS_ON, source, str(tmp_path / "sixth")],
                              env=dict(bindings_environment(), **PATIENT), stderr=subprocess.PIPE, text=True)
    assert gate.reached.wait(30)
    own_server.kill()
    gate.opened.set()
    own_server.start()
    _, said = client.communicate(timeout=120)
    assert client.returncode == 0, said
    assert (tmp_path / "sixth").read_bytes() == data
    # What is there of a file whose client was killed is not fetched again.
    (tmp_path / "down").write_bytes(data[:33_000_000])
    gate = Gate(port_of(own_server), 18_000_000)
    gate.opened.set()
    xrdcp("--continue", f"root://127.0.0.1:{gate.port}//demo/f", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == data and gate.seen < 18_500_000


@pytest.mark.parametrize("gone", [(), (2, 5)], ids=["whole", "degraded"])
def test_an_upload_that_a_kill_cuts_is_not_there_and_comes_again(own_server, tmp_path, gone):
    data = content("cut", 50_000_000)
    (tmp_path / "up").write_bytes(data)
    own_server.boto().put_object(Bucket="demo", Key="old", Body=b"what was there")
    for name in ("new", "old"):
        gate = Gate(port_of(own_server), 15_000_000, holds_requests=True)
        target = f"root://127.0.0.1:{gate.port}//demo/{name}"
        client = subprocess.Popen([str(TOOLS / "bin" / "xrdcp"), "--nopbar", "-f", str(tmp_path / "up"), target],
                                  env=environment(), stderr=subprocess.PIPE, text=True)
        assert gate.reached.wait(30)
        own_server.kill()
        gate.opened.set()
        without(own_server, *(gone if name == "new" else ()))
        _, said = client.communicate(timeout=120)
        assert client.returncode != 0, said
    assert xrdfs(own_server, "stat", "/demo/new", check=False).returncode == 54
    assert own_server.boto().get_object(Bucket="demo", Key="old")["Body"].read() == b"what was there"
    for name in ("new", "old"):
        xrdcp("-f", tmp_path / "up", url(own_server, f"/demo/{name}"))
        assert own_server.boto().get_object(Bucket="demo", Key=name)["Body"].read() == data


SIXTH = """
import sys
from XRootD import client
process = client.CopyProcess()
process.add_job(sys.argv[1], sys.argv[2], force=True)
process.prepare()
status, told = process.run()
print(status.message)
sys.exit(0 if status.ok and told[0]["status"].ok else 54)
"""


@pytest.mark.parametrize("how", ["cut", "kill"])
@pytest.mark.parametrize("generation", [5, 6])
def test_an_upload_that_breaks_is_wholly_there_or_not_at_all(own_server, tmp_path, generation, how):
    """Clients open the file anew by themselves, and would go on where they were."""
    data, large, small = content("new", 60_000_000), content("old", 60_000_000), b"small and old"
    (tmp_path / "up").write_bytes(data)
    s3 = own_server.boto()
    for name, old in (("large", large), ("small", small), ("new", None)):
        if old is not None:
            s3.put_object(Bucket="demo", Key=name, Body=old)
        gate = Gate(port_of(own_server), 25_000_000, holds_requests=True)
        target = f"root://127.0.0.1:{gate.port}//demo/{name}"
        command, variables = ([sys.executable, "-c", SIXTH], bindings_environment()) if generation == 6 else (
            [str(TOOLS / "bin" / "xrdcp"), "--nopbar", "-f"], environment())
        client = subprocess.Popen([*command, str(tmp_path / "up"), target], env=dict(variables, **PATIENT),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert gate.reached.wait(30)
        if how == "kill":
            own_server.kill()
            gate.opened.set()
            own_server.start()
            s3 = own_server.boto()
        else:
            gate.cut()
            gate.opened.set()
        said, _ = client.communicate(timeout=120)
        # In the middle of a request the fifth generation sends the rest of it over the next connection, as if it
        # were another request, and sometimes gives up on what comes of that.
        if how == "cut" and client.returncode == 0:
            assert s3.get_object(Bucket="demo", Key=name)["Body"].read() == data, name
            continue
        # What a server knew that was killed is gone.
        assert client.returncode != 0, (name, said)
        if old is None:
            assert xrdfs(own_server, "stat", f"/demo/{name}", check=False).returncode == 54
        else:
            assert s3.get_object(Bucket="demo", Key=name)["Body"].read() == old, name
        xrdcp("-f", tmp_path / "up", url(own_server, f"/demo/{name}"))
        assert s3.get_object(Bucket="demo", Key=name)["Body"].read() == data


@pytest.mark.parametrize("generation", [5, 6])
def test_an_upload_goes_on_when_its_connection_breaks(own_server, tmp_path, generation):
    """Between two requests, with many of them not acknowledged."""
    data = content("new", 80_000_000)
    (tmp_path / "up").write_bytes(data)
    s3 = own_server.boto()
    s3.put_object(Bucket="demo", Key="old", Body=content("old", 60_000_000))
    for name in ("new", "old"):
        came, opened = [0], threading.Event()

        def count(_, piece, came=came):
            came[0] += len(piece)
            return piece

        def hold(_, piece, came=came, opened=opened):
            if came[0] > 15_000_000:
                opened.wait(60)
            return piece

        relay = Relay(port_of(own_server), answers=hold, requests=count)
        target = f"root://127.0.0.1:{relay.port}//demo/{name}"
        command, variables = ([sys.executable, "-c", SIXTH], bindings_environment()) if generation == 6 else (
            [str(TOOLS / "bin" / "xrdcp"), "--nopbar", "-f"], environment())
        client = subprocess.Popen([*command, str(tmp_path / "up"), target], env=dict(variables, **PATIENT),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        # Until it waits for answers.
        until("it begins", lambda: came[0] > 15_000_000)
        before = 0
        while before < came[0]:
            before = came[0]
            time.sleep(0.5)
        assert before < len(data)
        relay.cut()
        opened.set()
        said, _ = client.communicate(timeout=120)
        assert client.returncode == 0, (name, said)
        assert s3.get_object(Bucket="demo", Key=name)["Body"].read() == data, name
        # The old one was gone on with, and not begun anew.
        assert came[0] < 1.5 * len(data), came


@pytest.mark.parametrize("how", ["cut", "kill", "rename"])
@pytest.mark.parametrize("generation", [5, 6])
def test_who_reads_on_gets_no_mixture_of_two_versions(own_server, tmp_path, generation, how):
    """The file is replaced while it is read, and then the connection breaks. Clients do not tell who uses them."""
    old, new = content("old", 50_000_000), content("new", 50_000_000)
    s3 = own_server.boto()
    s3.put_object(Bucket="demo", Key="f", Body=old)
    if how == "rename":
        # Written before a start that both versions know.
        s3.put_object(Bucket="demo", Key="f.new", Body=new)
        own_server.restart()
    gate = Gate(port_of(own_server), 15_000_000)
    source, target = f"root://127.0.0.1:{gate.port}//demo/f", tmp_path / "down"
    command, variables = ([sys.executable, "-c", READS_ON], bindings_environment()) if generation == 6 else (
        [str(TOOLS / "bin" / "xrdcp"), "--nopbar", "-f"], environment())
    client = subprocess.Popen([*command, source, str(target)], env=dict(variables, **PATIENT),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert gate.reached.wait(30)
    if how == "rename":
        xrdfs(own_server, "mv", "/demo/f.new", "/demo/f")
    else:
        s3.put_object(Bucket="demo", Key="f", Body=new)
    if how != "cut":
        own_server.kill()
        gate.opened.set()
        own_server.start()
    else:
        gate.cut()
        gate.opened.set()
    said, _ = client.communicate(timeout=120)
    if how == "cut":
        assert client.returncode == 0, said
        assert target.read_bytes() == old
    else:
        assert client.returncode != 0 and "read it anew" in said, said
    xrdcp("-f", url(own_server, "/demo/f"), target)
    assert target.read_bytes() == new


def sessions(server):
    told = xrdfs(server, "query", "stats", "a").stdout
    return int(re.search(r'<stats id="link"><num>(\d+)</num>', told)[1])


@pytest.mark.alone
def test_a_thousand_sessions(own_server, tmp_path):
    """Each with an open file, and all of them at once with something to do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("too few descriptors")
    own_server.boto().put_object(Bucket="demo", Key="f", Body=bytes(range(256)) * 256)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    before, connections = memory(own_server), []
    try:
        for _ in range(1000):
            s = hello(own_server)
            login(s)
            s.sendall(frame(1, 3010, struct.pack(">HHHI6s", 0, 0x0010, 0, 0, b""), b"/demo/f"))
            _, status, handle = answer(s)
            assert status == 0, handle
            connections.append((s, handle[:4]))
        assert sessions(own_server) >= 1000
        for round in range(3):
            for number, (s, handle) in enumerate(connections):
                at = (number * 7 + round) % 60_000
                s.sendall(frame(2, 3013, handle + struct.pack(">qi", at, 64)))
            for number, (s, _) in enumerate(connections):
                at = (number * 7 + round) % 60_000
                assert answer(s) == (2, 0, bytes((at + i) % 256 for i in range(64)))
        # The others notice nothing.
        (tmp_path / "up").write_bytes(b"x" * 3_000_000)
        xrdcp(tmp_path / "up", url(own_server, "/demo/up"))
        grown = memory(own_server) - before
        assert grown < 150 << 20, f"{grown >> 20} MiB for a thousand sessions"
        # Half of them go without a word.
        for s, _ in connections[::2]:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        chance = random.Random(5)
        s, handle = chance.choice(connections[1::2])
        s.sendall(frame(3, 3013, handle + struct.pack(">qi", 0, 4)))
        assert answer(s) == (3, 0, bytes(range(4)))
    finally:
        for s, _ in connections:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    give_up = time.monotonic() + 20
    while sessions(own_server) > 2:
        assert time.monotonic() < give_up, sessions(own_server)
        time.sleep(0.1)
