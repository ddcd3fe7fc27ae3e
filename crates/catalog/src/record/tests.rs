//! Samples of every record, and what evolution must keep.

use std::collections::BTreeMap;

use dewar_checksum::{Algorithm, Composite, Digest, DigestSet};
use dewar_types::{
    BlobId, EntryId, ErrorKind, GroupId, PoolId, TenantId, Timestamp, UploadId, UserId, VersionId,
};
use minicbor::{Decode, Encode};

use super::*;

/// Compares a record with its sample of format 1, which must decode for ever.
macro_rules! golden {
    ($($test:ident: $file:literal $make:expr;)*) => {
        $(#[test]
        fn $test() {
            let stored: &[u8] = include_bytes!(concat!("../../testdata/records-v1/", $file));
            let made = $make;
            fn read<R: Record>(_: &R, stored: &[u8]) -> R {
                R::from_value(b"sample", stored).expect("a sample of a released format decodes")
            }
            assert_eq!(read(&made, stored), made);
            assert_eq!(&made.to_value()[..], stored, "the writer still writes format 1");
        })*

        /// Writes the samples; run by hand when a record gets its first one.
        #[test]
        #[ignore = "writes into the source tree"]
        fn write_samples() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/records-v1/");
            $(std::fs::write(format!("{folder}{}", $file), $make.to_value()).unwrap();)*
        }
    };
}

golden! {
    sample_file: "file.bin" file();
    sample_file_plain: "file-plain.bin" plain_file();
    sample_bucket: "bucket.bin" bucket();
    sample_directory: "directory.bin" directory();
    sample_symlink: "symlink.bin" symlink();
    sample_version: "version.bin" version();
    sample_long_list: "long-list.bin" long_list();
    sample_hint: "hint.bin" hint();
    sample_upload: "upload.bin" upload();
    sample_part: "part.bin" part();
    sample_tenant: "tenant.bin" tenant();
    sample_change: "change.bin" change();
    sample_kept_version: "version-kept.bin" kept_version();
    sample_file_with_history: "file-history.bin" file_with_history();
    sample_kept_upload: "upload-kept.bin" kept_upload();
    sample_document: "document.bin" document();
    sample_documented: "bucket-documented.bin" documented();
    sample_quota: "quota.bin" quota();
    sample_charged_upload: "upload-charged.bin" charged_upload();
    sample_lock: "lock.bin" lock();
    sample_removal: "removal.bin" removal();
    sample_archived_version: "version-archived.bin" archived_version();
    sample_space: "space.bin" space();
}

/// With what its writer said of it.
fn archived_version() -> VersionRecord {
    VersionRecord {
        client_modified: Some(Timestamp(1_000_000_000_000_000_000)),
        archive_metadata: Some("eyJmaWxlIjoxfQ==".into()),
        ..version()
    }
}

fn removal() -> RemovalRecord {
    RemovalRecord {
        tenant: TenantId(1),
        bucket: EntryId::new(3, 78),
        bucket_name: "data".into(),
        spaces: vec![EntryId(9), EntryId::new(3, 79)],
        path: "/data/run/raw ⊗".into(),
        since: Timestamp(1_800_000_000_123_456_789),
    }
}

fn space() -> SpaceRecord {
    SpaceRecord {
        name: "ATLASDATADISK".into(),
        tenant: TenantId(1),
        bucket: "atlas".into(),
        path: "rucio/datadisk ⊗".into(),
        group: Some(GroupId(11)),
        vos: vec!["atlas".into(), "atlas/Role=production".into()],
    }
}

fn lock() -> LockRecord {
    LockRecord {
        bucket: EntryId::new(3, 78),
        path: "run/raw ⊗".into(),
        shared: true,
        deep: true,
        holder: "0000000000000005".into(),
        principal: "ann".into(),
        owner: "<href>mailto:ann@example.org</href>".into(),
        expires: Timestamp(1_800_000_000_123_456_789),
    }
}

/// With the spaces that count it; `upload.bin` is as 708fabe wrote it.
fn charged_upload() -> UploadRecord {
    UploadRecord {
        spaces: vec![EntryId(9), EntryId::new(3, 78)],
        ..upload()
    }
}

