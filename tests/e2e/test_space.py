"""Spaces and the storage report: over S3, WebDAV and root://, before and after a restart."""

import json
import sys
import time

import botocore.exceptions
import pytest
import requests
from conftest import ROOT
from server import Server
from xrootd_tools import url, xrdcp, xrdfs

sys.path.insert(0, str(ROOT / "tests" / "srr"))
from check import faults  # noqa: E402

SCHEMA = json.loads((ROOT / "tests" / "srr" / "schema.json").read_text())
# A report is kept for five seconds.
KEPT_SECONDS = 6


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    environment = {"DEWAR_WEBDAV_SRR_PATH": "/static/srr"}
    server = Server(tmp_path_factory.mktemp("space"), environment=environment).start()
    server.boto().create_bucket(Bucket="atlas")
    server.admin("group", "add", "production")
    server.admin("space", "add", "ATLASDATADISK", "/atlas/rucio/datadisk", "--quota", "1MB", "--group", "production",
                 "--vo", "atlas", "--vo", "atlas/Role=production")
    server.admin("space", "add", "SCRATCH", "/atlas/rucio/datadisk/scratch", "--quota", "10KB")
    yield server
    assert not server.unexpected(), "\n".join(server.unexpected())
    server.stop()


def dav(site):
    session = requests.Session()
    session.auth = (site.s3["access_key"], site.s3["secret_key"])
    session.base = site.ready["webdav"]["endpoint"]
    return session


def report(site, base=None, path="/.well-known/srr"):
    answer = requests.get(f"{base or site.ready['webdav']['endpoint']}{path}", timeout=30)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.content)
    found = answer.json()
    assert faults(SCHEMA, found) == []
    return found["storageservice"]


def share(service, name):
    [found] = [share for share in service["storageshares"] if share["name"] == name]
    return found


def spaces(site):
    return {space["name"]: space for space in site.admin("space", "list")}


def test_the_quota_of_a_space_is_refused_by_its_name(site, tmp_path):
    s3, session = site.boto(), dav(site)
    s3.put_object(Bucket="atlas", Key="rucio/datadisk/a", Body=b"a" * 900_000)
    with pytest.raises(botocore.exceptions.ClientError) as raised:
        s3.put_object(Bucket="atlas", Key="rucio/datadisk/b", Body=b"b" * 100_001)
    assert raised.value.response["Error"]["Code"] == "QuotaExceeded"
    assert "the space ATLASDATADISK holds 900000 bytes" in raised.value.response["Error"]["Message"]
    full = session.put(f"{session.base}/atlas/rucio/datadisk/b", data=b"b" * 100_001)
    assert full.status_code == 507 and "the space ATLASDATADISK" in full.text, full.text
    full = session.put(f"{session.base}/atlas/rucio/datadisk/scratch/b", data=b"b" * 10_001)
    assert full.status_code == 507 and "the space SCRATCH" in full.text, full.text
    up = tmp_path / "up"
    up.write_bytes(b"b" * 100_001)
    done = xrdcp(up, url(site, "/atlas/rucio/datadisk/b"), check=False)
    assert done.returncode != 0 and "3021" in done.stderr and "the space ATLASDATADISK" in done.stderr, done.stderr
    listed = spaces(site)["ATLASDATADISK"]
    assert listed["group"] == "production" and listed["vos"] == ["atlas", "atlas/Role=production"]
    # The inner space's directory is an object too.
    assert (listed["bytes"], listed["limits"], listed["state"]) == (900_000, {"max_bytes": 1_000_000}, "ok")


