use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;

use super::check::{Severity, findings};
use super::value::{parse_duration, render_duration};
use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("/etc/dewar/dewar.toml"))
}

fn message(text: &str) -> String {
    parse(text).expect_err("it has a mistake").to_string()
}

fn with_variables(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let pairs = pairs
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Config::load(None, pairs)
}

#[test]
fn every_key_is_documented_and_its_default_and_bounds_can_be_read() {
    for key in all() {
        let path = key.path();
        assert!(key.description().len() > 20, "{path} says nothing");
        assert!(key.description().ends_with('.'), "{path}: no full sentence");
        let untyped = |text: &str| Raw::Untyped(text.to_owned());
        let normal = |text| (key.normalise)(&untyped(text), key, Path::new(""));
        normal(key.default).unwrap_or_else(|error| panic!("{path}: default: {error}"));
        if let Range::Between(low, high) | Range::Pages(low, high) = key.range {
            for bound in [low, high] {
                normal(bound).unwrap_or_else(|error| panic!("{path}: {bound}: {error}"));
            }
        }
        if let Range::OneOf(words) = key.range {
            for word in words {
                normal(word).unwrap_or_else(|error| panic!("{path}: {word}: {error}"));
            }
        }
        assert_eq!(find(&path).map(Key::path), Some(path));
    }
}

#[test]
fn variables_are_mechanical_and_never_clash() {
    let mut names: Vec<String> = all().map(Key::variable).collect();
    assert!(names.contains(&"DEWAR_S3_TLS_KEY_FILE".to_owned()));
    names.sort();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn the_default_file_is_the_defaults_commented_and_uncommented() {
    let text = explain::default_toml();
    assert_eq!(parse(&text).expect("parses"), Config::default());
    let is_key = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
    assert_eq!(text.lines().filter(is_key).count(), all().count());
    let uncommented: String = text
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(key) if !key.starts_with(' ') => format!("{key}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    assert_eq!(parse(&uncommented).expect("parses"), Config::default());
}

#[test]
fn the_references_name_every_key() {
    let markdown = explain::markdown();
    let text = explain::everything();
    for key in all() {
        assert!(markdown.contains(&format!("### {}\n", key.path())));
        assert!(text.contains(&format!("{}\n", key.path())));
        assert!(markdown.contains(&key.variable()));
    }
    assert!(explain::key(find("pool.stripe_unit").expect("known")).contains("4KiB to 4MiB"));
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "wraps"
    );
}

#[test]
fn an_unknown_key_names_line_and_nearest() {
    let text = "[server]\nzone = 2\n\n[s3]\nlisten = \"127.0.0.1:1\"\nreigon = \"x\"\n";
    let said = message(text);
    assert_eq!(
        said,
        "/etc/dewar/dewar.toml:6: unknown key s3.reigon; did you mean s3.region?"
    );
    assert!(message("[server]\nregion = 'x'").contains("did you mean s3.region?"));
    assert!(message("[s4]\n").contains(":1: unknown table [s4]; did you mean [s3]?"));
    assert!(message("region = 'x'\n").contains("did you mean the key s3.region?"));
    assert!(message("pool = 3").contains("pool is a table: write [pool]"));
    assert!(message("[[pool]]\nname = 'a'").contains("pool is a table: write [pool]"));
}

#[test]
fn wrong_type_and_range_name_key_line_and_range() {
    assert_eq!(
        message("[server]\n\nzone = 0"),
        "/etc/dewar/dewar.toml:3: server.zone: out of range, which is 1 to 65535"
    );
    assert!(message("[server]\nzone = 70000").contains("1 to 65535"));
    assert!(message("[server]\nzone = '1'").contains("expected an integer, found a string"));
    assert!(message("[s3]\nidle_timeout = 5").contains("found an integer (range: 1s to 1d)"));
    assert!(message("[s3]\nidle_timeout = '5'").contains("expected a duration"));
    assert!(message("[s3]\nidle_timeout = '500ms'").contains("1s to 1d"));
    assert!(message("[pool]\nstripe_unit = '5000B'").contains("multiple of 4096"));
    assert!(message("[pool]\nlayout = '4+9'").contains("m must be 0 to 4"));
    assert!(message("[log]\nformat = 'xml'").contains("not one of human, json"));
    assert!(message("[log]\nlevel = 3").contains("found an integer"));
    assert!(message("[s3]\nlisten = ['localhost:1']").contains("addresses with ports"));
    assert!(message("[pool]\ndisks = [1]").contains("expected a list of paths"));
    assert!(message("[s3]\ndomains = ['-x.org']").contains("not a domain name"));
    assert!(message("[server]\nzone = 99999999999999999999").contains("beyond 64 bits"));
    assert!(message("[server\nzone = 1").contains(":1: not TOML: "));
}

#[test]
fn every_mistake_is_reported_at_once() {
    let said = message("[server]\nzone = 0\nzoned = 1\n[s3]\nregion = ''\n");
    assert_eq!(said.lines().count(), 3, "{said}");
}

#[test]
fn variables_override_the_file() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let file = dir.path().join("dewar.toml");
    std::fs::write(
        &file,
        "[server]\nzone = 7\n[pool]\ndisks = ['d1', '/abs/d2']\n",
    )
    .expect("write");
    let variables = [
        ("DEWAR_SERVER_ZONE", "9"),
        ("DEWAR_CONFIG", "x"),
        ("PATH", "y"),
    ]
    .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let config = Config::load(Some(&file), variables.into_iter()).expect("loads");
    assert_eq!(config.server.zone, 9);
    let expected = [dir.path().join("d1"), "/abs/d2".into()];
    assert_eq!(
        config.pool.disks, expected,
        "relative paths start at the file's folder"
    );

    // The same from where a relative path leads to it.
    let here = std::path::absolute(".").expect("a working folder");
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = up.join(file.strip_prefix("/").expect("from the root"));
    let config = Config::load(Some(&relative), std::iter::empty()).expect("loads");
    let found = &config.pool.disks[0];
    assert!(found.is_absolute(), "{}", found.display());
    let folder = found.parent().and_then(|folder| folder.canonicalize().ok());
    assert_eq!(folder, dir.path().canonicalize().ok());
    let config = with_variables(&[("DEWAR_POOL_DISKS", "d1")]).expect("loads");
    assert_eq!(config.pool.disks, [here.join("d1")]);

    let config = with_variables(&[
        ("DEWAR_POOL_DISKS", "/a, /b"),
        ("DEWAR_S3_LISTEN", "[::1]:80,127.0.0.1:80"),
        ("DEWAR_POOL_SMALL_OBJECT_THRESHOLD", "4096"),
    ])
    .expect("loads");
    assert_eq!(config.pool.disks.len(), 2);
    assert_eq!(config.s3.listen.len(), 2);
    assert_eq!(config.pool.small_object_threshold, ByteSize(4096));
}

