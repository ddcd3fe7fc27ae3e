//! Findings and actions of a salvage.

use dewar_disks::RebuildSource;
use dewar_types::{BlobId, UploadId, VersionId};

/// One thing that was found or done; for a report of any length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// An object is back under its path at writing.
    Put {
        /// Its path.
        path: String,
        /// Its version; the clock says when it was written.
        version: VersionId,
        /// Its bytes.
        size: u64,
    },
    /// Content with a newer content for the same path. It is kept under another key.
    Kept {
        /// Its path at writing.
        path: String,
        /// Its version.
        version: VersionId,
        /// Its bytes.
        size: u64,
        /// The present place.
        now: String,
    },
    /// A part of an upload.
    Part {
        /// The upload's path.
        path: String,
        /// The upload.
        upload: UploadId,
        /// The part's number.
        number: u16,
        /// Its bytes.
        size: u64,
    },
    /// An object was joined from the parts of an upload. It is not known whether the upload had
    /// been completed, and with which of the parts.
    Joined {
        /// Its path.
        path: String,
        /// The upload.
        upload: UploadId,
        /// Its parts.
        parts: u32,
        /// Its bytes.
        size: u64,
    },
    /// An upload stays open: parts are missing, or a newer content has its path.
    Open {
        /// Its path.
        path: String,
        /// The upload.
        upload: UploadId,
        /// Why it was not joined.
        why: String,
    },
    /// Bytes that the catalog already names elsewhere, or a piece of an object that was joined
    /// before. Nothing needs to be done.
    Known {
        /// The path at writing.
        path: String,
        /// The version.
        version: VersionId,
    },
    /// A blob of which too few shards are there.
    Lacking {
        /// The blob.
        blob: BlobId,
        /// The path of the object, from a remaining shard; `None` for a segment, which has many
        /// objects, and if no shard has a path.
        path: Option<String>,
        /// The missing part.
        why: String,
    },
    /// Bytes without an owner in any description, or bytes that cannot be restored anywhere.
    Nameless {
        /// The blob or segment.
        blob: BlobId,
        /// The problem.
        why: String,
    },
    /// A stretch of a segment that cannot be read.
    Unreadable {
        /// The segment.
        blob: BlobId,
        /// The start of the range.
        offset: u64,
        /// Its bytes.
        len: u64,
    },
    /// The catalog had an outdated place of a blob. The place was corrected.
    Mended {
        /// The blob.
        blob: BlobId,
    },
    /// The catalog names a blob whose shards are not on the present disks.
    Gone {
        /// The blob or segment.
        blob: BlobId,
        /// Shards that were not found.
        shards: usize,
        /// Whether it can be read nevertheless.
        readable: bool,
    },
    /// A disk that could not be inspected.
    Unread {
        /// The error.
        why: String,
    },
    /// A user was created of whom only the number is known, so that its objects have an owner.
    User {
        /// The name that it has now.
        name: String,
    },
    /// A bucket was created. Its former owner is not known. It gets the owner of its first object.
    Bucket {
        /// Its path.
        path: String,
    },
}

/// Receives the findings of a salvage.
pub trait FindingReporter: Send + Sync {
    /// Reports a finding among the blobs. A change is reported just before it is made. After an
    /// interruption in between, the repetition makes the change again and reports it again.
    fn found(&mut self, finding: &Finding);

    /// Reports that a blob is inspected that the catalog does not name and may lack. Findings of an
    /// interrupted attempt about its content are reported again now if they still hold.
    fn looks_at(&mut self, _: BlobId) {}
}

impl<F: FnMut(&Finding) + Send + Sync> FindingReporter for F {
    fn found(&mut self, finding: &Finding) {
        self(finding);
    }
}

/// The counts of the findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SalvageTotals {
    /// Blobs that were inspected.
    pub blobs: u64,
    /// Of these, blobs that the catalog named already.
    pub known: u64,
    /// Of these, leftovers: blobs without a name that are not newer than the catalog.
    pub leftover: u64,
    /// Objects put back under their path, joined ones included.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Contents kept under another path.
    pub kept: u64,
    /// Bytes of these.
    pub kept_bytes: u64,
    /// Parts of uploads.
    pub parts: u64,
    /// Objects joined from parts.
    pub joined: u64,
    /// Uploads that stay open.
    pub open: u64,
    /// Blobs of which too few shards are there.
    pub lacking: u64,
    /// Contents without a known owner.
    pub nameless: u64,
    /// Stretches of segments that cannot be read.
    pub unreadable: u64,
    /// Blobs whose place in the catalog was put right.
    pub mended: u64,
    /// Blobs that the catalog names and that cannot be read.
    pub gone: u64,
    /// Blobs that the catalog names and that lack shards, but can be read.
    pub degraded: u64,
    /// Disks that could not be inspected.
    pub unread: u64,
    /// Users of whom only the number is known.
    pub users: u64,
    /// Buckets that were made.
    pub buckets: u64,
}

impl SalvageTotals {
    fn count(&mut self, finding: &Finding) {
        match finding {
            Finding::Put { size, .. } => {
                self.objects += 1;
                self.bytes += size;
            }
            Finding::Kept { size, .. } => {
                self.kept += 1;
                self.kept_bytes += size;
            }
            Finding::Part { .. } => self.parts += 1,
            Finding::Joined { size, .. } => {
                self.joined += 1;
                self.objects += 1;
                self.bytes += size;
            }
            Finding::Open { .. } => self.open += 1,
            Finding::Known { .. } => {}
            Finding::Lacking { .. } => self.lacking += 1,
            Finding::Nameless { .. } => self.nameless += 1,
            Finding::Unreadable { .. } => self.unreadable += 1,
            Finding::Mended { .. } => self.mended += 1,
            Finding::Gone { readable, .. } if *readable => self.degraded += 1,
            Finding::Gone { .. } => self.gone += 1,
            Finding::Unread { .. } => self.unread += 1,
            Finding::User { .. } => self.users += 1,
            Finding::Bucket { .. } => self.buckets += 1,
        }
    }
}

/// Reports and counts findings.
pub(super) struct SalvageReporter<'r> {
    report: &'r mut dyn FindingReporter,
    /// Whether all there is was salvaged.
    all: bool,
    pub(super) totals: SalvageTotals,
}

impl<'r> SalvageReporter<'r> {
    pub(super) fn new(report: &'r mut dyn FindingReporter, from: Option<RebuildSource>) -> Self {
        Self {
            report,
            all: from == Some(RebuildSource::Blobs),
            totals: SalvageTotals::default(),
        }
    }

    pub(super) fn tell(&mut self, findings: &[Finding]) {
        // What makes way for a newer one had been put back before, when all there is was salvaged.
        if let (true, [Finding::Kept { size, .. }, Finding::Put { .. }]) = (self.all, findings) {
            self.totals.objects = self.totals.objects.saturating_sub(1);
            self.totals.bytes = self.totals.bytes.saturating_sub(*size);
        }
        for finding in findings {
            self.totals.count(finding);
            self.report.found(finding);
        }
    }

    pub(super) fn looks_at(&mut self, blob: BlobId) {
        self.report.looks_at(blob);
    }
}
