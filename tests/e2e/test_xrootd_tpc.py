"""Third-party copies over root://: with the reference server at the other end, and between two Dewars."""

import time

import pytest
from conftest import content
from issuer import AUDIENCE
from reference import USER, Reference
from relay import Relay
from server import Server
from xrootd_tools import NOBODY, Certificate, address, configure, python, xrdcp, xrdfs

# The reference server tells hosts by names, and knows its own by one of them alone.
V4 = {"XRD_NETWORKSTACK": "IPv4"}


def made(folder, **values):
    """A server with a bucket, configured before its first client."""
    server = Server(folder).start()
    server.stop()
    configure(server, **values)
    server.start()
    server.boto().create_bucket(Bucket="data")
    return server


def until_the_end(server):
    """For fixtures: gives the server, and at the end it has complained of nothing and stops."""
    yield server
    assert not server.unexpected(), "\n".join(server.unexpected())
    server.stop()


@pytest.fixture(scope="module")
def dewar(tmp_path_factory):
    """Its other end may be a program of another Unix user, which says itself who it is and may nothing."""
    server = made(tmp_path_factory.mktemp("tpc"), trust_names="true")
    server.admin("user", "add", USER)
    yield from until_the_end(server)


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    yield from until_the_end(made(tmp_path_factory.mktemp("other")))


@pytest.fixture(scope="module")
def reference():
    server = Reference().start()
    yield server
    server.remove()


def url(server, name):
    port = address(server).rsplit(":", 1)[1]
    return f"root://localhost:{port}//data/{name}"


def put(server, name, data):
    server.boto().put_object(Bucket="data", Key=name, Body=data)


def get(server, name):
    return server.boto().get_object(Bucket="data", Key=name)["Body"].read()


def exists(server, name):
    return server.boto().list_objects_v2(Bucket="data", Prefix=name)["KeyCount"] > 0


COPY = """
import sys
from XRootD import client
process = client.CopyProcess()
process.add_job(sys.argv[1], sys.argv[2], force=True, thirdparty="only")
process.prepare()
status, results = process.run()
print(status.ok, status.message, results[0]["status"].message)
sys.exit(0 if status.ok else 1)
"""


def older(source, target):
    xrdcp("--tpc", "only", "-f", source, target, **V4)


def newer(source, target):
    python(COPY, source, target, **V4)


@pytest.mark.parametrize("copy", [older, newer])
@pytest.mark.parametrize("size", [0, 1, 4097, 30_000_001])
def test_a_file_comes_from_the_reference(dewar, reference, copy, size):
    data = content(f"from{size}", size)
    reference.put("in", data)
    copy(reference.url("in"), url(dewar, "sub/in"))
    assert get(dewar, "sub/in") == data


@pytest.mark.parametrize("copy", [older, newer])
@pytest.mark.parametrize("size", [0, 1, 30_000_001])
def test_a_file_goes_to_the_reference(dewar, reference, copy, size):
    """Its program may read nothing by itself: the key opens the file."""
    data = content(f"to{size}", size)
    put(dewar, "out", data)
    assert reference.process.poll() is None
    copy(url(dewar, "out"), reference.url("out"))
    assert reference.get("out") == data


@pytest.mark.parametrize("wanted", ["4", "15"])
def test_what_comes_on_more_streams_is_put_in_order(dewar, reference, wanted):
    data = content("streams", 60_000_001)
    reference.put("streams", data)
    xrdcp("--tpc", "only", "-f", "-S", wanted, reference.url("streams"), url(dewar, "streams"), **V4)
    assert get(dewar, "streams") == data


@pytest.mark.parametrize("copy", [older, newer])
def test_a_file_goes_from_dewar_to_dewar(dewar, other, copy):
    data = content("between", 20_000_003)
    put(dewar, "a", data)
    copy(url(dewar, "a"), url(other, "deep/er/b"))
    assert get(other, "deep/er/b") == data


