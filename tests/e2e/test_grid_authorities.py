"""The certificate authorities of the grid, as Debian has them: every one can be used."""

import shutil
import subprocess

from conftest import ROOT
from server import BIN

PROFILES = ROOT / ".tools" / "usr" / "share" / "igtf-policy"


def check(config):
    done = subprocess.run([BIN, "config", "check", str(config)], capture_output=True, text=True, timeout=60)
    return [line for line in (done.stdout + done.stderr).splitlines() if "authority_folder" in line]


def test_every_authority_of_the_grid_loads(tmp_path):
    """Some are signed with SHA-1, some have RSA keys of 8,192 bits: an authority is trusted for its name and key."""
    folder, config = tmp_path / "certificates", tmp_path / "dewar.toml"
    folder.mkdir()
    for profile in ("classic", "mics", "iota"):
        for path in (PROFILES / profile).iterdir():
            shutil.copy(path, folder)
    subprocess.run(["openssl", "rehash", folder], check=True, capture_output=True)
    hashed = [path for path in folder.iterdir() if path.is_symlink()]
    assert len(hashed) == 83, len(hashed)
    texts = [subprocess.run(["openssl", "x509", "-noout", "-text", "-in", path], capture_output=True, text=True, check=True).stdout
             for path in hashed]
    assert sum("Signature Algorithm: sha1With" in text for text in texts) >= 10
    assert any("Public-Key: (8192 bit)" in text for text in texts)
    (tmp_path / "disk").mkdir()
    config.write_text(f'[server]\nstate_dir = "{tmp_path}/state"\nauthority_folder = "{folder}"\n'
                      f'[pool]\ndisks = ["{tmp_path}/disk"]\nlayout = "1+0"\n')
    # A file that cannot be used is named: none is.
    assert check(config) == []
    (folder / "01234567.0").write_text("nonsense")
    (folder / "01234567.r0").write_text("nonsense")
    told = check(config)
    assert len(told) == 2 and all("01234567" in line for line in told), told
    shutil.rmtree(folder)
    assert "cannot read" in check(config)[0]
