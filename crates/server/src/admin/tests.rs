use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dewar_auth::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::api::Result;
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

#[async_trait]
impl AdminApi for Memory {
    async fn status(&self) -> Result<Status> {
        Ok(Status {
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
        })
    }

    async fn disk_list(&self) -> Result<Vec<DiskInfo>> {
        Ok(Vec::new())
    }

    async fn disk_decide(&self, disk: &str, _: DiskAction, _: bool) -> Result<DiskDecided> {
        let message = format!("there is no disk {disk}");
        Err(AdminError::new(Failure::NotFound, message))
    }

    async fn disk_add(&self, folder: &str, _: Option<&str>, _: Option<&str>) -> Result<DiskAdded> {
        let message = format!("there is no folder {folder}");
        Err(AdminError::new(Failure::NotFound, message))
    }

    async fn disk_remove(&self, disk: &str) -> Result<DiskRemoved> {
        Err(AdminError::new(Failure::NotFound, disk))
    }

    async fn disk_readmit(&self, disk: &str) -> Result<DiskReadmitted> {
        Err(AdminError::new(Failure::NotFound, disk))
    }

    async fn scrub(&self, _: Option<&str>) -> Result<()> {
        Ok(())
    }

    async fn fsck_start(&self, _: bool) -> Result<()> {
        Ok(())
    }

    async fn fsck(&self) -> Result<FsckInfo> {
        Ok(FsckInfo::default())
    }

    async fn fsck_more(&self, _: u64) -> Result<AtRiskInfo> {
        Ok(AtRiskInfo::default())
    }

    async fn scrubs(&self) -> Result<Vec<ScrubInfo>> {
        Ok(Vec::new())
    }

    async fn identity(&self, _request: IdentityRequest) -> Result<IdentityReply> {
        Ok(IdentityReply::Done)
    }

    async fn user_add(&self, request: UserAdd) -> Result<UserInfo> {
        let name = request.name.as_str();
        let mut users = self.users.lock().expect("lock");
        if users.contains_key(name) {
            return Err(AdminError::new(
                Failure::Exists,
                format!("user {name} exists"),
            ));
        }
        users.insert(name.to_owned(), AccountState::Enabled);
        Ok(user(name, AccountState::Enabled))
    }

    async fn user_list(&self, after: Option<&str>) -> Result<ListPage<UserInfo>> {
        let users = self.users.lock().expect("lock");
        let mut items: Vec<UserInfo> = users
            .iter()
            .filter(|(name, _)| after.is_none_or(|after| name.as_str() > after))
            .map(|(name, state)| user(name, *state))
            .collect();
        let more = items.len() > 2;
        items.truncate(2);
        let next = items.last().filter(|_| more).map(|user| user.name.clone());
        Ok(ListPage { items, next })
    }

    async fn user_remove(&self, name: &str) -> Result<()> {
        let removed = self.users.lock().expect("lock").remove(name);
        removed
            .map(|_| ())
            .ok_or_else(|| AdminError::new(Failure::NotFound, "no such user"))
    }

    async fn user_set(&self, name: &str, state: AccountState) -> Result<UserInfo> {
        let mut users = self.users.lock().expect("lock");
        let found = users
            .get_mut(name)
            .ok_or_else(|| AdminError::new(Failure::NotFound, "none"))?;
        *found = state;
        Ok(user(name, state))
    }

    async fn key_add(&self, request: KeyAdd) -> Result<NewKey> {
        let access_key = request.access_key.unwrap_or_else(|| "MADE".to_owned());
        let secret_key = request
            .secret_key
            .unwrap_or_else(|| Secret::new("made up".to_owned()));
        let mut keys = self.keys.lock().expect("lock");
        keys.insert(
            access_key.clone(),
            (request.user.clone(), secret_key.clone()),
        );
        Ok(NewKey {
            user: request.user,
            access_key,
            secret_key,
        })
    }

    async fn key_list(&self, _: Option<&str>, _: Option<&str>) -> Result<ListPage<KeyInfo>> {
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
        Ok(ListPage { items, next: None })
    }

    async fn key_remove(&self, _: &str) -> Result<()> {
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(())
    }

    async fn key_set(&self, _: &str, _: AccountState) -> Result<KeyInfo> {
        Err(dewar_types::Error::new(dewar_types::ErrorKind::Unavailable, "disks are away").into())
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
        let request = Request::UserAdd(UserAdd {
            name: name.to_owned(),
            ..UserAdd::default()
        });
        assert!(matches!(client.ask(&request).await, Ok(Reply::User(_))));
    }
    let twice = Request::UserAdd(UserAdd {
        name: "a".to_owned(),
        ..UserAdd::default()
    });
    let error = client.ask(&twice).await.expect_err("exists");
    assert_eq!(error.to_string(), "user a exists");

    let Ok(Reply::Users(page)) = client.ask(&Request::UserList { after: None }).await else {
        panic!("no page");
    };
    assert_eq!((page.items.len(), page.next.as_deref()), (2, Some("b")));

    let request = Request::KeyAdd(KeyAdd {
        user: "a".to_owned(),
        access_key: Some("AKIA".to_owned()),
        secret_key: Some(Secret::new("s3cret".to_owned())),
    });
    assert!(!format!("{request:?}").contains("s3cret"));
    let Ok(Reply::NewKey(key)) = client.ask(&request).await else {
        panic!("no key");
    };
    assert_eq!(
        (key.access_key.as_str(), key.secret_key.reveal()),
        ("AKIA", "s3cret")
    );
    let Ok(Reply::Keys(keys)) = client
        .ask(&Request::KeyList {
            user: None,
            after: None,
        })
        .await
    else {
        panic!("no keys");
    };
    assert!(
        !serde_json::to_string(&keys)
            .expect("JSON")
            .contains("s3cret")
    );

    let set = Request::KeySet {
        access_key: "x".to_owned(),
        state: AccountState::Disabled,
    };
    let Err(ClientError::Refused(error)) = client.ask(&set).await else {
        panic!("not refused");
    };
    assert_eq!(error.kind, Failure::Unavailable);
    assert!(matches!(
        client.ask(&Request::Status {}).await,
        Ok(Reply::Status(_))
    ));
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
    assert!(matches!(
        client.ask(&Request::Status {}).await,
        Ok(Reply::Status(_))
    ));
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
            .ask(&Request::KeyRemove {
                access_key: "x".to_owned(),
            })
            .await
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(running.stop.drain(Duration::from_secs(5)).await, 0);
    assert!(matches!(asked.await.expect("joins"), Ok(Reply::Done)));
    assert!(!running.path.exists());
}
