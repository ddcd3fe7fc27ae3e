//! Joining the parts of an upload: the ETag and the checksum of the whole, compared with those of
//! the client.

use dewar_catalog::record::{DisplayedChecksum, ETag, PartRecord, UploadRecord, VersionRecord};
use dewar_checksum::{Algorithm, Composite, Digest, DigestSet, multipart_etag};
use dewar_namespace::CompletedObject;
use dewar_types::{Error, ErrorKind, Result};

use crate::api::{CompletePart, CompleteRequest, ObjectChecksum};

/// The checksum an upload was begun with, and whether it is composite.
pub(crate) fn announced(upload: &UploadRecord) -> Option<(Algorithm, bool)> {
    let checksum = upload.checksum.as_ref()?;
    Some((checksum.algorithm.parse().ok()?, !checksum.full_object))
}

/// Joins the parts of an upload, and compares the result with the client's.
pub(crate) fn join(
    open: &UploadRecord,
    parts: &[(u16, &PartRecord)],
    request: &CompleteRequest,
) -> Result<CompletedObject> {
    for (number, part) in parts {
        check_part(*number, part, &request.parts)?;
    }
    check_size(parts.iter().map(|(_, part)| part.size).sum(), request.size)?;
    let joined = join_parts(open, parts)?;
    let (shown, digests) = (joined.checksum.as_ref(), &joined.digests);
    check_whole(shown, digests, request.checksum.as_ref())?;
    Ok(joined)
}

/// Computes the ETag and the checksum of an object from those of its parts.
///
/// # Errors
/// [`ErrorKind::Internal`] for a part with an impossible ETag or checksum.
pub fn join_parts(open: &UploadRecord, parts: &[(u16, &PartRecord)]) -> Result<CompletedObject> {
    let etags: Vec<String> = parts.iter().map(|(_, part)| part.etag()).collect();
    let etag = joined_etag(etags.iter().map(String::as_str));
    let etag = etag.ok_or_else(|| Error::new(ErrorKind::Internal, "the ETag of a part"))?;
    let digests = DigestSet::concat(parts.iter().map(|(_, part)| (&part.digests, part.size)));
    let shown = shown(open, parts, &digests)?;
    let part_digests = match (&shown, announced(open)) {
        (Some(_), Some((algorithm, _))) => parts
            .iter()
            .filter_map(|(_, part)| part.digests.get(algorithm))
            .map(|digest| digest.as_bytes().to_vec().into())
            .collect(),
        _ => Vec::new(),
    };
    Ok(CompletedObject {
        etag,
        digests,
        checksum: shown,
        encryption: None,
        part_digests,
        version: None,
    })
}

/// The ETag of the whole, from the ETags of its parts, which are MD5s, under a key or not. `None`
/// if one is no MD5.
fn joined_etag<'a>(parts: impl Iterator<Item = &'a str>) -> Option<ETag> {
    let bytes = |etag: &str| {
        let hex = (etag.len() == 32).then(|| u128::from_str_radix(etag, 16).ok());
        hex.flatten().map(u128::to_be_bytes)
    };
    let of_parts: Vec<[u8; 16]> = parts.map(bytes).collect::<Option<_>>()?;
    let text = multipart_etag(&of_parts);
    let whole = text.split('-').next().and_then(bytes);
    Some(match (whole, u16::try_from(of_parts.len())) {
        (Some(whole), Ok(count)) => ETag::PartSizes(whole, count),
        _ => ETag::Text(text),
    })
}

fn check_size(size: u64, expected: Option<u64>) -> Result<()> {
    match expected.filter(|expected| *expected != size) {
        None => Ok(()),
        Some(expected) => {
            let message = format!("the parts have {size} bytes, the client says {expected}");
            Err(Error::new(ErrorKind::InvalidArgument, message))
        }
    }
}

/// Holds the checksum of the whole against the client's.
fn check_whole(
    shown: Option<&DisplayedChecksum>,
    digests: &DigestSet,
    expected: Option<&ObjectChecksum>,
) -> Result<()> {
    let Some(expected) = expected else {
        return Ok(());
    };
    let actual = shown.and_then(|shown| shown.value(digests));
    let same = match (actual, expected) {
        // minio-go, and what is built on it, leaves the number of parts away; S3 takes that.
        (Some((actual, _)), ObjectChecksum::Full(expected)) => actual == *expected,
        (Some((actual, parts)), ObjectChecksum::Composite(expected)) => {
            actual == expected.digest && parts == Some(expected.parts)
        }
        (None, _) => false,
    };
    if same {
        return Ok(());
    }
    let message = "the checksum of the whole is another";
    Err(Error::new(ErrorKind::ChecksumMismatch, message))
}

/// Whether a version is the result of this completion. A repeated completion gets the answer of the
/// first one, so it must have the same parameters. The part numbers are not kept and so not
/// compared.
pub(crate) fn check_made(version: &VersionRecord, request: &CompleteRequest) -> Result<()> {
    let etags = request.parts.iter().map(|part| part.etag.as_str());
    if joined_etag(etags).is_none_or(|etag| etag != version.etag) {
        let message = "the upload was completed with other parts";
        return Err(Error::new(ErrorKind::InvalidPart, message));
    }
    check_size(version.size, request.size)?;
    let (shown, digests) = (version.checksum.as_ref(), &version.digests);
    check_whole(shown, digests, request.checksum.as_ref())
}

/// Holds a part's checksum against the one in the client's list.
fn check_part(number: u16, part: &PartRecord, listed: &[CompletePart]) -> Result<()> {
    let expected: Option<&Digest> = listed
        .iter()
        .find(|listed| listed.number == u32::from(number))
        .and_then(|listed| listed.checksum.as_ref());
    match expected.map(|digest| part.digests.verify(digest)) {
        None | Some(Some(true)) => Ok(()),
        Some(_) => Err(Error::new(
            ErrorKind::InvalidPart,
            format!("part {number} has another checksum"),
        )),
    }
}

/// The checksum that the object will show: the announced one, or CRC-64/NVME if the parts have it.
fn shown(
    open: &UploadRecord,
    parts: &[(u16, &PartRecord)],
    digests: &DigestSet,
) -> Result<Option<DisplayedChecksum>> {
    let Some((algorithm, composite)) = announced(open) else {
        let crc = Algorithm::Crc64Nvme;
        return Ok(digests
            .get(crc)
            .and_then(|_| crate::info::full_checksum(Some(crc))));
    };
    if !composite {
        return Ok(digests
            .get(algorithm)
            .and_then(|_| crate::info::full_checksum(Some(algorithm))));
    }
    let of_parts: Option<Vec<Digest>> = parts
        .iter()
        .map(|(_, part)| part.digests.get(algorithm))
        .collect();
    let Some(of_parts) = of_parts else {
        return Ok(None);
    };
    let composite = Composite::of(&of_parts).map_err(|error| {
        Error::with_source(
            ErrorKind::Internal,
            "the checksum of the parts' checksums",
            error,
        )
    })?;
    Ok(Some(DisplayedChecksum::from(&composite)))
}
