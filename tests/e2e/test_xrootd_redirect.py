"""A redirector before servers with the same files: real clients, servers that come and go."""

import hashlib
import subprocess
import sys
import threading

import pytest
from conftest import content, until
from reference import Reference
from server import Server
from xrootd_tools import address, bindings_environment, configure, python, url, xrdcp, xrdfs

DATA = content("redirect", 24_000_001)


def made(folder, host, **values):
    """A server on an address of its own: clients tell servers apart by their hosts."""
    server = Server(folder).start()
    server.stop()
    port = address(server).rsplit(":", 1)[1]
    configure(server, listen=f'"{host}:{port}"', **values)
    return server.start()


def quoted(servers):
    return "[" + ", ".join(f'"{address(server)}"' for server in servers) + "]"


@pytest.fixture
def sites(tmp_path):
    """Two sites that hold the same file, and the redirector before them."""
    sites = [made(tmp_path / name, host) for name, host in [("one", "127.0.0.2"), ("two", "127.0.0.3")]]
    for site in sites:
        site.boto().put_object(Bucket="demo", Key="dir/file", Body=DATA)
    redirector = made(tmp_path / "redirector", "127.0.0.1", redirect='"always"', redirect_to=quoted(sites),
                      redirect_writes_to=quoted(sites[:1]))
    everything = [*sites, redirector]
    yield sites, redirector
    for server in everything:
        server.stop()
        assert not server.unexpected(), "\n".join(server.unexpected())


def test_commands_are_answered_by_the_servers_behind(sites, tmp_path):
    (one, two), redirector = sites
    assert xrdfs(redirector, "ls", "/demo/dir").stdout == "/demo/dir/file\n"
    assert "Size:   24000001" in xrdfs(redirector, "stat", "/demo/dir/file").stdout
    assert xrdfs(redirector, "query", "config", "role").stdout.split() == ["manager"]
    checksum = xrdfs(redirector, "query", "checksum", "/demo/dir/file").stdout
    assert checksum == xrdfs(one, "query", "checksum", "/demo/dir/file").stdout
    located = xrdfs(redirector, "locate", "/demo/dir/file").stdout
    assert any(f"[::{address(site).replace(':', ']:')} Server" in located for site in (one, two)), located
    missing = xrdfs(redirector, "stat", "/demo/dir/none", check=False)
    assert missing.returncode == 54 and "[3011]" in missing.stderr, missing
    # What changes something happens where it may.
    (tmp_path / "new").write_bytes(b"new")
    xrdcp(tmp_path / "new", url(redirector, "/demo/dir/new"))
    xrdfs(redirector, "mkdir", "/demo/made")
    assert xrdfs(one, "ls", "/demo").stdout.split() == ["/demo/dir", "/demo/made"]
    assert xrdfs(two, "ls", "/demo").stdout.split() == ["/demo/dir"]
    assert one.boto().get_object(Bucket="demo", Key="dir/new")["Body"].read() == b"new"
    xrdfs(redirector, "rm", "/demo/dir/new")


BINDINGS = """
import hashlib, sys, time
from XRootD import client
from XRootD.client.flags import OpenFlags
url, want = sys.argv[1], sys.argv[2]
print("ready", flush=True)
done = 0
stop = []
import threading
threading.Thread(target=lambda: stop.append(sys.stdin.readline()), daemon=True).start()
while not stop:
    with client.File() as f:
        status, _ = f.open(url, OpenFlags.READ)
        assert status.ok, status
        found = hashlib.sha256()
        at = 0
        while True:
            status, piece = f.read(at, 1 << 20)
            assert status.ok, status
            if not piece:
                break
            found.update(piece)
            at += len(piece)
    assert found.hexdigest() == want, at
    done += 1
print(done)
"""


