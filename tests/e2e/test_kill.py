"""kill -9 in a burst of writes: what was acknowledged is there and exact, nothing is half there."""

import hashlib
import random
import threading
import time

import pytest
from conftest import FULL
from server import Server

CYCLES = 100 if FULL else 20
WRITERS = 6
SIZES = [100, 4096, 20_000, 150_000, 1_200_000]


class Writer(threading.Thread):
    """Overwrites its own keys until the server goes away, and remembers what may be there."""

    def __init__(self, server, number, state, seed):
        super().__init__(daemon=True)
        self.s3 = server.boto(read_timeout=20)
        self.random = random.Random(seed)
        self.number = number
        self.state = state
        self.acknowledged = 0

    def run(self):
        while True:
            key = f"w{self.number}/{self.random.randrange(8)}"
            delete = self.random.random() < 0.15
            body = None if delete else self.random.randbytes(self.random.choice(SIZES))
            digest = None if delete else hashlib.sha256(body).hexdigest()
            # Until it is acknowledged, the old or the new content may be there.
            self.state[key] = self.state.get(key, {None}) | {digest}
            try:
                if delete:
                    self.s3.delete_object(Bucket="demo", Key=key)
                else:
                    self.s3.put_object(Bucket="demo", Key=key, Body=body)
            except Exception:
                return
            self.state[key] = {digest}
            self.acknowledged += 1


def look(s3, state):
    """Every key is exactly one of what it may be, and the listing says the same."""
    listed = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket="demo"):
        listed.update((entry["Key"], entry["Size"]) for entry in page.get("Contents", []))
    for key, allowed in state.items():
        if key not in listed:
            assert None in allowed, f"{key} was acknowledged and is gone"
            state[key] = {None}
            continue
        body = s3.get_object(Bucket="demo", Key=key)["Body"].read()
        assert len(body) == listed[key]
        digest = hashlib.sha256(body).hexdigest()
        assert digest in allowed, f"{key} holds what was never written or was overwritten"
        state[key] = {digest}
    assert set(listed) <= set(state), "keys nobody wrote"


@pytest.mark.alone
def test_a_hundred_kills(tmp_path):
    server = Server(tmp_path / "kill").start()
    server.allow(r"left over|leftover|not removed")
    chance, state, acknowledged = random.Random(4711), {}, 0
    try:
        for cycle in range(CYCLES):
            writers = [Writer(server, number, state, f"{cycle}/{number}") for number in range(WRITERS)]
            for writer in writers:
                writer.start()
            time.sleep(chance.uniform(0.05, 0.5))
            server.kill()
            for writer in writers:
                writer.join(timeout=30)
                assert not writer.is_alive()
                acknowledged += writer.acknowledged
            server.start()
            look(server.boto(), state)
        assert acknowledged > CYCLES * 5, "the burst was too small to prove anything"
        server.stop()
    finally:
        server.kill()
    assert not server.unexpected(), "\n".join(server.unexpected())
