"""gfal2 through its XRootD plugin: the commands that sites and transfer services use."""

import subprocess
import zlib

import pytest
from conftest import content
from test_xrootd_tpc import exists, get, made, put, until_the_end, url
from xrootd_tools import TOOLS, environment

LIBRARIES = TOOLS / "lib" / "x86_64-linux-gnu"


def gfal(command, *arguments, check=True):
    """Runs one of its programs with the Python that its library was built for."""
    variables = dict(environment(), PYTHONPATH=str(TOOLS / "lib" / "python3" / "dist-packages"),
                     GFAL_PLUGIN_DIR=str(LIBRARIES / "gfal2-plugins"),
                     GFAL_CONFIG_DIR=str(TOOLS.parent / "etc" / "gfal2.d"), XRD_NETWORKSTACK="IPv4")
    done = subprocess.run(["/usr/bin/python3", str(TOOLS / "bin" / f"gfal-{command}"), *map(str, arguments)],
                          capture_output=True, text=True, timeout=120, env=variables)
    if check:
        assert done.returncode == 0, f"gfal-{command} {arguments}: {done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def dewar(tmp_path_factory):
    yield from until_the_end(made(tmp_path_factory.mktemp("gfal")))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    yield from until_the_end(made(tmp_path_factory.mktemp("other")))


def test_files_go_up_and_down_with_their_checksums(dewar, tmp_path):
    data = content("gfal", 9_000_001)
    (tmp_path / "up").write_bytes(data)
    gfal("copy", "-K", "ADLER32", f"file://{tmp_path}/up", url(dewar, "made/on/the/way/file"), "-p")
    assert get(dewar, "made/on/the/way/file") == data
    gfal("copy", "-K", "ADLER32", url(dewar, "made/on/the/way/file"), f"file://{tmp_path}/down")
    assert (tmp_path / "down").read_bytes() == data
    # What is there stays, unless it is said.
    (tmp_path / "up").write_bytes(b"other")
    refused = gfal("copy", f"file://{tmp_path}/up", url(dewar, "made/on/the/way/file"), check=False)
    assert refused.returncode == 17, refused
    gfal("copy", "-f", f"file://{tmp_path}/up", url(dewar, "made/on/the/way/file"))
    assert get(dewar, "made/on/the/way/file") == b"other"
    assert gfal("cat", url(dewar, "made/on/the/way/file")).stdout == "other"
    missing = gfal("copy", url(dewar, "none"), f"file://{tmp_path}/none", check=False)
    assert missing.returncode == 2 and "No such file" in missing.stderr, missing


def test_names(dewar):
    put(dewar, "names/a", b"abc")
    assert gfal("ls", url(dewar, "names")).stdout.split() == ["a"]
    long = gfal("ls", "-l", url(dewar, "names")).stdout.split()
    assert long[0].startswith("-r") and long[4] == "3" and long[-1] == "a", long
    assert "Size: 3" in gfal("stat", url(dewar, "names/a")).stdout
    assert "directory" in gfal("stat", url(dewar, "names")).stdout
    for command in ("ls", "stat", "rm", "sum"):
        arguments = [url(dewar, "names/none")] + (["ADLER32"] if command == "sum" else [])
        missing = gfal(command, *arguments, check=False)
        assert missing.returncode == 2, (command, missing)
    gfal("mkdir", url(dewar, "names/dir"))
    gfal("mkdir", "-p", url(dewar, "names/x/y/z"))
    gfal("rename", url(dewar, "names/a"), url(dewar, "names/dir/b"))
    assert get(dewar, "names/dir/b") == b"abc"
    # Its own stat shows but who may read and write.
    gfal("chmod", "0640", url(dewar, "names/dir/b"))
    gfal("rm", url(dewar, "names/dir/b"))
    assert not exists(dewar, "names/dir/b")
    put(dewar, "names/x/y/z/file", b"")
    gfal("rm", "-r", url(dewar, "names"))
    assert not exists(dewar, "names/")


def test_checksums_and_attributes(dewar):
    put(dewar, "sum", b"123456789")
    assert gfal("sum", url(dewar, "sum"), "ADLER32").stdout.split()[-1] == f"{zlib.adler32(b'123456789'):08x}"
    # It passes on names as it got them, but for two.
    for name in ("crc32c", "CRC32C"):
        assert gfal("sum", url(dewar, "sum"), name).stdout.split()[-1] == "e3069283"
    told = gfal("xattr", url(dewar, "sum")).stdout
    assert "xroot.cksum" in told and "xroot.space" in told, told


def test_files_go_from_server_to_server(dewar, other, tmp_path):
    data = content("third", 9_000_001)
    put(dewar, "source", data)
    gfal("copy", "-K", "ADLER32", "--copy-mode", "pull", url(dewar, "source"), url(other, "target"))
    assert get(other, "target") == data
    gone = gfal("copy", url(dewar, "none"), url(other, "target2"), check=False)
    assert gone.returncode == 2 and not exists(other, "target2"), gone
