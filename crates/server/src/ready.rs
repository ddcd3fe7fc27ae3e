//! The ready file: it exists once every listener accepts connections, and has their addresses and
//! the process id.
//!
//! It may contain a demo's credentials, so its mode is 0600 from its first byte on. It appears
//! atomically (temporary file, sync, rename, sync of the folder) and only when everything in it is
//! true. A stale file of an earlier process is removed before anything starts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dewar_engine::host::private_file::{FileError, check_writable, replace_private_file};
use serde::{Serialize, Serializer};

/// The content of a ready file. Parts that do not exist have no member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ready {
    /// The one process that serves.
    pub pid: u32,
    /// The doors by name.
    #[serde(flatten, serialize_with = "as_members")]
    pub doors: Vec<(String, ReadyDoor)>,
}

fn as_members<S: Serializer>(
    doors: &[(String, ReadyDoor)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(doors.iter().map(|(name, door)| (name, door)))
}

/// The address of a door, and for a demo the credentials.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
pub struct ReadyDoor {
    /// Its URL, such as `http://127.0.0.1:PORT`, without a slash at the end. If it has addresses with and
    /// without TLS, one without.
    pub endpoint: String,
    /// The region that clients of S3 sign for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The demo's access key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key: Option<String>,
    /// Its secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<String>,
    /// A bucket that exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,
    /// The URL of the door with TLS, if it has both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_endpoint: Option<String>,
    /// The folder with the certificate authority of a demo's door, as `X509_CERT_DIR` wants it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_dir: Option<PathBuf>,
    /// A bearer token for a demo's door.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

impl std::fmt::Debug for ReadyDoor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadyDoor")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// A written ready file. It is removed when this is dropped at a clean stop.
#[derive(Debug)]
pub struct ReadyFile {
    path: PathBuf,
}

impl ReadyFile {
    /// Removes a stale file of an earlier process, so that nobody trusts it, and checks that a new
    /// one can be written. A failure must be known before any client is served.
    ///
    /// # Errors
    /// It exists and cannot be removed, or its folder cannot be written to.
    pub fn prepare(path: &Path) -> Result<(), FileError> {
        Self::clear(path)?;
        check_writable(path)
    }

    /// Removes the file if it exists.
    ///
    /// # Errors
    /// It exists and cannot be removed.
    pub fn clear(path: &Path) -> Result<(), FileError> {
        match fs::remove_file(path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(FileError {
                path: path.to_path_buf(),
                source,
            }),
            _ => Ok(()),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The folder is absent or cannot be written to.
    pub fn write(path: &Path, ready: &Ready) -> Result<Self, FileError> {
        let mut text = serde_json::to_vec_pretty(ready).expect("strings and numbers are JSON");
        text.push(b'\n');
        replace_private_file(path, &text)?;
        Ok(Self {
            path: path.to_path_buf(),
        })
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        if let Err(error) = Self::clear(&self.path) {
            tracing::warn!(%error, "the ready file stays behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn ready(pid: u32) -> Ready {
        let door = ReadyDoor {
            endpoint: "http://127.0.0.1:9000".to_owned(),
            region: Some("us-east-1".to_owned()),
            access_key: Some("A".to_owned()),
            secret_key: Some("S3CRET".to_owned()),
            bucket: Some("demo".to_owned()),
            ..ReadyDoor::default()
        };
        Ready {
            pid,
            doors: vec![("s3".to_owned(), door)],
        }
    }

    #[test]
    fn is_private_complete_and_gone_after_a_clean_stop() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("ready.json");
        let file = ReadyFile::write(&path, &ready(7)).expect("writes");
        let found = fs::metadata(&path).expect("there");
        assert_eq!(found.mode() & 0o7777, 0o600);
        let text = fs::read_to_string(&path).expect("reads");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(json["pid"], 7);
        assert_eq!(json["s3"]["endpoint"], "http://127.0.0.1:9000");
        assert_eq!(json["s3"]["secret_key"], "S3CRET");
        assert!(
            json.get("metrics").is_none(),
            "only what exists has a member"
        );
        assert!(!format!("{:?}", ready(7)).contains("S3CRET"));
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
        drop(file);
        assert!(!path.exists());
    }

    /// A reader sees no file, the old file or the new one, never a part.
    #[test]
    fn is_replaced_at_once() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("ready.json");
        let writer = path.clone();
        let writing = std::thread::spawn(move || {
            let files: Vec<ReadyFile> = (1..100)
                .map(|pid| ReadyFile::write(&writer, &ready(pid)).expect("writes"))
                .collect();
            files.into_iter().for_each(std::mem::forget);
        });
        let mut seen = 0;
        while !writing.is_finished() {
            if let Ok(text) = fs::read_to_string(&path) {
                let read: serde_json::Value = serde_json::from_str(&text).expect("whole");
                let pid = read["pid"].as_u64().expect("a number");
                assert!(pid >= seen, "never goes back");
                seen = pid;
            }
        }
        writing.join().expect("joins");
    }

    #[test]
    fn a_stale_file_is_cleared_and_trouble_is_named() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("ready.json");
        ReadyFile::clear(&path).expect("nothing to do");
        fs::write(&path, "{}").expect("write");
        ReadyFile::clear(&path).expect("clears");
        assert!(!path.exists());
        ReadyFile::prepare(&path).expect("could be written");
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 0);
        let absent = dir.path().join("no/ready.json");
        let error = ReadyFile::prepare(&absent).expect_err("no folder");
        assert!(error.to_string().contains("no/ready.json"));
        let error = ReadyFile::write(&absent, &ready(1)).expect_err("no folder");
        assert!(error.to_string().contains("no/ready.json"));
    }
}
