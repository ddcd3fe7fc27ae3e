//! The log on a real folder: what is written, kept through crashes, rotated, found and verified.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use dewar_auth::{AuditBatch, Caller};

use super::set::files;
use super::*;

fn config(folder: &Path) -> AuditConfig {
    AuditConfig {
        folder: folder.join("audit"),
        reads: false,
        file_bytes: 1 << 20,
        files_max: 0,
        rates: AuditRates {
            data: 100_000,
            security: 600,
        },
        unwritable: Unwritable::Alarm,
    }
}

fn record(target: &str) -> AuditRecord {
    let origin = Origin {
        address: "192.0.2.7".parse::<IpAddr>().ok(),
        secure: true,
    };
    AuditRecord {
        who: "ann".to_owned(),
        credential: Some("key:DWANN".into()),
        by_nobody: false,
        account: UserId(7),
        why: "it is the owner's".to_owned(),
        ..AuditRecord::of(
            &Caller::anonymous(origin),
            "s3:PutObject",
            target.to_owned(),
        )
    }
}

fn nobody(target: &str) -> AuditRecord {
    AuditRecord {
        by_nobody: true,
        account: UserId(0),
        who: "anonymous".to_owned(),
        ..record(target)
    }
    .refused("nothing allows it")
}

fn open(config: &AuditConfig) -> AuditLog {
    AuditLog::open(config.clone(), &Env::real()).expect("the log opens")
}

fn lines(config: &AuditConfig, filter: &Filter) -> Vec<Line> {
    let mut found = Vec::new();
    read(&config.folder, filter, |line, _| found.push(line)).expect("readable");
    found
}

/// That both sets are as they were written; the one with data.
fn sound(config: &AuditConfig) -> VerifiedSet {
    let [data, security] = sets(config);
    assert_eq!((&data.broken, &security.broken), (&Vec::new(), &Vec::new()));
    data
}

fn sets(config: &AuditConfig) -> [VerifiedSet; 2] {
    let sets = verify(&config.folder).expect("readable");
    sets.try_into().expect("two sets")
}

#[test]
fn a_record_says_who_what_and_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(folder.path());
    let log = open(&config);
    log.record(record("/data/a"));
    assert!(log.flush());
    let found = lines(&config, &Filter::default());
    let line = &found[0];
    assert_eq!((line.seq, line.event.as_str()), (1, "access"));
    assert_eq!(line.credential.as_deref(), Some("key:DWANN"));
    assert_eq!(line.from.as_deref(), Some("192.0.2.7"));
    assert_eq!((line.tls, line.target.as_str()), (Some(true), "/data/a"));
    assert_eq!(line.why, "it is the owner's");
    assert!(
        line.time.starts_with("20") && line.time.ends_with('Z'),
        "{}",
        line.time
    );
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&config.folder), 0o700);
    assert_eq!(
        mode(&config.folder.join("audit-0000000000000001.jsonl")),
        0o600
    );
}

#[test]
fn it_goes_on_behind_a_line_that_a_crash_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(folder.path());
    let log = open(&config);
    (0..5).for_each(|n| log.record(record(&format!("/data/{n}"))));
    drop(log);
    let file = config.folder.join("audit-0000000000000001.jsonl");
    let whole = fs::read(&file).expect("readable");
    // Wherever within the last line the write was cut.
    let last = whole[..whole.len() - 1]
        .iter()
        .rposition(|b| *b == b'\n')
        .expect("lines")
        + 1;
    for end in last + 1..whole.len() {
        fs::write(&file, &whole[..end]).expect("writable");
        let log = open(&config);
        log.record(record("/data/after"));
        drop(log);
        let found = lines(&config, &Filter::default());
        let actions: Vec<&str> = found.iter().map(|line| line.action.as_str()).collect();
        assert_eq!(
            actions[3..],
            ["s3:PutObject", "audit:mend", "s3:PutObject"],
            "cut at {end}"
        );
        assert_eq!(found[5].target, "/data/after");
        assert_eq!(sound(&config).last, 6);
    }
}

#[test]
fn files_follow_each_other_and_the_oldest_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = AuditConfig {
        file_bytes: 2000,
        files_max: 3,
        ..config(folder.path())
    };
    for n in 0..10 {
        // Opened anew each time: numbers and chain go on.
        let log = open(&config);
        (0..5).for_each(|m| log.record(record(&format!("/data/{n}/{m}"))));
    }
    assert_eq!(
        files(&config.folder, AuditSet::Data)
            .expect("readable")
            .len(),
        3
    );
    let verified = sound(&config);
    assert!(verified.first > 1 && verified.last == 50, "{verified:?}");
    // A file that was made just before a crash has no line yet.
    fs::write(config.folder.join("audit-0000000000000051.jsonl"), b"").expect("writable");
    open(&config).record(record("/data/more"));
    assert_eq!(sound(&config).last, 51);
}

