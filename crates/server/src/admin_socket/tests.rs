use std::any::Any;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dewar_admin::accounts::{
    AccountState, KeyAdd, KeyInfo, KeyList, KeyRemove, KeySet, ListPage, NewKey, UserAdd, UserInfo,
    UserList,
};
use dewar_admin::status::{OpenUploads, PoolInfo, PoolStatus, Status, StatusRequest};
use dewar_admin::upkeep::{LedgerInfo, RepairInfo};
use dewar_admin::{AdminApi, AdminCommand, AdminError, AdminRequest, Done, Failure, Result};
use dewar_auth::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::socket::is_allowed;
use super::*;
use crate::listener::Stop;

/// Users and keys in memory.
#[derive(Default)]
pub(crate) struct Memory {
    users: Mutex<BTreeMap<String, AccountState>>,
    keys: Mutex<BTreeMap<String, (String, Secret)>>,
}

fn user(name: &str, state: AccountState) -> UserInfo {
    UserInfo {
        name: name.to_owned(),
        id: "0001000000000001".to_owned(),
        account: "0001000000000001".to_owned(),
        arn: "arn:aws:iam::0001000000000001:root".to_owned(),
        display_name: None,
        email: None,
        tenant_admin: false,
        state,
        created: "2026-01-01T00:00:00Z".to_owned(),
    }
}

impl Memory {
    fn status() -> Status {
        Status {
            version: "0".to_owned(),
            pid: 1,
            uptime_seconds: 2,
            zone: 3,
            pool: PoolStatus {
                main: PoolInfo {
                    name: "main".to_owned(),
                    layout: "4+2".to_owned(),
                    margin: 2,
                    writable: true,
                    total_bytes: 0,
                    available_bytes: 0,
                },
                further: Vec::new(),
                disks: Vec::new(),
                notes: Vec::new(),
            },
            ledger: LedgerInfo::default(),
            repair: RepairInfo::default(),
            doors: Vec::new(),
            troubles: Vec::new(),
            copies: 0,
            uploads: OpenUploads::default(),
            work: Vec::new(),
        }
    }

    fn user_add(&self, request: &UserAdd) -> Result<UserInfo> {
        let name = request.name.as_str();
        let mut users = self.users.lock().expect("lock");
        if users.contains_key(name) {
            let message = format!("user {name} exists");
            return Err(AdminError::new(Failure::Exists, message));
        }
        users.insert(name.to_owned(), AccountState::Enabled);
        Ok(user(name, AccountState::Enabled))
    }

    /// Two users at most.
    fn user_list(&self, after: Option<&str>) -> ListPage<UserInfo> {
        let users = self.users.lock().expect("lock");
        let mut items: Vec<UserInfo> = users
            .iter()
            .filter(|(name, _)| after.is_none_or(|after| name.as_str() > after))
            .map(|(name, state)| user(name, *state))
            .collect();
        let more = items.len() > 2;
        items.truncate(2);
        let next = items.last().filter(|_| more).map(|user| user.name.clone());
        ListPage { items, next }
    }

    fn key_add(&self, request: &KeyAdd) -> NewKey {
        let access_key = request.access_key.clone();
        let access_key = access_key.unwrap_or_else(|| "MADE".to_owned());
        let secret_key = request.secret_key.clone();
        let secret_key = secret_key.unwrap_or_else(|| Secret::new("made up".to_owned()));
        let user = request.user.clone();
        let mut keys = self.keys.lock().expect("lock");
        keys.insert(access_key.clone(), (user.clone(), secret_key.clone()));
        NewKey {
            user,
            access_key,
            secret_key,
        }
    }

    fn key_list(&self) -> ListPage<KeyInfo> {
        let keys = self.keys.lock().expect("lock");
        let items = keys
            .iter()
            .map(|(access_key, (user, _))| KeyInfo {
                access_key: access_key.clone(),
                user: user.clone(),
                state: AccountState::Enabled,
                user_state: AccountState::Enabled,
                created: String::new(),
            })
            .collect();
        ListPage { items, next: None }
    }

