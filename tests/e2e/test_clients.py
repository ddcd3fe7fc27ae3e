"""The tools people type: aws, s3cmd, rclone, s3fs, unmodified and with their defaults."""

import filecmp
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import content

VENV = Path(sys.executable).parent


def run(*command, server, **more):
    done = subprocess.run([str(part) for part in command], env={**server.client_environment(), **more},
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def tree(tmp_path):
    """A folder as people have it: nested, empty files, odd names, one larger than a part."""
    root = tmp_path / "tree"
    for name, size in {"a.txt": 10, "empty": 0, "d/b.root": 70_000, "d/e/f g+h.dat": 300_000, "d/ü.txt": 5,
                       "big.bin": 20_000_000, **{f"many/{n:03}": 100 + n for n in range(50)}}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(name, size))
    return root


def same(left, right):
    def walk(compared):
        assert not compared.left_only and not compared.right_only, (compared.left_only, compared.right_only)
        _, differ, odd = filecmp.cmpfiles(compared.left, compared.right, compared.common_files, shallow=False)
        assert not differ and not odd, (differ, odd)
        for below in compared.subdirs.values():
            walk(below)
    walk(filecmp.dircmp(left, right))


def test_aws_cli(server, bucket, tree, tmp_path):
    aws = VENV / "aws"
    run(aws, "s3", "sync", tree, f"s3://{bucket}/t", "--no-progress", server=server)
    assert run(aws, "s3", "sync", tree, f"s3://{bucket}/t", "--no-progress", server=server).strip() == ""
    assert "a.txt" in run(aws, "s3", "ls", f"s3://{bucket}/t/", server=server)
    run(aws, "s3", "sync", f"s3://{bucket}/t", tmp_path / "back", "--no-progress", server=server)
    same(tree, tmp_path / "back")
    run(aws, "s3", "cp", f"s3://{bucket}/t/big.bin", f"s3://{bucket}/copy.bin", "--no-progress", server=server)
    run(aws, "s3", "mv", f"s3://{bucket}/copy.bin", f"s3://{bucket}/moved.bin", "--no-progress", server=server)
    run(aws, "s3", "cp", f"s3://{bucket}/moved.bin", tmp_path / "moved.bin", "--no-progress", server=server)
    assert (tmp_path / "moved.bin").read_bytes() == (tree / "big.bin").read_bytes()
    run(aws, "s3", "rm", f"s3://{bucket}/", "--recursive", server=server)
    assert run(aws, "s3", "ls", f"s3://{bucket}/", server=server).strip() == ""


def test_aws_cli_pipe(server, bucket, tree):
    """A body of unknown length: no Content-Length, checksum in the trailer."""
    aws = VENV / "aws"
    body = content("pipe", 12_000_000)
    done = subprocess.run([aws, "s3", "cp", "-", f"s3://{bucket}/pipe"], input=body, capture_output=True,
                          env=server.client_environment(), timeout=120)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([aws, "s3", "cp", f"s3://{bucket}/pipe", "-"], capture_output=True,
                          env=server.client_environment(), timeout=120)
    assert done.stdout == body


def test_s3cmd(server, bucket, tree, tmp_path):
    config = tmp_path / "s3cfg"
    address = f"127.0.0.1:{server.port}"
    config.write_text(f"[default]\naccess_key = {server.s3['access_key']}\nsecret_key = {server.s3['secret_key']}\n"
                      f"host_base = {address}\nhost_bucket = {address}\nuse_https = False\n"
                      "multipart_chunk_size_mb = 5\n")
    s3cmd = [sys.executable, VENV / "s3cmd", "-c", config, "--no-progress"]
    run(*s3cmd, "sync", f"{tree}/", f"s3://{bucket}/t/", server=server)
    assert "a.txt" in run(*s3cmd, "ls", f"s3://{bucket}/t/", server=server)
    assert "20000000" in run(*s3cmd, "info", f"s3://{bucket}/t/big.bin", server=server)
    (tmp_path / "back").mkdir()
    run(*s3cmd, "sync", f"s3://{bucket}/t/", f"{tmp_path / 'back'}/", server=server)
    same(tree, tmp_path / "back")
    run(*s3cmd, "del", "--recursive", "--force", f"s3://{bucket}/t/", server=server)
    assert run(*s3cmd, "ls", f"s3://{bucket}", server=server).strip() == ""


def test_rclone(server, bucket, tree, tmp_path, tools):
    remote = {
        "RCLONE_CONFIG": "/dev/null", "RCLONE_CONFIG_DEWAR_TYPE": "s3", "RCLONE_CONFIG_DEWAR_PROVIDER": "Other",
        "RCLONE_CONFIG_DEWAR_ACCESS_KEY_ID": server.s3["access_key"],
        "RCLONE_CONFIG_DEWAR_SECRET_ACCESS_KEY": server.s3["secret_key"],
        "RCLONE_CONFIG_DEWAR_ENDPOINT": server.s3["endpoint"], "RCLONE_CONFIG_DEWAR_REGION": "us-east-1",
        "RCLONE_S3_UPLOAD_CUTOFF": "8M", "RCLONE_S3_CHUNK_SIZE": "5M",
    }
    rclone = tools / "rclone"
    run(rclone, "sync", tree, f"dewar:{bucket}/t", server=server, **remote)
    run(rclone, "check", "--download", tree, f"dewar:{bucket}/t", server=server, **remote)
    run(rclone, "check", tree, f"dewar:{bucket}/t", server=server, **remote)
    (tree / "a.txt").unlink()
    (tree / "d" / "new").write_text("new")
    run(rclone, "sync", tree, f"dewar:{bucket}/t", server=server, **remote)
    run(rclone, "sync", f"dewar:{bucket}/t", tmp_path / "back", server=server, **remote)
    same(tree, tmp_path / "back")
    run(rclone, "moveto", f"dewar:{bucket}/t/big.bin", f"dewar:{bucket}/u/big.bin", server=server, **remote)
    assert "big.bin" in run(rclone, "lsf", f"dewar:{bucket}/u", server=server, **remote)
    run(rclone, "purge", f"dewar:{bucket}/t", server=server, **remote)


def test_s3fs(server, bucket):
    fs = server.filesystem()
    body = content("s3fs", 12_000_000)
    with fs.open(f"{bucket}/x/y.bin", "wb", block_size=5 << 20) as f:
        f.write(body)
    with fs.open(f"{bucket}/x/y.bin", "rb") as f:
        f.seek(7_000_000)
        assert f.read(1000) == body[7_000_000:7_001_000]
    assert fs.cat_file(f"{bucket}/x/y.bin") == body
    assert fs.ls(f"{bucket}/x") == [f"{bucket}/x/y.bin"]
    fs.mv(f"{bucket}/x/y.bin", f"{bucket}/z.bin")
    assert not fs.exists(f"{bucket}/x") and fs.size(f"{bucket}/z.bin") == len(body)
    fs.rm(f"{bucket}/z.bin")
