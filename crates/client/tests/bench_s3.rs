//! `dewar bench s3` against a tiny server that checks every request.
#![allow(
    clippy::unwrap_used,
    reason = "a test may panic, helper functions included"
)]

mod tiny;

use std::path::Path;
use std::sync::Arc;

use clap::Parser;
use dewar_client::bench::{self, BenchCommand};
use serde_json::Value;
use tiny::{ACCESS_KEY, Fault, SECRET_KEY, Tiny};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    bench: BenchCommand,
}

/// Runs `dewar bench s3` with the arguments and the tiny server's keys; returns its JSON as well.
fn run(dir: &Path, args: &[&str]) -> (anyhow::Result<()>, Value) {
    let secret = dir.join("secret");
    std::fs::write(&secret, SECRET_KEY).unwrap();
    let json = dir.join("out.json");
    let _ = std::fs::remove_file(&json);
    let (secret, json_text) = (secret.display().to_string(), json.display().to_string());
    let mut all = vec![
        "bench",
        "s3",
        "--access-key",
        ACCESS_KEY,
        "--secret-key-file",
        &secret,
    ];
    all.extend(["--json", &json_text]);
    all.extend(args);
    let result = match Cli::try_parse_from(all) {
        Ok(cli) => bench::run(&cli.bench),
        Err(error) => panic!("{error}"),
    };
    let text = std::fs::read_to_string(&json).unwrap_or_else(|_| "null".to_owned());
    (result, serde_json::from_str(&text).unwrap())
}

fn run_of<'a>(json: &'a Value, workload: &str) -> &'a Value {
    let runs = json["runs"].as_array().unwrap();
    runs.iter().find(|run| run["workload"] == workload).unwrap()
}

#[test]
fn every_workload_does_what_it_says_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Tiny::start(Fault::None);
    let csv = dir.path().join("out.csv");
    let (result, json) = run(
        dir.path(),
        &[
            "--endpoint",
            &format!("tiny={}", server.url),
            "--workloads=put,get,range,head,list,mixed,multipart,delete",
            "--sizes=100k",
            "--concurrency=3",
            "--objects=25",
            "--requests=60",
            "--range-size=1000",
            "--part-size=30000",
            "--page-keys=7",
            "--verify",
            "--csv",
            csv.to_str().unwrap(),
            &format!("--server-pid={}", std::process::id()),
        ],
    );
    result.unwrap();
    let state = server.state.lock().unwrap();
    assert_eq!(state.complaints, [""; 0]);
    assert!(
        state.objects.is_empty(),
        "{:?} are left",
        state.objects.keys()
    );

    for (workload, ops) in [
        ("put", 25),
        ("get", 60),
        ("range", 60),
        ("head", 60),
        ("list", 60),
        ("mixed", 60),
        ("multipart", 25),
        ("delete", 25),
    ] {
        assert_eq!(run_of(&json, workload)["ops"], ops, "{workload}");
        assert_eq!(run_of(&json, workload)["errors"], 0, "{workload}");
        let latency = &run_of(&json, workload)["latency_ms"];
        assert!(
            latency["p50"].as_f64().unwrap() > 0.0,
            "{workload}: {latency}"
        );
        assert!(
            latency["max"].as_f64() >= latency["p50"].as_f64(),
            "{workload}: {latency}"
        );
    }
    assert_eq!(run_of(&json, "put")["bytes"], 25 * 102_400);
    assert_eq!(run_of(&json, "range")["bytes"], 60 * 1_000);
    assert_eq!(
        run_of(&json, "put")["server_cpu"]["s_per_100000_keys"],
        Value::Null
    );
    assert!(
        run_of(&json, "put")["server_rss_peak_bytes"]
            .as_u64()
            .unwrap()
            > 0
    );
    // What the server saw: the mixed step's verbs by themselves account for the rest.
    let mixed = &run_of(&json, "mixed")["verbs"];
    let of_mixed = |verb: &str| mixed[verb]["ops"].as_u64().unwrap_or(0);
    assert_eq!(state.counts["get"], 60 + of_mixed("get"));
    assert_eq!(state.counts["range"], 60);
    assert_eq!(state.counts["head"], 60 + of_mixed("head"));
    assert_eq!(state.counts["list"], 60);
    assert_eq!(state.counts["put"], 25 + of_mixed("put"));
    assert_eq!(state.counts["create upload"], 25);
    assert_eq!(state.counts["upload part"], 25 * 4);
    assert_eq!(state.counts["complete upload"], 25);
    assert_eq!(state.counts["delete"], state.counts["put"] + 25);
    // 25 keys by 7 are four pages, and three workers walk on their own.
    let keys = run_of(&json, "list")["keys"].as_u64().unwrap();
    assert!((60 * 25 / 4 - 60..=60 * 7).contains(&keys), "{keys}");

    let csv = std::fs::read_to_string(csv).unwrap();
    assert_eq!(csv.lines().count(), 1 + 8);
    assert!(csv.starts_with("step,target,workload,size_bytes,concurrency,repeat,"));
    assert!(csv.contains("\n0,tiny,put,102400,3,1,"));
    assert!(!csv.contains(SECRET_KEY) && !json.to_string().contains(SECRET_KEY));
}