fn quota() -> QuotaRecord {
    QuotaRecord {
        max_bytes: Some(1 << 50),
        max_objects: Some(20),
        soft_bytes: Some(1 << 49),
        soft_objects: None,
        place: Some((EntryId(9), "run/raw".into())),
    }
}

fn digests() -> DigestSet {
    DigestSet::new(0x1234_5678, 0x9abc_def0)
        .with_md5([7; 16])
        .with_crc64nvme(0x0102_0304_0506_0708)
}

fn attributes() -> EntryAttributes {
    EntryAttributes {
        id: EntryId::new(3, 77),
        owner: UserId(5),
        group: Some(GroupId(6)),
        mode: 0o640,
        mtime: Timestamp(1_800_000_000_123_456_789),
        ctime: Timestamp(1_800_000_001_000_000_000),
        xattrs: BTreeMap::from([("user.run".into(), b"42\0".to_vec().into())]),
    }
}

fn small_slot() -> Extent {
    Extent::small(
        BlobId::new(3, 9),
        Slot {
            offset: 4096,
            header: 96,
            len: 1096,
        },
    )
}

fn version() -> VersionRecord {
    VersionRecord {
        encryption: None,
        id: VersionId::new(1_800_000_000_123_456_789, 3, 1025),
        size: 70_001_000,
        etag: ETag::PartSizes([9; 16], 3),
        modified: Timestamp(1_800_000_000_123_456_789),
        digests: digests(),
        flags: VersionFlags::default(),
        headers: SystemHeaders {
            content_type: Some("application/x-root".into()),
            cache_control: Some("no-cache".into()),
            content_disposition: Some("attachment".into()),
            content_encoding: Some("gzip".into()),
            content_language: Some("de".into()),
            expires: Some("Thu, 01 Dec 2033 16:00:00 GMT".into()),
            redirect: Some("/elsewhere".into()),
        },
        metadata: BTreeMap::from([
            ("detector".into(), "EIC ⊗ ePIC".into()),
            ("run".into(), "17".into()),
        ]),
        copies: vec![
            ContentCopy {
                extents: vec![
                    Extent::large(BlobId::new(3, 8), 1 << 33, 70_000_000),
                    small_slot(),
                ],
                ..ContentCopy::default()
            },
            ContentCopy {
                pool: PoolId(2),
                state: CopyState::Nearline,
                extents: Vec::new(),
                chunks: 2,
            },
        ],
        parts: Some(PartSizes {
            count: 3,
            runs: vec![
                PartRun {
                    count: 2,
                    size: 35_000_000,
                },
                PartRun {
                    count: 1,
                    size: 1_000,
                },
            ],
            chunks: 0,
            digests: Vec::new(),
            digest_chunks: 0,
        }),
        upload: Some(UploadId(1 << 100)),
        storage_class: Some("STANDARD_IA".into()),
        checksum: Some(DisplayedChecksum::from(&Composite {
            digest: Digest::new(Algorithm::Sha256, &[3; 32]).unwrap(),
            parts: 3,
        })),
        tags: BTreeMap::new(),
        retention: None,
        legal_hold: None,
        acl: None,
        owner: None,
        group: None,
        client_modified: None,
        archive_metadata: None,
    }
}

/// An older version with all that may stand on one.
fn kept_version() -> VersionRecord {
    VersionRecord {
        flags: VersionFlags::default().with_name(true),
        tags: BTreeMap::from([("run".into(), "17".into()), ("é".into(), String::new())]),
        retention: Some(Retention {
            mode: RetentionMode::Compliance,
            until: Timestamp(1_900_000_000_000_000_000),
        }),
        legal_hold: Some(false),
        acl: Some(vec![1, 2, 3].into()),
        owner: Some(UserId(5)),
        group: Some(GroupId(6)),
        parts: version().parts.map(|parts| PartSizes {
            digests: vec![vec![3; 32].into(), vec![4; 32].into()],
            digest_chunks: 2,
            ..parts
        }),
        ..version()
    }
}

