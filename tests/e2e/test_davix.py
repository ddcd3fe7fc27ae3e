"""davix over https: the tools of grid sites, and the vector reads of ROOT."""

import base64
import itertools
import random
import subprocess
import zlib

import pytest
import requests
from conftest import content
from grid_tools import Site
from xrootd_tools import TOOLS


@pytest.fixture
def site(server, bucket):
    return Site(server, bucket)


@pytest.fixture
def davix(site):
    def run(tool, *words, login=("-H", f"Authorization: Bearer {site.token}"), **options):
        return site.run(TOOLS / "bin" / f"davix-{tool}", "--capath", site.authorities, *login, *words, **options)
    return run


def test_files_go_up_and_down(site, davix, tmp_path):
    up, down = tmp_path / "up", tmp_path / "down"
    for name, size in [("a file", 0), ("plus+percent%hash#", 100), ("deep/er/ü", 5_000_001)]:
        up.write_bytes(content(name, size))
        address = site.url(requests.utils.quote(name))
        davix("put", up, address)
        assert site.get(name) == up.read_bytes()
        davix("get", address, down)
        assert down.read_bytes() == up.read_bytes(), name
        down.unlink()
    # An existing one is replaced.
    up.write_bytes(b"second")
    davix("put", up, site.url("deep/er/again"))
    up.write_bytes(b"third")
    davix("put", up, site.url("deep/er/again"))
    assert site.get("deep/er/again") == b"third"


def test_a_key_and_its_secret_log_in_too(site, davix, tmp_path):
    (tmp_path / "up").write_bytes(b"by key")
    s3 = site.server.s3
    # Its own options for a name and a password never answer a server that asks for them.
    pair = base64.b64encode(f"{s3['access_key']}:{s3['secret_key']}".encode()).decode()
    login = ("-H", f"Authorization: Basic {pair}")
    davix("put", tmp_path / "up", site.url("by-key"), login=login)
    assert davix("get", site.url("by-key"), login=login).stdout == "by key"


def test_names(site, davix):
    site.put("dir/a", b"abc")
    site.put("dir/b c", b"")
    site.put("dir/sub/d", b"d")
    # It prints names as the server encodes them.
    assert davix("ls", site.url("dir")).stdout.split("\n") == ["a", "b%20c", "sub", ""]
    long = davix("ls", "-l", site.url("dir")).stdout.splitlines()
    kinds = {line.split()[-1]: (line[0], line.split()[2]) for line in long}
    assert kinds["a"] == ("-", "3") and kinds["sub"][0] == "d", long
    davix("mkdir", site.url("dir/new"))
    assert davix("ls", site.url("dir/new")).stdout == ""
    # It exits with 255 whatever the answer: what counts is what is there.
    davix("mv", site.url("dir/a"), site.url("dir/new/moved"), check=False)
    assert site.get("dir/new/moved") == b"abc" and "dir/a" not in site.names()
    davix("rm", site.url("dir/new/moved"))
    assert "dir/new/moved" not in site.names()
    davix("rm", "-r", "2", site.url("dir"))
    assert not {name for name in site.names() if name.startswith("dir")}


def test_what_is_not_there_or_not_allowed_says_so(site, davix, tmp_path):
    missing = davix("get", site.url("none"), check=False)
    assert missing.returncode != 0 and "404" in missing.stderr, missing
    stranger = davix("get", site.url("none"), login=("-H", "Authorization: Bearer nonsense"), check=False)
    assert stranger.returncode != 0 and "401" in stranger.stderr, stranger
    wrong = site.run(TOOLS / "bin" / "davix-get", "--capath", tmp_path, site.url("none"), check=False,
                     environment=site.variables(X509_CERT_DIR=None))
    assert wrong.returncode != 0 and "ertificate" in wrong.stderr, wrong


def test_who_shows_a_proxy_is_told_that_it_does_not_count(site, davix, tmp_path):
    """A grid client with a proxy and no token: the refusal says what is taken instead."""
    proxy = tmp_path / "proxy"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=somebody",
                    "-keyout", tmp_path / "key", "-out", proxy], check=True, capture_output=True)
    shown = requests.get(site.url("none"), cert=(proxy, tmp_path / "key"), verify=site.authority)
    assert shown.status_code == 401 and "certificates (X.509 proxies, VOMS) are not accepted" in shown.text, shown.text
    told = davix("get", site.url("none"), login=("--cert", proxy, "--key", tmp_path / "key"), check=False)
    assert told.returncode != 0 and "401" in told.stderr, told


def test_vector_reads(site):
    """Its library asks for 3,900 bytes of ranges a request. Pieces may overlap. One inside of another it gets wrong by
    itself, whatever the server."""
    chance, size = random.Random(7), 8_000_000
    data = content("vector", size)
    site.put("vector", data)
    for count, length in [(1, 10), (1000, 8192), (3000, 17)]:
        pieces = sorted((chance.randrange(size - length), chance.randrange(1, length + 1)) for _ in range(count))
        ends = itertools.accumulate((sum(piece) for piece in pieces), max)
        pieces = [piece for piece, end in zip(pieces, ends) if sum(piece) == end]
        assert len(pieces) > count / 3
        asked = "".join(f"{offset} {length}\n" for offset, length in pieces)
        got = site.run(TOOLS / "bin" / "davix_vector", site.url("vector"), site.authorities, site.token,
                       input=asked.encode(), text=False).stdout
        assert got == b"".join(data[offset:offset + length] for offset, length in pieces), (count, length)


def test_checksums_over_tls(site):
    data = content("sum", 3_000_001)
    site.put("sum", data)
    answer = requests.head(site.url("sum"), headers={"Authorization": f"Bearer {site.token}", "Want-Digest": "adler32"},
                           verify=site.authority)
    assert answer.headers["digest"] == f"adler32={zlib.adler32(data):08x}"
