//! The index that is checked in opens for ever (`docs/formats/catalog-runs.md`).

use std::path::PathBuf;

use dewar_env::{Env, RealDisk, RealDiskConfig};

use super::*;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/runs-v1")
}

/// What was put into the sample: three batches of which the last ones change the first.
fn batches() -> Vec<Vec<Entry>> {
    let name = |n: u32| Bytes::from(format!("e/{}/file-{n:04}", n / 100));
    let value = |n: u32| Bytes::from(vec![n as u8; (n % 50) as usize]);
    let all = (0..400).map(|n| (name(n), Some(value(n))));
    let thirds = (0..400).step_by(3).map(|n| (name(n), None));
    let mut some: Vec<Entry> = (0..400)
        .step_by(5)
        .map(|n| (name(n), Some(value(n + 1))))
        .collect();
    some.push((Bytes::from_static(b"f"), Some(vec![9; 20_000].into())));
    vec![all.collect(), thirds.collect(), some]
}

async fn disk(path: &std::path::Path) -> Disks {
    let disk = RealDisk::open(path, RealDiskConfig::default()).await;
    vec![(DiskId(1), Arc::new(disk.unwrap()))]
}

#[tokio::test]
async fn version_1_opens() {
    let copy = tempfile::tempdir().unwrap();
    std::fs::create_dir(copy.path().join("index")).unwrap();
    for file in std::fs::read_dir(folder().join("index")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(
            file.path(),
            copy.path().join("index").join(file.file_name()),
        )
        .unwrap();
    }
    let disks = disk(copy.path()).await;
    let config = RunConfig::new(1, LINEAGE);
    let index = RunIndex::open(Env::real(), disks, config).await.unwrap();
    let mut model = Model::new();
    for entries in batches() {
        put(&mut model, &entries);
    }
    check(&*index.view(), &model).await;
    assert_eq!(index.verify().await.unwrap(), 0);
    let status = index.status().await;
    assert_eq!((status.applied, status.number, status.runs), (3, 4, 3));
    assert_eq!((status.entries, status.deletions), (615, 134));
}

/// Writes the sample anew; only for a new version of the format, in a new folder.
#[tokio::test]
#[ignore = "makes the sample"]
async fn write_sample() {
    std::fs::create_dir_all(folder()).unwrap();
    let disks = disk(&folder()).await;
    let config = RunConfig::new(1, LINEAGE);
    let index = RunIndex::create(Env::real(), disks, config, 0)
        .await
        .unwrap();
    for (entries, upto) in batches().into_iter().zip(1..) {
        index.apply(entries, upto).await.unwrap();
    }
    index.stop().await;
}
