"""Uploads from a page in a real browser, headless Chromium, whose origin is not the server's: presigned PUT and GET by
fetch, a POST form, and what CORS keeps from the page."""

import html
import json
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import ROOT
from test_applications import LIBRARIES

BROWSER = ROOT / ".tools/usr/lib/chromium/chromium-headless-shell"
PAGE = """<!doctype html><meta charset="utf-8"><pre id="told">nothing</pre><script>
const asked = %s;
async function attempt(name, what) {
  try { return [name, await what()]; } catch (error) { return [name, "failed: " + error.message]; }
}
(async () => {
  const told = Object.fromEntries([
    await attempt("put", async () => {
      const put = await fetch(asked.put, {method: "PUT", body: "from a page", headers: {"x-amz-meta-page": "yes"}});
      return [put.status, put.headers.get("etag") !== null, put.headers.get("x-amz-request-id")];
    }),
    await attempt("get", async () => {
      const get = await fetch(asked.get);
      return [get.status, await get.text()];
    }),
    await attempt("form", async () => {
      const form = new FormData();
      for (const [name, value] of Object.entries(asked.form.fields)) form.append(name, value);
      form.append("file", new Blob(["a form's file"], {type: "text/plain"}), "f.txt");
      const post = await fetch(asked.form.url, {method: "POST", body: form});
      return [post.status, await post.text()];
    }),
    await attempt("delete", async () => (await fetch(asked.delete, {method: "DELETE"})).status),
    await attempt("other", async () => (await fetch(asked.other)).status),
  ]);
  document.getElementById("told").textContent = JSON.stringify(told);
})();
</script>"""


@pytest.fixture
def page():
    """Serves one page, whose text is set later."""
    class Handler(BaseHTTPRequestHandler):
        text = ""

        def do_GET(self):
            body = self.text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    serving = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    yield Handler, f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()


def browse(address, tmp_path):
    done = subprocess.run(
        [BROWSER, "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={tmp_path}/profile",
         "--virtual-time-budget=20000", "--timeout=60000", "--dump-dom", address],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": LIBRARIES},
        capture_output=True, text=True, timeout=120)
    told = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    assert told, f"{done.stdout}\n{done.stderr}"
    return json.loads(html.unescape(told.group(1)))


def test_a_page_uploads(server, bucket, page, tmp_path):
    handler, origin = page
    s3 = server.boto()
    closed = bucket + "-closed"
    s3.create_bucket(Bucket=closed)
    s3.put_object(Bucket=closed, Key="k", Body=b"x")
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [{
        "AllowedOrigins": [origin], "AllowedMethods": ["PUT", "GET", "POST"], "AllowedHeaders": ["*"],
        "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60}]})

    def presigned(verb, where, **more):
        return s3.generate_presigned_url(verb, Params={"Bucket": where, "Key": "k", **more})

    handler.text = PAGE % json.dumps({
        "put": presigned("put_object", bucket, Metadata={"page": "yes"}),
        "get": presigned("get_object", bucket),
        "form": s3.generate_presigned_post(bucket, "form/${filename}", Fields={"success_action_status": "201"},
                                           Conditions=[{"success_action_status": "201"}]),
        "delete": presigned("delete_object", bucket),
        "other": presigned("get_object", closed)})
    told = browse(origin, tmp_path)
    # The request id is not among the headers that the rule shows to pages.
    assert told["put"] == [200, True, None], told
    assert told["get"] == [200, "from a page"]
    status, text = told["form"]
    assert status == 201 and "<Key>form/f.txt</Key>" in text, told
    # No rule lets pages delete, nor see anything of the other bucket.
    assert told["delete"].startswith("failed:") and told["other"].startswith("failed:"), told
    assert s3.head_object(Bucket=bucket, Key="k")["Metadata"] == {"page": "yes"}
    form = s3.get_object(Bucket=bucket, Key="form/f.txt")
    assert form["Body"].read() == b"a form's file"
    s3.delete_object(Bucket=closed, Key="k")
    s3.delete_bucket(Bucket=closed)