/// A file with older versions.
fn file_with_history() -> FileRecord {
    FileRecord {
        older: 3,
        older_null: Some(VersionId(4)),
        ..file()
    }
}

fn file() -> FileRecord {
    FileRecord {
        attributes: attributes(),
        current: version(),
        older: 0,
        older_null: None,
    }
}

/// What most files are: one slot, a content type, no more.
fn plain_file() -> FileRecord {
    FileRecord {
        attributes: EntryAttributes {
            group: None,
            xattrs: BTreeMap::new(),
            ..attributes()
        },
        current: VersionRecord {
            size: 1000,
            etag: ETag::Md5([7; 16]),
            headers: SystemHeaders {
                content_type: Some("binary/octet-stream".into()),
                ..SystemHeaders::default()
            },
            metadata: BTreeMap::new(),
            copies: vec![ContentCopy {
                extents: vec![small_slot()],
                ..ContentCopy::default()
            }],
            parts: None,
            upload: None,
            storage_class: None,
            checksum: Some(DisplayedChecksum::full(Algorithm::Crc64Nvme)),
            ..version()
        },
        older: 0,
        older_null: None,
    }
}

fn directory() -> DirRecord {
    DirRecord {
        attributes: attributes(),
        implicit: true,
        bucket: None,
        space: None,
    }
}

fn bucket() -> DirRecord {
    DirRecord {
        attributes: attributes(),
        implicit: false,
        bucket: Some(BucketSettings {
            created: Timestamp(1_800_000_000_000_000_000),
            versioning: Versioning::Suspended,
            md5: true,
            object_lock: None,
            documents: 0,
            revision: 0,
        }),
        space: Some(SpaceMark {
            counted: true,
            max_bytes: Some(1 << 50),
            ..SpaceMark::default()
        }),
    }
}

/// A bucket with documents.
fn documented() -> DirRecord {
    let mut record = bucket();
    if let Some(settings) = &mut record.bucket {
        settings.documents = DocumentKind::Policy.mask() | DocumentKind::Tags.mask();
        settings.revision = 3;
        settings.object_lock = Some(ObjectLock {
            default: Some(DefaultRetention {
                mode: RetentionMode::Governance,
                count: 2,
                years: true,
            }),
        });
    }
    record
}

fn document() -> DocumentRecord {
    DocumentRecord {
        stamp: VersionId(9),
        modified: Timestamp(1_800_000_000_000_000_000),
        content: b"{}".to_vec().into(),
    }
}

fn symlink() -> SymlinkRecord {
    SymlinkRecord {
        attributes: attributes(),
        target: "../other/é".into(),
    }
}

fn long_list() -> LongRecord {
    LongRecord {
        extents: vec![small_slot(); 2],
        runs: vec![PartRun { count: 2, size: 5 }],
        digests: Vec::new(),
    }
}

fn hint() -> HintRecord {
    HintRecord {
        stamp: VersionId(5),
        steps: vec![
            HintStep {
                parent: EntryId(9),
                name: String::new(),
            },
            HintStep {
                parent: EntryId(10),
                name: "b".into(),
            },
        ],
    }
}

fn upload() -> UploadRecord {
    UploadRecord {
        spaces: Vec::new(),
        encryption: None,
        id: UploadId(77),
        owner: UserId(5),
        group: None,
        mode: 0o644,
        initiated: Timestamp(1_800_000_000_000_000_000),
        principal: "alice".into(),
        headers: version().headers,
        metadata: version().metadata,
        checksum: Some(UploadChecksum {
            algorithm: Algorithm::Crc32.name().into(),
            full_object: true,
        }),
        storage_class: None,
        pool: Some(PoolId(1)),
        tags: BTreeMap::new(),
        retention: None,
        legal_hold: None,
        acl: None,
    }
}

/// An upload whose object will be tagged and kept.
fn kept_upload() -> UploadRecord {
    UploadRecord {
        tags: kept_version().tags,
        retention: kept_version().retention,
        legal_hold: Some(true),
        acl: Some(vec![9].into()),
        ..upload()
    }
}