    fn answer(&self, request: &dyn Any) -> Result<Vec<u8>> {
        if let Some(request) = request.downcast_ref::<UserAdd>() {
            return Ok(UserAdd::reply_json(&self.user_add(request)?));
        }
        if let Some(UserList { after }) = request.downcast_ref() {
            return Ok(UserList::reply_json(&self.user_list(after.as_deref())));
        }
        if let Some(request) = request.downcast_ref::<KeyAdd>() {
            return Ok(KeyAdd::reply_json(&self.key_add(request)));
        }
        if request.is::<KeyList>() {
            return Ok(KeyList::reply_json(&self.key_list()));
        }
        if request.is::<KeyRemove>() {
            return Ok(KeyRemove::reply_json(&Done::Done));
        }
        if request.is::<StatusRequest>() {
            return Ok(StatusRequest::reply_json(&Self::status()));
        }
        Err(AdminError::new(Failure::Unavailable, "disks are away"))
    }
}

#[async_trait]
impl AdminApi for Memory {
    async fn run(&self, request: Box<dyn AdminRequest>) -> Result<Vec<u8>> {
        if request.action() == KeyRemove::SPEC.action {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let request: Box<dyn Any> = request;
        self.answer(&*request)
    }
}

struct Running {
    _dir: tempfile::TempDir,
    path: PathBuf,
    stop: Stop,
}

fn start(name: &str) -> Running {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("create");
    let stop = Stop::new();
    let socket = AdminSocket::bind(&path).expect("binds");
    serve(socket, Arc::new(Memory::default()), &stop);
    Running {
        _dir: dir,
        path,
        stop,
    }
}

async fn connect(path: &Path) -> AdminClient {
    AdminClient::connect(path)
        .await
        .expect("no error")
        .expect("a server")
}

#[tokio::test]
async fn requests_reach_the_api_and_come_back() {
    let running = start("admin.sock");
    assert_eq!(
        std::fs::symlink_metadata(&running.path)
            .expect("there")
            .mode()
            & 0o7777,
        0o600
    );
    let mut client = connect(&running.path).await;
    for name in ["a", "b", "c"] {
        let request = UserAdd {
            name: name.to_owned(),
            ..UserAdd::default()
        };
        assert_eq!(client.ask(&request).await.expect("added").name, name);
    }
    let twice = UserAdd {
        name: "a".to_owned(),
        ..UserAdd::default()
    };
    let error = client.ask(&twice).await.expect_err("exists");
    assert_eq!(error.to_string(), "user a exists");

    let page = client.ask(&UserList { after: None }).await.expect("a page");
    assert_eq!((page.items.len(), page.next.as_deref()), (2, Some("b")));

    let request = KeyAdd {
        user: "a".to_owned(),
        access_key: Some("AKIA".to_owned()),
        secret_key: Some(Secret::new("s3cret".to_owned())),
    };
    assert!(!format!("{request:?}").contains("s3cret"));
    let key = client.ask(&request).await.expect("a key");
    assert_eq!(
        (key.access_key.as_str(), key.secret_key.reveal()),
        ("AKIA", "s3cret")
    );
    let every_key = KeyList {
        user: None,
        after: None,
    };
    let keys = client.ask(&every_key).await.expect("keys");
    let json = serde_json::to_string(&keys).expect("JSON");
    assert!(!json.contains("s3cret"));

    let set = KeySet {
        access_key: "x".to_owned(),
        state: AccountState::Disabled,
    };
    let Err(ClientError::Refused(error)) = client.ask(&set).await else {
        panic!("not refused");
    };
    assert_eq!(error.kind, Failure::Unavailable);
    client.ask(&StatusRequest {}).await.expect("a status");
}

#[tokio::test]
async fn nobody_there_is_not_an_error() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("admin.sock");
    assert!(
        AdminClient::connect(&path)
            .await
            .expect("no error")
            .is_none()
    );
    assert!(
        AdminClient::connect(&dir.path().join("no/admin.sock"))
            .await
            .expect("none")
            .is_none()
    );
    // The socket that a killed server leaves behind.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("binds"));
    assert!(path.exists());
    assert!(
        AdminClient::connect(&path)
            .await
            .expect("no error")
            .is_none()
    );
    let socket = AdminSocket::bind(&path).expect("replaces it");
    assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 1);
    drop(socket);
    assert!(!path.exists(), "a clean stop removes it");
    std::fs::write(&path, "precious").expect("write");
    assert!(AdminSocket::bind(&path).is_err(), "a file is not replaced");
}

