"""gfal2 over https: the library behind FTS, Rucio and the commands that grid users type."""

import hashlib
import json
import zlib
from urllib.parse import quote

import pytest
from conftest import content
from grid_tools import Site


@pytest.fixture
def site(server, bucket):
    return Site(server, bucket)


@pytest.fixture(params=["davs", "https"])
def scheme(request):
    return request.param


def python(site, code, *words, check=True, **options):
    """Runs code with gfal2's Python bindings, in a process of its own. It prints JSON."""
    head = "import gfal2, json, sys\ncontext = gfal2.creat_context()\n"
    done = site.run("/usr/bin/python3", "-c", head + code, *words, check=check, **options)
    return json.loads(done.stdout) if check else done


def test_files_go_up_and_down_with_their_checksums(site, scheme, tmp_path):
    data = content("gfal", 9_000_001)
    (tmp_path / "up").write_bytes(data)
    there = site.url("made/on/the/way/file", scheme)
    site.gfal("copy", "-K", "ADLER32", "-p", f"file://{tmp_path}/up", there)
    assert site.get("made/on/the/way/file") == data
    site.gfal("copy", "-K", "ADLER32", there, f"file://{tmp_path}/down")
    assert (tmp_path / "down").read_bytes() == data
    # What is there stays, unless it is said.
    (tmp_path / "up").write_bytes(b"other")
    refused = site.gfal("copy", f"file://{tmp_path}/up", there, check=False)
    assert refused.returncode == 17 and site.get("made/on/the/way/file") == data, refused
    site.gfal("copy", "-f", f"file://{tmp_path}/up", there)
    assert site.gfal("cat", there).stdout == "other"
    missing = site.gfal("copy", site.url("none", scheme), f"file://{tmp_path}/none", check=False)
    assert missing.returncode == 2 and "No such file" in missing.stderr, missing


@pytest.mark.parametrize("name", ["with space", "plus+", "percent%25", "hash#", "colon:", "ü", "x" * 240, "empty"])
def test_names_that_are_hard(site, tmp_path, name):
    data = b"" if name == "empty" else content(name, 1000)
    (tmp_path / "up").write_bytes(data)
    there = site.url(f"names/{quote(name)}", "davs")
    site.gfal("copy", "-p", f"file://{tmp_path}/up", there)
    assert site.get(f"names/{name}") == data
    site.gfal("copy", there, f"file://{tmp_path}/down")
    assert (tmp_path / "down").read_bytes() == data


def test_directories(site):
    davs = lambda path: site.url(path, "davs")
    site.gfal("mkdir", davs("names"))
    site.put("names/a", b"abc")
    assert site.gfal("ls", davs("names")).stdout.split() == ["a"]
    long = site.gfal("ls", "-l", davs("names")).stdout.split()
    assert long[0].startswith("-r") and long[4] == "3" and long[-1] == "a", long
    assert "Size: 3" in site.gfal("stat", davs("names/a")).stdout
    assert "directory" in site.gfal("stat", davs("names")).stdout
    for command in ("ls", "stat", "rm", "sum"):
        words = [davs("names/none")] + (["ADLER32"] if command == "sum" else [])
        missing = site.gfal(command, *words, check=False)
        assert missing.returncode == 2, (command, missing)
    site.gfal("mkdir", davs("names/dir"))
    again = site.gfal("mkdir", davs("names/dir"), check=False)
    assert again.returncode == 17, again
    site.gfal("mkdir", "-p", davs("names/x/y/z"))
    site.gfal("rename", davs("names/a"), davs("names/dir/b"))
    assert site.get("names/dir/b") == b"abc" and "names/a" not in site.names()
    site.gfal("rm", davs("names/dir/b"))
    site.put("names/x/y/z/file", b"")
    site.gfal("rm", "-r", davs("names"))
    assert not site.names()


def test_the_bindings(site, tmp_path):
    """As FTS and Rucio call it. It returns 0 where a checksum failed: values are compared."""
    data = content("bindings", 1_000_003)
    (tmp_path / "up").write_bytes(data)
    there = site.url("deep/er/file", "davs")
    site.put("digits", b"0123456789")
    found = python(site, """
here, there = sys.argv[1:]
parameters = context.transfer_parameters()
parameters.create_parent = True
parameters.set_checksum(gfal2.checksum_mode.both, "ADLER32", "")
copied = context.filecopy(parameters, here, there)
stat = context.stat(there)
digits = context.open(there.replace("deep/er/file", "digits"), "r").pread(3, 4)
print(json.dumps({"copied": copied, "size": stat.st_size, "adler32": context.checksum(there, "ADLER32"),
                  "md5": context.checksum(there, "MD5"), "names": context.listdir(there.rsplit("/", 1)[0]), "digits": digits}))
""", f"file://{tmp_path}/up", there)
    assert found == {"copied": 0, "size": len(data), "adler32": f"{zlib.adler32(data):08x}",
                     "md5": hashlib.md5(data).hexdigest(), "names": ["file"], "digits": "3456"}
    # A value that does not fit what is there: no success, and nothing is left.
    wrong = python(site, """
here, there = sys.argv[1:]
parameters = context.transfer_parameters()
parameters.set_checksum(gfal2.checksum_mode.both, "ADLER32", "00000001")
try:
    print(json.dumps(context.filecopy(parameters, here, there)))
except gfal2.GError as error:
    print(json.dumps([error.code, str(error)]))
""", f"file://{tmp_path}/up", site.url("wrong", "davs"))
    assert isinstance(wrong, list) and "checksum" in wrong[1].lower(), wrong


def test_who_has_no_token_is_not_let_in(site, tmp_path):
    alone = site.variables(BEARER_TOKEN=None)
    site.put("file", b"x")
    refused = site.gfal("cat", site.url("file", "davs"), check=False, environment=alone)
    assert refused.returncode != 0 and "x" != refused.stdout, refused
    # A certificate authority that it does not know.
    (tmp_path / "none").mkdir()
    unknown = site.gfal("cat", site.url("file", "davs"), check=False,
                        environment=site.variables(X509_CERT_DIR=str(tmp_path / "none")))
    assert unknown.returncode != 0, unknown
