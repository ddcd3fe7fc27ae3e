"""Services that log in over root:// with a key that both sides have: protocol sss."""

import os
import subprocess

import pytest
from conftest import until
from server import BIN, Server
from xrootd_tools import NOBODY, address, configure, python, xrdcp, xrdfs

ANN = "0 u:ann g:users n:service N:7000000000000000001 c:1700000000 e:0 k:" + "0123456789abcdef" * 4
ANYBODY = "0 u:anybody g:anygroup n:proxy N:7000000000000000002 c:1700000000 e:0 k:" + "fedcba9876543210" * 4
ENDED = "0 u:ann g:users n:ended N:7000000000000000003 c:1700000000 e:1700000001 k:" + "00112233445566778899aabbccddeeff"


def keytab(path, *lines):
    path.write_text("".join(line + "\n" for line in lines))
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A server that lets in who has a key."""
    folder = tmp_path_factory.mktemp("sss")
    server = Server(folder).start()
    server.stop()
    server.keytab = keytab(folder / "server.keytab", ANN, ANYBODY, ENDED)
    configure(server, **NOBODY, sss_keytab_file=f'"{server.keytab}"')
    server.start()
    server.admin("user", "add", "ann")
    server.boto().put_object(Bucket="demo", Key="a", Body=b"a")
    yield server
    assert not server.unexpected(), "\n".join(server.unexpected())
    server.stop()


def holding(path, **more):
    return dict(XrdSecSSSKT=str(path), XrdSecPROTOCOL="sss", **more)


def test_a_key_is_its_user(site, tmp_path):
    mine = holding(keytab(tmp_path / "mine", ANN))
    (tmp_path / "up").write_bytes(b"u" * 3_000_000)
    denied = xrdfs(site, "ls", "/demo", check=False, **mine)
    assert denied.returncode == 54 and "ermission denied" in denied.stderr, denied.stderr
    xrdfs(site, "mkdir", "/anns", **mine)
    xrdcp(tmp_path / "up", f"root://{address(site)}//anns/up", **mine)
    xrdcp(f"root://{address(site)}//anns/up", tmp_path / "down", **mine)
    assert (tmp_path / "down").read_bytes() == (tmp_path / "up").read_bytes()


def test_a_key_of_anybody_speaks_for_whom_the_client_names(site, tmp_path):
    any_key = holding(keytab(tmp_path / "any", ANYBODY))
    assert xrdfs(site, "ls", "/", check=False, **any_key).returncode == 52
    # What these clients call themselves, unless a program registers identities.
    site.admin("user", "add", "nobody")
    xrdfs(site, "mkdir", "/mine", **any_key)
    xrdfs(site, "ls", "/mine", **any_key)


def test_the_other_generation_has_keys_too(site, tmp_path):
    code = """
import sys
from XRootD.client import FileSystem
status, value = FileSystem(sys.argv[1]).dirlist(sys.argv[2])
assert status.ok, status.message
"""
    mine = holding(keytab(tmp_path / "mine", ANN))
    server = "root://" + address(site)
    xrdfs(site, "mkdir", "/other-generation", **mine)
    python(code, server, "/other-generation", **mine)
    with pytest.raises(AssertionError, match="ermission denied"):
        python(code, server, "/demo", **mine)


def test_who_holds_no_good_key_stays_out(site, tmp_path):
    forged = ANN.replace("0123", "3210")
    for lines in ([], [forged], [ENDED], [ANN.replace("N:7", "N:8")]):
        path = keytab(tmp_path / "forged", *lines)
        refused = xrdfs(site, "ls", "/demo", check=False, **holding(path))
        assert refused.returncode == 52, (lines, refused.stdout, refused.stderr)
        assert "no key" not in refused.stderr, "what is wrong with it helps only who guesses"
    # But administrators are told.
    until("they are told", lambda: "no key opens the credential" in told_by_audit(site))
    # A line that is taken out lets nobody in any more, without a restart.
    mine = holding(keytab(tmp_path / "mine", ANN))
    xrdfs(site, "ls", "/", **mine)
    keytab(site.keytab, ANYBODY)
    assert xrdfs(site, "ls", "/", check=False, **mine).returncode == 52
    keytab(site.keytab, ANN, ANYBODY, ENDED)
    xrdfs(site, "ls", "/", **mine)


def told_by_audit(site):
    done = subprocess.run([BIN, "audit", "--event", "login", "--outcome", "refused", "--dir", str(site.data)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_status_says_that_the_keytab_cannot_be_used(site):
    assert site.admin("status")["troubles"] == []
    os.chmod(site.keytab, 0o644)
    try:
        (trouble,) = site.admin("status")["troubles"]
        assert str(site.keytab) in trouble["what"] and "chmod 600" in trouble["what"], trouble
        shown = subprocess.run([BIN, "status", "--check", "--dir", str(site.data)],
                               capture_output=True, text=True, timeout=60)
        assert shown.returncode == 1 and "services cannot log in" in shown.stdout, shown
    finally:
        os.chmod(site.keytab, 0o600)
    assert site.admin("status")["troubles"] == []


def test_a_keytab_that_others_can_read_stops_the_start(own_server):
    own_server.stop()
    open_to_all = keytab(own_server.folder / "keytab", ANN)
    os.chmod(open_to_all, 0o644)
    config = own_server.data / "dewar.toml"
    config.write_text(config.read_text().replace(
        "[xrootd]\n", f'[xrootd]\nsss_keytab_file = "{open_to_all}"\n'))
    with pytest.raises(RuntimeError, match="chmod 600"):
        own_server.start()
    os.chmod(open_to_all, 0o600)
    own_server.start()