@pytest.mark.parametrize("copy", [older, newer])
def test_a_file_goes_from_dewar_to_dewar_over_ipv6(tmp_path, copy):
    pair = []
    for name in ("one", "two"):
        server = made(tmp_path / name)
        server.stop()
        configure(server, listen=f'"[::1]:{address(server).rsplit(":", 1)[1]}"')
        pair.append(server.start())
    data = content("sixth", 9_000_001)
    put(pair[0], "a", data)
    urls = [f"root://{address(server)}//data/{name}" for server, name in zip(pair, "ab")]
    assert urls[0].startswith("root://[::1]:")
    if copy is older:
        xrdcp("--tpc", "only", *urls)
    else:
        python(COPY, *urls)
    assert get(pair[1], "b") == data
    for server in pair:
        server.stop()
        assert not server.unexpected(), "\n".join(server.unexpected())


def test_other_ways_to_ask_for_it(dewar, other):
    """Streams, delegation without anything to delegate, checksums at both ends, what is there already."""
    data = content("ways", 9_000_001)
    put(dewar, "ways", data)
    for options in [("-S", "4"), ("--tpc", "delegate", "only"), ("--posc",), ("--cksum", "adler32")]:
        tpc = () if "--tpc" in options else ("--tpc", "only")
        xrdcp(*tpc, "-f", *options, url(dewar, "ways"), url(other, "ways"), **V4)
        assert get(other, "ways") == data
    refused = xrdcp("--tpc", "only", url(dewar, "ways"), url(other, "ways"), check=False, **V4)
    assert refused.returncode != 0
    missing = xrdcp("--tpc", "only", url(dewar, "nothing"), url(other, "nothing"), check=False, **V4)
    assert missing.returncode != 0 and not exists(other, "nothing")
    assert xrdfs(other, "query", "config", "tpc").stdout.strip() == "1"
    assert xrdfs(other, "query", "config", "tpcdlg").stdout.strip() == "tpcdlg"


def test_a_source_that_dies_leaves_nothing(dewar):
    reference = Reference().start()
    reference.put("large", content("large", 60_000_000))

    def die(seen, data):
        if seen > 10_000_000:
            reference.stop()
        return data

    relay = Relay(reference.port, die)
    before = time.monotonic()
    done = xrdcp("--tpc", "only", relay.url("large"), url(dewar, "dies/large"), check=False, **V4)
    assert done.returncode != 0 and "Unable to copy /data/dies/large" in done.stderr, done.stderr
    assert time.monotonic() - before < 60
    assert not exists(dewar, "dies")
    reference.remove()


def test_what_the_source_says_of_its_sum_is_compared(dewar, reference):
    data = content("sum", 5_000_000)
    reference.put("sum", data)

    def lie(_, data):
        at = data.find(b"adler32 ")
        if at < 0:
            return data
        digit = data[at + 8:at + 9]
        return data[:at + 8] + (b"1" if digit != b"1" else b"2") + data[at + 9:]

    relay = Relay(reference.port, lie)
    done = xrdcp("--tpc", "only", relay.url("sum"), url(dewar, "sum/x"), check=False, **V4)
    assert done.returncode != 0 and "the source says" in done.stderr, done.stderr
    assert not exists(dewar, "sum")
    # Damage on the way is found too, by the page.
    done = []

    def damage(seen, data):
        if seen < 2_000_000 or len(data) < 60_000 or done:
            return data
        done.append(True)
        return data[:30_000] + bytes([data[30_000] ^ 1]) + data[30_001:]

    relay = Relay(reference.port, damage)
    copy = xrdcp("--tpc", "only", relay.url("sum"), url(dewar, "sum/y"), check=False, **V4)
    assert copy.returncode != 0 and done and not exists(dewar, "sum"), copy.stderr


