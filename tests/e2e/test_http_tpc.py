"""Third-party copies over HTTP: gfal2 as the client, another Dewar and the reference server as the other side."""

import json
import zlib
from types import SimpleNamespace
from urllib.parse import quote

import pytest
import requests
from conftest import content
from grid_tools import Site
from reference import Reference
from server import Server


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Two servers that trust each other's authority. A demo copies from and to this machine."""
    servers = [Server(tmp_path_factory.mktemp(name)) for name in ("first", "second")]
    for server in servers:
        server.start()
        server.stop()
    one, two = (next((server.data / "certificates").iterdir()) for server in servers)
    first, second = one.read_bytes(), two.read_bytes()
    # Both have the same name: OpenSSL counts them.
    one.with_suffix(".1").write_bytes(second)
    two.with_suffix(".1").write_bytes(first)
    yield [Site(server.start(), "demo") for server in servers]
    for server in servers:
        assert not server.unexpected(), "\n".join(server.unexpected())
        server.stop()


@pytest.fixture(scope="module")
def reference(sites):
    """It has the certificate of the first server, and trusts its authority and so both sides."""
    data = sites[0].server.data
    tls = SimpleNamespace(authorities=data / "certificates", certificate=data / "webdav.pem", key=data / "webdav-key.pem")
    server = Reference(tls=tls).start()
    yield server
    server.remove()


# With a token for each side, as FTS has them.
COPY = """
import gfal2, json, sys
told = json.loads(sys.argv[1])
context = gfal2.creat_context()
for side in ("source", "destination"):
    gfal2.cred_set(context, told[side], gfal2.cred_new("BEARER", told[side + " token"]))
context.set_opt_boolean("HTTP PLUGIN", "ENABLE_FALLBACK_TPC_COPY", False)
context.set_opt_string("HTTP PLUGIN", "DEFAULT_COPY_MODE", told["mode"])
parameters = context.transfer_parameters()
parameters.create_parent = True
parameters.overwrite = told.get("overwrite", False)
parameters.set_checksum(gfal2.checksum_mode.both, "ADLER32", "")
try:
    print(json.dumps({"copied": context.filecopy(parameters, told["source"], told["destination"])}))
except gfal2.GError as error:
    print(json.dumps({"code": error.code, "text": str(error)}))
"""


def copy(site, mode, source, destination, source_token, destination_token, **more):
    told = {"mode": mode, "source": source, "destination": destination, "source token": source_token,
            "destination token": destination_token, **more}
    done = site.run("/usr/bin/python3", "-c", COPY, json.dumps(told), environment=site.variables(BEARER_TOKEN=None))
    return json.loads(done.stdout.splitlines()[-1])


MODES = ["3rd pull", "3rd push", "streamed"]


@pytest.mark.parametrize("mode", MODES)
def test_between_two_servers(sites, mode):
    first, second = sites
    data = content(mode, 20_000_003)
    first.put(f"{mode}/source", data)
    there = (first.url(quote(f"{mode}/source"), "davs"), second.url(quote(f"{mode}/made/on the/way"), "davs"))
    assert copy(first, mode, *there, first.token, second.token) == {"copied": 0}
    # It returns 0 when a checksum fails: values are compared.
    assert second.get(f"{mode}/made/on the/way") == data
    answer = requests.head(second.url(quote(f"{mode}/made/on the/way")), verify=second.authority,
                           headers={"Authorization": f"Bearer {second.token}", "Want-Digest": "adler32"}, timeout=30)
    assert answer.headers["digest"] == f"adler32={zlib.adler32(data):08x}"
    # What is there stays, unless it is said.
    assert copy(first, mode, *there, first.token, second.token)["code"] == 17
    first.put(f"{mode}/source", b"second")
    assert copy(first, mode, *there, first.token, second.token, overwrite=True) == {"copied": 0}
    assert second.get(f"{mode}/made/on the/way") == b"second"


@pytest.mark.parametrize("mode", MODES)
def test_what_is_not_there_or_not_allowed(sites, mode):
    first, second = sites
    gone = copy(first, mode, first.url("none", "davs"), second.url("none", "davs"), first.token, second.token)
    assert gone["code"] == 2 and "none" not in second.names(), gone
    first.put("private", b"x")
    refused = copy(first, mode, first.url("private", "davs"), second.url("refused", "davs"), "nonsense", second.token)
    assert refused["code"] != 0 and "refused" not in second.names(), refused


@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize("name", ["empty", "with space", "plus+percent%25", "ü#:"])
def test_names_that_are_hard(sites, mode, name):
    first, second = sites
    data = b"" if name == "empty" else content(name, 5000)
    first.put(f"hard/{name}", data)
    there = (first.url(quote(f"hard/{name}"), "davs"), second.url(quote(f"{mode}-hard/{name}"), "davs"))
    assert copy(first, mode, *there, first.token, second.token) == {"copied": 0}
    assert second.get(f"{mode}-hard/{name}") == data


@pytest.mark.parametrize("active", ["dewar", "reference"])
@pytest.mark.parametrize("up", [True, False], ids=["to the reference", "from the reference"])
def test_with_the_reference_server(sites, reference, active, up):
    """Each of them moves the file, with macaroons of both. It names neither an ETag nor, on a GET, a digest."""
    site, data = sites[0], content((active, up), 9_000_001)
    name = f"{active}-{up}"
    other = reference.macaroon("DOWNLOAD", "UPLOAD", "MANAGE", "LIST", "READ_METADATA", "DELETE")
    mine, theirs = (site.url(name), f"Bearer {site.token}"), (reference.https(name), f"Bearer {other}")
    source, destination = (mine, theirs) if up else (theirs, mine)
    site.put(name, data) if up else reference.put(name, data)
    pulls = (active == "dewar") != up
    asked, remote = (destination, source) if pulls else (source, destination)
    answer = requests.request("COPY", asked[0], verify=site.authority, timeout=60, headers={
        "Authorization": asked[1], "TransferHeaderAuthorization": remote[1], "Credential": "none", "Secure-Redirection": "1",
        "RequireChecksumVerification": "false", "Source" if pulls else "Destination": remote[0]})
    assert answer.status_code in (201, 202), answer.text
    assert answer.text.splitlines()[-1].startswith("success"), answer.text + reference.log()
    assert (reference.get(name) if up else site.get(name)) == data


def test_gfal_copy_as_people_type_it(sites):
    """One token for both sides: the commands know no other way."""
    first, _ = sites
    first.put("typed", b"typed")
    first.gfal("copy", "-K", "ADLER32", first.url("typed", "davs"), first.url("typed-too", "davs"))
    assert first.get("typed-too") == b"typed"
