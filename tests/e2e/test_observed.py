"""What an administrator sees: request ids, the access log, metrics."""

import json
import os
import re
import shutil
import subprocess
import time

import requests
from botocore.exceptions import ClientError
from conftest import ROOT, content
from server import BIN
from xrootd_tools import url, xrdcp, xrdfs


def log_of(server):
    return [json.loads(line) for line in server.log_path.read_text().splitlines()]


def test_one_id_per_request_in_answers_errors_and_logs(own_server):
    server = own_server
    server.allow(r"disk\d|shard|decoded around|journal|holder|missing")
    server.stop()
    server.environment["DEWAR_LOG_ACCESS"] = "true"
    server.start()
    s3 = server.boto()
    body = content("large", 12_000_000)
    # Of one object, both parity shards may be on the disks that go: one in fifteen reads then needs no
    # detour. Of six objects, that is one run in ten million.
    keys = [f"large {number}" for number in range(6)]
    for key in keys:
        s3.put_object(Bucket="demo", Key=key, Body=body)
    try:
        s3.get_object(Bucket="demo", Key="absent")
        raise AssertionError("it is not there")
    except ClientError as error:
        absent = error.response
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "demo", "Key": "absent"})
    answer = requests.get(url, timeout=10)
    in_xml = re.search(r"<RequestId>(\w+)</RequestId>", answer.text).group(1)
    assert in_xml == answer.headers["x-amz-request-id"]
    # Two disks away, so that reads go around one of them, in tasks that read ahead.
    for number in (1, 2):
        server.disk(number).rename(server.data / f"away{number}")
    got = s3.get_object(Bucket="demo", Key=keys[0])
    assert got["Body"].read() == body
    ids = {got["ResponseMetadata"]["RequestId"]}

    def again():
        for key in keys:
            more = s3.get_object(Bucket="demo", Key=key)
            assert more["Body"].read() == body
            ids.add(more["ResponseMetadata"]["RequestId"])

    # That a folder is gone is noticed within a second; its open files can be read until then.
    give_up = time.monotonic() + 20
    while "decoded around" not in server.log_path.read_text() and time.monotonic() < give_up:
        again()
    again()
    server.stop()
    log = log_of(server)
    lines = {line["request_id"]: line for line in log if line.get("target") == "dewar_access"}
    line = lines[absent["ResponseMetadata"]["RequestId"]]
    assert (line["verb"], line["bucket"], line["key"], line["user"], line["status"]) == (
        "GetObject", "demo", "absent", "demo", 404)
    line = lines[got["ResponseMetadata"]["RequestId"]]
    assert (line["sent"], line["received"], line["whole"]) == (len(body), 0, True)
    assert line["peer"].startswith("127.0.0.1:") and line["seconds"] > 0
    assert lines[in_xml]["status"] == 404
    around = [line for line in log if line.get("message") == "decoded around"]
    assert around and all(line["span"]["request_id"] in ids for line in around), around
    assert len(around) <= 4, "each disk and trouble is told once, not for each read"