KEYS = """
import os, sys, time, pwd
from concurrent.futures import ThreadPoolExecutor
from XRootD import client
url, here = sys.argv[1], "localhost"
KEY = "0123456789abcdef0123456%d"
who = f"{pwd.getpwuid(os.getuid()).pw_name}.{os.getpid()}@localhost"

def opened(path):
    file = client.File()
    status, _ = file.open(url + path)
    return file, status

def left(number, more=""):
    file, status = opened(f"a?tpc.key={KEY % number}&tpc.dst=localhost&tpc.stage=copy{more}")
    assert status.ok, status
    return file

def redeemed(number, name="a", who=who):
    file, status = opened(f"{name}?tpc.key={KEY % number}&tpc.org={who}")
    if status.ok:
        status, data = file.read()
        assert status.ok and data == b"what is read", status
        return 0
    return status.errno

first = left(1)
assert redeemed(1) == 0
second = left(2, "&tpc.ttl=1")
time.sleep(2)
assert redeemed(2) == 3010, "a key has an end"
third = left(3)
assert redeemed(3, "b") == 3010, "a key is for one file"
fourth = left(4)
assert redeemed(4, who="root.1@localhost") == 3010, "a key is for one client"
fifth = left(5)
fifth.close()
# Used already, ended with its file, never left: each is waited for a little.
with ThreadPoolExecutor(3) as pool:
    assert list(pool.map(redeemed, [1, 5, 6])) == [3010] * 3
_, status = opened("a?tpc.key=short&tpc.dst=localhost")
assert status.errno == 3000, status
"""


def test_a_key_is_good_once_and_not_for_long(dewar):
    put(dewar, "a", b"what is read")
    put(dewar, "b", b"another file")
    python(KEYS, url(dewar, ""), **V4)


def counted(server):
    """What the metrics say of third-party copies."""
    import requests
    text = requests.get(server.ready["metrics"]["endpoint"] + "/metrics", timeout=10).text
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("dewar_cop"))
    return {name.replace('door="xrootd",', "").replace('{door="xrootd"}', ""): int(value) for name, value in lines}


def test_copies_are_counted(reference, tmp_path):
    server = made(tmp_path / "counted", tpc_sources=f'["localhost:{reference.port}"]')
    ended = {f'dewar_copies_ended_total{{outcome="{outcome}"}}': 0
             for outcome in ("done", "cancelled", "forbidden", "unreachable", "refused", "wrong", "unstored")}
    nothing = ended | {
        "dewar_copies_running": 0, "dewar_copies_started_total": 0, "dewar_copied_bytes_total": 0,
        'dewar_copy_keys_total{outcome="good"}': 0, 'dewar_copy_keys_total{outcome="refused"}': 0}
    try:
        assert counted(server) == nothing
        reference.put("f", content("f", 3_000_000))
        older(reference.url("f"), url(server, "f"))
        expected = nothing | {'dewar_copies_ended_total{outcome="done"}': 1, "dewar_copies_started_total": 1,
                              "dewar_copied_bytes_total": 3_000_000}
        assert counted(server) == expected
        # Without room for it.
        server.admin("quota", "set", "/data", "--objects", "1")
        done = xrdcp("--tpc", "only", reference.url("f"), url(server, "g"), check=False, **V4)
        assert done.returncode != 0
        server.admin("quota", "remove", "/data")
        # From where nothing may be fetched.
        before = counted(server)['dewar_copies_ended_total{outcome="forbidden"}']
        relay = Relay(reference.port)
        done = xrdcp("--tpc", "only", relay.url("f"), url(server, "h"), check=False, **V4)
        assert done.returncode != 0 and "may not be asked" in done.stderr, done.stderr
        found = counted(server)
        assert found['dewar_copies_ended_total{outcome="forbidden"}'] == before + 1, found
        assert "nothing may be fetched from there" in server.log_path.read_text()
        # As a source.
        older(url(server, "f"), reference.url("back"))
        found = counted(server)
        assert found['dewar_copy_keys_total{outcome="good"}'] == 1, found
        assert found['dewar_copies_ended_total{outcome="done"}'] == 1, found
        assert found["dewar_copies_running"] == 0, found
        assert server.admin("status")["copies"] == 0
    finally:
        assert not server.unexpected(), "\n".join(server.unexpected())
        server.stop()


