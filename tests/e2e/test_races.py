"""Clients that get into each other's way, and what the server must not forget or bring back."""

import threading
import time

import botocore.exceptions
from conftest import content


def test_compare_and_swap_loses_no_step(server, bucket):
    """Refused writes are answered before their body is sent; the connection must not go on with the
    next request in the body's place."""
    s3 = server.boto(max_pool_connections=16)
    s3.put_object(Bucket=bucket, Key="counter", Body=b"0")
    errors = []

    def count(steps):
        done = 0
        while done < steps:
            found = s3.get_object(Bucket=bucket, Key="counter")
            value = int(found["Body"].read())
            try:
                s3.put_object(Bucket=bucket, Key="counter", Body=str(value + 1).encode(), IfMatch=found["ETag"])
                done += 1
            except botocore.exceptions.ClientError as error:
                assert error.response["Error"]["Code"] in ("PreconditionFailed", "ConditionalRequestConflict"), error

    def guarded():
        try:
            count(15)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert s3.get_object(Bucket=bucket, Key="counter")["Body"].read() == b"120"


def shards(server):
    return [path for number in range(1, 7) for path in server.disk(number).glob("blobs/*/*")]


def wait_for(server, want, seconds):
    give_up = time.monotonic() + seconds
    while bool(shards(server)) != want and time.monotonic() < give_up:
        time.sleep(0.2)
    return shards(server)


def test_deleted_small_objects_do_not_come_back(own_server):
    """The journal still carries them when the segments they were sealed in are gone already."""
    server = own_server
    s3, body = server.boto(), content("small", 60_000)
    keys = [f"k{number}" for number in range(600)]
    for key in keys:
        s3.put_object(Bucket="demo", Key=key, Body=body)
    assert wait_for(server, True, 20), "a full segment is sealed"
    s3.delete_objects(Bucket="demo", Delete={"Objects": [{"Key": key} for key in keys]})
    assert wait_for(server, False, 60) == [], "what is dead is freed"
    server.kill()
    server.start()
    time.sleep(5)
    assert wait_for(server, False, 60) == [], "and stays so"
