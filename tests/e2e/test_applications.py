"""Programs that keep their data in S3, doing their real work: restic, pyarrow, zarr, a mounted bucket, the transfer
manager on a bad line, clients that still sign with version 2."""

import os
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import ROOT, content
from test_clients import VENV, run, same, tree  # noqa: F401  (a fixture)

LIBRARIES = ":".join(f"{ROOT}/.tools/{place}" for place in (
    "usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/pulseaudio"))


def test_restic_backs_up_and_restores(server, bucket, tree, tmp_path, tools):  # noqa: F811
    restic = {"RESTIC_REPOSITORY": f"s3:{server.s3['endpoint']}/{bucket}/backups", "RESTIC_PASSWORD": "x",
              "RESTIC_CACHE_DIR": str(tmp_path / "cache"), "HOME": str(tmp_path)}

    def call(*words):
        return run(tools / "restic", *words, server=server, **restic)

    call("init")
    call("backup", tree)
    (tree / "later.bin").write_bytes(content("later", 3_000_000))
    (tree / "a.txt").unlink()
    call("backup", tree)
    assert "no errors were found" in call("check", "--read-data")
    call("restore", "latest", "--target", tmp_path / "back")
    same(tree, tmp_path / "back" / tree.relative_to("/"))
    call("forget", "--keep-last", "1", "--prune")
    assert "no errors were found" in call("check", "--read-data")


def test_pyarrow_keeps_a_dataset(server, bucket):
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow import fs

    s3 = fs.S3FileSystem(access_key=server.s3["access_key"], secret_key=server.s3["secret_key"], scheme="http",
                         endpoint_override=f"127.0.0.1:{server.port}", region=server.s3["region"])
    table = pa.table({"year": [2024 + n % 3 for n in range(60_000)], "n": list(range(60_000)),
                      "text": [f"event {n}" for n in range(60_000)]})
    ds.write_dataset(table, f"{bucket}/events", filesystem=s3, format="parquet", partitioning=["year"],
                     partitioning_flavor="hive")
    data = ds.dataset(f"{bucket}/events", filesystem=s3, format="parquet", partitioning="hive")
    found = data.to_table(filter=(ds.field("year") == 2025) & (ds.field("n") < 100), columns=["n"])
    assert sorted(found["n"].to_pylist()) == list(range(1, 100, 3))
    assert data.count_rows() == 60_000
    with s3.open_output_stream(f"{bucket}/large.bin") as out:
        for part in range(4):
            out.write(content(("arrow", part), 6_000_000))
    with s3.open_input_file(f"{bucket}/large.bin") as file:
        assert file.read_at(1000, 6_000_000) == content(("arrow", 1), 6_000_000)[:1000]
    s3.delete_dir_contents(f"{bucket}/events")
    assert s3.get_file_info(fs.FileSelector(f"{bucket}/events", allow_not_found=True)) == []