#[tokio::test]
async fn long_paths_work() {
    let long = format!("{0}/{0}/admin.sock", "x".repeat(100));
    let running = start(&long);
    let mut client = connect(&running.path).await;
    client.ask(&StatusRequest {}).await.expect("a status");
}

#[test]
fn only_root_and_the_same_user_are_allowed() {
    assert!(is_allowed(0, 1000));
    assert!(is_allowed(1000, 1000));
    assert!(!is_allowed(1001, 1000));
    assert!(!is_allowed(1000, 0));
}

/// The mode keeps others out; when somebody opened it, the peer's user still does.
#[tokio::test]
async fn another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let running = start("admin.sock");
    let folder = running.path.parent().expect("folder");
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    let script = "import socket,sys,os
os.setuid(65534)
s=socket.socket(socket.AF_UNIX)
s.settimeout(5)
try: s.connect(sys.argv[1])
except PermissionError: sys.exit(3)
try:
 s.sendall(b'POST /v1/admin HTTP/1.1\\r\\nhost: x\\r\\ncontent-length: 13\\r\\n\\r\\n{\"status\":{}}')
 got=s.recv(1)
except (ConnectionResetError, BrokenPipeError): got=b''
sys.exit(4 if got == b'' else 5)";
    let path = running.path.clone();
    let attempt = move || {
        let run = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(&path)
            .status();
        run.ok().and_then(|status| status.code())
    };
    let first = attempt.clone();
    let code = tokio::task::spawn(async move { std::thread::spawn(first).join() });
    let code = code.await.expect("joins").expect("joins");
    if code.is_none() {
        eprintln!("skipped: no python3");
        return;
    }
    assert_eq!(code, Some(3), "the mode keeps others out");
    std::fs::set_permissions(&running.path, std::fs::Permissions::from_mode(0o666)).expect("chmod");
    let (done, waits) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || done.send(attempt()));
    assert_eq!(waits.await.expect("runs"), Some(4), "closed without a word");
}

#[tokio::test]
async fn garbage_is_refused_and_not_repeated() {
    let running = start("admin.sock");
    let exchange = async |text: String| {
        let mut stream = tokio::net::UnixStream::connect(&running.path)
            .await
            .expect("connects");
        stream.write_all(text.as_bytes()).await.expect("sends");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("reads");
        answer
    };
    let post = |body: &str| {
        let length = body.len();
        format!(
            "POST /v1/admin HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
    };
    let get = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned();
    assert!(exchange(get).await.starts_with("HTTP/1.1 400 "));
    for bad in [
        "",
        "{",
        "{\"shutdown\":{}}",
        "{\"user_add\":{\"name\":\"a\",\"b\":1}}",
    ] {
        assert!(
            exchange(post(bad)).await.starts_with("HTTP/1.1 400 "),
            "{bad}"
        );
    }
    let answer = exchange(post("{\"key_add\":{\"secret_key\":[\"s3cret\"]}}")).await;
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && !answer.contains("s3cret"),
        "{answer}"
    );
    let huge = format!("{{\"user_add\":{{\"name\":\"{}\"}}}}", "x".repeat(100_000));
    assert!(exchange(post(&huge)).await.starts_with("HTTP/1.1 400 "));
    // And the server still answers.
    assert!(
        exchange(post("{\"status\":{}}"))
            .await
            .starts_with("HTTP/1.1 200 ")
    );
}

#[tokio::test]
async fn a_stop_finishes_what_was_asked() {
    let running = start("admin.sock");
    let mut client = connect(&running.path).await;
    let asked = tokio::spawn(async move {
        client
            .ask(&KeyRemove {
                access_key: "x".to_owned(),
            })
            .await
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(running.stop.drain(Duration::from_secs(5)).await, 0);
    assert!(matches!(asked.await.expect("joins"), Ok(Done::Done)));
    assert!(!running.path.exists());
}
