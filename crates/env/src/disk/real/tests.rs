use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use tempfile::TempDir;

use super::*;
use crate::disk::contract;

const MOMENT: Duration = Duration::from_millis(100);

fn config() -> RealDiskConfig {
    RealDiskConfig {
        deadline: 2 * MOMENT,
        check_every: MOMENT / 5,
        threads: 2,
        ..RealDiskConfig::default()
    }
}

/// Leaves room for a busy machine.
fn patient() -> RealDiskConfig {
    RealDiskConfig {
        deadline: Duration::from_secs(20),
        ..config()
    }
}

fn kind<T>(result: Result<T>) -> DiskErrorKind {
    match result {
        Ok(_) => panic!("should have failed"),
        Err(error) => error.kind(),
    }
}

async fn reaches(disk: &RealDisk, wanted: DiskState) {
    let mut watch = disk.watch();
    let reached = watch.wait_for(|state| *state == wanted);
    let reached = tokio::time::timeout(Duration::from_secs(10), reached).await;
    assert!(reached.is_ok(), "{:?}, not {wanted:?}", disk.state());
    assert_eq!(disk.state(), wanted);
}

/// A file system of its own for a test; `None`, and says so, where that is not allowed.
struct Mount(TempDir);

impl Mount {
    fn tmpfs(options: &str) -> Option<Self> {
        let dir = TempDir::new().unwrap();
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(dir.path())
            .output();
        if done.is_ok_and(|output| output.status.success()) {
            return Some(Self(dir));
        }
        println!("skipped: mounting takes root");
        None
    }

    fn remount(&self, options: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", options]).arg(self.0.path());
        // Files are closed in the background, and one that is open for writing is in the way.
        let done = (0..100).any(|_| {
            let done = mount.output().unwrap().status.success();
            if !done {
                std::thread::sleep(MOMENT / 5);
            }
            done
        });
        assert!(done, "{options}");
    }

    fn unmount(&self) {
        let mut umount = Command::new("umount");
        assert!(
            umount
                .arg("-l")
                .arg(self.0.path())
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-lq")
            .arg(self.0.path())
            .status();
    }
}

/// Opening it for reading blocks until somebody opens it for writing.
fn fifo(dir: &TempDir, name: &str) -> PathBuf {
    let path = dir.path().join(name);
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    path
}

fn release(fifo: &Path) -> OwnedFd {
    rustix::fs::open(fifo, OFlags::RDWR, Mode::empty()).unwrap()
}

#[tokio::test]
async fn keeps_the_contract() {
    let dir = TempDir::new().unwrap();
    let disk = RealDisk::open(dir.path(), patient()).await.unwrap();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    contract::check(&disk).await;
}

#[tokio::test]
async fn keeps_the_contract_on_a_file_system_in_memory() {
    let Some(mount) = Mount::tmpfs("size=256m") else {
        return;
    };
    let disk = RealDisk::open(mount.0.path(), patient()).await.unwrap();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    contract::check(&disk).await;
}

#[tokio::test]
async fn answers_from_the_page_cache_at_once() {
    let dir = TempDir::new().unwrap();
    let disk = RealDisk::open(dir.path(), patient()).await.unwrap();
    let file = disk.create("a", CreateOptions::default()).await.unwrap();
    file.write_at(0, vec!["hello".into()]).await.unwrap();
    assert_eq!(file.read_now(0, 100).unwrap().unwrap(), "hello");
    assert_eq!(file.read_now(1, 2).unwrap().unwrap(), "el");
    assert_eq!(file.read_now(9, 2).unwrap().unwrap(), "");
}

#[tokio::test]
async fn makes_private_files_and_never_its_own_folder() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("disk");
    let absent = RealDisk::open(&path, config()).await;
    assert_eq!(kind(absent), DiskErrorKind::Missing);
    assert!(!path.exists());
    std::fs::write(&path, "a file").unwrap();
    let file = RealDisk::open(&path, config()).await;
    assert_eq!(kind(file), DiskErrorKind::Missing);