#[test]
fn what_was_changed_or_taken_out_shows() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(folder.path());
    let log = open(&config);
    (0..5).for_each(|n| log.record(record(&format!("/data/{n}"))));
    drop(log);
    assert_eq!(sound(&config).last, 5);
    let file = config.folder.join("audit-0000000000000001.jsonl");
    let whole = fs::read_to_string(&file).expect("readable");
    let broken = |text: String| {
        fs::write(&file, text).expect("writable");
        let [data, _] = sets(&config);
        data.broken
    };
    let changed = broken(whole.replace("/data/2", "/data/x"));
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].what, "the line is not as it was written");
    let lines: Vec<&str> = whole.lines().collect();
    let without = [lines[0], lines[1], lines[3], lines[4], ""].join("\n");
    assert_eq!(broken(without)[0].what, "lines are missing or stand twice");
    let behind = broken(format!("{whole}{{\"seq\":6}}\n"));
    assert_eq!(behind[0].what, "it is no line of the log");
}

#[test]
fn filters_fit_by_components_and_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(folder.path());
    let log = open(&config);
    for target in ["/data/a", "/data/a/b", "/data/ab", "/other"] {
        log.record(record(target));
    }
    log.record(record("/data/a").refused("nothing allows it"));
    drop(log);
    let count = |change: &dyn Fn(&mut Filter)| {
        let mut filter = Filter::default();
        change(&mut filter);
        lines(&config, &filter).len()
    };
    assert_eq!(count(&|f| f.path = Some("/data/a".into())), 3);
    assert_eq!(count(&|f| f.path = Some("/data/".into())), 4);
    assert_eq!(count(&|f| f.outcome = Some("refused".into())), 1);
    assert_eq!(count(&|f| f.action = Some("putobject".into())), 5);
    assert_eq!(count(&|f| f.action = Some("s3:GetObject".into())), 0);
    assert_eq!(count(&|f| f.who = Some("ann".into())), 5);
    assert_eq!(count(&|f| f.credential = Some("DWANN".into())), 5);
    assert_eq!(count(&|f| f.until = Some("2000-01-01T00:00:00Z".into())), 0);
    assert_eq!(count(&|f| f.since = Some("2000-01-01T00:00:00Z".into())), 5);
}

#[test]
fn nobody_can_push_others_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(folder.path());
    let log = open(&config);
    (0..2000).for_each(|_| log.record(nobody("/data/a")));
    log.record(record("/data/b"));
    assert!(log.flush());
    let counts = log.counts();
    assert!(counts.summed > 1500 && counts.lost == 0, "{counts:?}");
    drop(log);
    let found = lines(&config, &Filter::default());
    assert!(found.len() < 500, "{}", found.len());
    assert!(found.iter().any(|line| line.target == "/data/b"));
    let gap = found.iter().find(|line| line.action == "audit:gap");
    let gap = gap.expect("it is told of");
    assert_eq!(gap.who, "anonymous");
    assert!(
        gap.count > Some(1500) && gap.why.contains("only counted"),
        "{gap:?}"
    );
}

#[test]
fn an_account_cannot_push_security_records_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = AuditConfig {
        file_bytes: 4000,
        files_max: 2,
        rates: AuditRates {
            data: 1000,
            security: 20,
        },
        ..config(folder.path())
    };
    let login = AuditRecord {
        event: AuditEvent::Login,
        who: "bob".to_owned(),
        account: UserId(8),
        ..record("")
    };
    for _ in 0..4 {
        // Opened anew, so that files are exchanged in between.
        let log = open(&config);
        log.record(login.clone());
        log.record(record("/data/secret").refused("nothing allows it"));
        (0..500).for_each(|n| log.record(record(&format!("/data/{n}"))));
    }
    assert_eq!(
        files(&config.folder, AuditSet::Data)
            .expect("readable")
            .len(),
        2
    );
    let found = lines(&config, &Filter::default());
    let logins = found.iter().filter(|line| line.event == "login").count();
    let refused = found
        .iter()
        .filter(|line| line.outcome == "refused")
        .count();
    assert_eq!((logins, refused), (4, 4));
    // Merged by time, and each set sound.
    assert!(found.is_sorted_by_key(|line| &line.time));
    assert!(sound(&config).last == 2000 && sets(&config)[1].last == 8);
}

