"""More of what people use, at its real work: `aws s3 sync --delete`, rclone's own tests of a remote, MinIO's client, DuckDB."""

import json
import random
import subprocess

import pytest
from conftest import content
from test_clients import VENV, run, same, tree  # noqa: F401  (a fixture)


def test_aws_sync_with_deletes_both_ways(server, bucket, tree, tmp_path):  # noqa: F811
    aws, there, back = VENV / "aws", f"s3://{bucket}/t", tmp_path / "back"

    def sync(source, target, *more):
        return run(aws, "s3", "sync", source, target, "--delete", "--no-progress", *more, server=server)

    sync(tree, there)
    sync(there, back)
    same(tree, back)
    # Up: what changed, went, became a folder, or is new.
    (tree / "a.txt").unlink()
    (tree / "a.txt").mkdir()
    (tree / "a.txt" / "inside").write_text("inside")
    (tree / "d" / "b.root").write_bytes(content("changed", 70_001))
    (tree / "new file").write_text("new")
    for name in range(0, 50, 2):
        (tree / "many" / f"{name:03}").unlink()
    said = sync(tree, there)
    assert said.count("delete: ") == 26 and said.count("upload: ") == 3, said
    assert sync(tree, there).strip() == ""
    # Down: the same there.
    (back / "only here").write_text("x")
    (back / "a.txt").unlink()
    sync(there, back)
    same(tree, back)
    # What is excluded stays on both sides.
    sync(tmp_path / "back" / "many", there, "--exclude", "d/*", "--exclude", "big.bin")
    left = {entry["Key"] for entry in server.boto().list_objects_v2(Bucket=bucket)["Contents"]}
    assert left == {f"t/{name:03}" for name in range(1, 50, 2)} | {"t/big.bin", "t/d/b.root", "t/d/e/f g+h.dat", "t/d/ü.txt"}
    # From bucket to bucket, with nothing passing through the client.
    sync(there, f"s3://{bucket}/other")
    assert sync(there, f"s3://{bucket}/other").strip() == ""


@pytest.fixture
def rclone(server, tools):
    environment = {
        "RCLONE_CONFIG": "/dev/null", "RCLONE_CONFIG_DEWAR_TYPE": "s3", "RCLONE_CONFIG_DEWAR_PROVIDER": "Other",
        "RCLONE_CONFIG_DEWAR_ACCESS_KEY_ID": server.s3["access_key"],
        "RCLONE_CONFIG_DEWAR_SECRET_ACCESS_KEY": server.s3["secret_key"],
        "RCLONE_CONFIG_DEWAR_ENDPOINT": server.s3["endpoint"], "RCLONE_CONFIG_DEWAR_REGION": "us-east-1",
        "RCLONE_CONFIG_SECRET_TYPE": "crypt", "RCLONE_CONFIG_SECRET_REMOTE": "dewar:",
        "RCLONE_CONFIG_SECRET_PASSWORD": subprocess.run([tools / "rclone", "obscure", "x"], capture_output=True,
                                                        text=True, check=True).stdout.strip(),
    }
    return lambda *words: run(tools / "rclone", *words, server=server, **environment)


def test_rclone_tests_the_remote(bucket, rclone, tmp_path):
    """What `rclone test info` finds out: that names come back as they were, of any length that a key can have."""
    found = tmp_path / "info.json"
    rclone("test", "info", "--check-normalization", "--check-length", "--check-streaming", "--write-json", found,
           f"dewar:{bucket}/info")
    info = json.loads(found.read_text())
    assert info["CanWriteUnnormalized"] and info["CanReadUnnormalized"] and not info["CanReadRenormalized"], info
    assert info["CanStream"], info
    assert info["MaxFileLength"] == 1024 - len("info/"), info


