"""Storage classes name pools: where the bytes are, how they move, and one pool's trouble is not the other's."""

import random
import re
import time
from pathlib import Path

import pytest
import requests
from botocore.exceptions import ClientError
from server import Server
from test_bad_disks import mounts, root_only, sh  # noqa: F401  (a fixture)
from xrootd_tools import xrdfs

KEY_BYTES = 1_500_000


class Pools(Server):
    """A demo with a second pool of three folders beside its six."""

    def __init__(self, folder, **more):
        archive = [Path(folder) / f"archive{n}" for n in range(3)]
        for disk in archive:
            disk.mkdir(parents=True)
        environment = {
            "DEWAR_POOLS_DISKS": ",".join(f"archive={disk}" for disk in archive),
            "DEWAR_POOLS_LAYOUTS": "archive=2+1",
            "DEWAR_LIFECYCLE_STORAGE_CLASSES": "GLACIER_IR=archive,WARM",
            "DEWAR_LIFECYCLE_DAY": "2s",
            **more,
        }
        super().__init__(folder, environment=environment)
        self.archive = archive

    def bytes_in(self):
        """Bytes of shards: those of the main pool, and those of the archive. Shards may go while they are counted."""
        def size(file):
            try:
                return file.stat().st_size
            except FileNotFoundError:
                return 0

        def shards(folders):
            return sum(size(file) for folder in folders for file in folder.glob("blobs/*/*"))
        return shards(self.disk(n) for n in range(1, 7)), shards(self.archive)

    def wait_for(self, condition, seconds=60):
        give_up = time.monotonic() + seconds
        while not condition(*self.bytes_in()):
            assert time.monotonic() < give_up, self.bytes_in()
            time.sleep(0.3)


@pytest.fixture
def pools(tmp_path):
    server = Pools(tmp_path / "pools").start()
    yield server
    server.kill()
    assert not server.unexpected(), server.unexpected()


def content(number, size=KEY_BYTES):
    return random.Random(number).randbytes(size)


def rule(prefix, days=1):
    return {"ID": prefix, "Status": "Enabled", "Filter": {"Prefix": prefix},
            "Transitions": [{"Days": days, "StorageClass": "GLACIER_IR"}],
            "NoncurrentVersionTransitions": [{"NoncurrentDays": days, "StorageClass": "GLACIER_IR"}]}


def figures(server):
    """What the metrics say of each pool."""
    text = requests.get(server.ready["metrics"]["endpoint"] + "/metrics", timeout=10).text
    return {(name, pool): int(value) for name, pool, value
            in re.findall(r'^dewar_pools_(\w+)\{pool="(\w+)"\} (-?\d+)$', text, re.M)}


def space_over_root(server):
    """Total, free and used bytes, as root:// tells them."""
    told = xrdfs(server, "spaceinfo", "/demo").stdout
    return [int(re.search(rf"^{what}:\s+(\d+)", told, re.M).group(1))
            for what in ("Total", "Free", "Used")]