def test_servers_are_restarted_one_after_the_other_and_no_transfer_fails(sites, tmp_path):
    servers, redirector = sites
    source = url(redirector, "/demo/dir/file")
    over = threading.Event()
    done, sent, failed = [], [], []
    (tmp_path / "up").write_bytes(DATA)

    def upload():
        while not over.is_set():
            copied = xrdcp("-f", tmp_path / "up", url(redirector, f"/demo/dir/up{len(sent) % 3}"), check=False)
            if copied.returncode != 0:
                failed.append(copied.stderr)
                return
            sent.append(f"dir/up{len(sent) % 3}")

    def download(number):
        target = tmp_path / f"down{number}"
        while not over.is_set():
            copied = xrdcp("-f", source, target, check=False)
            if copied.returncode != 0 or target.read_bytes() != DATA:
                failed.append(copied.stderr or "other bytes")
                return
            done.append(number)

    bindings = subprocess.Popen([sys.executable, "-c", BINDINGS, source, hashlib.sha256(DATA).hexdigest()],
                                env=bindings_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
    assert bindings.stdout.readline() == "ready\n"
    threads = [threading.Thread(target=download, args=(number,)) for number in range(2)]
    threads.append(threading.Thread(target=upload))
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            uploads = len(sent)
            for server in servers:
                downloads = len(done)
                server.restart()
                # Something is fetched while each is the only one that was not restarted just now.
                until("a download", lambda: len(done) > downloads or failed)
            # What was refused a connection asks again after its window, 10 seconds here.
            until("an upload", lambda: len(sent) > uploads or failed)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    stdout, stderr = bindings.communicate("stop\n", timeout=120)
    assert not failed, failed
    assert bindings.returncode == 0, stderr
    assert len(done) >= 6 and int(stdout) > 0 and len(sent) >= 3
    for key in set(sent):
        assert servers[0].boto().get_object(Bucket="demo", Key=key)["Body"].read() == DATA, key


def test_a_server_that_is_killed_is_left_for_another(sites):
    """In the middle of a file, of which the rest comes from the other server."""
    servers, redirector = sites
    code = """
import sys
from XRootD import client
from XRootD.client.flags import OpenFlags
with client.File() as f:
    status, _ = f.open(sys.argv[1], OpenFlags.READ)
    assert status.ok, status
    status, first = f.read(0, 1000)
    assert status.ok, status
    print(f.get_property("DataServer"), flush=True)
    sys.stdin.readline()
    status, last = f.read(24_000_000, 10)
    assert status.ok, status
    print(last.hex(), f.get_property("DataServer"))
"""
    client = subprocess.Popen([sys.executable, "-c", code, url(redirector, "/demo/dir/file")],
                              env=bindings_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    first = client.stdout.readline().strip()
    victim = next(server for server in servers if address(server) in first)
    victim.kill()
    stdout, _ = client.communicate("go on\n", timeout=120)
    last, second = stdout.split()
    assert bytes.fromhex(last) == DATA[24_000_000:]
    assert second != first
    # Whoever looks after the redirector is told.
    def troubles():
        return [trouble["what"] for trouble in redirector.admin("status")["troubles"]]

    until("it is known", lambda: any(address(victim) in what for what in troubles()))
    victim.start()
    until("it is known to be back", lambda: not troubles())


def test_the_reference_server_is_one_of_them(tmp_path):
    """The same files at another kind of server; whoever is away is not asked."""
    reference = Reference().start()
    site = made(tmp_path / "site", "127.0.0.2")
    # It listens on every address of this machine.
    redirector = made(tmp_path / "redirector", "127.0.0.1", redirect='"always"',
                      redirect_to=f'["{address(site)}", "127.0.0.3:{reference.port}"]')
    try:
        site.boto().create_bucket(Bucket="data")
        site.boto().put_object(Bucket="data", Key="file", Body=DATA)
        reference.put("file", DATA)
        code = """
import sys
from XRootD import client
from XRootD.client.flags import OpenFlags
found = set()
for _ in range(6):
    with client.File() as f:
        status, _ = f.open(sys.argv[1], OpenFlags.READ)
        assert status.ok, status
        found.add(f.get_property("DataServer"))
        status, data = f.read(23_999_000, 2000)
        assert status.ok and len(data) == 1001, status
print(len(found))
"""
        assert python(code, url(redirector, "/data/file")) == "2\n"
        reference.stop()
        assert python(code, url(redirector, "/data/file")) == "1\n"
        xrdcp("-f", url(redirector, "/data/file"), tmp_path / "down")
        assert (tmp_path / "down").read_bytes() == DATA
    finally:
        reference.remove()
        for server in (redirector, site):
            server.stop()
            assert not server.unexpected(), "\n".join(server.unexpected())
