//! Properties: the live ones, which follow from files and directories, and the dead ones, which
//! clients set.
//!
//! A dead property is an extended attribute. Its name is `user.dav.{NAMESPACE}NAME`, and its value is
//! the element of the property as XML.

use std::collections::BTreeMap;

use bytes::Bytes;
use dewar_checksum::Algorithm;
use dewar_http_front::{http_date, iso_date};
use dewar_store::file::Node;
use dewar_types::Timestamp;
use http::StatusCode;

use super::get::OCTETS;
use super::multistatus::push_status;
use crate::xml::{DAV, DEWAR, OWNCLOUD, XmlElement, XmlName, push_escaped, push_xml_element};

/// What the names of dead properties begin with among extended attributes.
const PREFIX: &str = "user.dav.";

/// A property that Dewar derives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LiveProperty {
    CreationDate,
    DisplayName,
    ContentLength,
    ContentType,
    ETag,
    LastModified,
    ResourceType,
    IsCollection,
    QuotaAvailable,
    QuotaUsed,
    Checksums,
    ArchiveMetadata,
    SupportedLock,
    LockDiscovery,
}

impl LiveProperty {
    pub(super) const ALL: [Self; 14] = [
        Self::ResourceType,
        Self::DisplayName,
        Self::CreationDate,
        Self::LastModified,
        Self::ContentLength,
        Self::ContentType,
        Self::ETag,
        Self::IsCollection,
        Self::QuotaUsed,
        Self::QuotaAvailable,
        Self::Checksums,
        Self::ArchiveMetadata,
        Self::SupportedLock,
        Self::LockDiscovery,
    ];

    const fn local(self) -> &'static str {
        match self {
            Self::CreationDate => "creationdate",
            Self::DisplayName => "displayname",
            Self::ContentLength => "getcontentlength",
            Self::ContentType => "getcontenttype",
            Self::ETag => "getetag",
            Self::LastModified => "getlastmodified",
            Self::ResourceType => "resourcetype",
            Self::IsCollection => "iscollection",
            Self::QuotaAvailable => "quota-available-bytes",
            Self::QuotaUsed => "quota-used-bytes",
            Self::Checksums => "checksums",
            Self::ArchiveMetadata => "archivemetadata",
            Self::SupportedLock => "supportedlock",
            Self::LockDiscovery => "lockdiscovery",
        }
    }

    const fn namespace(self) -> &'static str {
        match self {
            Self::Checksums => OWNCLOUD,
            Self::ArchiveMetadata => DEWAR,
            _ => DAV,
        }
    }

    /// The property with a name.
    pub(super) fn of(name: &XmlName) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|live| name.is(live.namespace(), live.local()))
    }

    pub(super) const fn is_quota(self) -> bool {
        matches!(self, Self::QuotaAvailable | Self::QuotaUsed)
    }

    /// Appends the element of this property; nothing if the resource does not have it.
    fn push(self, out: &mut String, resource: &Resource<'_>, with_value: bool) {
        let Some(value) = self.value(resource) else {
            return;
        };
        let prefix = match self {
            Self::Checksums => "oc",
            Self::ArchiveMetadata => "dw",
            _ => "D",
        };
        let local = self.local();
        let open = |out: &mut String, mark: &str| {
            for part in [mark, prefix, ":", local] {
                out.push_str(part);
            }
        };
        open(out, "<");
        if !with_value || value.is_empty() {
            out.push_str("/>");
            return;
        }
        out.push('>');
        match self {
            // These are elements.
            Self::ResourceType | Self::Checksums | Self::SupportedLock | Self::LockDiscovery => {
                out.push_str(&value)
            }
            _ => push_escaped(out, &value),
        }
        open(out, "</");
        out.push('>');
    }

    fn value(self, resource: &Resource<'_>) -> Option<String> {
        let attributes = resource.node.attributes();
        let is_directory = matches!(resource.node, Node::Directory(_));
        let file = match resource.node {
            Node::File(_, info) => Some(info),
            Node::Directory(_) => None,
        };
        match self {
            Self::ResourceType => Some(match is_directory {
                true => "<D:collection/>".to_owned(),
                false => String::new(),
            }),
            Self::IsCollection => Some(u8::from(is_directory).to_string()),
            Self::DisplayName => {
                let name = resource.path.rsplit('/').next().unwrap_or_default();
                let shown = name.chars().any(char::is_control);
                Some(name.to_owned()).filter(|_| !shown)
            }
            Self::CreationDate => file.map(|info| iso_date(info.modified)),
            Self::LastModified => {
                let modified = file.map_or(attributes.modified, |info| info.content_modified());
                (modified != Timestamp(0)).then(|| http_date(modified))
            }
            Self::ContentLength => file.map(|info| info.size.to_string()),
            Self::ContentType => Some(match file {
                Some(info) => {
                    let kind = info.attributes.headers.content_type.as_deref();
                    kind.unwrap_or(OCTETS).to_owned()
                }
                None => "httpd/unix-directory".to_owned(),
            }),
            Self::ETag => file.map(|info| format!("\"{}\"", info.etag)),
            Self::SupportedLock => resource.locks.is_some().then(|| SUPPORTED.to_owned()),
            Self::LockDiscovery => resource.locks.clone(),
            Self::QuotaUsed => resource.quota.map(|quota| quota.used.to_string()),
            Self::QuotaAvailable => resource.quota.map(|quota| quota.available.to_string()),
            Self::ArchiveMetadata => file?.attributes.archive_metadata.clone(),
            Self::Checksums => {
                let digests = file?.digests;
                let shown = [
                    (Algorithm::Sha1, "SHA1"),
                    (Algorithm::Md5, "MD5"),
                    (Algorithm::Adler32, "ADLER32"),
                ];
                let shown = shown.iter().filter_map(|(algorithm, name)| {
                    let digest = digests.get(*algorithm)?;
                    Some(format!("{name}:{}", digest.hex()))
                });
                let shown: Vec<String> = shown.collect();
                let list = shown.join(" ");
                (!shown.is_empty()).then(|| format!("<oc:checksum>{list}</oc:checksum>"))
            }
        }
    }
}

