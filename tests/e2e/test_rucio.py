"""Rucio's storage plugins, as its clients and daemons call them: `rucio.rse.rsemanager`, without a Rucio server."""

import json
import sys
import zlib

import pytest
from conftest import content
from grid_tools import Site
from issuer import AUDIENCE
from server import Server
from xrootd_tools import TOOLS, address, configure

# What Rucio does with a file, in its own process: it reads its mode and finds libraries at the import.
LIFE = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
from rucio.rse import rsemanager as manager
import rucio.rse
told = json.loads(sys.argv[1])
rse, token, lfn, folder = told["rse"], told["token"], told["lfn"], told["folder"]
with_token = {"auth_token": token}
name = {"scope": lfn["scope"], "name": lfn["name"]}
pfn = list(manager.lfns2pfns(rse, name, operation="read", **with_token).values())[0]
seen = {"pfn": pfn, "before": manager.exists(rse, name, **with_token)}
seen["uploaded"] = manager.upload(rse, lfn, source_dir=folder, **with_token)["success"]
seen["after"] = manager.exists(rse, name, **with_token)
try:
    manager.upload(rse, lfn, source_dir=folder, **with_token)
except Exception as error:
    seen["again"] = type(error).__name__
protocol = manager.create_protocol(rse, "read", **with_token)
protocol.connect()
seen["stat"] = protocol.stat(pfn)
protocol.get(pfn, folder + "/down")
protocol.close()
if told["renames"]:
    seen["renamed"] = manager.rename(rse, {**name, "new_name": lfn["name"] + ".new"}, **with_token)
    name["name"] += ".new"
    seen["old"] = manager.exists(rse, {"scope": lfn["scope"], "name": lfn["name"]}, **with_token)
    seen["new"] = manager.exists(rse, name, **with_token)
seen["deleted"] = manager.delete(rse, name, **with_token)
seen["gone"] = not manager.exists(rse, name, **with_token)
try:
    manager.delete(rse, name, **with_token)
except Exception as error:
    seen["delete again"] = type(error).__name__
if told["space"]:
    seen["space"] = manager.get_space_usage(rse, **with_token)
print(json.dumps(seen))
"""


def settings(implementation, scheme, endpoint, prefix):
    host, port = endpoint.split("://", 1)[1].rsplit(":", 1)
    every = {operation: 1 for operation in ("read", "write", "delete")}
    return {
        "rse": "DEWAR", "id": "0" * 32, "rse_type": "DISK", "volatile": False, "verify_checksum": True,
        "deterministic": True, "domain": ["lan", "wan"], "sign_url": None, "staging_area": False, "vo": "def",
        "lfn2pfn_algorithm": "hash", "delete_protocol": 1, "read_protocol": 1, "write_protocol": 1,
        "third_party_copy_protocol": 1, "availability_read": True, "availability_write": True,
        "availability_delete": True, "credentials": None,
        "protocols": [{
            "scheme": scheme, "hostname": host, "port": int(port), "prefix": prefix, "impl": f"rucio.rse.protocols.{implementation}",
            "extended_attributes": None, "domains": {"lan": every, "wan": every},
        }],
    }


@pytest.fixture
def site(server, bucket):
    return Site(server, bucket)


def life(site, rse, tmp_path, renames=True, space=False, token=None):
    """Takes a file through its life, and returns what Rucio saw."""
    data = content("rucio", 300_001)
    (tmp_path / "events.root").write_bytes(data)
    lfn = {"scope": "user.ann", "name": "events.root", "filesize": len(data), "adler32": f"{zlib.adler32(data):08x}"}
    config = tmp_path / "rucio.cfg"
    config.write_text("[client]\nrucio_host = https://localhost\nauth_host = https://localhost\nauth_type = userpass\n"
                      "account = ann\n")
    told = {"rse": rse, "token": token or site.token, "lfn": lfn, "folder": str(tmp_path), "renames": renames, "space": space}
    environment = site.variables(RUCIO_CLIENT_MODE="1", RUCIO_CONFIG=str(config), BEARER_TOKEN=None,
                                 PATH=f"{TOOLS / 'bin'}:/usr/bin:/bin", HOME=str(tmp_path))
    done = site.run(sys.executable, "-c", LIFE, json.dumps(told), environment=environment)
    seen = json.loads(done.stdout.splitlines()[-1])
    assert (tmp_path / "down").read_bytes() == data
    assert seen["before"] is False and seen["uploaded"] is True and seen["after"] is True, seen
    assert seen["again"] == "FileReplicaAlreadyExists", seen
    assert int(seen["stat"]["filesize"]) == len(data), seen
    if renames:
        assert seen["renamed"] is True and seen["old"] is False and seen["new"] is True, seen
    assert seen["deleted"] is True and seen["gone"] is True and seen["delete again"] == "SourceNotFound", seen
    return seen, lfn


def test_webdav(site, tmp_path):
    rse = settings("webdav.Default", "https", site.https, f"/{site.bucket}/rucio/")
    site.put("rucio/there", b"x")
    seen, _ = life(site, rse, tmp_path, space=True)
    good, space = seen["space"]
    assert good and int(space["totalsize"]) > int(space["unusedsize"]) > 0, seen


def test_gfal(site, tmp_path):
    rse = settings("gfal.Default", "davs", site.https, f"/{site.bucket}/rucio/")
    seen, lfn = life(site, rse, tmp_path)
    assert seen["stat"]["adler32"] == lfn["adler32"], seen


def test_gfal_without_renaming(site, tmp_path):
    rse = settings("gfal.NoRename", "davs", site.https, f"/{site.bucket}/rucio/")
    seen, lfn = life(site, rse, tmp_path, renames=False)
    assert seen["stat"]["adler32"] == lfn["adler32"], seen


def test_xrootd(tmp_path, issuer):
    """Rucio names the protocol for tokens, which needs TLS on this door."""
    server = Server(tmp_path / "own").start()
    server.stop()
    configure(server, tls_certificate_file='"webdav.pem"', tls_key_file='"webdav-key.pem"')
    # The issuer of the tests may end before its keys were fetched.
    server.allow("the keys of an issuer cannot be fetched")
    server.start()
    try:
        # Macaroons are taken over XRootD if tokens are.
        server.admin("issuer", "add", issuer.url, "--audience", AUDIENCE)
        site = Site(server, "demo")
        rse = settings("xrootd.Default", "root", f"root://{address(server).replace('127.0.0.1', 'localhost')}", "//demo/rucio/")
        seen, lfn = life(site, rse, tmp_path)
        assert seen["stat"]["adler32"] == lfn["adler32"], seen
        assert not server.unexpected(), "\n".join(server.unexpected())
    finally:
        server.kill()
