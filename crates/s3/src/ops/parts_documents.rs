//! The documents of multipart uploads and of copies. They have a checksum in an element that is
//! named after its algorithm, and s3s knows only some of these elements.

use std::io::Write;

use dewar_checksum::{Algorithm, Digest};
use dewar_store::api::{CompletePart, ListedPart, ObjectChecksum, ObjectInfo};
use s3s::dto::{Initiator, Owner, Timestamp, TimestampFormat};
use s3s::xml::{
    DeError, DeResult, Deserialize, DeserializeContent, Deserializer, SerResult, Serialize,
    SerializeContent, Serializer,
};

use super::document_fields::{etag, kind, storage_class};
use crate::error::{Code, Refusal, Result};
use crate::wire::xml_date;

const XMLNS: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// The prefix of the elements of checksums. The algorithm follows.
const CHECKSUM: &str = "Checksum";

/// Writes `<ChecksumNAME>value</ChecksumNAME>`.
fn checksum<W: Write>(s: &mut Serializer<W>, algorithm: Algorithm, value: &str) -> SerResult {
    match algorithm.s3_name() {
        Some(name) => s.content(&format!("{CHECKSUM}{name}"), value),
        None => Ok(()),
    }
}

fn checksum_of_part<W: Write>(s: &mut Serializer<W>, digest: Option<&Digest>) -> SerResult {
    digest.map_or(Ok(()), |digest| {
        checksum(s, digest.algorithm(), &digest.base64())
    })
}

fn checksum_of_object<W: Write>(s: &mut Serializer<W>, sum: Option<&ObjectChecksum>) -> SerResult {
    let composite = match sum {
        None => return Ok(()),
        Some(ObjectChecksum::Full(digest)) => {
            checksum_of_part(s, Some(digest))?;
            false
        }
        Some(ObjectChecksum::Composite(composite)) => {
            checksum(s, composite.digest.algorithm(), &composite.to_string())?;
            true
        }
    };
    s.content("ChecksumType", &kind(composite))
}

/// A part as the list of a CompleteMultipartUpload names it.
#[derive(Debug)]
struct NamedPart {
    number: i32,
    etag: String,
    /// The algorithm's name in S3 and the value, base64.
    checksum: Option<(String, String)>,
}

/// The list of a CompleteMultipartUpload.
#[derive(Debug)]
pub(super) struct NamedParts(Vec<NamedPart>);

impl<'xml> Deserialize<'xml> for NamedParts {
    fn deserialize(d: &mut Deserializer<'xml>) -> DeResult<Self> {
        let mut parts = Vec::new();
        d.named_element("CompleteMultipartUpload", |d| {
            d.for_each_element(|d, name| match name {
                b"Part" => {
                    parts.push(d.content()?);
                    Ok(())
                }
                // Others say nothing that counts here.
                _ => d.content::<String>().map(drop),
            })
        })?;
        Ok(Self(parts))
    }
}

/// Takes a value that may stand once.
fn once<T>(place: &mut Option<T>, value: T) -> DeResult {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(DeError::DuplicateField),
    }
}

impl<'xml> DeserializeContent<'xml> for NamedPart {
    fn deserialize_content(d: &mut Deserializer<'xml>) -> DeResult<Self> {
        let (mut number, mut etag, mut checksum) = (None, None, None);
        d.for_each_element(|d, name| match name {
            b"PartNumber" => once(&mut number, d.content()?),
            b"ETag" => once(&mut etag, d.content::<s3s::dto::ETag>()?),
            other => {
                let name = std::str::from_utf8(other).ok();
                let name = name.and_then(|name| name.strip_prefix(CHECKSUM));
                let name = name.ok_or(DeError::UnexpectedTagName)?.to_owned();
                once(&mut checksum, (name, d.content()?))
            }
        })?;
        Ok(Self {
            number: number.ok_or(DeError::MissingField)?,
            etag: etag.ok_or(DeError::MissingField)?.value().to_owned(),
            checksum,
        })
    }
}

impl NamedParts {
    /// The parts in the order of the list. If a client sent a part several times, it may list it as
    /// often.
    ///
    /// # Errors
    /// `MalformedXML` for a malformed number, `InvalidRequest` for a malformed checksum.
    pub(super) fn parts(self) -> Result<Vec<CompletePart>> {
        let mut parts: Vec<CompletePart> = Vec::with_capacity(self.0.len());
        for named in self.0 {
            let part = named.part()?;
            match parts.last_mut().filter(|last| last.number == part.number) {
                Some(last) => *last = part,
                None => parts.push(part),
            }
        }
        if parts.is_empty() {
            return Err(malformed());
        }
        Ok(parts)
    }
}

impl NamedPart {
    fn part(self) -> Result<CompletePart> {
        let checksum = self.checksum.map(|(name, value)| {
            let algorithm = Algorithm::from_s3_name(&name);
            let digest = algorithm.and_then(|a| Digest::from_base64(a, &value).ok());
            digest.ok_or_else(|| {
                let message = format!("The {name} of a part is not valid.");
                Refusal::new(Code::InvalidRequest, message)
            })
        });
        Ok(CompletePart {
            number: u32::try_from(self.number).map_err(|_| malformed())?,
            etag: self.etag,
            checksum: checksum.transpose()?,
        })
    }
}

