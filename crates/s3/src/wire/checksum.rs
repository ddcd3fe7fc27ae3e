//! `x-amz-checksum-*` and Content-MD5: the digests that a client declares, and the digests in
//! answers.

use dewar_checksum::{Algorithm, AlgorithmSet, Composite, Digest, Pipeline};
use dewar_http_front::{header, value_of};
use dewar_store::api::{ExpectedContent, ObjectChecksum};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::error::{Code, Refusal, Result};
use crate::payload::Trailers;

const PREFIX: &str = "x-amz-checksum-";
const TYPE: HeaderName = HeaderName::from_static("x-amz-checksum-type");

/// The digests that a client declares for its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeclaredDigests {
    /// The checksum it chose.
    pub(crate) algorithm: Option<Algorithm>,
    /// The checksum's value, unless it comes in a trailer.
    digest: Option<Digest>,
    md5: Option<Digest>,
}

fn invalid(message: String) -> Refusal {
    Refusal::new(Code::InvalidRequest, message)
}

/// A value that is no digest at all: none that a body could have.
fn bad_value(name: &str) -> Refusal {
    Refusal::new(Code::BadDigest, format!("Value for {name} is invalid."))
}

/// The algorithm of a name such as `CRC32C`.
///
/// # Errors
/// `InvalidRequest` for one that Dewar does not know.
pub(crate) fn algorithm_named(name: &str) -> Result<Algorithm> {
    Algorithm::from_s3_name(name).ok_or_else(|| {
        let names: Vec<&str> = Algorithm::ALL.iter().filter_map(|a| a.s3_name()).collect();
        invalid(format!(
            "Checksum algorithm {name:?} is not supported; {} are.",
            names.join(", ")
        ))
    })
}

impl DeclaredDigests {
    /// Reads the headers.
    ///
    /// # Errors
    /// `InvalidRequest` for several checksums or unknown ones, `BadDigest` for broken values;
    /// `InvalidDigest` for a broken Content-MD5.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self> {
        let mut declared = Self::read_md5(headers)?;
        for name in headers.keys() {
            let name = name.as_str();
            let other = matches!(
                name,
                "x-amz-checksum-algorithm" | "x-amz-checksum-type" | "x-amz-checksum-mode"
            );
            if !name.starts_with(PREFIX) || other {
                continue;
            }
            let algorithm = Algorithm::from_s3_header(name)
                .ok_or_else(|| invalid(format!("The checksum {name} is not supported.")))?;
            let value = header(headers, name)?.unwrap_or_default();
            let digest = Digest::from_base64(algorithm, value).map_err(|_| bad_value(name))?;
            declared.choose(algorithm, Some(digest))?;
        }
        let trailers = header(headers, "x-amz-trailer")?.unwrap_or_default();
        for name in trailers.split(',').map(str::trim).filter(|n| !n.is_empty()) {
            let algorithm = Algorithm::from_s3_header(name).ok_or_else(|| {
                invalid("The value specified in the x-amz-trailer header is not supported".into())
            })?;
            declared.choose(algorithm, None)?;
        }
        if let Some(name) = header(headers, "x-amz-sdk-checksum-algorithm")? {
            let named = algorithm_named(name)?;
            if declared.algorithm.is_some_and(|chosen| chosen != named) {
                let message = "Value for x-amz-sdk-checksum-algorithm header is invalid.";
                return Err(invalid(message.into()));
            }
        }
        Ok(declared)
    }

    /// Reads Content-MD5 alone.
    ///
    /// # Errors
    /// `InvalidDigest`.
    pub(crate) fn read_md5(headers: &HeaderMap) -> Result<Self> {
        let text = header(headers, "content-md5")?;
        let md5 = text.map(|text| {
            Digest::from_base64(Algorithm::Md5, text.trim()).map_err(|_| {
                let message = "The Content-MD5 you specified is not valid.";
                Refusal::new(Code::InvalidDigest, message)
            })
        });
        Ok(Self {
            md5: md5.transpose()?,
            ..Self::default()
        })
    }

    fn choose(&mut self, algorithm: Algorithm, digest: Option<Digest>) -> Result<()> {
        if self.algorithm.is_some() {
            let message = "Expecting a single x-amz-checksum- header. Multiple checksum Types \
                           are not allowed.";
            return Err(invalid(message.into()));
        }
        self.algorithm = Some(algorithm);
        self.digest = digest;
        Ok(())
    }

    /// The digests to compute, for verification and for the ETag.
    pub(crate) fn want(&self) -> AlgorithmSet {
        let set = AlgorithmSet::EMPTY.with(Algorithm::Md5);
        self.algorithm.map_or(set, |algorithm| set.with(algorithm))
    }

    /// Whether anything vouches for the body.
    pub(crate) fn is_any(&self) -> bool {
        self.algorithm.is_some() || self.md5.is_some()
    }

    /// The expected length and digests of the body, after its end.
    ///
    /// # Errors
    /// `MalformedTrailerError` when an announced trailer is missing, `BadDigest` when its value is
    /// malformed.
    pub(crate) fn expect(&self, size: u64, trailers: Option<&Trailers>) -> Result<ExpectedContent> {
        let mut digests: Vec<Digest> = self.md5.into_iter().chain(self.digest).collect();
        if let (Some(algorithm), None) = (self.algorithm, self.digest) {
            let name = algorithm.s3_header().unwrap_or_default();
            let value = trailers
                .and_then(|trailers| trailers.get(name))
                .ok_or_else(|| {
                    let message = format!("The announced trailer {name} is missing.");
                    Refusal::new(Code::MalformedTrailerError, message)
                })?;
            let digest = Digest::from_base64(algorithm, value).map_err(|_| bad_value(name))?;
            digests.push(digest);
        }
        Ok(ExpectedContent {
            size: Some(size),
            digests,
        })
    }
}