#[test]
fn an_unknown_or_bad_variable_is_an_error() {
    let said = with_variables(&[("DEWAR_S3_LISEN", "x")])
        .expect_err("unknown")
        .to_string();
    assert_eq!(
        said,
        "environment variable DEWAR_S3_LISEN: no such key; did you mean DEWAR_S3_LISTEN?"
    );
    let said = with_variables(&[("DEWAR_SERVER_ZONE", "no")])
        .expect_err("bad")
        .to_string();
    assert!(
        said.contains("DEWAR_SERVER_ZONE: server.zone: expected an integer"),
        "{said}"
    );
    assert!(with_variables(&[("DEWAR_BENCH_KEY", "x"), ("DEWAR_TEST_BINARY", "y")]).is_ok());
}

#[test]
fn a_missing_file_is_named() {
    let error = Config::load(Some(Path::new("/nowhere/dewar.toml")), std::iter::empty());
    assert!(
        error
            .expect_err("absent")
            .to_string()
            .contains("/nowhere/dewar.toml")
    );
}

#[test]
fn changes_between_two_configurations() {
    let old = Config::default();
    let mut new = old.clone();
    new.s3.connections_max = 5;
    new.server.zone = 2;
    let changed: Vec<String> = old.changed(&new).into_iter().map(Key::path).collect();
    assert_eq!(changed, ["server.zone", "s3.connections_max"]);
}

fn found(config: &Config, severity: Severity, key: &str, text: &str) -> bool {
    findings(config)
        .iter()
        .any(|f| f.severity == severity && f.key == key && f.message.contains(text))
}

fn with_disks(dir: &Path, disks: usize) -> Config {
    let mut config = Config::default();
    config.server.state_dir = dir.join("state");
    for i in 0..disks {
        let disk = dir.join(format!("disk{i}"));
        std::fs::create_dir_all(&disk).expect("create");
        config.pool.disks.push(disk);
    }
    config
}