def test_a_class_puts_bytes_into_its_pool_and_a_copy_moves_them(pools):
    s3 = pools.boto()
    s3.put_object(Bucket="demo", Key="hot", Body=content(1))
    main, archive = pools.bytes_in()
    assert main > KEY_BYTES * 1.4 and archive == 0
    s3.put_object(Bucket="demo", Key="cold", Body=content(2), StorageClass="GLACIER_IR")
    assert pools.bytes_in()[0] == main and pools.bytes_in()[1] > KEY_BYTES * 1.4
    # A label only: the class names no pool.
    s3.put_object(Bucket="demo", Key="warm", Body=content(3), StorageClass="WARM")
    main, archive = pools.bytes_in()
    assert main > 2 * KEY_BYTES * 1.4 and archive < 2 * KEY_BYTES
    with pytest.raises(ClientError, match="InvalidStorageClass"):
        s3.put_object(Bucket="demo", Key="x", Body=b"x", StorageClass="OUTPOSTS")
    # Amazon's names are labels too, unless lifecycle.strict_storage_classes says otherwise.
    s3.put_object(Bucket="demo", Key="x", Body=b"x", StorageClass="DEEP_ARCHIVE")
    assert s3.head_object(Bucket="demo", Key="x")["StorageClass"] == "DEEP_ARCHIVE"
    s3.delete_object(Bucket="demo", Key="x")
    # Within a pool nothing is copied, between two everything.
    s3.copy_object(Bucket="demo", Key="warm2", CopySource="demo/warm")
    assert pools.bytes_in() == (main, archive)
    for key in ("warm", "warm2"):
        s3.delete_object(Bucket="demo", Key=key)
    s3.copy_object(Bucket="demo", Key="hot", CopySource="demo/hot", StorageClass="GLACIER_IR",
                   MetadataDirective="COPY")
    assert s3.head_object(Bucket="demo", Key="hot")["StorageClass"] == "GLACIER_IR"
    pools.wait_for(lambda main, archive: main == 0 and archive > 2 * KEY_BYTES * 1.4)
    upload = s3.create_multipart_upload(Bucket="demo", Key="parts", StorageClass="GLACIER_IR")["UploadId"]
    parts = []
    for number, body in ((1, content(4, 5 << 20)), (2, content(5, 70_000))):
        part = s3.upload_part(Bucket="demo", Key="parts", UploadId=upload, PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    s3.complete_multipart_upload(Bucket="demo", Key="parts", UploadId=upload, MultipartUpload={"Parts": parts})
    pools.restart()
    s3 = pools.boto()
    assert s3.get_object(Bucket="demo", Key="hot")["Body"].read() == content(1)
    assert s3.get_object(Bucket="demo", Key="cold")["Body"].read() == content(2)
    assert s3.get_object(Bucket="demo", Key="parts")["Body"].read() == content(4, 5 << 20) + content(5, 70_000)
    status = pools.admin("status")["pool"]
    archive = status["further"][0]
    assert (archive["name"], archive["layout"], archive["margin"], archive["writable"]) == ("archive", "2+1", 1, True)
    assert archive["total_bytes"] * 2 == status["total_bytes"] > status["available_bytes"] > 0, "three folders and six"
    assert [disk["pool"] for disk in status["disks"]] == ["demo"] * 6 + ["archive"] * 3
    assert {disk["pool"] for disk in pools.admin("disk", "list")} == {"demo", "archive"}
    # Over root:// there are no classes: what is told is what fits into the main pool, four bytes of six.
    total, free, _ = space_over_root(pools)
    assert total == status["total_bytes"] // 6 * 4 and 0 < free < total


def test_lifecycle_moves_versions_and_a_kill_loses_none(pools):
    s3 = pools.boto()
    s3.create_bucket(Bucket="data")
    s3.put_bucket_versioning(Bucket="data", VersioningConfiguration={"Status": "Enabled"})
    bodies, before = {}, {}
    for number in range(24):
        size = KEY_BYTES if number % 3 else 5000
        body = content(number, size)
        put = s3.put_object(Bucket="data", Key=f"old/{number // 2}", Body=body, Metadata={"n": str(number)})
        bodies[put["VersionId"]] = body
    s3.put_object(Bucket="data", Key="kept", Body=content(99))
    for version in s3.list_object_versions(Bucket="data")["Versions"]:
        before[version["VersionId"]] = (version["Key"], version["ETag"], version["LastModified"])
    rules = {"Rules": [rule("old/")]}
    s3.put_bucket_lifecycle_configuration(Bucket="data", LifecycleConfiguration=rules)

    def classes():
        versions = s3.list_object_versions(Bucket="data")["Versions"]
        return {v["VersionId"]: v["StorageClass"] for v in versions if v["Key"] != "kept"}

    # Killed while versions are being moved.
    for _ in range(4):
        was = list(classes().values()).count("GLACIER_IR")
        give_up = time.monotonic() + 60
        while (now := list(classes().values()).count("GLACIER_IR")) <= was < 24:
            assert time.monotonic() < give_up, classes()
            time.sleep(0.02)
        pools.kill()
        pools.start()
        s3 = pools.boto()
        if now == 24:
            break
    give_up = time.monotonic() + 90
    while set(classes().values()) != {"GLACIER_IR"}:
        assert time.monotonic() < give_up, classes()
        time.sleep(0.3)
    for version, body in bodies.items():
        key, etag, modified = before[version]
        got = s3.get_object(Bucket="data", Key=key, VersionId=version)
        assert got["Body"].read() == body
        assert (got["ETag"], got["VersionId"]) == (etag, version)
        assert got["LastModified"].replace(microsecond=0) == modified.replace(microsecond=0)
    # What stays is `kept`, and the small objects' segments, whose dead slots are compacted by and by.
    pools.wait_for(lambda main, archive: main < 2 * KEY_BYTES and archive > 15 * KEY_BYTES * 1.4, 120)
    assert s3.get_object(Bucket="data", Key="kept")["Body"].read() == content(99)


def test_a_pool_that_is_away_leaves_the_other_one_alone(pools):
    pools.allow("disk|shard|decoded|segment|blob|moved|journal|missing|folder|repair|hung|503")
    s3 = pools.boto(retries={"max_attempts": 1})
    s3.put_object(Bucket="demo", Key="cold", Body=content(1), StorageClass="GLACIER_IR")
    s3.put_object(Bucket="demo", Key="hot", Body=content(2))
    for disk in pools.archive[:2]:
        disk.rename(disk.with_suffix(".away"))
    give_up = time.monotonic() + 30
    while pools.admin("status")["pool"]["further"][0]["writable"]:
        assert time.monotonic() < give_up
        time.sleep(0.2)
    told = figures(pools)
    assert (told["margin", "archive"], told["margin", "demo"], told["tolerance", "archive"]) == (-1, 2, 1), told
    assert (told["writable", "archive"], told["writable", "demo"]) == (0, 1), told
    with pytest.raises(ClientError, match="ServiceUnavailable|SlowDown|503"):
        s3.put_object(Bucket="demo", Key="cold2", Body=content(3), StorageClass="GLACIER_IR")
    s3.put_object(Bucket="demo", Key="hot2", Body=content(4))
    assert s3.get_object(Bucket="demo", Key="hot2")["Body"].read() == content(4)
    for disk in pools.archive[:2]:
        disk.with_suffix(".away").rename(disk)
    while not pools.admin("status")["pool"]["further"][0]["writable"]:
        assert time.monotonic() < give_up + 60
        time.sleep(0.2)
    assert s3.get_object(Bucket="demo", Key="cold")["Body"].read() == content(1)
    s3.put_object(Bucket="demo", Key="cold2", Body=content(3), StorageClass="GLACIER_IR")


def test_disks_are_added_to_a_pool(pools, tmp_path):
    new = tmp_path / "new"
    new.mkdir()
    refused = pools.admin("disk", "add", str(new), "--pool", "nowhere", check=False)
    assert refused.returncode != 0 and "no pool nowhere" in refused.stderr
    pools.admin("disk", "add", str(new), "--pool", "archive")
    theirs = (pools.archive[0] / "dewar-disk").read_text().splitlines()[3]
    assert theirs in (new / "dewar-disk").read_text().splitlines()
    s3 = pools.boto()
    for number in range(8):
        s3.put_object(Bucket="demo", Key=f"cold{number}", Body=content(number), StorageClass="GLACIER_IR")
    assert list(new.glob("blobs/*/*")), "it takes what is put into its pool"
    before = len(list(new.glob("blobs/*/*")))
    for number in range(4):
        s3.put_object(Bucket="demo", Key=f"hot{number}", Body=content(number))
    assert len(list(new.glob("blobs/*/*"))) == before, "and nothing else"
    pools.restart()
    s3 = pools.boto()
    assert s3.get_object(Bucket="demo", Key="cold3")["Body"].read() == content(3)
    assert len(pools.admin("status")["pool"]["disks"]) == 10


def test_a_move_that_is_killed_in_its_middle_leaves_the_object_where_it_was(tmp_path):
    size = 16_000_000
    # Read and written that takes some seconds.
    rate = {"DEWAR_UPKEEP_REPAIR_RATE": "8MiB", "DEWAR_UPKEEP_REPAIR_RATE_IDLE": "8MiB"}
    pools = Pools(tmp_path / "pools", **rate).start()
    try:
        s3 = pools.boto()
        etag = s3.put_object(Bucket="demo", Key="old/large", Body=content(1, size))["ETag"]
        whole = pools.bytes_in()[0]
        s3.put_bucket_lifecycle_configuration(
            Bucket="demo", LifecycleConfiguration={"Rules": [rule("old/")]})
        for _ in range(3):
            pools.wait_for(lambda main, archive: archive > size // 8)
            found = s3.head_object(Bucket="demo", Key="old/large")
            assert "StorageClass" not in found, "it was to be killed before this"
            pools.kill()
            pools.start()
            s3 = pools.boto()
            assert s3.get_object(Bucket="demo", Key="old/large")["Body"].read() == content(1, size)
            # What the killed one had copied is swept.
            assert pools.bytes_in()[0] == whole
        pools.wait_for(lambda main, archive: main == 0 and size * 1.4 < archive < size * 1.7)
        found = s3.get_object(Bucket="demo", Key="old/large")
        assert (found["ETag"], found["StorageClass"]) == (etag, "GLACIER_IR")
        assert found["Body"].read() == content(1, size)
        assert pools.admin("fsck", "--deep")["ledger"]["found_bad"] == 0
    finally:
        pools.kill()
    assert not pools.unexpected(), pools.unexpected()


@root_only
def test_a_full_pool_refuses_its_own_objects_only(tmp_path, mounts):  # noqa: F811
    pools = Pools(tmp_path / "pools")
    for disk in pools.archive:
        sh("mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", str(disk))
        mounts(["umount", "-l", str(disk)])
    pools.allow("full|room|NoSpace|not moved|cannot be moved")
    pools.start()
    try:
        s3, cold = pools.boto(retries={"max_attempts": 1}), []
        old = {"old/large": content(1), "old/small": content(2, 5000)}
        etags = {key: s3.put_object(Bucket="demo", Key=key, Body=body)["ETag"] for key, body in old.items()}

        def refused(key, body):
            with pytest.raises(ClientError) as error:
                s3.put_object(Bucket="demo", Key=key, Body=body, StorageClass="GLACIER_IR")
            assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 507, error.value.response

        with pytest.raises(ClientError) as error:
            for number in range(100):
                s3.put_object(Bucket="demo", Key=f"cold{number}", Body=content(number, 10_000_000),
                              StorageClass="GLACIER_IR")
                cold.append(number)
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] in (503, 507), error.value.response
        assert len(cold) > 10
        give_up = time.monotonic() + 30
        while pools.admin("status")["pool"]["further"][0]["writable"]:
            assert time.monotonic() < give_up, "status says that writes go on"
            time.sleep(0.2)
        refused("small", b"s" * 5000)
        refused("large", content(3))
        status = pools.admin("status")["pool"]
        assert status["writable"] and any("of the pool archive are full" in note for note in status["notes"]), status
        assert (figures(pools)["writable", "archive"], figures(pools)["writable", "demo"]) == (0, 1)
        for size in (5000, 10_000_000):
            s3.put_object(Bucket="demo", Key=f"hot{size}", Body=content(4, size))
            assert s3.get_object(Bucket="demo", Key=f"hot{size}")["Body"].read() == content(4, size)
        # What is to be moved stays where it is, and is moved when there is room.
        s3.put_bucket_lifecycle_configuration(
            Bucket="demo", LifecycleConfiguration={"Rules": [rule("old/")]})
        give_up = time.monotonic() + 60
        while "cannot be moved to their storage class" not in pools.log_path.read_text():
            assert time.monotonic() < give_up, "nothing was to be moved"
            time.sleep(0.2)
        for key, body in old.items():
            found = s3.get_object(Bucket="demo", Key=key)
            assert found["Body"].read() == body and "StorageClass" not in found, key
        for number in cold[2:]:
            s3.delete_object(Bucket="demo", Key=f"cold{number}")
        give_up = time.monotonic() + 90
        for key, body in old.items():
            while s3.head_object(Bucket="demo", Key=key).get("StorageClass") != "GLACIER_IR":
                assert time.monotonic() < give_up, key
                time.sleep(0.3)
            found = s3.get_object(Bucket="demo", Key=key)
            assert found["Body"].read() == body and found["ETag"] == etags[key]
        for number in cold[:2]:
            assert s3.get_object(Bucket="demo", Key=f"cold{number}")["Body"].read() == content(number, 10_000_000)
        s3.put_object(Bucket="demo", Key="again", Body=content(5), StorageClass="GLACIER_IR")
    finally:
        pools.kill()
    assert not pools.unexpected(), pools.unexpected()