/// The locks that files and directories can have.
const SUPPORTED: &str = "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope>\
    <D:locktype><D:write/></D:locktype></D:lockentry><D:lockentry><D:lockscope><D:shared/>\
    </D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>";

/// Bytes that a quota counts and that it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotaValues {
    pub(super) used: u64,
    pub(super) available: u64,
}

/// A file or directory with what its properties are made of.
pub(super) struct Resource<'a> {
    pub(super) path: &'a str,
    pub(super) node: &'a Node,
    /// Read only if a request asks for it, for a directory.
    pub(super) quota: Option<QuotaValues>,
    /// Its locks as XML; `None` for what cannot be locked.
    pub(super) locks: Option<String>,
    /// Read only if a request asks for them.
    pub(super) dead: BTreeMap<XmlName, Bytes>,
}

/// The properties that a PROPFIND asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PropertySelection {
    /// All, and these.
    All(Vec<XmlName>),
    /// The names of all.
    Names,
    /// These.
    Named(Vec<XmlName>),
}

impl PropertySelection {
    /// Whether the selection contains dead properties.
    pub(super) fn has_dead(&self) -> bool {
        match self {
            Self::All(_) | Self::Names => true,
            Self::Named(names) => names.iter().any(|name| LiveProperty::of(name).is_none()),
        }
    }

    /// Whether the selection contains the locks.
    pub(super) fn has_locks(&self) -> bool {
        match self {
            Self::All(_) => true,
            Self::Names => false,
            Self::Named(names) => {
                let is_lock = |name| LiveProperty::of(name) == Some(LiveProperty::LockDiscovery);
                names.iter().any(is_lock)
            }
        }
    }