#[test]
fn check_speaks_about_the_number_of_disks() {
    use Severity::{Error, Warning};
    let dir = tempfile::tempdir().expect("temporary folder");
    let check = |disks, layout: &str| {
        let mut config = with_disks(dir.path(), disks);
        config.pool.layout = match layout {
            "auto" => LayoutChoice::Auto,
            text => LayoutChoice::Fixed(text.parse().expect("valid")),
        };
        config
    };
    assert!(found(&check(0, "auto"), Error, "pool.disks", "no disks"));
    assert!(found(
        &check(3, "4+2"),
        Error,
        "pool.layout",
        "4+2 needs 6 disks"
    ));
    assert!(found(&check(1, "auto"), Warning, "pool.layout", "1+0"));
    let two = check(2, "auto");
    assert!(
        found(&two, Warning, "pool.disks", "2m+1 = 3"),
        "{:?}",
        findings(&two)
    );
    assert!(found(
        &two,
        Warning,
        "pool.disks",
        "writes stop with 1 missing"
    ));
    let six = check(6, "auto");
    assert!(!found(&six, Warning, "pool.disks", "2m+1"));
    assert!(found(&six, Warning, "pool.disks", "share one device"));
}

#[test]
fn check_looks_at_folders() {
    use Severity::{Error, Warning};
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut config = with_disks(dir.path(), 3);
    assert!(findings(&config).iter().all(|f| f.severity == Warning));

    config.security.master_key_file = Some(dir.path().join("disk1/key"));
    assert!(found(
        &config,
        Error,
        "security.master_key_file",
        "inside the disk"
    ));
    // A link does not hide it.
    symlink(dir.path().join("disk2"), dir.path().join("link")).expect("link");
    config.security.master_key_file = Some(dir.path().join("link/deep/key"));
    assert!(found(
        &config,
        Error,
        "security.master_key_file",
        "inside the disk"
    ));
    config.security.master_key_file = Some(dir.path().join("disk10"));
    assert!(!found(&config, Error, "security.master_key_file", ""));

    config.server.state_dir = dir.path().join("disk0");
    assert!(found(&config, Error, "server.state_dir", "inside the disk"));

    config.pool.disks.push(dir.path().join("absent"));
    assert!(found(
        &config,
        Warning,
        "pool.disks",
        "the first start needs"
    ));
    // One disk with an identity shows that the pool was made before.
    std::fs::write(dir.path().join("disk0/dewar-disk"), "").expect("identity");
    assert!(found(&config, Warning, "pool.disks", "counts as missing"));
    config.pool.disks.push(dir.path().join("link/."));
    assert!(found(&config, Error, "pool.disks", "same folder"));
}

#[test]
fn check_looks_at_doors() {
    use Severity::{Error, Warning};
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut config = with_disks(dir.path(), 3);
    config.s3.listen = vec!["0.0.0.0:9000".parse().expect("address")];
    assert!(found(&config, Warning, "s3.listen", "without TLS"));
    config.s3.tls_certificate_file = Some("/c".into());
    assert!(found(&config, Error, "s3.tls_key_file", "missing"));
    config.s3.tls_key_file = Some("/k".into());
    assert!(!found(&config, Warning, "s3.listen", "without TLS"));
    config.metrics.listen = config.s3.listen.clone();
    assert!(found(&config, Warning, "metrics.listen", "without a login"));
    assert!(found(&config, Error, "metrics.listen", "also in s3.listen"));
    config.webdav.tls_certificate_file = Some("/c".into());
    config.webdav.tls_key_file = Some("/k".into());
    config.webdav.listen = vec!["0.0.0.0:8443".parse().expect("address")];
    assert!(!found(&config, Warning, "webdav.listen", "without TLS"));
    config.webdav.plain_listen = vec!["127.0.0.1:8080".parse().expect("address")];
    assert!(!found(
        &config,
        Warning,
        "webdav.plain_listen",
        "without TLS"
    ));
    // The certificate is for the other addresses.
    config.webdav.plain_listen = config.webdav.listen.clone();
    assert!(found(
        &config,
        Warning,
        "webdav.plain_listen",
        "without TLS"
    ));
    assert!(found(
        &config,
        Error,
        "webdav.plain_listen",
        "also in webdav.listen"
    ));
}