#[test]
fn every_payload_mode_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [
        "unsigned",
        "signed",
        "streaming-trailer",
        "streaming-signed",
    ] {
        let server = Tiny::start(Fault::None);
        let (result, json) = run(
            dir.path(),
            &[
                "--endpoint",
                &server.url,
                // The last size is a whole number of chunks, the first is less than one.
                "--steps=put:1:2:3,get:1:1:3,put:100k:2:4,multipart:200k:1:2,get:200k:1:2,put:128k:1:1",
                "--payload-mode",
                mode,
                "--part-size=70k",
                "--verify",
            ],
        );
        result.unwrap();
        assert_eq!(server.state.lock().unwrap().complaints, [""; 0], "{mode}");
        assert_eq!(json["settings"]["payload_mode"], mode);
        assert_eq!(json["runs"].as_array().unwrap().len(), 6);
    }
}

#[test]
fn targets_take_turns_and_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (Tiny::start(Fault::None), Tiny::start(Fault::None));
    let (result, json) = run(
        dir.path(),
        &[
            &format!("--endpoint=one={}", one.url),
            &format!("--endpoint=two={}", two.url),
            "--steps=put:1k:2:10,get:1k:2:0.05s:10",
            "--repeat=3",
            "--warmup=0.02",
        ],
    );
    result.unwrap();
    let runs = json["runs"].as_array().unwrap();
    let order: Vec<_> = runs
        .iter()
        .filter(|run| run["workload"] == "put")
        .map(|run| {
            (
                run["repeat"].as_u64().unwrap(),
                run["target"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        (1, "one"),
        (1, "two"),
        (2, "two"),
        (2, "one"),
        (3, "one"),
        (3, "two"),
    ];
    assert_eq!(order, expected);
    for run in runs.iter().filter(|run| run["workload"] == "get") {
        let elapsed_s = run["elapsed_s"].as_f64().unwrap();
        assert!((0.05..1.0).contains(&elapsed_s), "{elapsed_s}");
    }
    assert!(one.state.lock().unwrap().objects.is_empty());
}

#[test]
fn refusals_are_counted_and_fail_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let server = Tiny::start(Fault::Busy(10));
    let (result, json) = run(
        dir.path(),
        &["--endpoint", &server.url, "--steps=put:1k:2:50", "--keep"],
    );
    let error = result.unwrap_err().to_string();
    assert!(error.contains("5 requests failed"), "{error}");
    let put = run_of(&json, "put");
    assert_eq!((&put["ops"], &put["errors"]), (&45.into(), &5.into()));
    assert_eq!(put["errors_by_kind"]["503 SlowDown"], 5);
    assert_eq!(server.state.lock().unwrap().objects.len(), 45, "--keep");
}

#[test]
fn wrong_bytes_are_found_only_when_asked_to_look() {
    let dir = tempfile::tempdir().unwrap();
    let server = Tiny::start(Fault::Rot);
    let steps = "--steps=put:10k:1:4,get:10k:1:4,range:10k:1:4";
    let (result, _) = run(dir.path(), &["--endpoint", &server.url, steps]);
    result.unwrap();
    let (result, json) = run(dir.path(), &["--endpoint", &server.url, steps, "--verify"]);
    result.unwrap_err();
    for workload in ["get", "range"] {
        let run = run_of(&json, workload);
        assert_eq!((&run["ops"], &run["errors"]), (&0.into(), &4.into()));
        assert_eq!(run["errors_by_kind"]["content"], 4);
        assert_eq!(run["latency_ms"]["p50"], Value::Null);
    }
    let example = run_of(&json, "get")["error_examples"]["content"]
        .as_str()
        .unwrap();
    assert!(example.contains("byte 77 "), "{example}");
}

#[test]
fn a_server_that_hangs_up_between_requests_is_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Tiny::start(Fault::HangUpAfter(3));
    let args = [
        "--endpoint",
        &server.url,
        "--steps=put:1k:2:20,get:1k:2:20",
        "--verify",
    ];
    let (result, json) = run(dir.path(), &args);
    result.unwrap();
    let get = run_of(&json, "get");
    assert_eq!(get["ops"], 20);
    assert!(
        (4..=6).contains(&get["resent"].as_u64().unwrap()),
        "{}",
        get["resent"]
    );
}