def test_rclone_makes_files_and_checks_them(bucket, rclone, tmp_path):
    tree, back = tmp_path / "made", tmp_path / "back"  # noqa: F811
    tree.mkdir()
    rclone("test", "makefiles", "--files", "150", "--max-file-size", "100k", "--seed", "7", tree)
    rclone("sync", tree, f"dewar:{bucket}/t", "--checksum", "--transfers", "8")
    for how in ([], ["--download"], ["--checksum"], ["--one-way"]):
        rclone("check", tree, f"dewar:{bucket}/t", *how)
    sums = tmp_path / "sums"
    rclone("hashsum", "md5", tree, "--output-file", sums)
    rclone("checksum", "md5", sums, f"dewar:{bucket}/t")
    # Through rclone's encryption, whose names are long and whose hashes are its own.
    rclone("sync", tree, f"secret:{bucket}/c")
    rclone("cryptcheck", tree, f"secret:{bucket}/c")
    # From there to there, and back with what has changed.
    rclone("copy", f"dewar:{bucket}/t", f"dewar:{bucket}/u")
    rclone("check", f"dewar:{bucket}/t", f"dewar:{bucket}/u")
    chance, files = random.Random(7), sorted(path for path in tree.rglob("*") if path.is_file())
    for path in chance.sample(files, 20):
        path.unlink()
    for path in chance.sample([path for path in files if path.exists()], 20):
        path.write_bytes(content(str(path), 5000))
    rclone("sync", tree, f"dewar:{bucket}/u", "--checksum")
    rclone("sync", f"dewar:{bucket}/u", back)
    rclone("check", tree, back)
    with pytest.raises(AssertionError):
        rclone("check", tree, f"dewar:{bucket}/t")


@pytest.fixture
def mc(server, tools, tmp_path):
    """MinIO's client, under which the server is called `dewar`."""
    if not (tools / "mc").exists():
        pytest.skip("MinIO's client could not be built, as tests/e2e/run has said")
    host = server.s3["endpoint"].removeprefix("http://")
    told = {"MC_CONFIG_DIR": str(tmp_path / "mc"), "HOME": str(tmp_path), "MC_DISABLE_PAGER": "1", "MC_UPDATE": "off",
            "MC_HOST_dewar": f"http://{server.s3['access_key']}:{server.s3['secret_key']}@{host}"}

    def call(*words, **more):
        done = subprocess.run([tools / "mc", "--quiet", "--no-color", *map(str, words)], capture_output=True, timeout=300,
                              env={**server.client_environment(), **told}, **more)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout.decode()

    return call


