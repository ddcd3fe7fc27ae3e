"""Disks that fill up and disks that return I/O errors, made with real file systems.

Needs root for mounts: as an ordinary user the tests run inside a user namespace, where tmpfs can be
mounted; a failing block device cannot be made there, and that test says so."""

import concurrent.futures
import fcntl
import os
import struct
import subprocess
import time

import botocore.exceptions
import pytest
import requests
from conftest import FULL, content
from server import Server

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


def sh(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def mounts():
    done = []
    yield done.append
    for undo in reversed(done):
        subprocess.run(undo, check=False, capture_output=True)


def on_small_disks(tmp_path, mounts, size):
    """A server whose six disks have so much room each."""
    server = Server(tmp_path / "full")
    for number in range(1, 7):
        server.disk(number).mkdir(parents=True)
        sh("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(server.disk(number)))
        mounts(["umount", "-l", str(server.disk(number))])
    return server


def put_again(s3):
    """Puts an object as soon as the room that deletes freed is there."""
    for _ in range(120):
        try:
            return s3.put_object(Bucket="demo", Key="again", Body=content("again", 1_000_000))
        except botocore.exceptions.ClientError:
            time.sleep(0.5)
    pytest.fail("the room that deletes freed is not used")


@pytest.mark.alone
@root_only
def test_disk_full(tmp_path, mounts):
    server = on_small_disks(tmp_path, mounts, "512m")
    server.allow(r"full|room|space|NoSpace|shard")
    server.start()
    try:
        s3, written = server.boto(), []
        with pytest.raises(botocore.exceptions.ClientError) as error:
            for number in range(1000):
                key = f"f{number:04}"
                s3.put_object(Bucket="demo", Key=key, Body=content(number, 20_000_000))
                written.append(number)
        response = error.value.response
        assert response["ResponseMetadata"]["HTTPStatusCode"] in (503, 507), response
        assert len(written) > 10
        deadline = time.monotonic() + 30
        while server.admin("status")["pool"]["writable"]:
            assert time.monotonic() < deadline, "status says that writes go on"
            time.sleep(0.5)
        metrics = requests.get(server.ready["metrics"]["endpoint"] + "/metrics", timeout=10).text
        assert "\ndewar_pool_writable 0\n" in metrics, metrics
        # Full, but reads and deletes go on, nothing acknowledged is damaged, and room comes back.
        for number in written[:3] + written[-3:]:
            assert s3.get_object(Bucket="demo", Key=f"f{number:04}")["Body"].read() == content(number, 20_000_000)
        for number in written[: len(written) // 2]:
            s3.delete_object(Bucket="demo", Key=f"f{number:04}")
        server.restart()
        s3 = server.boto()
        put_again(s3)
        for number in written[len(written) // 2:]:
            assert s3.get_object(Bucket="demo", Key=f"f{number:04}")["Body"].read() == content(number, 20_000_000)
    finally:
        server.kill()


@pytest.mark.alone
@root_only
def test_what_fills_a_pool_at_full_speed_leaves_its_reserve(tmp_path, mounts):
    """Several writers at once, and then small objects as long as they are taken: deletes go on, and so
    does the next process."""
    server = on_small_disks(tmp_path, mounts, "300m")
    server.allow(r"full|room|space|NoSpace|shard|reserve")
    server.start()
    try:
        s3, big, small = server.boto(retries={"max_attempts": 1}), [], []

        def taken(key, body):
            try:
                s3.put_object(Bucket="demo", Key=key, Body=body)
            except botocore.exceptions.ClientError as error:
                assert error.response["ResponseMetadata"]["HTTPStatusCode"] in (503, 507), error.response
                return False
            return True

        def fill(writer):
            for number in range(writer, 10_000, 8):
                if not taken(f"b{number:05}", content(number, 4_000_000)):
                    return
                big.append(number)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(fill, range(8)))
        assert len(big) > 20
        for number in range(3000):
            if not taken(f"s{number:05}", content(number, 60_000)):
                break
            small.append(number)
        else:
            pytest.fail("small objects are taken for ever")
        for number in range(1, 7):
            found = os.statvfs(server.disk(number))
            assert found.f_bavail * found.f_frsize > found.f_blocks * found.f_frsize // 64, number
        for number in big[:10]:
            s3.delete_object(Bucket="demo", Key=f"b{number:05}")
        server.kill()
        server.start()
        s3 = server.boto()
        for number in big[10:20]:
            assert s3.get_object(Bucket="demo", Key=f"b{number:05}")["Body"].read() == content(number, 4_000_000)
            s3.delete_object(Bucket="demo", Key=f"b{number:05}")
        for number in small:
            assert s3.get_object(Bucket="demo", Key=f"s{number:05}")["Body"].read() == content(number, 60_000)
    finally:
        server.kill()


@pytest.mark.alone
@root_only
def test_full_disks_are_away_for_moments_one_after_the_other(tmp_path, mounts):
    """The journal moves to other disks each time, in the room that is kept free."""
    server = Server(tmp_path / "away")
    server.allow(r"full|room|space|NoSpace|shard|journal|holder|index|disk\d|missing")
    folders = []
    for number in range(1, 7):
        image, top = tmp_path / f"image{number}", tmp_path / f"top{number}"
        with image.open("wb") as file:
            file.truncate(4 << 30)
        top.mkdir()
        sh("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(image))
        sh("mount", "-o", "loop", str(image), str(top))
        mounts(["umount", "-l", str(top)])
        found = os.statvfs(top)
        others = found.f_bavail * found.f_frsize - (700 << 20)
        sh("fallocate", "-l", str(others), str(top / "others"))
        (top / "disk").mkdir()
        folders.append(top / "disk")
        server.disk(number).mkdir(parents=True)
        sh("mount", "--bind", str(top / "disk"), str(server.disk(number)))
        mounts(["umount", "-l", str(server.disk(number))])
    server.start()
    try:
        s3, written = server.boto(), []
        with pytest.raises(botocore.exceptions.ClientError) as error:
            for number in range(1000):
                s3.put_object(Bucket="demo", Key=f"f{number:04}", Body=content(number, 20_000_000))
                written.append(number)
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 507
        for number in (1, 4, 2, 5, 3, 6, 2, 1) if FULL else (1, 4, 2, 1):
            sh("umount", "-l", str(server.disk(number)))
            time.sleep(2.5)
            sh("mount", "--bind", str(folders[number - 1]), str(server.disk(number)))
            for _ in range(100):
                if all(disk["state"] == "online" for disk in server.admin("status")["pool"]["disks"]):
                    break
                time.sleep(0.2)
            else:
                pytest.fail(f"disk {number} does not come back")
            time.sleep(2)
        half = len(written) // 2
        for number in written[:half]:
            s3.delete_object(Bucket="demo", Key=f"f{number:04}")
        server.kill()
        server.start()
        s3 = server.boto()
        for number in written[half:]:
            assert s3.get_object(Bucket="demo", Key=f"f{number:04}")["Body"].read() == content(number, 20_000_000)
        put_again(s3)
    finally:
        server.kill()


@pytest.mark.alone
@root_only
def test_a_disk_that_returns_errors(tmp_path, mounts):
    """The file behind a loop device is cut: whatever lay behind the cut gives EIO."""
    image = tmp_path / "disk.img"
    with image.open("wb") as f:
        f.truncate(1 << 30)
    device = sh("losetup", "--find", "--show", str(image))
    mounts(["losetup", "--detach", device])
    sh("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
    server = Server(tmp_path / "eio")
    server.disk(3).mkdir(parents=True)
    sh("mount", "-o", "noatime", device, str(server.disk(3)))
    mounts(["umount", "-l", str(server.disk(3))])
    server.allow(r".")
    server.start()
    try:
        s3 = server.boto(retries={"max_attempts": 6}, read_timeout=120)
        for number in range(20):
            s3.put_object(Bucket="demo", Key=f"k{number}", Body=content(number, 2_000_000))
            s3.put_object(Bucket="demo", Key=f"s{number}", Body=content(number, 2_000))
        os.truncate(image, 8 << 20)
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("3")
        for number in range(20):
            assert s3.get_object(Bucket="demo", Key=f"k{number}")["Body"].read() == content(number, 2_000_000)
            assert s3.get_object(Bucket="demo", Key=f"s{number}")["Body"].read() == content(number, 2_000)
            s3.put_object(Bucket="demo", Key=f"n{number}", Body=content(-number, 2_000_000))
            s3.put_object(Bucket="demo", Key=f"t{number}", Body=content(-number, 2_000))
        server.kill()
        server.start()
        s3 = server.boto()
        for number in range(20):
            assert s3.get_object(Bucket="demo", Key=f"k{number}")["Body"].read() == content(number, 2_000_000)
            assert s3.get_object(Bucket="demo", Key=f"n{number}")["Body"].read() == content(-number, 2_000_000)
            assert s3.get_object(Bucket="demo", Key=f"t{number}")["Body"].read() == content(-number, 2_000)
    finally:
        server.kill()


@root_only
def test_two_disks_turn_read_only(tmp_path, mounts):
    """As file systems do that are damaged. Such disks are there, and count as lost for writes."""
    server = Server(tmp_path / "ro")
    disks = [server.disk(2), server.disk(5)]
    for disk in disks:
        disk.mkdir(parents=True)
        sh("mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", str(disk))
        mounts(["umount", "-l", str(disk)])
    server.allow(r"disk\d|shard|journal|holder|missing")
    server.start()
    try:
        s3 = server.boto()
        for number in range(5):
            s3.put_object(Bucket="demo", Key=f"k{number}", Body=content(number, 2_000_000))
        server.kill()
        for disk in disks:
            sh("mount", "-o", "remount,ro", str(disk))
        server.start()
        s3 = server.boto()
        for number in range(5):
            s3.put_object(Bucket="demo", Key=f"n{number}", Body=content(-number, 2_000_000))
            s3.put_object(Bucket="demo", Key=f"s{number}", Body=content(-number, 2_000))
        states = [disk["state"] for disk in server.admin("status")["pool"]["disks"]]
        assert states == ["online", "read-only", "online", "online", "read-only", "online"]
        for number in range(5):
            assert s3.get_object(Bucket="demo", Key=f"k{number}")["Body"].read() == content(number, 2_000_000)
            assert s3.get_object(Bucket="demo", Key=f"n{number}")["Body"].read() == content(-number, 2_000_000)
            assert s3.get_object(Bucket="demo", Key=f"s{number}")["Body"].read() == content(-number, 2_000)
        # They are used again without a restart.
        for disk in disks:
            sh("mount", "-o", "remount,rw", str(disk))
        deadline = time.monotonic() + 20
        while any(disk["state"] != "online" for disk in server.admin("status")["pool"]["disks"]):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        s3.put_object(Bucket="demo", Key="again", Body=content(7, 2_000_000))
        assert [list(disk.glob("blobs/**/*")) != [] for disk in disks] == [True, True]
    finally:
        server.kill()


# Shuts an ext4 off as the kernel does after an error, without a word in the mount.
EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = struct.pack("I", 2)


@pytest.mark.alone
@root_only
def test_a_file_system_that_is_shut_off_is_noticed_while_nobody_writes(tmp_path, mounts):
    server = Server(tmp_path / "off")
    disk = server.disk(3)
    disk.mkdir(parents=True)
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(2 << 30)
    try:
        sh("mkfs.ext4", "-q", "-F", str(image))
        sh("mount", "-o", "loop", str(image), str(disk))
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no ext4 on a loop device here: {error}")
    mounts(["umount", "-l", str(disk)])
    server.allow(r"disk\d|shard|journal|holder|missing|cannot be written")
    server.start()
    try:
        server.boto().put_object(Bucket="demo", Key="k", Body=content(1, 2_000_000))
        folder = os.open(disk, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH)
        except OSError as error:
            pytest.skip(f"it cannot be shut off here: {error}")
        finally:
            os.close(folder)
        deadline = time.monotonic() + 30
        while server.admin("status")["pool"]["disks"][2]["state"] == "online":
            assert time.monotonic() < deadline
            time.sleep(0.5)
        assert server.boto().get_object(Bucket="demo", Key="k")["Body"].read() == content(1, 2_000_000)
    finally:
        server.kill()


def test_an_identity_file_that_is_damaged_is_told_before_the_next_start(own_server):
    server = own_server
    deadline = time.monotonic() + 30
    # The first look at the disks of a new pool takes a moment, and has another detail until then.
    while any(disk["detail"] for disk in server.admin("status")["pool"]["disks"]):
        assert time.monotonic() < deadline, "the disks were not looked at"
        time.sleep(0.2)
    identity = server.disk(4) / "dewar-disk"
    good = identity.read_bytes()
    identity.write_bytes(good[:10] + b"?" + good[11:])
    disk = server.admin("status")["pool"]["disks"][3]
    assert disk["state"] == "online" and "damaged" in disk["detail"], disk
    [line] = [line for line in server.admin("disk", "list") if line["path"] == str(server.disk(4))]
    assert "dewar-disk" in line["advice"], line
    assert server.admin("status", "--check", check=False).returncode == 1
    identity.write_bytes(good)
    assert server.admin("status")["pool"]["disks"][3]["detail"] is None


def test_a_disk_without_a_good_identity_file_says_so_and_what_mends_it(own_server):
    server = own_server
    server.allow(r"dewar-disk|disk4|disk\d|shard|journal|holder")
    body = content(1, 500_000)
    server.boto().put_object(Bucket="demo", Key="k", Body=body)
    identity = server.disk(4) / "dewar-disk"
    good = identity.read_bytes()

    def told(words):
        """What both commands say of the disk, when they say so."""
        deadline = time.monotonic() + 30
        while True:
            disk = server.admin("status")["pool"]["disks"][3]
            [line] = [line for line in server.admin("disk", "list")
                      if line["path"] == str(server.disk(4))]
            if words in (disk["detail"] or "") and words in (line["advice"] or ""):
                break
            assert time.monotonic() < deadline, (disk, line)
            time.sleep(0.2)
        assert disk["state"] == line["state"] == "missing" and line["number"] == 4, (disk, line)
        assert "put the file back" in line["advice"], line
        assert "`dewar disk replace 4 NEW-FOLDER`" in line["advice"], line
        assert "mount" not in line["advice"], line

    identity.unlink()
    told("`dewar-disk` is gone, and its data are there")
    server.restart()
    told("`dewar-disk` is gone, and its data are there")
    identity.write_bytes(good[:60] + b"?" + good[61:])
    told("`dewar-disk` is damaged: its checksum does not fit")
    server.restart()
    told("`dewar-disk` is damaged: its checksum does not fit")
    assert server.boto().get_object(Bucket="demo", Key="k")["Body"].read() == body
    identity.write_bytes(good)
    deadline = time.monotonic() + 30
    while server.admin("status")["pool"]["disks"][3]["state"] != "online":
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_rot_is_repaired_on_read(own_server):
    """A flipped byte in a shard file is noticed, decoded around, and put right."""
    server = own_server
    server.allow(r"decoded around|does not verify|healed")
    s3, body = server.boto(), content("rot", 3_000_000)
    s3.put_object(Bucket="demo", Key="rot", Body=body)
    shards = [p for n in (1, 2) for p in server.disk(n).glob("blobs/*/*") if p.stat().st_size > 100_000]
    assert shards
    for shard in shards:
        with shard.open("r+b") as f:
            f.seek(8192 + 100)
            byte = f.read(1)[0]
            f.seek(8192 + 100)
            f.write(bytes([byte ^ 0xFF]))
    assert s3.get_object(Bucket="demo", Key="rot")["Body"].read() == body


def fill_to_the_last_byte(folder):
    """A file that is not Dewar's takes all room that is left."""
    with (folder / "somebody-elses").open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 512, 1):
            while True:
                try:
                    file.write(bytes(size))
                except OSError:
                    break


@root_only
def test_a_start_without_a_byte_of_room(tmp_path, mounts):
    """Killed while every disk is full to the last byte, it serves again, and deleting makes room."""
    server = on_small_disks(tmp_path, mounts, "256m")
    server.allow(r"full|room|space|NoSpace|shard|journal|index|compact|seal|not ours|holder")
    server.start()
    try:
        s3 = server.boto()
        for number in range(20):
            s3.put_object(Bucket="demo", Key=f"f{number:04}", Body=content(number, 5_000_000))
            s3.put_object(Bucket="demo", Key=f"s{number:04}", Body=content(number, 5_000))
        for round_ in range(3):
            for number in range(1, 7):
                fill_to_the_last_byte(server.disk(number))
            server.kill()
            for number in range(1, 7):
                fill_to_the_last_byte(server.disk(number))
                found = os.statvfs(server.disk(number))
                assert found.f_bavail * found.f_frsize == 0, found
            server.start()
            s3 = server.boto()
            for number in range(5 * round_, 20):
                assert s3.get_object(Bucket="demo", Key=f"f{number:04}")["Body"].read() == content(number, 5_000_000)
                assert s3.get_object(Bucket="demo", Key=f"s{number:04}")["Body"].read() == content(number, 5_000)
            with pytest.raises(botocore.exceptions.ClientError) as error:
                s3.put_object(Bucket="demo", Key="more", Body=content("more", 5_000_000))
            response = error.value.response
            assert response["ResponseMetadata"]["HTTPStatusCode"] in (503, 507), response
            for number in range(5 * round_, 5 * round_ + 5):
                s3.delete_object(Bucket="demo", Key=f"f{number:04}")
                s3.delete_object(Bucket="demo", Key=f"s{number:04}")
        # What deletes free is enough to write again, although the other's files are still there.
        for _ in range(240):
            try:
                s3.put_object(Bucket="demo", Key="again", Body=content("again", 1_000_000))
                break
            except botocore.exceptions.ClientError:
                time.sleep(0.5)
        else:
            pytest.fail("the room that deletes freed is not used")
        server.kill()
        server.start()
        s3 = server.boto()
        assert s3.get_object(Bucket="demo", Key="again")["Body"].read() == content("again", 1_000_000)
        for number in range(15, 20):
            assert s3.get_object(Bucket="demo", Key=f"f{number:04}")["Body"].read() == content(number, 5_000_000)
    finally:
        server.kill()