    let disk = RealDisk::open(dir.path(), patient()).await.unwrap();
    disk.create("x/y", CreateOptions::default()).await.unwrap();
    let mode = |name| std::fs::metadata(dir.path().join(name)).unwrap().mode() & 0o777;
    assert_eq!((mode("x"), mode("x/y")), (0o700, 0o600));
    // A link may lead anywhere.
    std::os::unix::fs::symlink("/etc/hostname", dir.path().join("link")).unwrap();
    assert!(disk.open("link", Access::Read).await.is_err());
    assert!(disk.read_file("link").await.is_err());
}

#[tokio::test]
async fn a_folder_that_is_moved_away_is_missing_until_it_is_back() {
    let dir = TempDir::new().unwrap();
    let (here, there) = (dir.path().join("disk"), dir.path().join("away"));
    std::fs::create_dir(&here).unwrap();
    let disk = RealDisk::open(&here, patient()).await.unwrap();
    let file = disk.create("a", CreateOptions::default()).await.unwrap();
    file.write_at(0, vec!["hello".into()]).await.unwrap();
    file.sync().await.unwrap();

    std::fs::rename(&here, &there).unwrap();
    reaches(&disk, DiskState::Missing).await;
    assert_eq!(kind(file.read_at(0, 5).await), DiskErrorKind::Missing);
    assert!(file.read_now(0, 5).is_none());
    assert_eq!(kind(file.sync().await), DiskErrorKind::Missing);
    assert_eq!(kind(disk.list("").await), DiskErrorKind::Missing);
    let made = disk.create("b", CreateOptions::default()).await;
    assert_eq!(kind(made), DiskErrorKind::Missing);

    // Another folder of the same name is another disk.
    std::fs::create_dir(&here).unwrap();
    tokio::time::sleep(MOMENT).await;
    assert_eq!(disk.state(), DiskState::Missing);
    assert_eq!(std::fs::read_dir(&here).unwrap().count(), 0);
    std::fs::remove_dir(&here).unwrap();

    std::fs::rename(&there, &here).unwrap();
    reaches(&disk, DiskState::Online { returns: 1 }).await;
    assert_eq!(file.read_at(0, 9).await.unwrap(), "hello");
    assert_eq!(disk.read_file("a").await.unwrap(), "hello");
}

#[tokio::test]
async fn nothing_is_durable_in_a_folder_that_has_gone() {
    let dir = TempDir::new().unwrap();
    let here = dir.path().join("disk");
    std::fs::create_dir(&here).unwrap();
    let rarely = RealDiskConfig {
        check_every: Duration::from_secs(3600),
        ..patient()
    };
    let disk = RealDisk::open(&here, rarely).await.unwrap();
    let file = disk.create("a", CreateOptions::default()).await.unwrap();
    std::fs::rename(&here, dir.path().join("away")).unwrap();
    let written = file.write_durable(0, vec!["x".into()]).await;
    assert_eq!(kind(written), DiskErrorKind::Missing);
    assert_eq!(disk.state(), DiskState::Missing);
}

#[tokio::test]
async fn a_folder_without_its_identity_is_missing() {
    let dir = TempDir::new().unwrap();
    let config = RealDiskConfig {
        identity: Some("dewar-disk".to_owned()),
        ..patient()
    };
    let disk = RealDisk::open(dir.path(), config).await.unwrap();
    tokio::time::sleep(MOMENT).await;
    // Not formatted yet.
    assert_eq!(disk.state(), DiskState::Online { returns: 0 });
    disk.replace_file("dewar-disk", "id".into()).await.unwrap();
    tokio::time::sleep(MOMENT).await;
    let (file, aside) = (dir.path().join("dewar-disk"), dir.path().join("aside"));
    std::fs::rename(&file, &aside).unwrap();
    reaches(&disk, DiskState::Missing).await;
    std::fs::rename(&aside, &file).unwrap();
    reaches(&disk, DiskState::Online { returns: 1 }).await;
}

