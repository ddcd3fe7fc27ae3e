"""WebDAV in the hands of people: uproot over https, cadaver, file systems, and rclone with digests."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, content, until
from grid_tools import Site
from physics import compare_url
from test_clients import same, tree  # noqa: F401  (a fixture)
from xrootd_tools import TOOLS


@pytest.fixture
def site(server, bucket):
    return Site(server, bucket)


COMPARE = """import sys
from pathlib import Path
from physics import compare_url
assert compare_url(Path(sys.argv[1]), sys.argv[2]) > 1"""


def test_uproot_over_https(site):
    """Branch by branch, in vector reads that the client joins as it likes. OpenSSL finds the authority by its hash. The
    HTTP client of uproot looks for authorities when it is imported, so each case has a process of its own."""
    sample = ROOT / "crates/server/testdata/events.root"
    site.put(sample.name, sample.read_bytes())
    trust = os.environ | {"SSL_CERT_DIR": str(site.authorities), "SSL_CERT_FILE": "/nonexistent"}
    compare = lambda url: subprocess.run(
        [sys.executable, "-c", COMPARE, str(sample), url], env=trust, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=120)
    read = compare(f"{site.url(sample.name)}?authz={site.token}")
    assert read.returncode == 0, read.stderr
    refused = compare(f"{site.url(sample.name)}?authz=nonsense")
    assert refused.returncode != 0 and "401" in refused.stderr, refused.stderr


def test_cadaver(site, server, tmp_path):
    """It reads the login from .netrc, and commands from its input."""
    (tmp_path / "up").write_bytes(content("cadaver", 100_000))
    netrc = tmp_path / ".netrc"
    netrc.write_text(f"machine 127.0.0.1 login {server.s3['access_key']} password {server.s3['secret_key']}\n")
    netrc.chmod(0o600)
    commands = ["mkcol dir", f"put {tmp_path}/up dir/a", "copy dir/a dir/b", "move dir/b dir/c", "ls dir", "propset dir/a colour red",
                "propget dir/a colour", "lock dir/a", "discover dir/a", "unlock dir/a", f"get dir/c {tmp_path}/down",
                "delete dir/a", "delete dir/none", "quit"]
    done = site.run(TOOLS / "bin" / "cadaver", f"{server.ready['webdav']['endpoint']}/{site.bucket}/", input="\n".join(commands) + "\n",
                    environment=site.variables(HOME=str(tmp_path)), cwd=tmp_path)
    assert (tmp_path / "down").read_bytes() == (tmp_path / "up").read_bytes(), done.stdout
    assert site.names() == {"dir/c"}, done.stdout
    said = done.stdout
    for words in ("Creating `dir': succeeded", "Copying", "Value of colour is: red", "Locking", "Unlocking"):
        assert words in said, said
    assert said.count("failed") == 1 and "404 Not Found" in said, said


@pytest.fixture(params=["owncloud", "other"])
def rclone(request, site):
    secret = site.run(TOOLS / "bin" / "rclone", "obscure", site.server.s3["secret_key"]).stdout.strip()
    remote = {"TYPE": "webdav", "URL": site.https, "VENDOR": request.param, "USER": site.server.s3["access_key"], "PASS": secret}
    environment = site.variables(RCLONE_CONFIG="/dev/null", RCLONE_CA_CERT=site.authority,
                                 PATH=f"{TOOLS.parent / 'bin'}:/usr/bin:/bin",
                                 **{f"RCLONE_CONFIG_DAV_{name}": value for name, value in remote.items()})

    def run(*words, **options):
        return site.run(TOOLS / "bin" / "rclone", *words, environment=environment, **options)

    run.environment, run.vendor = environment, request.param
    return run


def test_rclone_compares_digests(site, rclone, tree, tmp_path):  # noqa: F811
    there = f"dav:{site.bucket}/t"
    rclone("copy", tree, there)
    checked = rclone("check", tree, there).stderr
    assert "0 differences found" in checked, checked
    if rclone.vendor == "owncloud":
        assert "could not be checked" not in checked, checked
        md5 = hashlib.md5((tree / "a.txt").read_bytes()).hexdigest()
        assert rclone("hashsum", "MD5", f"{there}/a.txt").stdout.split()[0] == md5
        # The same size, another content.
        (tree / "a.txt").write_bytes(b"0123456789")
        assert rclone("check", tree, there, check=False).returncode != 0
    (tree / "a.txt").write_bytes(b"longer than it was")
    rclone("sync", tree, there)
    rclone("sync", there, tmp_path / "back")
    same(tree, tmp_path / "back")
    rclone("move", f"{there}/d", f"dav:{site.bucket}/moved")
    assert "moved/b.root" in site.names() and not {name for name in site.names() if name.startswith("t/d/")}
    assert "Free" in rclone("about", f"dav:{site.bucket}").stdout
    rclone("purge", there)
    rclone("purge", f"dav:{site.bucket}/moved")
    assert not site.names()


def mounted(path):
    return any(line.split()[1] == str(path) for line in open("/proc/mounts"))


@pytest.mark.parametrize("rclone", ["owncloud"], indirect=True)
def test_a_mount_of_rclone_reads_a_root_file(site, rclone, tmp_path):
    if not os.access("/dev/fuse", os.W_OK):
        pytest.skip("this machine has no FUSE")
    sample = ROOT / "crates/server/testdata/events.root"
    site.put("deep/er/file.root", sample.read_bytes())
    point = tmp_path / "mount"
    point.mkdir()
    words = [TOOLS / "bin" / "rclone", "mount", f"dav:{site.bucket}", point, "--vfs-cache-mode", "writes"]
    process = subprocess.Popen([str(word) for word in words], env=rclone.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        until("it is mounted", lambda: mounted(point) or process.poll() is not None, seconds=20)
        assert process.poll() is None, process.stdout.read()
        assert compare_url(sample, str(point / "deep/er/file.root")) > 1
        (point / "written").write_bytes(content("mount", 300_000))
        until("it is uploaded", lambda: "written" in site.names(), seconds=30)
        assert site.get("written") == content("mount", 300_000)
        assert sorted(os.listdir(point)) == ["deep", "written"]
    finally:
        subprocess.run(["umount", point], capture_output=True)
        process.terminate()
        process.wait(timeout=30)


# In a mount namespace of its own, since davfs2 reads some settings from /etc only.
DAVFS = """
cp -a /etc "$work/etc"
mkdir -p "$work/etc/davfs2" /var/run/mount.davfs
mount -t tmpfs none /var/run/mount.davfs
cp "$work/davfs2.conf" "$work/secrets" "$work/etc/davfs2/"
mount --bind "$work/etc" /etc
"$program" "$address" "$work/mount" -o rw
cd "$work/mount"
test "$(cat dir/file)" = "from elsewhere"
cp "$work/up" dir/new
sync dir/new
mv dir/new dir/moved
mkdir made
rm dir/file
test -f dir/moved -a -d made -a ! -e dir/file
cd /
umount "$work/mount"
"""


@pytest.mark.full
def test_davfs2(site, server, tmp_path):
    """The kernel's own view of WebDAV: it needs the right to mount."""
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("only root mounts it")
    for name in ("mount", "cache"):
        (tmp_path / name).mkdir()
    address = f"{site.https}/{site.bucket}/"
    (tmp_path / "up").write_bytes(content("davfs", 200_000))
    (tmp_path / "secrets").write_text(f'{address} {server.s3["access_key"]} "{server.s3["secret_key"]}"\n')
    (tmp_path / "secrets").chmod(0o600)
    (tmp_path / "davfs2.conf").write_text(f"dav_user root\ndav_group root\ncache_dir {tmp_path}/cache\ntrust_ca_cert {site.authority}\n"
                                          "ask_auth 0\nuse_locks 1\ndelay_upload 0\n")
    site.put("dir/file", b"from elsewhere")
    variables = site.variables(work=str(tmp_path), program=str(TOOLS / "sbin" / "mount.davfs"), address=address)
    site.run("unshare", "--mount", "bash", "-euc", DAVFS, environment=variables)
    assert {name for name in site.names() if name.startswith("dir/")} == {"dir/moved"}
    assert site.get("dir/moved") == content("davfs", 200_000)
