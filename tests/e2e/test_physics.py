"""uproot reads real ROOT files branch by branch out of Dewar, with two of six disks gone too."""

import physics
import pytest


@pytest.fixture(scope="module")
def uploaded(shared, samples):
    s3 = shared.boto()
    s3.create_bucket(Bucket="physics")
    for path in physics.chosen(samples):
        s3.upload_file(str(path), "physics", f"samples/{path.name}")
    yield shared
    for path in physics.chosen(samples):
        s3.delete_object(Bucket="physics", Key=f"samples/{path.name}")
    s3.delete_bucket(Bucket="physics")


def test_every_branch_is_the_same(uploaded, server, samples):
    fs, read = uploaded.filesystem(), 0
    for path in physics.chosen(samples):
        read += physics.compare(path, fs, f"physics/samples/{path.name}")
    assert read > 5000, f"only {read} branches could be read at all"