def test_quota_properties_and_space_queries_tell_of_the_space(site):
    session = dav(site)
    body = '<propfind xmlns="DAV:"><prop><quota-used-bytes/><quota-available-bytes/></prop></propfind>'
    found = session.request("PROPFIND", f"{session.base}/atlas/rucio/datadisk", data=body, headers={"Depth": "0"})
    assert "<D:quota-used-bytes>900000</D:quota-used-bytes>" in found.text, found.text
    assert "<D:quota-available-bytes>100000</D:quota-available-bytes>" in found.text, found.text
    told = "oss.cgroup=ATLASDATADISK&oss.space=1000000&oss.free=100000&oss.maxf=100000&oss.used=900000&oss.quota=1000000"
    for argument in ("ATLASDATADISK", "/atlas/rucio/datadisk", "/atlas/rucio/datadisk/a", "/?oss.cgroup=ATLASDATADISK"):
        assert told in xrdfs(site, "query", "space", argument).stdout, argument
    assert "oss.cgroup=SCRATCH&oss.space=10000&" in xrdfs(site, "query", "space", "SCRATCH").stdout
    assert "oss.cgroup=public&" in xrdfs(site, "query", "space", "/atlas").stdout
    none = xrdfs(site, "query", "space", "NOSUCHSPACE", check=False)
    assert none.returncode != 0


def test_the_report_follows_what_is_stored(site):
    time.sleep(KEPT_SECONDS)
    service = report(site)
    disk = share(service, "ATLASDATADISK")
    assert (disk["totalsize"], disk["usedsize"]) == (1_000_000, 900_000)
    assert disk["vos"] == ["atlas", "atlas/Role=production"] and disk["path"] == ["/atlas/rucio/datadisk"]
    assert disk["assignedendpoints"] == ["all"] and disk["servingstate"] == "open"
    assert abs(disk["timestamp"] - time.time()) < 60
    assert share(service, "SCRATCH")["totalsize"] == 10_000
    public, online = share(service, "public"), service["storagecapacity"]["online"]
    free = online["totalsize"] - online["usedsize"]
    expected = min(online["totalsize"] - 1_000_000, public["usedsize"] + free)
    # Other programs write to the same disk meanwhile.
    assert abs(public["totalsize"] - expected) <= online["totalsize"] // 50 and public["vos"] == []
    kinds = {point["interfacetype"]: point["endpointurl"] for point in service["storageendpoints"]}
    assert kinds["s3"] == site.ready["s3"]["endpoint"] + "/"
    assert kinds["http"] == site.ready["webdav"]["endpoint"] + "/"
    assert kinds["root"].startswith("root://127.0.0.1:")
    used = public["usedsize"]
    site.boto().put_object(Bucket="atlas", Key="outside", Body=b"x" * 12_345)
    time.sleep(KEPT_SECONDS)
    # On the S3 listener too, and under the configured path.
    assert share(report(site, site.ready["s3"]["endpoint"]), "public")["usedsize"] == used + 12_345
    assert share(report(site, path="/static/srr"), "public")["usedsize"] == used + 12_345
    endpoint = site.ready["webdav"]["endpoint"]
    head = requests.head(f"{endpoint}/.well-known/srr", timeout=30)
    assert head.status_code == 200 and int(head.headers["content-length"]) > 100 and not head.content
    assert requests.put(f"{endpoint}/.well-known/srr", data=b"x", timeout=30).status_code == 405


def test_well_known_paths(site):
    for base in (site.ready["webdav"]["endpoint"], site.ready["s3"]["endpoint"]):
        tape = requests.get(f"{base}/.well-known/wlcg-tape-rest-api", timeout=30)
        assert tape.status_code == 404
        macaroons = requests.get(f"{base}/.well-known/oauth-authorization-server", timeout=30).json()
        assert macaroons["issuer"] == base and macaroons["token_endpoint"].startswith(f"{base}/")


