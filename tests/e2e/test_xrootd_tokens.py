"""Bearer tokens over root://: protocol ztn, tokens on paths, and what ends while a session lasts."""

import subprocess
import sys
import time

import pytest
from issuer import AUDIENCE
from server import Server
from xrootd_tools import NOBODY, Certificate, address, configure, environment, python, xrdcp, xrdfs


@pytest.fixture(scope="module")
def site(tmp_path_factory, issuer):
    """A server with TLS that lets nobody in without a token."""
    folder = tmp_path_factory.mktemp("tokens")
    server = Server(folder).start()
    server.stop()
    server.tls = Certificate(folder)
    server.tls.configure(server)
    configure(server, **NOBODY)
    server.start()
    server.admin("issuer", "add", issuer.url, "--audience", AUDIENCE, "--base", "/atlas")
    s3 = server.boto()
    s3.create_bucket(Bucket="atlas")
    s3.put_object(Bucket="atlas", Key="data/a", Body=b"a")
    s3.put_object(Bucket="atlas", Key="database/b", Body=b"b")
    yield server
    assert not server.unexpected(), "\n".join(server.unexpected())
    server.stop()


def holding(site, token):
    """The environment of a client with a token."""
    return dict(site.tls.trusted, BEARER_TOKEN=token)


def localhost(site):
    return "root://localhost:" + address(site).rsplit(":", 1)[1]


@pytest.fixture
def copy(site, issuer, tmp_path):
    """Copies with a token of these scopes: the client's code and words."""
    def copy(scope, source, target):
        options = holding(site, issuer.token(scope=scope))
        done = xrdcp("-f", source, target, check=False, **options)
        return done.returncode, done.stderr
    return copy


def test_capabilities_are_obeyed_by_xrdcp(site, copy, tmp_path):
    up, down = tmp_path / "up", tmp_path / "down"
    up.write_bytes(b"u" * 100_000)
    at = localhost(site) + "//atlas"

    assert copy("storage.read:/data", f"{at}/data/a", down)[0] == 0
    assert down.read_bytes() == b"a"
    code, words = copy("storage.read:/data", f"{at}/database/b", down)
    assert code != 0 and "permission denied" in words, words
    code, words = copy("storage.read:/data", up, f"{at}/data/new")
    assert code != 0 and "permission denied" in words, words
    # Parents are made, nothing is written over, and what was created is not read.
    code, words = copy("storage.create:/up", up, f"{at}/up/x/y")
    assert code == 0, words
    assert copy("storage.create:/up", up, f"{at}/up/x/y")[0] != 0
    assert copy("storage.create:/up", f"{at}/up/x/y", down)[0] != 0
    assert copy("storage.modify:/up", up, f"{at}/up/x/y")[0] == 0
    assert site.boto().get_object(Bucket="atlas", Key="up/x/y")["Body"].read() == up.read_bytes()
    assert copy("storage.stage:/data", f"{at}/data/a", down)[0] != 0


def test_who_holds_no_good_token_stays_out(site, issuer):
    now = int(time.time())
    for token in ("", "not.a.token", issuer.token(exp=now - 600), issuer.token(aud="https://other"),
                  issuer.token(iss="http://127.0.0.1:1/other")):
        options = holding(site, token) if token else site.tls.trusted
        done = xrdfs(site, "ls", "/atlas", check=False, HOME="/nonexistent", **options)
        assert done.returncode != 0 and "/atlas/data" not in done.stdout, token
    # The same command with a good one.
    good = holding(site, issuer.token(scope="storage.read:/"))
    assert "/atlas/data" in xrdfs(site, "ls", "/atlas", **good).stdout


def test_the_other_generation_and_tokens_on_paths(site, issuer):
    """PyPI's bindings; the token of the path counts instead of that of the login."""
    code = """
import sys
from urllib.parse import quote
from XRootD import client
host, other = sys.argv[1:3]
fs = client.FileSystem(host)
status, listing = fs.dirlist("/atlas/data")
assert status.ok and [entry.name for entry in listing] == ["a"], status
status, _ = fs.stat("/atlas/database/b")
assert status.errno == 3010, status
status, info = fs.stat("/atlas/database/b?authz=" + quote("Bearer " + other))
assert status.ok and info.size == 1, status
status, _ = fs.stat("/atlas/data/a?authz=" + quote("Bearer " + other))
assert status.errno == 3010, status
status, _ = fs.stat("/atlas/data/a?authz=nothing")
assert status.errno == 3030, status
"""
    token = issuer.token(scope="storage.read:/data")
    other = issuer.token(scope="storage.read:/database")
    python(code, localhost(site), other, **holding(site, token))


def test_what_ends_during_a_session_ends(site, issuer):
    """An issuer that is switched off and a token that expires stop the next request, not the next login."""
    code = """
import sys
from XRootD import client
fs = client.FileSystem(sys.argv[1])
def errno():
    return fs.stat("/atlas/data/a")[0].errno
assert errno() == 0
print("in", flush=True)
sys.stdin.readline()
assert errno() == 3030, errno()
"""
    clean = dict(environment(), **holding(site, issuer.token(scope="storage.read:/data")))
    del clean["LD_LIBRARY_PATH"]
    client = subprocess.Popen([sys.executable, "-c", code, localhost(site)], env=clean, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert client.stdout.readline() == "in\n", client.stderr.read()
    site.admin("issuer", "disable", issuer.url)
    try:
        _, words = client.communicate("on\n", timeout=60)
        assert client.returncode == 0, words
    finally:
        site.admin("issuer", "enable", issuer.url)
