"""A process that may open few files: clients must not take them from the disks."""

import socket

from server import Server

LIMIT = 320


def test_a_flood_of_connections_leaves_the_disks_their_files(tmp_path):
    server = Server(tmp_path / "few", wrapper=("prlimit", f"--nofile={LIMIT}:{LIMIT}")).start()
    server.allow("connections_max")
    try:
        s3 = server.boto(retries={"max_attempts": 20})
        s3.create_bucket(Bucket="few")
        ports = (server.port, server.port + 2)
        flood = []
        for number in range(2 * LIMIT):
            connection = socket.create_connection(("127.0.0.1", ports[number % 2]), timeout=5)
            flood.append(connection)
        # Whoever had a connection before goes on, with objects that open files on all disks.
        for number in range(20):
            s3.put_object(Bucket="few", Key=f"large-{number}", Body=bytes([number]) * 1_000_000)
            s3.put_object(Bucket="few", Key=f"small-{number}", Body=bytes([number]) * 1_000)
        for number in range(20):
            assert s3.get_object(Bucket="few", Key=f"large-{number}")["Body"].read() == bytes([number]) * 1_000_000
        for connection in flood:
            connection.close()
        disks = server.admin("status")["pool"]["disks"]
        assert all(disk["state"] == "online" for disk in disks), disks
    finally:
        server.kill()
    assert not server.unexpected()