def test_metrics_are_openmetrics(server, bucket, tmp_path):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
    server.boto().put_object(Bucket=bucket, Key="k", Body=b"x" * 1000)
    server.boto().get_object(Bucket=bucket, Key="k")["Body"].read()
    xrdcp(url(server, f"/{bucket}/k"), tmp_path / "k")
    xrdcp(tmp_path / "k", url(server, f"/{bucket}/l"))
    assert xrdfs(server, "stat", f"/{bucket}/none", check=False).returncode == 54
    text = requests.get(server.ready["metrics"]["endpoint"] + "/metrics", timeout=10).text
    families = {family.name: family for family in text_string_to_metric_families(text)}

    def value(family, name, **labels):
        found = [sample.value for sample in families[family].samples
                 if sample.name == name and labels.items() <= sample.labels.items()]
        assert found, (name, labels, text)
        return sum(found)

    assert value("dewar_requests", "dewar_requests_total", door="s3", verb="PutObject", status="2xx") >= 1
    assert value("dewar_request_duration_seconds", "dewar_request_duration_seconds_count", verb="GetObject") >= 1
    assert value("dewar_received_bytes", "dewar_received_bytes_total", door="s3") >= 1000
    assert value("dewar_sent_bytes", "dewar_sent_bytes_total", door="s3") >= 1000
    for verb, status in (("login", "ok"), ("pgread", "ok"), ("pgwrite", "ok"), ("stat", "error")):
        assert value("dewar_requests", "dewar_requests_total", door="xrootd", verb=verb, status=status) >= 1
    for family in ("dewar_received_bytes", "dewar_sent_bytes"):
        assert value(family, f"{family}_total", door="xrootd") >= 1000
    disks = {str(server.disk(number)) for number in range(1, 7)}
    for family in ("dewar_disk_total_bytes", "dewar_disk_available_bytes"):
        assert {sample.labels["disk"] for sample in families[family].samples} == disks
    assert value("dewar_disk_state", "dewar_disk_state", state="online") == 6
    assert value("dewar_pool_writable", "dewar_pool_writable") == 1
    assert value("dewar_pool_margin", "dewar_pool_margin") == 2
    assert "dewar_repair_blobs" in families
    assert value("dewar_transfers_active", "dewar_transfers_active") == 0
    assert value("dewar_transfers_waiting", "dewar_transfers_waiting") == 0
    for family in ("dewar_transfers_refused", "dewar_transfer_waits", "dewar_transfer_wait_seconds", "dewar_transfer_records_lost"):
        assert value(family, f"{family}_total") >= 0
    workers = {sample.labels["worker"] for sample in families["dewar_worker_errors"].samples}
    assert {"repair", "scrub", "free"} <= workers
    assert value("dewar_worker_state", "dewar_worker_state") == len(workers), "each is in one state"
    # The ledger is counted in the background, a scrape shows the one before.
    time.sleep(1)
    text = requests.get(server.ready["metrics"]["endpoint"] + "/metrics", timeout=10).text
    later = {family.name: family for family in text_string_to_metric_families(text)}
    assert "dewar_ledger_time_seconds" in later, text
    for door in ("s3", "metrics"):
        assert value("dewar_connections_accepted", "dewar_connections_accepted_total", door=door) >= 1


def test_alert_rules_and_dashboard_ask_for_metrics_that_exist(own_server):
    server = own_server
    rules = ROOT / "docs/prometheus/dewar.rules.yml"
    promtool = ROOT / ".tools/usr/bin/promtool"
    subprocess.run([promtool, "check", "rules", rules], check=True)
    subprocess.run([promtool, "test", "rules", rules.with_name("dewar.tests.yml")], check=True)
    server.boto().put_object(Bucket="demo", Key="k", Body=b"x" * 1_000_000)
    # Families without a value so far are not shown: those of a scrub come when its first pass has ended,
    # the ledger's once it has been counted.
    server.admin("scrub")
    asked = set(re.findall(r"\bdewar_[a-z_]+", rules.read_text()))
    dashboard = json.loads((ROOT / "docs/grafana/dewar.json").read_text())
    # Only doors with TLS have it: test_life.py.
    asked.discard("dewar_tls_certificate_expiry_time_seconds")
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(queries) > 20
    queries.append(next(one["query"] for one in dashboard["templating"]["list"] if one["name"] == "instance"))
    for query in queries:
        asked |= set(re.findall(r"\bdewar_[a-z_]+", query))
    give_up = time.monotonic() + 30
    while True:
        text = requests.get(server.ready["metrics"]["endpoint"] + "/metrics", timeout=10).text
        shown = set(re.findall(r"^((?:dewar|process)_[a-z_]+)", text, re.M))
        if asked <= shown or time.monotonic() > give_up:
            break
        time.sleep(0.5)
    assert asked <= shown, asked - shown


def test_the_systemd_unit_is_valid_and_hardened(tmp_path):
    tool = shutil.which("systemd-analyze") or ROOT / ".tools/usr/bin/systemd-analyze"
    libraries = ROOT / ".tools/usr/lib/x86_64-linux-gnu"
    environment = dict(os.environ, LD_LIBRARY_PATH=f"{libraries}:{libraries}/systemd")
    # The binary is not installed where the unit has it.
    unit = tmp_path / "dewar.service"
    unit.write_text((ROOT / "docs/systemd/dewar.service").read_text().replace("/usr/local/bin/dewar", str(BIN)))

    def analyze(*words):
        done = subprocess.run([tool, *words, str(unit)], capture_output=True, text=True, timeout=60, env=environment)
        assert done.returncode == 0 and not done.stderr.strip(), done.stdout + done.stderr
    analyze("verify", "--man=no")
    analyze("security", "--offline=true", "--threshold=25")