def test_where_it_must_not_fetch_it_does_not(reference, tmp_path):
    server = made(tmp_path / "strict", tpc_sources='["*"]')
    try:
        reference.put("f", b"here")
        done = xrdcp("--tpc", "only", reference.url("f"), url(server, "f"), check=False, **V4)
        assert done.returncode != 0 and "not among the configured sources" in done.stderr, done.stderr
        # From nowhere at all: then clients copy themselves, if they may.
        server.stop()
        configure(server, tpc_sources="[]")
        server.start()
        done = xrdcp("--tpc", "only", reference.url("f"), url(server, "f"), check=False, **V4)
        assert done.returncode != 0 and not exists(server, "f")
        xrdcp("--tpc", "first", reference.url("f"), url(server, "f"), **V4)
        assert get(server, "f") == b"here"
        # It is a source all the same, and clients find that out.
        assert xrdfs(server, "query", "config", "tpc").stdout.strip() == "1"
        older(url(server, "f"), reference.url("from-nowhere"))
        assert reference.get("from-nowhere") == b"here"
        # A host by its name and port, though it is this machine.
        server.stop()
        configure(server, tpc_sources=f'["localhost:{reference.port}"]')
        server.start()
        xrdcp("--tpc", "only", "-f", reference.url("f"), url(server, "g"), **V4)
        assert get(server, "g") == b"here"
    finally:
        assert not server.unexpected(), "\n".join(server.unexpected())
        server.stop()


@pytest.fixture(scope="module")
def sites(tmp_path_factory, issuer):
    """Two servers with TLS that let nobody in without a token, and believe each other's certificate."""
    folder = tmp_path_factory.mktemp("sites")
    tls = Certificate(folder)
    pair = []
    for name in ("a", "b"):
        server = Server(folder / name, environment={"SSL_CERT_FILE": str(tls.authority)}).start()
        server.stop()
        tls.configure(server)
        configure(server, **NOBODY)
        server.tls = tls
        server.start()
        server.admin("issuer", "add", issuer.url, "--audience", AUDIENCE, "--base", "/data")
        server.boto().create_bucket(Bucket="data")
        pair.append(server)
    yield pair
    for server in pair:
        assert not server.unexpected(), "\n".join(server.unexpected())
        server.stop()


@pytest.mark.parametrize("way", [("delegate", "only"), ("only",)])
def test_a_token_is_shown_to_the_source_or_a_key_is_left(sites, issuer, way):
    """With delegation the destination shows the client's token; without, it has nothing but the key."""
    source, target = sites
    data = content("tokens", 3_000_000)
    put(source, "in/x", data)
    options = dict(source.tls.trusted, BEARER_TOKEN=issuer.token(scope="storage.read:/in storage.modify:/out"), **V4)
    xrdcp("--tpc", *way, "-f", url(source, "in/x"), url(target, "out/x"), **options)
    assert get(target, "out/x") == data
    # Who may not read there, or not write here, moves nothing.
    for scope in ["storage.modify:/out", "storage.read:/in", "storage.read:/in storage.modify:/other"]:
        options["BEARER_TOKEN"] = issuer.token(scope=scope)
        done = xrdcp("--tpc", *way, "-f", url(source, "in/x"), url(target, "out/y"), check=False, **options)
        assert done.returncode != 0 and not exists(target, "out/y"), scope
    server = xrdfs(target, "query", "config", "tpcdlg", check=False, **options)
    assert server.stdout.strip() == "ztn", server.stderr


def test_a_server_fetches_from_itself_with_a_key_only(sites, issuer):
    """With a token it would ask itself from its own address, which is not the client's."""
    server = sites[0]
    data = content("itself", 300_000)
    put(server, "in/itself", data)
    options = dict(server.tls.trusted, BEARER_TOKEN=issuer.token(scope="storage.read:/in storage.modify:/out"), **V4)
    xrdcp("--tpc", "only", "-f", url(server, "in/itself"), url(server, "out/itself"), **options)
    assert get(server, "out/itself") == data
    done = xrdcp("--tpc", "delegate", "only", "-f", url(server, "in/itself"), url(server, "out/again"),
                 check=False, **options)
    assert done.returncode != 0 and not exists(server, "out/again"), done.stderr