/// Checks a body in memory against its declared digests.
///
/// # Errors
/// `BadDigest`, and those of [`DeclaredDigests::expect`].
pub(crate) fn verify_small(
    declared: &DeclaredDigests,
    body: &[u8],
    trailers: Option<&Trailers>,
) -> Result<()> {
    let expect = declared.expect(body.len() as u64, trailers)?;
    if expect.digests.is_empty() {
        return Ok(());
    }
    let mut pipeline = Pipeline::new(declared.want());
    pipeline.update(body);
    let computed = pipeline.finish();
    for digest in expect.digests {
        if computed.get(digest.algorithm()) != Some(digest) {
            let message = match digest.algorithm().s3_name() {
                Some(name) if declared.algorithm == Some(digest.algorithm()) => {
                    format!("The {name} you specified did not match the calculated checksum.")
                }
                _ => "The Content-MD5 you specified did not match what we received.".into(),
            };
            return Err(Refusal::new(Code::BadDigest, message));
        }
    }
    Ok(())
}

/// The headers that show an object's checksum.
pub(crate) fn checksum_headers(headers: &mut HeaderMap, checksum: Option<&ObjectChecksum>) {
    let (algorithm, value, kind) = match checksum {
        Some(ObjectChecksum::Full(digest)) => (digest.algorithm(), digest.base64(), "FULL_OBJECT"),
        Some(ObjectChecksum::Composite(composite)) => (
            composite.digest.algorithm(),
            composite.to_string(),
            "COMPOSITE",
        ),
        None => return,
    };
    if let Some(name) = algorithm.s3_header() {
        headers.insert(HeaderName::from_static(name), value_of(&value));
        headers.insert(TYPE, HeaderValue::from_static(kind));
    }
}

/// The headers that show a part's checksum, with the kind of the object's.
pub(crate) fn part_checksum_headers(
    headers: &mut HeaderMap,
    digest: &Digest,
    whole: Option<&ObjectChecksum>,
) {
    checksum_headers(headers, Some(&ObjectChecksum::Full(*digest)));
    if let Some(ObjectChecksum::Composite(_)) = whole {
        headers.insert(TYPE, HeaderValue::from_static("COMPOSITE"));
    }
}

/// The checksum that a CreateMultipartUpload announces: the algorithm, and whether it is over the
/// parts' checksums. Without an algorithm Dewar keeps a CRC-64/NVME of the whole.
///
/// # Errors
/// `InvalidRequest` for unknown names and for kinds that an algorithm does not have.
pub(crate) fn announced_checksum(headers: &HeaderMap) -> Result<(Algorithm, bool)> {
    let algorithm = header(headers, "x-amz-checksum-algorithm")?;
    let algorithm = algorithm.map(algorithm_named).transpose()?;
    let kind = header(headers, "x-amz-checksum-type")?;
    let Some(algorithm) = algorithm else {
        return match kind {
            None => Ok((Algorithm::Crc64Nvme, false)),
            Some(_) => Err(invalid(
                "The x-amz-checksum-type header can only be used with the \
                 x-amz-checksum-algorithm header."
                    .into(),
            )),
        };
    };
    let by_default = algorithm != Algorithm::Crc64Nvme;
    let composite = match kind {
        None => by_default,
        Some("COMPOSITE") => true,
        Some("FULL_OBJECT") => false,
        Some(other) => return Err(invalid(format!("{other:?} is not a checksum type."))),
    };
    let whole_only = algorithm == Algorithm::Crc64Nvme;
    // The checksum of the whole follows from those of parts for CRCs alone.
    let combines = [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme];
    let parts_only = !combines.contains(&algorithm);
    if (whole_only && composite) || (parts_only && !composite) {
        return Err(invalid(format!(
            "The {} checksum type cannot be used with the {} checksum algorithm.",
            if composite {
                "COMPOSITE"
            } else {
                "FULL_OBJECT"
            },
            algorithm.s3_name().unwrap_or_default()
        )));
    }
    Ok((algorithm, composite))
}

/// The checksum of a whole object in the headers of a completion. A checksum of type COMPOSITE may
/// lack the number of parts, as minio-go sends it.
///
/// # Errors
/// `BadDigest`.
pub(crate) fn named_checksum(headers: &HeaderMap) -> Result<Option<ObjectChecksum>> {
    for name in headers.keys() {
        let Some(algorithm) = Algorithm::from_s3_header(name.as_str()) else {
            continue;
        };
        let value = header(headers, name.as_str())?.unwrap_or_default();
        let wrong = || bad_value(name.as_str());
        return if value.contains('-') {
            let value = Composite::parse(algorithm, value).map_err(|_| wrong())?;
            Ok(Some(ObjectChecksum::Composite(value)))
        } else {
            let value = Digest::from_base64(algorithm, value).map_err(|_| wrong())?;
            Ok(Some(ObjectChecksum::Full(value)))
        };
    }
    Ok(None)
}
