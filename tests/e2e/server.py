"""A real `dewar demo` process under test: start, kill, stop, and its log as an oracle."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from ports import free_port_base

BIN = os.environ["DEWAR_TEST_BIN"]
START_SECONDS_MAX = 60
UNEXPECTED = re.compile(r'"level":"(WARN|ERROR)"|panicked at')


class Server:
    """One demo on one folder; may be started and killed many times."""

    def __init__(self, folder, *, environment=None, wrapper=()):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ready_file = self.folder / "ready.json"
        self.log_path = self.folder / "log.jsonl"
        self.port_base = free_port_base()
        self.environment = environment or {}
        self.wrapper = list(wrapper)
        self.process = None
        self.ready = None
        self.clients = {}
        # Every server here is started with keys of that section.
        self.allowed = [re.compile("for tests of Dewar itself")]
        self.log_seen = 0

    @property
    def data(self):
        return self.folder / "data"

    def disk(self, number):
        return self.data / f"disk{number}"

    def start(self):
        # Connections that clients kept are of the process before.
        self.clients.clear()
        self.ready_file.unlink(missing_ok=True)
        environment = dict(os.environ, DEWAR_LOG_FORMAT="json", **self.environment)
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, BIN, "demo", "--dir", str(self.data),
                 "--port-base", str(self.port_base), "--ready-file", str(self.ready_file)],
                stdout=subprocess.DEVNULL, stderr=log, stdin=subprocess.DEVNULL,
                env=environment)
        give_up = time.monotonic() + START_SECONDS_MAX
        while not self.ready_file.exists():
            if self.process.poll() is not None:
                raise RuntimeError(f"dewar ended with {self.process.returncode}:\n{self.log_tail()}")
            if time.monotonic() > give_up:
                self.kill()
                raise RuntimeError(f"dewar did not get ready:\n{self.log_tail()}")
            time.sleep(0.01)
        self.ready = json.loads(self.ready_file.read_text())
        return self

    def kill(self):
        """kill -9, as a crash would."""
        if self.process and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self):
        """Ctrl-C; must end by itself."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=60)
            assert self.process.returncode == 0, self.log_tail()

    def restart(self):
        self.stop()
        return self.start()

    def admin(self, *arguments, check=True):
        done = subprocess.run([BIN, *arguments, "--dir", str(self.data), "--json"],
                              capture_output=True, text=True, timeout=60)
        if check:
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)
        return done

    def allow(self, pattern):
        """Log lines of level WARN or ERROR that the test provokes on purpose."""
        self.allowed.append(re.compile(pattern))

    def unexpected(self):
        lines = self.log_path.read_text(errors="replace").splitlines() if self.log_path.exists() else []
        return [line for line in lines if UNEXPECTED.search(line)
                and not any(allowed.search(line) for allowed in self.allowed)]

    def log_tail(self, lines=40):
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    # How clients reach it.

    @property
    def s3(self):
        return self.ready["s3"]

    @property
    def port(self):
        return int(self.s3["endpoint"].rsplit(":", 1)[1])

    def client_environment(self):
        # What the machine's owner has set for these tools must not reach the tests.
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("AWS_", "RCLONE_", "S3_"))}
        return dict(
            clean,
            AWS_ACCESS_KEY_ID=self.s3["access_key"],
            AWS_SECRET_ACCESS_KEY=self.s3["secret_key"],
            AWS_DEFAULT_REGION=self.s3["region"],
            AWS_ENDPOINT_URL=self.s3["endpoint"],
            AWS_EC2_METADATA_DISABLED="true",
            AWS_CONFIG_FILE="/nonexistent",
            AWS_SHARED_CREDENTIALS_FILE="/nonexistent",
        )

    def boto(self, **config):
        """A client for S3; those that were made with the same settings since the start are used again."""
        import boto3
        from botocore.config import Config
        options = dict(retries={"max_attempts": 0}, connect_timeout=10, read_timeout=60,
                       signature_version="s3v4")  # presigned URLs still default to version 2
        options.update(config)
        key = repr((sorted(options.items()), self.s3))
        if key not in self.clients:
            self.clients[key] = boto3.client(
                "s3", endpoint_url=self.s3["endpoint"], region_name=self.s3["region"],
                aws_access_key_id=self.s3["access_key"],
                aws_secret_access_key=self.s3["secret_key"], config=Config(**options))
        return self.clients[key]

    def filesystem(self):
        import s3fs
        s3fs.S3FileSystem.clear_instance_cache()
        return s3fs.S3FileSystem(
            key=self.s3["access_key"], secret=self.s3["secret_key"],
            endpoint_url=self.s3["endpoint"], use_listings_cache=False)