#[tokio::test]
async fn an_unmounted_disk_is_missing_and_the_mount_point_stays_empty() {
    let Some(mount) = Mount::tmpfs("size=1m") else {
        return;
    };
    let disk = RealDisk::open(mount.0.path(), patient()).await.unwrap();
    let file = disk.create("a", CreateOptions::default()).await.unwrap();
    mount.unmount();
    reaches(&disk, DiskState::Missing).await;
    let written = file.write_at(0, vec!["x".into()]).await;
    assert_eq!(kind(written), DiskErrorKind::Missing);
    assert_eq!(std::fs::read_dir(mount.0.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_full_file_system_is_full_and_not_poisoned() {
    let Some(mount) = Mount::tmpfs("size=1m") else {
        return;
    };
    let disk = RealDisk::open(mount.0.path(), patient()).await.unwrap();
    let file = disk.create("a", CreateOptions::default()).await.unwrap();
    let big = vec![Bytes::from(vec![1; 2 << 20])];
    assert_eq!(
        kind(file.write_at(0, big.clone()).await),
        DiskErrorKind::Full
    );
    assert_eq!(kind(file.write_durable(0, big).await), DiskErrorKind::Full);
    let options = CreateOptions {
        zeroed_bytes: 4 << 20,
        direct: true,
    };
    assert_eq!(kind(disk.create("b", options).await), DiskErrorKind::Full);
    let listed = disk.list("").await.unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    disk.remove("a").await.unwrap();
    drop(file);
    assert_eq!(disk.state(), DiskState::Online { returns: 0 });
    // The last handle is closed in the background.
    let room = async {
        while disk.space().await.unwrap().available == 0 {
            tokio::time::sleep(MOMENT / 50).await;
        }
    };
    let room = tokio::time::timeout(100 * MOMENT, room);
    assert!(room.await.is_ok());
    disk.replace_file("c", "room".into()).await.unwrap();
}

async fn until(disk: &RealDisk, wanted: DiskState) {
    let mut state = disk.watch();
    let changed = tokio::time::timeout(100 * MOMENT, state.wait_for(|state| *state == wanted));
    assert!(changed.await.is_ok(), "still {:?}", disk.state());
}

#[tokio::test]
async fn a_read_only_file_system_shows_and_returns_by_itself() {
    let Some(mount) = Mount::tmpfs("size=1m") else {
        return;
    };
    // The watcher is too slow to see it: the first write does.
    let slow = RealDiskConfig {
        check_every: 1000 * MOMENT,
        ..patient()
    };
    let disk = RealDisk::open(mount.0.path(), slow.clone()).await.unwrap();
    contract::prepare_read_only(&disk).await;
    mount.remount("remount,ro");
    contract::check_read_only(&disk).await;
    // Whatever write is the first.
    for first in 0..3 {
        mount.remount("remount,rw");
        let disk = RealDisk::open(mount.0.path(), slow.clone()).await.unwrap();
        mount.remount("remount,ro");
        let refused = match first {
            0 => kind(disk.create_whole("b", Vec::new()).await),
            1 => kind(disk.replace_file("kept/a", Bytes::new()).await),
            _ => kind(disk.remove("kept/a").await),
        };
        assert_eq!(refused, DiskErrorKind::Refused);
        assert_eq!(disk.state(), DiskState::ReadOnly { returns: 0 }, "{first}");
    }
    // At opening, without a write.
    let disk = RealDisk::open(mount.0.path(), patient()).await.unwrap();
    assert_eq!(disk.state(), DiskState::ReadOnly { returns: 0 });
    contract::check_read_only(&disk).await;
    mount.remount("remount,rw");
    until(&disk, DiskState::Online { returns: 0 }).await;
    contract::check_writable_again(&disk).await;
    assert_eq!(
        disk.list("").await.unwrap().len(),
        1,
        "nothing is left of the probe"
    );
    // While nobody writes.
    mount.remount("remount,ro");
    until(&disk, DiskState::ReadOnly { returns: 0 }).await;
}

/// Two processes with the same folder would write over each other; the same process may open it again.
#[tokio::test]
async fn a_folder_is_one_processs_own() {
    let dir = TempDir::new().unwrap();
    let own = || RealDiskConfig {
        exclusive: true,
        ..patient()
    };
    // A lock belongs to an open file: this one is as good as another process's.
    let other = std::fs::File::open(dir.path()).unwrap();
    let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::flock(&other, lock).unwrap();
    let refused = kind(RealDisk::open(dir.path(), own()).await);
    assert_eq!(refused, DiskErrorKind::InUse);
    RealDisk::open(dir.path(), patient()).await.unwrap();
    drop(other);
    let first = RealDisk::open(dir.path(), own()).await.unwrap();
    let second = RealDisk::open(dir.path(), own()).await.unwrap();
    drop(first);
    let other = std::fs::File::open(dir.path()).unwrap();
    assert!(rustix::fs::flock(&other, lock).is_err(), "one still has it");
    drop(second);
    for _ in 0..1000 {
        if rustix::fs::flock(&other, lock).is_ok() {
            return;
        }
        tokio::time::sleep(MOMENT).await;
    }
    panic!("it is never given back");
}

/// A folder that its owner took the right from; root has every right, but not this one.
#[tokio::test]
async fn a_folder_without_the_right_to_write_is_read_only() {
    let dir = TempDir::new().unwrap();
    let disk = RealDisk::open(dir.path(), patient()).await.unwrap();
    contract::prepare_read_only(&disk).await;
    let set = |protected: bool| {
        if rustix::process::geteuid().is_root() {
            let flag = if protected { "+i" } else { "-i" };
            let status = std::process::Command::new("chattr")
                .arg(flag)
                .arg(dir.path())
                .stderr(std::process::Stdio::null())
                .status();
            return status.is_ok_and(|status| status.success());
        }
        let mode = if protected { 0o500 } else { 0o700 };
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(dir.path(), mode).is_ok()
    };
    if !set(true) {
        return; // the file system knows no such flag
    }
    until(&disk, DiskState::ReadOnly { returns: 0 }).await;
    let made = disk.create("new", CreateOptions::default()).await;
    assert_eq!(kind(made), DiskErrorKind::Refused);
    assert_eq!(disk.read_file("kept/a").await.unwrap(), "hello");
    assert!(set(false));
    until(&disk, DiskState::Online { returns: 0 }).await;
    contract::check_writable_again(&disk).await;
}

/// One file of another owner does not make the disk read-only.
#[tokio::test]
async fn a_single_refusal_is_no_state() {
    let dir = TempDir::new().unwrap();
    let disk = RealDisk::open(dir.path(), patient()).await.unwrap();
    contract::prepare_read_only(&disk).await;
    std::fs::create_dir(dir.path().join("sealed")).unwrap();
    let chattr = |flag| {
        let command = std::process::Command::new("chattr")
            .args([flag, "sealed"])
            .current_dir(dir.path())
            .stderr(std::process::Stdio::null())
            .status();
        command.is_ok_and(|status| status.success())
    };
    if !chattr("+i") {
        return; // neither root nor such a file system
    }
    let made = disk.create("sealed/a", CreateOptions::default()).await;
    assert!(chattr("-i"));
    assert_eq!(kind(made), DiskErrorKind::Refused);
    assert_eq!(disk.state(), DiskState::Online { returns: 0 });
}

#[tokio::test]
async fn a_stuck_operation_hangs_the_disk_until_it_ends() {
    let dir = TempDir::new().unwrap();
    let disk = RealDisk::open(dir.path(), config()).await.unwrap();
    let file = disk.create("a", CreateOptions::default()).await.unwrap();
    let fifo = fifo(&dir, "fifo");
    let opened = disk.open("fifo", Access::Read).await;
    assert_eq!(kind(opened), DiskErrorKind::TimedOut);
    assert_eq!(disk.state(), DiskState::Hung);
    // Now at once, whatever the lane.
    let soon = tokio::time::timeout(MOMENT / 2, async {
        assert_eq!(kind(file.sync().await), DiskErrorKind::TimedOut);
        assert_eq!(kind(file.read_at(0, 1).await), DiskErrorKind::TimedOut);
    });
    soon.await.unwrap();
    assert!(file.read_now(0, 1).is_none());
    let writer = release(&fifo);
    reaches(&disk, DiskState::Online { returns: 1 }).await;
    file.sync().await.unwrap();
    drop(writer);
}

#[tokio::test]
async fn an_operation_that_nobody_waits_for_hangs_the_disk_too() {
    let dir = TempDir::new().unwrap();
    let disk = RealDisk::open(dir.path(), config()).await.unwrap();
    let fifo = fifo(&dir, "fifo");
    let opened = tokio::time::timeout(MOMENT / 10, disk.open("fifo", Access::Read)).await;
    assert!(opened.is_err());
    assert_ne!(disk.state(), DiskState::Hung);
    reaches(&disk, DiskState::Hung).await;
    let writer = release(&fifo);
    reaches(&disk, DiskState::Online { returns: 1 }).await;
    drop(writer);
}

#[tokio::test]
async fn a_stuck_read_is_written_off_when_the_device_reads() {
    let dir = TempDir::new().unwrap();
    let config = RealDiskConfig {
        identity: Some("dewar-disk".to_owned()),
        threads: 1,
        ..config()
    };
    let disk = RealDisk::open(dir.path(), config).await.unwrap();
    disk.replace_file("dewar-disk", "id".into()).await.unwrap();
    let fifo = fifo(&dir, "fifo");
    let opened = disk.open("fifo", Access::Read).await;
    assert_eq!(kind(opened), DiskErrorKind::TimedOut);
    reaches(&disk, DiskState::Online { returns: 1 }).await;
    // Another thread has taken over.
    assert_eq!(disk.read_file("dewar-disk").await.unwrap(), "id");
    // Once more, and that is one too many.
    let opened = disk.open("fifo", Access::Read).await;
    assert_eq!(kind(opened), DiskErrorKind::TimedOut);
    tokio::time::sleep(MOMENT).await;
    assert_eq!(disk.state(), DiskState::Hung);
    let writer = release(&fifo);
    reaches(&disk, DiskState::Online { returns: 2 }).await;
    assert_eq!(disk.read_file("dewar-disk").await.unwrap(), "id");
    drop(writer);
}

#[tokio::test]
async fn a_failed_promise_of_durability_poisons_and_others_do_not() {
    let dir = TempDir::new().unwrap();
    let disk = RealDisk::open(dir.path(), patient()).await.unwrap();
    let file = disk.create("a", CreateOptions::default()).await.unwrap();
    let fails = async |duty, errno: Errno| {
        let lane = &disk.inner.lanes.syncs;
        let failing = disk.inner.run(lane, duty, call("sync", "a"), move |_| {
            Err::<(), _>(errno.into())
        });
        kind(failing.await)
    };
    assert_eq!(
        fails(FailureEffect::Read, Errno::IO).await,
        DiskErrorKind::Io
    );
    assert_eq!(
        fails(FailureEffect::Write, Errno::IO).await,
        DiskErrorKind::Io
    );
    assert_eq!(
        fails(FailureEffect::Durable, Errno::NOSPC).await,
        DiskErrorKind::Full
    );
    // Too many open files: clients could poison every disk with it.
    assert_eq!(
        fails(FailureEffect::Durable, Errno::MFILE).await,
        DiskErrorKind::Busy
    );
    assert_eq!(disk.state(), DiskState::Online { returns: 0 });
    assert_eq!(
        fails(FailureEffect::Durable, Errno::IO).await,
        DiskErrorKind::Io
    );
    assert_eq!(disk.state(), DiskState::Poisoned);
    assert_eq!(kind(file.sync().await), DiskErrorKind::Poisoned);
    let written = file.write_at(0, vec!["x".into()]).await;
    assert_eq!(kind(written), DiskErrorKind::Poisoned);
    assert_eq!(file.read_at(0, 1).await.unwrap(), "");
}

#[tokio::test]
async fn a_full_queue_is_busy() {
    let dir = TempDir::new().unwrap();
    let config = RealDiskConfig {
        threads: 1,
        queue_len: 1,
        ..patient()
    };
    let disk = RealDisk::open(dir.path(), config).await.unwrap();
    disk.replace_file("a", "hello".into()).await.unwrap();
    let fifo = fifo(&dir, "fifo");
    let stuck = tokio::spawn({
        let disk = disk.clone();
        async move { disk.open("fifo", Access::Read).await.map(|_| ()) }
    });
    tokio::time::sleep(MOMENT).await;
    let waiting = tokio::spawn({
        let disk = disk.clone();
        async move { disk.read_file("a").await }
    });
    tokio::time::sleep(MOMENT).await;
    assert_eq!(kind(disk.read_file("a").await), DiskErrorKind::Busy);
    // The other lanes go on.
    disk.replace_file("b", "hello".into()).await.unwrap();
    let writer = release(&fifo);
    assert!(stuck.await.unwrap().is_err());
    assert_eq!(waiting.await.unwrap().unwrap(), "hello");
    drop(writer);
}

#[tokio::test]
async fn a_queued_operation_past_its_deadline_never_happens() {
    let dir = TempDir::new().unwrap();
    let health = Arc::new(Health::default());
    let lane = IoQueue::new("test".to_owned(), 1, 8, Arc::clone(&health));
    let fifo = fifo(&dir, "fifo");
    let path = fifo.clone();
    let (done, first) = tokio::sync::oneshot::channel();
    assert!(lane.spawn(move || {
        let _ = done.send(rustix::fs::open(path, OFlags::RDONLY, Mode::empty()).is_ok());
    }));
    let happened = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = Arc::clone(&happened);
    let queued = lane.run(MOMENT / 10, move || {
        flag.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(queued.await, Err(NoResult::TimedOut));
    // Only what runs can be stuck.
    assert_eq!(health.state(), DiskState::Online { returns: 0 });
    let writer = release(&fifo);
    assert!(first.await.unwrap());
    assert_eq!(lane.run(50 * MOMENT, || 5).await, Ok(5));
    assert!(!happened.load(std::sync::atomic::Ordering::Relaxed));
    // A panic costs neither the thread nor the caller's time.
    let panicked = lane.run(50 * MOMENT, || panic!("on purpose")).await;
    assert_eq!(panicked, Err::<(), _>(NoResult::NoThread));
    assert_eq!(lane.run(50 * MOMENT, || 6).await, Ok(6));
    drop(writer);
}

#[tokio::test]
async fn folders_removed_under_a_disk_poison_nothing_and_are_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(dir.path(), patient()).await.unwrap();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let racing = Arc::clone(&disk);
    let writing = tokio::spawn(async move {
        let (mut done, mut lost) = (0, 0);
        for n in 0..400 {
            let path = format!("blobs/dir/{n}");
            match racing
                .create_whole(&path, vec![(0, vec!["content".into()])])
                .await
            {
                Ok(()) => done += 1,
                Err(error) => {
                    assert_eq!(error.kind(), DiskErrorKind::NotFound, "{error}");
                    lost += 1;
                }
            }
        }
        (done, lost)
    });
    while !writing.is_finished() {
        // It may have been filled again meanwhile.
        let _ = std::fs::remove_dir_all(dir.path().join("blobs"));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (done, lost) = writing.await.unwrap();
    assert_eq!(done + lost, 400);
    assert_eq!(disk.state(), DiskState::Online { returns: 0 });
    let pieces = vec![(0, vec!["content".into()])];
    disk.create_whole("blobs/dir/last", pieces).await.unwrap();
    assert_eq!(disk.read_file("blobs/dir/last").await.unwrap(), "content");
}
