//! The binary as a script meets it: exit codes and messages. That this test exists also makes
//! `cargo test --workspace` build the binary for the end-to-end tests.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

/// Runs `dewar` with nothing of this machine's own configuration.
fn dewar(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dewar"));
    command.args(arguments);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().into_owned();
        if text.starts_with("DEWAR_") || text.starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command.output().expect("the binary runs")
}

/// The exit code, and what was said on standard error and output.
fn outcome(arguments: &[&str]) -> (Option<i32>, String) {
    let output = dewar(arguments);
    let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stdout));
    (output.status.code(), said)
}

fn write_config(dir: &Path, disks: usize, port: u16) -> String {
    let names: Vec<String> = (1..=disks).map(|n| format!("\"d{n}\"")).collect();
    let text = format!(
        "[server]\nstate_dir = \"state\"\n[pool]\ndisks = [{}]\n[s3]\nlisten = \"127.0.0.1:{port}\"\n\
         [metrics]\nlisten = []\n",
        names.join(", ")
    );
    let path = dir.join("dewar.toml");
    fs::write(&path, text).expect("write");
    path.display().to_string()
}

#[test]
fn without_a_configuration_the_place_is_named() {
    if Path::new("/etc/dewar/dewar.toml").exists() {
        return;
    }
    for command in [&["serve"][..], &["user", "list"], &["config", "check"]] {
        let (code, said) = outcome(command);
        assert_eq!(code, Some(2), "{command:?}: {said}");
        assert!(said.contains("/etc/dewar/dewar.toml"), "{said}");
    }
}

#[test]
fn a_port_in_use_and_disks_that_are_not_there_have_their_codes() {
    let dir = tempfile::tempdir().expect("folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = taken.local_addr().expect("address").port();
    for disk in 1..=6 {
        fs::create_dir(dir.path().join(format!("d{disk}"))).expect("create");
    }
    let config = write_config(dir.path(), 6, port);
    let (code, said) = outcome(&["serve", "--config", &config]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains(&port.to_string()), "{said}");
    let config = write_config(dir.path(), 6, 0);
    fs::remove_dir(dir.path().join("d3")).expect("remove");
    let (code, said) = outcome(&["serve", "--config", &config]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("d3"), "{said}");
    // No pool was made, so there are no users either.
    let (code, said) = outcome(&["user", "list", "--config", &config]);
    assert_eq!(code, Some(5), "{said}");
}

#[test]
fn a_ready_file_that_cannot_be_written_is_known_first() {
    let dir = tempfile::tempdir().expect("folder");
    let (demo, ready) = (dir.path().join("demo"), dir.path().join("no/ready.json"));
    let (demo, ready) = (demo.display().to_string(), ready.display().to_string());
    let arguments = [
        "demo",
        "--dir",
        &demo,
        "--port-base",
        "0",
        "--ready-file",
        &ready,
    ];
    let (code, said) = outcome(&arguments);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("no/ready.json") && !said.contains("serves"),
        "{said}"
    );
}

#[test]
fn certificates_are_checked_before_a_server_would() {
    let dir = tempfile::tempdir().expect("folder");
    let config = write_config(dir.path(), 2, 0);
    let tls = "tls_certificate_file = \"cert.pem\"\ntls_key_file = \"key.pem\"\n[metrics]";
    let text = fs::read_to_string(&config).expect("read");
    fs::write(&config, text.replace("[metrics]", tls)).expect("write");
    let (code, said) = outcome(&["config", "check", &config]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("cert.pem"), "{said}");
    for name in ["cert.pem", "key.pem"] {
        fs::write(dir.path().join(name), "nonsense").expect("write");
    }
    let (code, said) = outcome(&["config", "check", "--config", &config]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("holds no certificate"), "{said}");
}

#[test]
fn the_configuration_is_explained_by_table_and_as_json() {
    let (code, said) = outcome(&["config", "explain", "s3"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("s3.listen") && !said.contains("pool.disks"),
        "{said}"
    );
    let output = dewar(&["config", "explain", "--json"]);
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let listen = all.as_array().expect("a list").iter();
    let listen = listen.clone().find(|key| key["key"] == "s3.listen");
    assert_eq!(listen.expect("listed")["variable"], "DEWAR_S3_LISTEN");
    let (code, said) = outcome(&["config", "explain", "s4"]);
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn a_key_given_twice_is_named_with_its_line() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("dewar.toml");
    fs::write(&path, "[pool]\nlayout = \"1+0\"\nlayout = \"4+2\"\n").expect("write");
    let (code, said) = outcome(&["config", "check", &path.display().to_string()]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains(":3:") && said.contains("layout is given"),
        "{said}"
    );
}

#[test]
#[cfg(feature = "client")]
fn a_load_without_a_target_is_a_wrong_command_line() {
    let (code, said) = outcome(&["bench", "s3"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--endpoint"), "{said}");
}