fn malformed() -> Refusal {
    Refusal::new(
        Code::MalformedXML,
        "The XML you provided was not well-formed or did not validate against our published \
         schema",
    )
}

/// The answer to a CompleteMultipartUpload.
pub(super) struct CompleteResult<'a> {
    pub(super) bucket: &'a str,
    pub(super) key: &'a str,
    pub(super) location: &'a str,
    pub(super) info: &'a ObjectInfo,
}

impl Serialize for CompleteResult<'_> {
    fn serialize<W: Write>(&self, s: &mut Serializer<W>) -> SerResult {
        s.content_with_ns("CompleteMultipartUploadResult", XMLNS, self)
    }
}

impl SerializeContent for CompleteResult<'_> {
    fn serialize_content<W: Write>(&self, s: &mut Serializer<W>) -> SerResult {
        s.content("Location", self.location)?;
        s.content("Bucket", self.bucket)?;
        s.content("Key", self.key)?;
        s.content("ETag", &etag(&self.info.etag))?;
        checksum_of_object(s, self.info.checksum.as_ref())
    }
}

/// The answer to a CopyObject or an UploadPartCopy.
pub(super) struct CopyResult<'a> {
    /// `CopyObjectResult` or `CopyPartResult`.
    pub(super) element: &'static str,
    pub(super) etag: &'a str,
    pub(super) modified: dewar_types::Timestamp,
    pub(super) checksum: CopyChecksum<'a>,
}

/// The checksum that the answer to a copy shows.
pub(super) enum CopyChecksum<'a> {
    /// That of an object, with its kind.
    Object(Option<&'a ObjectChecksum>),
    /// That of a part.
    Part(Option<&'a Digest>),
}

impl Serialize for CopyResult<'_> {
    fn serialize<W: Write>(&self, s: &mut Serializer<W>) -> SerResult {
        s.content(self.element, self)
    }
}

impl SerializeContent for CopyResult<'_> {
    fn serialize_content<W: Write>(&self, s: &mut Serializer<W>) -> SerResult {
        s.content("ETag", &etag(self.etag))?;
        date(s, self.modified)?;
        match self.checksum {
            CopyChecksum::Object(sum) => checksum_of_object(s, sum),
            CopyChecksum::Part(digest) => checksum_of_part(s, digest),
        }
    }
}

fn date<W: Write>(s: &mut Serializer<W>, at: dewar_types::Timestamp) -> SerResult {
    let at: Timestamp = xml_date(at);
    s.timestamp("LastModified", &at, TimestampFormat::DateTime)
}

/// The answer to a ListParts.
pub(super) struct PartsResult<'a> {
    pub(super) bucket: &'a str,
    pub(super) key: &'a str,
    pub(super) upload: String,
    /// The algorithm, and whether it is over the parts' checksums.
    pub(super) checksum: Option<(Algorithm, bool)>,
    pub(super) initiator: Initiator,
    pub(super) owner: Owner,
    pub(super) after: u32,
    pub(super) next: u32,
    pub(super) max: usize,
    pub(super) truncated: bool,
    pub(super) storage_class: Option<String>,
    pub(super) parts: &'a [ListedPart],
}

impl Serialize for PartsResult<'_> {
    fn serialize<W: Write>(&self, s: &mut Serializer<W>) -> SerResult {
        s.content_with_ns("ListPartsResult", XMLNS, self)
    }
}

impl SerializeContent for PartsResult<'_> {
    fn serialize_content<W: Write>(&self, s: &mut Serializer<W>) -> SerResult {
        s.content("Bucket", self.bucket)?;
        s.content("Key", self.key)?;
        s.content("UploadId", self.upload.as_str())?;
        if let Some((algorithm, composite)) = self.checksum {
            s.content("ChecksumAlgorithm", algorithm.s3_name().unwrap_or_default())?;
            s.content("ChecksumType", &kind(composite))?;
        }
        s.content("Initiator", &self.initiator)?;
        s.content("Owner", &self.owner)?;
        s.content("StorageClass", &storage_class(self.storage_class.clone()))?;
        s.content("PartNumberMarker", self.after.to_string().as_str())?;
        s.content("NextPartNumberMarker", self.next.to_string().as_str())?;
        s.content("MaxParts", self.max.to_string().as_str())?;
        s.content("IsTruncated", if self.truncated { "true" } else { "false" })?;
        s.flattened_list(
            "Part",
            self.parts
                .iter()
                .map(PartElement)
                .collect::<Vec<_>>()
                .iter(),
        )
    }
}

/// A part in a ListParts.
struct PartElement<'a>(&'a ListedPart);

impl SerializeContent for PartElement<'_> {
    fn serialize_content<W: Write>(&self, s: &mut Serializer<W>) -> SerResult {
        let part = self.0;
        s.content("PartNumber", part.number.to_string().as_str())?;
        date(s, part.modified)?;
        s.content("ETag", &etag(&part.etag))?;
        s.content("Size", part.size.to_string().as_str())?;
        checksum_of_part(s, part.checksum.as_ref())
    }
}
