//! XML of WebDAV: documents of requests, and the text of answers.

mod document;
mod href;
mod text;

pub use document::{XmlElement, XmlError, XmlName, XmlNode, fuzz_document};
pub(crate) use href::{push_href, push_href_element};
pub use text::{push_escaped, push_xml_content, push_xml_element};

/// The namespace of RFC 4918.
pub const DAV: &str = "DAV:";

/// The namespace of properties that only Dewar has.
pub const DEWAR: &str = "urn:dewar:webdav";

/// The namespace of ownCloud and Nextcloud, which rclone asks for checksums.
pub const OWNCLOUD: &str = "http://owncloud.org/ns";