#[test]
fn a_silent_server_meets_the_deadline_and_errors_end_the_step() {
    let dir = tempfile::tempdir().unwrap();
    let server = Tiny::start(Fault::Silence);
    let (result, json) = run(
        dir.path(),
        &[
            "--endpoint",
            &server.url,
            "--steps=put:1k:1:2,get:1k:2:1000:2",
            "--deadline=0.3",
            "--errors-max=2",
        ],
    );
    result.unwrap_err();
    let get = run_of(&json, "get");
    assert_eq!(get["ops"], 0);
    assert!(
        (2..=4).contains(&get["errors"].as_u64().unwrap()),
        "{}",
        get["errors"]
    );
    assert!(get["errors_by_kind"]["deadline"].as_u64().unwrap() >= 2);
    assert!(get["elapsed_s"].as_f64().unwrap() < 2.0);
}

#[test]
fn https_is_believed_only_when_proven() {
    let dir = tempfile::tempdir().unwrap();
    // As `openssl req -x509` makes it: signed by itself, and an authority.
    let signing_key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let cert = params.self_signed(&signing_key).unwrap();
    let made = rcgen::CertifiedKey { cert, signing_key };
    let key = rustls_pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let server = Tiny::start_tls(Arc::new(config));
    let ca = dir.path().join("ca.pem");
    std::fs::write(&ca, made.cert.pem()).unwrap();
    let ca = format!("--ca={}", ca.display());
    let args = [
        "--endpoint",
        &server.url,
        "--steps=put:300k:2:6,get:300k:2:6",
        "--verify",
    ];
    for trust in [ca.as_str(), "--insecure"] {
        let (result, json) = run(dir.path(), &[&args[..], &[trust]].concat());
        result.unwrap();
        assert_eq!(run_of(&json, "get")["bytes"], 6 * 300 * 1_024);
    }
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let path = dir.path().join("other.pem");
    std::fs::write(&path, other.cert.pem()).unwrap();
    let other = format!("--ca={}", path.display());
    let (result, _) = run(dir.path(), &[&args[..], &[other.as_str()]].concat());
    let error = format!("{:#}", result.unwrap_err());
    assert!(error.contains("certificate"), "{error}");
}