#[test]
fn beyond_its_rate_an_account_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = AuditConfig {
        rates: AuditRates {
            data: 100,
            security: 10,
        },
        ..config(folder.path())
    };
    let log = open(&config);
    (0..1000).for_each(|_| log.record(record("/data/a")));
    let other = AuditRecord {
        who: "bob".to_owned(),
        account: UserId(8),
        ..record("/data/b")
    };
    log.record(other);
    assert!(log.counts().summed >= 800, "{:?}", log.counts());
    drop(log);
    let found = lines(&config, &Filter::default());
    // At most two minutes were touched.
    let written = found.iter().filter(|line| line.target == "/data/a").count();
    assert!(written == 100 || written == 200, "{written}");
    let counted: u64 = found.iter().filter_map(|line| line.count).sum();
    assert_eq!(written as u64 + counted, 1000);
    assert!(found.iter().any(|line| line.who == "bob"));
    sound(&config);
}

#[test]
fn a_bulk_delete_is_one_line_that_is_found_by_its_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(folder.path());
    let log = Arc::new(open(&config));
    let batch = AuditBatch::new(Arc::clone(&log) as _);
    let long = "x".repeat(1000);
    (0..1000).for_each(|n| batch.record(record(&format!("/data/run/{n}/{long}"))));
    drop((batch, log));
    let found = lines(&config, &Filter::default());
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].count, found[0].target.as_str()),
        (Some(1000), "/data/run")
    );
    assert_eq!(found[0].names.len(), 10);
    let file = config.folder.join("audit-0000000000000001.jsonl");
    assert!(fs::metadata(file).expect("there").len() < 8000);
    for (path, fits) in [
        ("/data", 1),
        ("/data/run/0", 1),
        ("/data/run/999", 1),
        ("/data/ru", 0),
    ] {
        let filter = Filter {
            path: Some(path.into()),
            ..Filter::default()
        };
        assert_eq!(lines(&config, &filter).len(), fits, "{path}");
    }
    sound(&config);
}

/// Lines as release 708fabe writes them: all kinds of records in one set.
#[test]
fn an_old_log_stays_readable_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(folder.path());
    fs::create_dir(&config.folder).expect("made");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/audit-708fabe.jsonl");
    let file = config.folder.join("audit-0000000000000001.jsonl");
    fs::copy(sample, file).expect("copied");
    let old = lines(&config, &Filter::default());
    let events: Vec<&str> = old.iter().map(|line| line.event.as_str()).collect();
    assert_eq!(
        events,
        ["log", "login", "access", "access", "admin", "session"]
    );
    let log = open(&config);
    log.record(record("/data/new"));
    log.record(record("/data/new").refused("nothing allows it"));
    drop(log);
    assert_eq!(lines(&config, &Filter::default()).len(), 8);
    assert_eq!((sound(&config).last, sets(&config)[1].last), (7, 1));
}

/// A folder that cannot be written to for a while, as a full disk would be.
#[test]
fn a_log_that_cannot_be_written_is_bounded_and_refuses_where_it_shall() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = AuditConfig {
        unwritable: Unwritable::Refuse,
        ..config(folder.path())
    };
    let log = open(&config);
    // No file can be made where a folder has its name.
    let in_the_way = config.folder.join("audit-0000000000000001.jsonl");
    fs::create_dir(&in_the_way).expect("made");
    assert!(log.is_ready());
    log.record(record("/data/first"));
    let mut waited = 0;
    while log.is_ready() {
        waited += 1;
        assert!(waited < 500, "it never noticed");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(log.failing().is_some());
    let long = "x".repeat(4000);
    (0..20_000).for_each(|_| log.record(record(&long)));
    assert!(log.counts().lost > 10_000, "{:?}", log.counts());
    fs::remove_dir(&in_the_way).expect("removed");
    assert!((0..10).any(|_| log.flush()), "it never recovered");
    assert!(log.is_ready() && log.failing().is_none());
    drop(log);
    let found = lines(&config, &Filter::default());
    assert_eq!(found[0].target, "/data/first");
    assert!(
        found
            .iter()
            .any(|line| line.action == "audit:gap" && line.why.contains("missing"))
    );
    sound(&config);
}