@pytest.mark.parametrize("checksum", ["DEFAULT", "CRC32C", "CRC32C-FULL", "CRC64NVME", "SHA256", "MD5", "SHA512", "XXHASH128"])
def test_minio_go_with_trailing_checksums(server, tools, bucket, checksum):
    """minio-go says no number of parts with a composite checksum, and ends trailers in its own way."""
    if not (tools / "minio_go").exists():
        pytest.skip("minio-go could not be built, as tests/e2e/run has said")
    host = server.s3["endpoint"].removeprefix("http://")
    words = [host, server.s3["access_key"], server.s3["secret_key"], bucket, checksum]
    done = subprocess.run([tools / "minio_go", *words], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_minio_client(server, mc, bucket, tree, tmp_path):  # noqa: F811
    there = f"dewar/{bucket}"
    mc("mirror", tree, f"{there}/t")
    assert {entry["key"] for entry in lines(mc("--json", "ls", f"{there}/t/"))} == {"a.txt", "big.bin", "d/", "empty", "many/"}
    assert mc("diff", tree, f"{there}/t").strip() == ""
    (tree / "a.txt").unlink()
    (tree / "many" / "new").write_text("new")
    mc("mirror", "--overwrite", "--remove", tree, f"{there}/t")
    assert mc("diff", tree, f"{there}/t").strip() == ""
    mc("mirror", f"{there}/t", tmp_path / "back")
    same(tree, tmp_path / "back")
    assert mc("cat", f"{there}/t/many/new") == "new"
    mc("cp", "--attr", "colour=red", "--tags", "a=1", tree / "big.bin", f"{there}/marked")
    shown = lines(mc("--json", "stat", f"{there}/marked"))[0]
    assert shown["size"] == 20_000_000 and shown["metadata"]["X-Amz-Meta-Colour"] == "red", shown
    assert lines(mc("--json", "tag", "list", f"{there}/marked"))[0]["tagset"] == {"a": "1"}
    mc("mv", f"{there}/marked", f"{there}/moved")
    found = lines(mc("--json", "find", there, "--name", "m*ved"))
    assert [entry["key"].rsplit("/", 1)[1] for entry in found] == ["moved"]
    assert lines(mc("--json", "du", there))[-1]["objects"] > 50
    # Presigned, for those who have no key.
    url = lines(mc("--json", "share", "download", f"{there}/t/many/new"))[0]["share"]
    assert run("curl", "--silent", "--fail", url, server=server) == "new"
    mc("rm", "--recursive", "--force", there)
    assert mc("ls", "--recursive", there).strip() == ""


def test_minio_client_and_versions(mc, bucket, tree):  # noqa: F811
    there = f"dewar/{bucket}"
    mc("version", "enable", there)
    mc("cp", tree / "a.txt", f"{there}/k")
    mc("rm", f"{there}/k")
    versions = lines(mc("--json", "ls", "--versions", f"{there}/k"))
    assert [one.get("isDeleteMarker", False) for one in versions] == [True, False], versions
    mc("undo", f"{there}/k", "--last", "1", "--force")
    assert lines(mc("--json", "stat", f"{there}/k"))[0]["size"] == 10
    mc("rm", "--recursive", "--force", "--versions", there)
    assert mc("ls", "--recursive", "--versions", there).strip() == ""


def test_minio_client_pipes(mc, bucket, tmp_path):
    """Of unknown length, with a composite checksum of which it does not say over how many parts it is."""
    there, body = f"dewar/{bucket}/piped", content("pipe", 20_000_000)
    mc("pipe", there, input=body)
    mc("cp", there, tmp_path / "piped")
    assert (tmp_path / "piped").read_bytes() == body


def test_minio_client_publishes(server, mc, bucket, tree):  # noqa: F811
    """By a policy whose statements all have the same, empty, id."""
    there, url = f"dewar/{bucket}", f"{server.s3['endpoint']}/{bucket}/t/many/007"
    mc("mirror", tree / "many", f"{there}/t/many")
    mc("anonymous", "set", "download", f"{there}/t")
    assert run("curl", "--silent", "--fail", "--output", "/dev/null", "--write-out", "%{size_download}", url, server=server) == "107"
    mc("anonymous", "set", "none", f"{there}/t")
    assert run("curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", url, server=server) == "403"


def test_duckdb_reads_and_writes(server, bucket):
    """Its httpfs extension comes as a package, signed by DuckDB, which it verifies when it loads it."""
    import duckdb
    import duckdb_ext

    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as db:
        db.execute("SET extension_directory = ?", [f"{list(duckdb_ext.__path__)[0]}/extensions"])
        db.execute("LOAD httpfs")
        db.execute(f"""CREATE SECRET (TYPE s3, KEY_ID '{server.s3["access_key"]}', SECRET '{server.s3["secret_key"]}',
                       REGION '{server.s3["region"]}', ENDPOINT '127.0.0.1:{server.port}', URL_STYLE 'path', USE_SSL false)""")
        db.execute("CREATE TABLE events AS SELECT i AS id, i % 3 + 2024 AS year, sqrt(i) AS energy, 'event ' || i AS name "
                   "FROM range(500000) AS t(i)")
        db.execute(f"COPY events TO 's3://{bucket}/one.parquet' (ROW_GROUP_SIZE 20000)")
        db.execute(f"COPY events TO 's3://{bucket}/by-year' (FORMAT parquet, PARTITION_BY (year))")
        db.execute(f"COPY (SELECT * FROM events WHERE id < 1000) TO 's3://{bucket}/few.csv'")
        db.execute(f"COPY (SELECT * FROM events WHERE id < 1000) TO 's3://{bucket}/few.json.gz'")
        one = f"'s3://{bucket}/one.parquet'"
        assert db.execute(f"SELECT count(*), sum(id), count(DISTINCT name) FROM {one}").fetchone() == (
            500_000, 499_999 * 250_000, 500_000)
        # A few row groups of one column: by ranges.
        assert db.execute(f"SELECT name FROM {one} WHERE id BETWEEN 400000 AND 400001 ORDER BY id").fetchall() == [
            ("event 400000",), ("event 400001",)]
        years = db.execute(f"SELECT year, count(*) FROM read_parquet('s3://{bucket}/by-year/*/*.parquet', hive_partitioning = true) "
                           "WHERE year > 2024 GROUP BY year ORDER BY year").fetchall()
        assert years == [(2025, 166_667), (2026, 166_666)]
        assert len(db.execute(f"SELECT * FROM glob('s3://{bucket}/by-year/**')").fetchall()) >= 3
        for few in ("few.csv", "few.json.gz"):
            assert db.execute(f"SELECT count(*), max(energy) FROM 's3://{bucket}/{few}'").fetchone() == (
                1000, pytest.approx(999**0.5))
        db.execute(f"COPY (SELECT * FROM events LIMIT 10) TO 's3://{bucket}/one.parquet'")
        assert db.execute(f"SELECT count(*) FROM {one}").fetchone() == (10,), "what was overwritten is not remembered"
        with pytest.raises(duckdb.HTTPException, match="404|Not Found"):
            db.execute(f"SELECT * FROM 's3://{bucket}/none.parquet'")
