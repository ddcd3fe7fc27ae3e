"""Disks pulled out of a running server, and put back."""

import time

import botocore.exceptions
import physics
import pytest
from conftest import content

SIZES = {"small": 4_000, "medium": 300_000, "large": 9_000_000}


def pull(server, *numbers):
    for number in numbers:
        server.disk(number).rename(server.disk(number).with_name(f"pulled{number}"))


def put_back(server, *numbers):
    for number in numbers:
        server.disk(number).with_name(f"pulled{number}").rename(server.disk(number))


def wait_for_disks(server, online):
    """The server looks once a second."""
    for _ in range(200):
        disks = server.admin("status")["pool"]["disks"]
        if sum(disk["state"] == "online" for disk in disks) == online:
            return
        time.sleep(0.1)
    pytest.fail(f"not {online} disks online: {disks}")


def write(s3, names, generation):
    for name in names:
        for kind, size in SIZES.items():
            s3.put_object(Bucket="demo", Key=f"{name}/{kind}", Body=content((name, kind, generation), size))


def check(s3, names, generation):
    for name in names:
        for kind, size in SIZES.items():
            body = s3.get_object(Bucket="demo", Key=f"{name}/{kind}")["Body"].read()
            assert body == content((name, kind, generation), size), (name, kind)


def test_two_of_six_disks_gone_and_back(own_server, samples):
    server = own_server
    server.allow(r"disk\d|shard|decoded around|journal|holder|missing")
    s3 = server.boto(retries={"max_attempts": 4})
    write(s3, ["before", "both"], 1)
    chosen = physics.chosen(samples)[:6]
    for path in chosen:
        s3.upload_file(str(path), "demo", path.name)
    for pair in [(1, 2), (3, 6), (4, 5)]:
        pull(server, *pair)
        wait_for_disks(server, 4)
        tag = f"during{pair[0]}"
        check(s3, ["before"], 1)
        write(s3, [tag, "both"], tag)
        check(s3, [tag, "both"], tag)
        fs = server.filesystem()
        for path in chosen:
            physics.compare(path, fs, f"demo/{path.name}")
        assert s3.list_objects_v2(Bucket="demo", Prefix="before/")["KeyCount"] == 3
        s3.delete_object(Bucket="demo", Key=f"{tag}/small")
        put_back(server, *pair)
        wait_for_disks(server, 6)
        check(s3, ["before"], 1)
        check(s3, ["both"], tag)
    server.restart()
    s3 = server.boto()
    check(s3, ["before"], 1)
    check(s3, ["both"], "during4")


def test_start_without_two_disks(own_server):
    server = own_server
    server.allow(r"disk\d|shard|decoded around|journal|holder|missing")
    s3 = server.boto()
    write(s3, ["kept"], 1)
    server.kill()
    pull(server, 1, 4)
    server.start()
    s3 = server.boto()
    check(s3, ["kept"], 1)
    write(s3, ["later"], 2)
    server.kill()
    put_back(server, 1, 4)
    server.start()
    s3 = server.boto()
    check(s3, ["kept"], 1)
    check(s3, ["later"], 2)
    # What was written while two were away survives two others going.
    server.kill()
    pull(server, 2, 3)
    server.start()
    check(server.boto(), ["kept"], 1)
    check(server.boto(), ["later"], 2)


def test_disks_that_come_after_the_start_join(own_server):
    server = own_server
    server.allow(r"disk\d|shard|decoded around|journal|holder|missing|index|catalog")
    write(server.boto(), ["kept"], 1)
    server.kill()
    pull(server, 1, 4)
    server.start()
    s3 = server.boto(retries={"max_attempts": 4})
    wait_for_disks(server, 4)
    write(s3, ["later"], 2)
    put_back(server, 1, 4)
    wait_for_disks(server, 6)
    write(s3, ["joined"], 3)
    assert any(server.disk(1).glob("blobs/*/*")) and any(server.disk(4).glob("blobs/*/*"))
    # Two others go; those that joined stand in for them, in the journal too.
    pull(server, 2, 3)
    wait_for_disks(server, 4)
    write(s3, ["after"], 4)
    for generation, name in enumerate(["kept", "later", "joined", "after"], 1):
        check(s3, [name], generation)
    server.kill()
    server.start()
    for generation, name in enumerate(["kept", "later", "joined", "after"], 1):
        check(server.boto(), [name], generation)


def test_three_disks_gone_is_refused_not_lost(own_server):
    server = own_server
    server.allow(r".")
    s3 = server.boto()
    write(s3, ["kept"], 1)
    server.stop()
    pull(server, 1, 2, 3)
    with pytest.raises(RuntimeError, match="4 of 6|missing|disks"):
        server.start()
    assert not server.disk(1).exists(), "a missing disk is never created"
    put_back(server, 1, 2, 3)
    server.start()
    check(server.boto(), ["kept"], 1)


def test_three_disks_go_while_running(own_server):
    server = own_server
    server.allow(r".")
    s3 = server.boto(read_timeout=120)
    write(s3, ["kept"], 1)
    pull(server, 1, 2, 3)
    wait_for_disks(server, 3)
    with pytest.raises(botocore.exceptions.ClientError) as error:
        s3.get_object(Bucket="demo", Key="kept/large")["Body"].read()
        pytest.fail("half the data cannot be there")
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    put_back(server, 1, 2, 3)
    wait_for_disks(server, 6)
    check(s3, ["kept"], 1)
    assert not any(server.disk(n).with_name(f"pulled{n}").exists() for n in range(1, 7))