def test_zarr_keeps_an_array(server, bucket):
    import numpy
    import zarr
    from zarr.storage import FsspecStore

    options = {"key": server.s3["access_key"], "secret": server.s3["secret_key"],
               "client_kwargs": {"endpoint_url": server.s3["endpoint"], "region_name": server.s3["region"]}}

    def opened(mode):
        store = FsspecStore.from_url(f"s3://{bucket}/cube.zarr", storage_options={**options, "asynchronous": True},
                                     read_only=mode == "r")
        return zarr.open_group(store, mode=mode)

    cube = numpy.random.default_rng(7).normal(size=(64, 100, 100))
    array = opened("w").create_array("cube", shape=cube.shape, chunks=(16, 50, 50), dtype=cube.dtype)
    array[:] = cube
    array[3:5, 10:20] = 0.0
    cube[3:5, 10:20] = 0.0
    array.append(cube[:8])
    read = opened("r")["cube"]
    assert read.shape == (72, 100, 100)
    assert numpy.array_equal(read[:64], cube) and numpy.array_equal(read[64:], cube[:8])
    assert numpy.array_equal(read[10:12, ::7, 5], cube[10:12, ::7, 5])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_mounted_bucket(server, bucket, tmp_path):
    place, secrets = tmp_path / "mounted", tmp_path / "secrets"
    place.mkdir()
    secrets.write_text(f"{server.s3['access_key']}:{server.s3['secret_key']}\n")
    secrets.chmod(0o600)
    mount = subprocess.Popen(
        [ROOT / ".tools/usr/bin/s3fs", bucket, place, "-f", "-o", f"url={server.s3['endpoint']}",
         "-o", f"passwd_file={secrets}", "-o", "use_path_request_style", "-o", f"endpoint={server.s3['region']}",
         "-o", "multipart_size=5", "-o", "enable_noobj_cache"],
        env={**server.client_environment(), "LD_LIBRARY_PATH": LIBRARIES}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + 30
        while not place.is_mount():
            assert mount.poll() is None and time.monotonic() < give_up, "s3fs did not mount"
            time.sleep(0.1)
        body = content("mounted", 13_000_000)
        (place / "d").mkdir()
        (place / "d" / "file").write_bytes(body)
        assert (place / "d" / "file").read_bytes() == body
        with (place / "d" / "file").open("r+b") as file:
            file.seek(6_000_000)
            file.write(b"changed")
        body = body[:6_000_000] + b"changed" + body[6_000_007:]
        (place / "d" / "file").rename(place / "d" / "renamed")
        assert sorted(path.name for path in (place / "d").iterdir()) == ["renamed"]
        get = server.boto().get_object(Bucket=bucket, Key="d/renamed")
        assert get["Body"].read() == body
        (place / "d" / "renamed").unlink()
        (place / "d").rmdir()
        assert list(place.iterdir()) == []
    finally:
        subprocess.run(["umount", "--lazy", place], check=False)
        mount.terminate()
        mount.wait(timeout=30)


class BadLine:
    """Passes TCP connections on to a server, and now and then cuts one after some bytes of either direction."""

    def __init__(self, port, seed):
        self.target, self.chance, self.cut = port, random.Random(seed), 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.target))
            # A third of the connections do not live long.
            left = [self.chance.randrange(4_000_000) if self.chance.random() < 0.3 else 1 << 60]
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(*pair, left), daemon=True).start()

    def pump(self, source, sink, left):
        try:
            while data := source.recv(65536):
                left[0] -= len(data)
                if left[0] < 0:
                    self.cut += 1
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_the_transfer_manager_on_a_bad_line(server, bucket, tmp_path):
    from boto3.s3.transfer import TransferConfig
    import boto3
    from botocore.config import Config

    line = BadLine(server.port, "line")
    s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{line.port}", region_name=server.s3["region"],
                      aws_access_key_id=server.s3["access_key"], aws_secret_access_key=server.s3["secret_key"],
                      config=Config(retries={"max_attempts": 20, "mode": "standard"}, read_timeout=20))
    how = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20, max_concurrency=4,
                         num_download_attempts=20)
    for number in range(4):
        sent, back = tmp_path / "sent", tmp_path / "back"
        sent.write_bytes(content(("line", number), 23_000_000))
        s3.upload_file(str(sent), bucket, f"k{number}", Config=how)
        s3.download_file(bucket, f"k{number}", str(back), Config=how)
        assert back.read_bytes() == sent.read_bytes()
    line.listener.close()
    assert line.cut > 3, "the line was not bad at all"


def test_clients_that_sign_with_version_2(server, bucket, tmp_path):
    s3 = server.boto(signature_version="s3")
    body = content("v2", 12_000_000)
    (tmp_path / "sent").write_bytes(body)
    s3.upload_file(str(tmp_path / "sent"), bucket, "d/k 1", ExtraArgs={"Metadata": {"a": "1"}})
    assert s3.get_object(Bucket=bucket, Key="d/k 1", Range="bytes=5-9")["Body"].read() == body[5:10]
    s3.put_object_tagging(Bucket=bucket, Key="d/k 1", Tagging={"TagSet": [{"Key": "t", "Value": "v"}]})
    assert s3.get_object_tagging(Bucket=bucket, Key="d/k 1")["TagSet"] == [{"Key": "t", "Value": "v"}]
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket, Prefix="d/")["Contents"]] == ["d/k 1"]
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "d/k 1"})
    assert s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "d/k 1"}]})["Deleted"]
    config, address = tmp_path / "s3cfg", f"127.0.0.1:{server.port}"
    config.write_text(f"[default]\naccess_key = {server.s3['access_key']}\nsecret_key = {server.s3['secret_key']}\n"
                      f"host_base = {address}\nhost_bucket = {address}\nuse_https = False\nsignature_v2 = True\n"
                      "multipart_chunk_size_mb = 5\n")
    s3cmd = [sys.executable, VENV / "s3cmd", "-c", config, "--no-progress"]
    run(*s3cmd, "get", f"s3://{bucket}/copy", tmp_path / "back", server=server)
    assert (tmp_path / "back").read_bytes() == body
    run(*s3cmd, "put", tmp_path / "back", f"s3://{bucket}/again", server=server)
    assert "again" in run(*s3cmd, "ls", f"s3://{bucket}", server=server)