fn part() -> PartRecord {
    PartRecord {
        id: VersionId(78),
        size: 1000,
        etag: ETag::Md5([1; 16]),
        modified: Timestamp(1_800_000_000_000_000_000),
        digests: digests(),
        copies: plain_file().current.copies,
        checksum: Some(DisplayedChecksum::full(Algorithm::Crc32)),
    }
}

fn tenant() -> TenantRecord {
    TenantRecord {
        id: TenantId(1),
        created: Timestamp(1_800_000_000_000_000_000),
    }
}

fn change() -> ChangeRecord {
    ChangeRecord {
        stamp: VersionId::new(1_800_000_000_000_000_000, 3, 99),
        verb: ChangeKind::Rename,
        bucket: EntryId(1024),
        parent: EntryId(1025),
        entry: EntryId(1026),
        path: "/@cms/data/a//b".into(),
        source: Some("/@cms/data/c".into()),
        principal: "alice".into(),
        version: Some((&version()).into()),
        replaced: Some(VersionId(4)),
        documents: Vec::new(),
    }
}

#[test]
fn a_plain_file_is_small() {
    let bytes = plain_file().to_value().len();
    assert!(
        bytes < 240,
        "{bytes} bytes for each small object in the catalog"
    );
}

#[test]
fn etags_read_as_clients_know_them() {
    let id = VersionId(0xabc);
    assert_eq!(ETag::Md5([0x0f; 16]).text(id), "0f".repeat(16));
    assert_eq!(
        ETag::PartSizes([0; 16], 12).text(id),
        format!("{}-12", "0".repeat(32))
    );
    assert_eq!(ETag::Version.text(id), format!("{id}-0"));
}

#[test]
fn checksums_come_back() {
    let full = DisplayedChecksum::full(Algorithm::Crc64Nvme);
    assert_eq!(
        full.value(&digests()).unwrap().0.as_bytes(),
        [1, 2, 3, 4, 5, 6, 7, 8]
    );
    assert_eq!(
        DisplayedChecksum::full(Algorithm::Sha1).value(&digests()),
        None
    );
    let composite = version().checksum.unwrap();
    assert_eq!(composite.value(&digests()).unwrap().1, Some(3));
    assert_eq!(
        DisplayedChecksum::Full("xxhash3".into()).value(&digests()),
        None
    );
}

#[test]
fn fields_of_later_releases_are_skipped() {
    /// A tenant as a later release may write it.
    #[derive(Encode, Decode)]
    #[cbor(map)]
    struct Later {
        #[n(0)]
        id: TenantId,
        #[n(1)]
        created: Timestamp,
        #[n(2)]
        motto: Option<String>,
        #[n(40)]
        more: Vec<Option<u64>>,
    }
    let mut value = vec![TenantRecord::TAG, 1];
    let later = Later {
        id: TenantId(1),
        created: tenant().created,
        motto: Some("per aspera".into()),
        more: vec![None, Some(4)],
    };
    minicbor::encode(&later, &mut value).unwrap();
    assert_eq!(TenantRecord::from_value(b"k", &value).unwrap(), tenant());
}

#[test]
fn what_is_not_the_record_is_refused() {
    let good = tenant().to_value();
    let refuse = |value: &[u8]| TenantRecord::from_value(b"k", value).unwrap_err().kind();
    let mut newer = good.to_vec();
    newer[1] = TenantRecord::FORMAT + 1;
    assert_eq!(refuse(&newer), ErrorKind::Unsupported);
    assert_eq!(refuse(&file().to_value()), ErrorKind::Corrupt);
    assert_eq!(refuse(&good[..good.len() - 1]), ErrorKind::Corrupt);
    assert_eq!(refuse(&[&good[..], &[0]].concat()), ErrorKind::Corrupt);
    assert_eq!(refuse(b""), ErrorKind::Corrupt);
}

proptest::proptest! {
    #[test]
    fn decoding_never_panics(at in 0usize..400, with: u8, cut in 0usize..400) {
        let mut value = file().to_value().to_vec();
        let len = value.len();
        value[at % len] = with;
        value.truncate(len.min(cut + 1));
        let _ = Entry::from_value(b"k", &value);
        let _ = ChangeRecord::from_value(b"k", &value);
    }
}