def test_a_space_keeps_its_directory(site):
    s3, session = site.boto(), dav(site)
    for path in ("rucio", "rucio/datadisk", "rucio/datadisk/scratch"):
        refused = session.delete(f"{session.base}/atlas/{path}")
        assert refused.status_code == 409 and "dewar space remove" in refused.text, refused.text
    refused = xrdfs(site, "rmdir", "/atlas/rucio/datadisk/scratch", check=False)
    assert refused.returncode != 0 and "3018" in refused.stderr + refused.stdout
    assert s3.get_object(Bucket="atlas", Key="rucio/datadisk/a")["ContentLength"] == 900_000
    # Within the outer space a directory is renamed. Out of it, it would have to be copied.
    move = lambda source, target: session.request(
        "MOVE", f"{session.base}/atlas/{source}", headers={"Destination": f"{session.base}/atlas/{target}"})
    assert move("rucio/datadisk/scratch", "rucio/datadisk/temporary").status_code == 201
    assert spaces(site)["SCRATCH"]["path"] == "/atlas/rucio/datadisk/temporary"
    refused = move("rucio/datadisk/temporary", "temporary")
    assert refused.status_code == 409 and "dewar space remove SCRATCH" in refused.text, refused.text
    # Any other directory is copied out of the space, and removed.
    s3.put_object(Bucket="atlas", Key="rucio/datadisk/run/1/file", Body=b"out of the space")
    assert move("rucio/datadisk/run", "run").status_code == 201
    assert s3.get_object(Bucket="atlas", Key="run/1/file")["Body"].read() == b"out of the space"
    assert "KeyCount" in (left := s3.list_objects_v2(Bucket="atlas", Prefix="rucio/datadisk/run")) and left["KeyCount"] == 0
    assert xrdfs(site, "mv", "/atlas/rucio/datadisk/temporary", "/atlas/temporary", check=False).returncode != 0
    # Nor is it replaced.
    s3.put_object(Bucket="atlas", Key="new/file", Body=b"new")
    refused = session.request("MOVE", f"{session.base}/atlas/new", headers={"Destination": f"{session.base}/atlas/rucio"})
    assert refused.status_code == 409 and "dewar space remove" in refused.text, refused.text
    assert move("rucio", "moved").status_code == 201
    assert spaces(site)["ATLASDATADISK"]["path"] == "/atlas/moved/datadisk"
    assert move("moved", "rucio").status_code == 201


def test_contradictions_are_refused(site):
    def error(*words):
        done = site.admin(*words, check=False)
        assert done.returncode != 0
        return done.stderr
    larger = error("space", "add", "LARGER", "/atlas/rucio/datadisk/larger", "--quota", "2MB")
    assert "the space ATLASDATADISK around it may hold only 1000000 bytes" in larger, larger
    assert "already" in error("space", "add", "SCRATCH", "/atlas/elsewhere", "--quota", "1KB")
    assert "has a larger quota" in error("quota", "set", "/atlas", "--bytes", "1KB")
    assert "needs a limit of bytes" in error("quota", "remove", "/atlas/rucio/datadisk")
    assert "is no directory" in error("space", "add", "WHOLE", "/atlas", "--quota", "1KB")


def test_spaces_survive_a_kill_and_go_by_command(site):
    before = spaces(site)
    site.kill()
    site.start()
    assert spaces(site) == before
    session = dav(site)
    full = session.put(f"{session.base}/atlas/rucio/datadisk/b", data=b"b" * 100_001)
    assert full.status_code == 507 and "the space ATLASDATADISK" in full.text, full.text
    site.admin("space", "remove", "SCRATCH")
    assert set(spaces(site)) == {"ATLASDATADISK"}
    assert session.delete(f"{session.base}/atlas/rucio/datadisk/temporary").status_code == 204
    site.admin("space", "remove", "ATLASDATADISK")
    assert site.admin("space", "list") == []
    # The directory keeps its files and its quota.
    full = session.put(f"{session.base}/atlas/rucio/datadisk/b", data=b"b" * 100_001)
    assert full.status_code == 507 and "the directory holds" in full.text, full.text
    assert session.delete(f"{session.base}/atlas/rucio").status_code == 204


def test_only_named_users_read_a_closed_report(tmp_path):
    environment = {"DEWAR_WEBDAV_SRR_READERS": "demo"}
    server = Server(tmp_path, environment=environment).start()
    try:
        server.admin("user", "add", "other")
        key = server.admin("key", "add", "--user", "other")
        for base in (server.ready["webdav"]["endpoint"], server.ready["s3"]["endpoint"]):
            at = f"{base}/.well-known/srr"
            nobody = requests.get(at, timeout=30)
            assert nobody.status_code == 401 and "Bearer" in nobody.headers["www-authenticate"]
            other = requests.get(at, auth=(key["access_key"], key["secret_key"]), timeout=30)
            assert other.status_code == 403
            own = requests.get(at, auth=(server.s3["access_key"], server.s3["secret_key"]), timeout=30)
            assert own.status_code == 200 and faults(SCHEMA, own.json()) == []
        assert not server.unexpected(), "\n".join(server.unexpected())
    finally:
        server.stop()