proptest! {
    #[test]
    fn sizes_round_trip(bytes in any::<u64>()) {
        let size = ByteSize(bytes);
        prop_assert_eq!(ByteSize::parse(&size.to_string()), Some(size));
    }

    #[test]
    fn round_sizes_round_trip(count in 0_u64..1000, shift in 0_u32..45) {
        let size = ByteSize(count << shift);
        prop_assert_eq!(ByteSize::parse(&size.to_string()), Some(size));
    }

    #[test]
    fn durations_round_trip(millis in 0_u64..1_000_000_000_000) {
        let duration = Duration::from_millis(millis);
        prop_assert_eq!(parse_duration(&render_duration(duration)), Some(duration));
    }

    /// Reading never panics, and whatever is accepted lies in its range and reads back as itself.
    #[test]
    fn any_value_is_refused_or_normal(index in 0_usize..100, text in "\\PC{0,12}|[0-9]{1,20}[a-zA-Z]{0,3}") {
        let keys: Vec<&Key> = all().collect();
        let key = keys[index % keys.len()];
        if let Ok(toml) = (key.normalise)(&Raw::Untyped(text), key, Path::new("/base")) {
            let file = format!("[{}]\n{} = {toml}\n", key.section, key.name);
            let config = Config::parse(&file, Path::new("/base/dewar.toml")).expect("normal form reads");
            let (_, again) = config
                .rendered()
                .into_iter()
                .find(|(other, _)| other.path() == key.path())
                .expect("every key is rendered");
            prop_assert_eq!(again, toml);
        }
    }

    /// A file of garbage gives errors, never a panic.
    #[test]
    fn garbage_is_an_error(text in "\\PC{0,200}") {
        let _ = Config::parse(&text, Path::new("dewar.toml"));
    }
}

/// Closed by default: users do not make a server connect anywhere before its administrator said so.
#[test]
fn nothing_is_fetched_unless_told() {
    assert!(Config::default().xrootd.tpc_sources.is_empty());
}

#[test]
fn classes_and_disks_name_pools() {
    let config = parse(
        "[pool]\ndisks = [\"/m/1\"]\nstripe_unit = \"8KiB\"\n[pools]\ndisks = [\"archive=/a/1\", \"archive=/a/2\", \"b=/b/1\"]\n\
         layouts = [\"b=1+0\"]\n[lifecycle]\nstorage_classes = [\"COLD=archive\", \"LABEL\", \"HERE=main\"]\n",
    )
    .expect("fine");
    let pools = config.further_pools();
    let shown: Vec<_> = pools
        .iter()
        .map(|pool| {
            (
                pool.name.as_str(),
                pool.layout.to_string(),
                pool.disks.len(),
            )
        })
        .collect();
    let expected = [("archive", "1+1".to_owned(), 2), ("b", "1+0".to_owned(), 1)];
    assert_eq!(shown, expected);
    assert_eq!(pools[0].layout.unit, 8192);
    let archive = dewar_disks::pool::number_of("archive");
    assert_eq!(config.pool_number("archive"), Some(archive));
    assert_eq!(config.pool_number("main"), Some(0));
    assert_eq!(config.pool_name(archive).as_deref(), Some("archive"));
    let classes: Vec<_> = config.classes().into_iter().collect();
    let expected = [("COLD", Some(archive)), ("HERE", None), ("LABEL", None)];
    assert_eq!(
        classes,
        expected.map(|(name, pool)| (name.to_owned(), pool))
    );
    let folders = config.folders();
    assert_eq!(folders[0], ("/m/1".into(), 0));
    assert_eq!(folders[1], ("/a/1".into(), archive));
    let mut other = config.clone();
    other.drop_folder(Path::new("/a/1"));
    other.add_folder("/a/3".into(), archive);
    other.add_folder("/m/2".into(), 0);
    assert_eq!(
        other.pools.disks,
        ["archive=/a/2", "b=/b/1", "archive=/a/3"]
    );
    assert_eq!(other.pool.disks.len(), 2);
}

#[test]
fn pools_that_make_no_sense_are_refused() {
    for wrong in [
        "[pools]\ndisks = [\"/a/1\"]",
        "[pools]\ndisks = [\"archive=a/1\"]",
        "[pools]\ndisks = [\"Archive=/a/1\"]",
        "[pools]\nlayouts = [\"archive=4\"]",
        "[lifecycle]\nstorage_classes = [\"cold=archive\"]",
        "[lifecycle]\nstorage_classes = [\"COLD=\"]",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    let wrong = |text: &str, key: &str, words: &str| {
        let config = parse(&format!("[pool]\ndisks = [\"/m/1\"]\n{text}")).expect("parses");
        let found = findings(&config).into_iter().any(|finding| {
            finding.severity == Severity::Error
                && finding.key == key
                && finding.message.contains(words)
        });
        assert!(found, "{text}: {:?}", findings(&config));
    };
    wrong(
        "[pools]\ndisks = [\"main=/a/1\"]",
        "pools.disks",
        "main pool",
    );
    wrong(
        "[pools]\nlayouts = [\"a=2+1\"]\ndisks = [\"a=/a/1\"]",
        "pools.disks",
        "needs 3 disks",
    );
    wrong(
        "[pools]\ndisks = [\"a=/m/1/x\"]",
        "pool.disks",
        "inside the other",
    );
    wrong(
        "[lifecycle]\nstorage_classes = [\"COLD=nowhere\"]",
        "lifecycle.storage_classes",
        "no pool nowhere",
    );
}