    /// Whether the selection names a property of quotas.
    pub(super) fn names_quota(&self) -> bool {
        let names = match self {
            Self::All(names) | Self::Named(names) => names,
            Self::Names => return false,
        };
        let is_quota = |name| LiveProperty::of(name).is_some_and(LiveProperty::is_quota);
        names.iter().any(is_quota)
    }

    /// Appends the propstats of a resource.
    pub(super) fn push_propstats(&self, out: &mut String, resource: &Resource<'_>) {
        let mut found = String::new();
        let mut missing = String::new();
        let with_values = *self != Self::Names;
        match self {
            Self::All(_) | Self::Names => {
                for live in LiveProperty::ALL {
                    live.push(&mut found, resource, with_values);
                }
                for (name, value) in &resource.dead {
                    match with_values {
                        true => push_stored(&mut found, value),
                        false => push_name(&mut found, name),
                    }
                }
            }
            Self::Named(names) => {
                for name in names {
                    let before = found.len();
                    match LiveProperty::of(name) {
                        Some(live) => live.push(&mut found, resource, true),
                        None => {
                            if let Some(value) = resource.dead.get(name) {
                                push_stored(&mut found, value);
                            }
                        }
                    }
                    if found.len() == before {
                        push_name(&mut missing, name);
                    }
                }
            }
        }
        if !found.is_empty() || missing.is_empty() {
            push_propstat(out, &found, StatusCode::OK);
        }
        if !missing.is_empty() {
            push_propstat(out, &missing, StatusCode::NOT_FOUND);
        }
    }
}

/// Appends properties with their status.
pub(super) fn push_propstat(out: &mut String, properties: &str, status: StatusCode) {
    out.push_str("<D:propstat><D:prop>");
    out.push_str(properties);
    out.push_str("</D:prop>");
    push_status(out, status);
    out.push_str("</D:propstat>");
}

/// Appends an empty element.
pub(super) fn push_name(out: &mut String, name: &XmlName) {
    let element = XmlElement {
        name: name.clone(),
        ..XmlElement::default()
    };
    push_xml_element(out, &element);
}

/// Appends a stored element. Other protocols can set these attributes too, so that it is parsed.
fn push_stored(out: &mut String, value: &Bytes) {
    if let Ok(element) = XmlElement::parse(value) {
        push_xml_element(out, &element);
    }
}

/// The name of the extended attribute with a dead property.
pub(super) fn attribute_of(name: &XmlName) -> String {
    format!("{PREFIX}{{{}}}{}", name.namespace, name.local)
}

/// The dead properties among extended attributes. An attribute that is not the element of its name is
/// none.
pub(super) fn dead_properties(attributes: BTreeMap<String, Bytes>) -> BTreeMap<XmlName, Bytes> {
    let pairs = attributes.into_iter().filter_map(|(name, value)| {
        let (namespace, local) = name
            .strip_prefix(PREFIX)?
            .strip_prefix('{')?
            .rsplit_once('}')?;
        let name = XmlName::new(namespace, local);
        let element = XmlElement::parse(&value).ok()?;
        (element.name == name).then_some((name, value))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_properties_are_attributes_with_their_element() {
        let name = XmlName::new("urn:a}b", "c");
        assert_eq!(attribute_of(&name), "user.dav.{urn:a}b}c");
        let element = Bytes::from_static(b"<c xmlns=\"urn:a}b\">1</c>");
        let attributes = BTreeMap::from([
            (attribute_of(&name), element.clone()),
            // Set by another protocol, and no XML of this name.
            ("user.dav.{}x".to_owned(), Bytes::from_static(b"</D:prop>")),
            ("user.dav.{}y".to_owned(), Bytes::from_static(b"<x/>")),
            ("user.other".to_owned(), element.clone()),
        ]);
        let dead = dead_properties(attributes);
        assert_eq!(dead, BTreeMap::from([(name, element)]));
    }
}
