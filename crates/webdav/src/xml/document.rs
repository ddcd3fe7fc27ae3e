//! Documents of requests: parsed as a whole, with resolved namespaces, within limits.
//!
//! A document type declaration and entities other than those of XML itself are refused. So are
//! namespace prefixes that are not declared, and names and characters that XML does not allow.

use std::borrow::Cow;

use quick_xml::NsReader;
use quick_xml::XmlVersion;
use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::{LocalName, ResolveResult};
use thiserror::Error;

use crate::limits::{PROPERTY_NAME_BYTES_MAX, XML_DEPTH_MAX, XML_NODES_MAX};

/// A name with its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct XmlName {
    /// The namespace; empty for none.
    pub namespace: String,
    /// The name in it.
    pub local: String,
}

impl XmlName {
    /// A name in a namespace.
    #[must_use]
    pub fn new(namespace: &str, local: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            local: local.to_owned(),
        }
    }

    /// Whether this is the name of that namespace.
    #[must_use]
    pub fn is(&self, namespace: &str, local: &str) -> bool {
        self.namespace == namespace && self.local == local
    }
}

/// An element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XmlElement {
    /// Its name.
    pub name: XmlName,
    /// Its attributes, without declarations of namespaces.
    pub attributes: Vec<(XmlName, String)>,
    /// Its content. Comments and processing instructions are left out.
    pub children: Vec<XmlNode>,
}

/// A part of the content of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XmlNode {
    /// An element.
    Element(XmlElement),
    /// Text, with all references resolved.
    Text(String),
}

/// Why a document is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum XmlError {
    /// It is not well-formed, or breaks the rules of namespaces.
    #[error("the XML is malformed: {0}")]
    Malformed(Cow<'static, str>),
    /// It has a document type declaration.
    #[error("the XML has a document type declaration")]
    DocumentType,
    /// It uses an entity that XML itself does not define.
    #[error("the XML uses an entity")]
    Entity,
    /// Its elements are nested deeper than [`XML_DEPTH_MAX`].
    #[error("the XML is nested deeper than {XML_DEPTH_MAX} elements")]
    Depth,
    /// It has more than [`XML_NODES_MAX`] elements and attributes.
    #[error("the XML has more than {XML_NODES_MAX} elements and attributes")]
    Nodes,
}

fn malformed(words: &'static str) -> XmlError {
    XmlError::Malformed(Cow::Borrowed(words))
}

impl From<quick_xml::Error> for XmlError {
    fn from(error: quick_xml::Error) -> Self {
        Self::Malformed(Cow::Owned(error.to_string()))
    }
}

impl XmlElement {
    /// Parses a document in UTF-8 and returns its root. The caller limits its length.
    ///
    /// # Errors
    /// Those of [`XmlError`].
    pub fn parse(document: &[u8]) -> Result<Self, XmlError> {
        let text = std::str::from_utf8(document).map_err(|_| malformed("it is not UTF-8"))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if !text.chars().all(is_xml_char) {
            return Err(malformed("it has a character that XML does not allow"));
        }
        let mut reader = NsReader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        let mut open: Vec<Self> = Vec::new();
        let mut root = None;
        let mut nodes = 0;
        loop {
            let (namespace, event) = reader.read_resolved_event()?;
            let namespace = namespace_of(&namespace);
            match event {
                Event::Start(start) => {
                    if root.is_some() {
                        return Err(malformed("it has a second root"));
                    }
                    if open.len() == XML_DEPTH_MAX {
                        return Err(XmlError::Depth);
                    }
                    let name = name_of(namespace?, start.local_name())?;
                    let attributes = attributes_of(&reader, &start)?;
                    nodes += 1 + attributes.len();
                    if nodes > XML_NODES_MAX {
                        return Err(XmlError::Nodes);
                    }
                    open.push(Self {
                        name,
                        attributes,
                        children: Vec::new(),
                    });
                }
                Event::End(_) => {
                    let Some(element) = open.pop() else {
                        return Err(malformed("an element ends that did not begin"));
                    };
                    match open.last_mut() {
                        Some(parent) => parent.children.push(XmlNode::Element(element)),
                        None => root = Some(element),
                    }
                }
                Event::Text(text) => {
                    let text = text.xml10_content();
                    let text = text.map_err(|_| malformed("its text cannot be decoded"))?;
                    push_text(&mut open, &text)?;
                }
                Event::CData(text) => {
                    let text = text.xml10_content();
                    let text = text.map_err(|_| malformed("its text cannot be decoded"))?;
                    push_text(&mut open, &text)?;
                }
                Event::GeneralRef(reference) => push_text(&mut open, &resolved(&reference)?)?,
                Event::DocType(_) => return Err(XmlError::DocumentType),
                Event::Comment(_) | Event::PI(_) | Event::Decl(_) => {}
                Event::Empty(_) => return Err(malformed("an element does not end")),
                Event::Eof => break,
            }
        }
        if !open.is_empty() {
            return Err(malformed("an element does not end"));
        }
        root.ok_or_else(|| malformed("it has no element"))
    }

    /// The elements in it.
    pub fn elements(&self) -> impl Iterator<Item = &Self> {
        self.children.iter().filter_map(|node| match node {
            XmlNode::Element(element) => Some(element),
            XmlNode::Text(_) => None,
        })
    }

    /// The first element in it with a name of `DAV:`.
    #[must_use]
    pub fn dav(&self, local: &str) -> Option<&Self> {
        self.elements()
            .find(|element| element.name.is(super::DAV, local))
    }

    /// Its text, without that of the elements in it.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.children.iter().filter_map(|node| match node {
            XmlNode::Text(text) => Some(text.as_str()),
            XmlNode::Element(_) => None,
        });
        texts.collect()
    }
}

fn push_text(open: &mut [XmlElement], text: &str) -> Result<(), XmlError> {
    let Some(element) = open.last_mut() else {
        return match text.trim_ascii().is_empty() {
            true => Ok(()),
            false => Err(malformed("it has text outside of its root")),
        };
    };
    match element.children.last_mut() {
        Some(XmlNode::Text(before)) => before.push_str(text),
        _ => element.children.push(XmlNode::Text(text.to_owned())),
    }
    Ok(())
}

fn namespace_of(found: &ResolveResult<'_>) -> Result<String, XmlError> {
    match found {
        ResolveResult::Unbound => Ok(String::new()),
        ResolveResult::Bound(namespace) => {
            let text = std::str::from_utf8(namespace.as_ref());
            let text = text.map_err(|_| malformed("a namespace is not UTF-8"))?;
            if text.len() > PROPERTY_NAME_BYTES_MAX {
                return Err(malformed("a namespace is too long"));
            }
            let text = quick_xml::escape::unescape(text).map_err(|_| XmlError::Entity)?;
            match text.chars().all(is_xml_char) {
                true => Ok(text.into_owned()),
                false => Err(malformed("a namespace is not valid")),
            }
        }
        ResolveResult::Unknown(_) => Err(malformed("a prefix is not declared")),
    }
}

fn name_of(namespace: String, local: LocalName<'_>) -> Result<XmlName, XmlError> {
    let local = std::str::from_utf8(local.into_inner()).ok();
    let local = local.filter(|local| is_nc_name(local));
    let local = local.ok_or_else(|| malformed("a name is not valid"))?;
    Ok(XmlName {
        namespace,
        local: local.to_owned(),
    })
}

fn attributes_of(
    reader: &NsReader<&[u8]>,
    start: &BytesStart<'_>,
) -> Result<Vec<(XmlName, String)>, XmlError> {
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        if attributes.len() >= XML_NODES_MAX {
            return Err(XmlError::Nodes);
        }
        let attribute = attribute.map_err(quick_xml::Error::from)?;
        let value = value_of(&attribute)?;
        let key = attribute.key;
        if key.as_namespace_binding().is_some() {
            if key.prefix().is_some() && value.is_empty() {
                return Err(malformed("a prefix is declared for no namespace"));
            }
            continue;
        }
        let (namespace, local) = reader.resolver().resolve_attribute(key);
        let name = name_of(namespace_of(&namespace)?, local)?;
        attributes.push((name, value));
    }
    Ok(attributes)
}

fn value_of(attribute: &Attribute<'_>) -> Result<String, XmlError> {
    // Of entities, it resolves those of XML itself only.
    let value = attribute.normalized_value(XmlVersion::Implicit1_0);
    let value = value.map_err(|_| XmlError::Entity)?;
    match value.chars().all(is_xml_char) && !attribute.value.contains(&b'<') {
        true => Ok(value.into_owned()),
        false => Err(malformed("an attribute is not valid")),
    }
}

fn resolved(reference: &BytesRef<'_>) -> Result<String, XmlError> {
    if let Some(character) = reference.resolve_char_ref()? {
        return match is_xml_char(character) {
            true => Ok(character.to_string()),
            false => Err(malformed("it has a character that XML does not allow")),
        };
    }
    let name = reference.decode();
    let name = name.map_err(|_| malformed("a reference cannot be decoded"))?;
    let text = match &*name {
        "lt" => "<",
        "gt" => ">",
        "amp" => "&",
        "apos" => "'",
        "quot" => "\"",
        _ => return Err(XmlError::Entity),
    };
    Ok(text.to_owned())
}

/// The characters of XML 1.0, section 2.2.
pub(super) const fn is_xml_char(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Whether text is a name without a colon. Beyond ASCII, more is accepted than XML names.
fn is_nc_name(name: &str) -> bool {
    let mut chars = name.chars();
    let first = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let further = |c: char| first(c) || c.is_ascii_digit() || matches!(c, '-' | '.');
    chars.next().is_some_and(first) && chars.all(further)
}

/// Fuzzes [`XmlElement::parse`]: no input may panic, and what was parsed is the same after it was
/// written and parsed again.
pub fn fuzz_document(data: &[u8]) {
    let data = &data[..data.len().min(crate::limits::DOCUMENT_BYTES_MAX)];
    let Ok(root) = XmlElement::parse(data) else {
        return;
    };
    let mut text = String::new();
    super::push_xml_element(&mut text, &root);
    assert_eq!(XmlElement::parse(text.as_bytes()), Ok(root));
}

#[cfg(test)]
mod tests {
    use super::super::push_xml_element;
    use super::*;

    #[test]
    fn namespaces_are_resolved_and_text_is_joined() {
        let text = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
            <D:prop xmlns:D=\"DAV:\" xmlns=\"urn:x\"><a D:b='1&amp;2' xml:lang='de'>\
            x&lt;<![CDATA[<y>]]>&#x10400;<!-- c --></a><b xmlns=''/></D:prop>";
        let root = XmlElement::parse(text.as_bytes()).expect("valid");
        assert!(root.name.is("DAV:", "prop"));
        let elements: Vec<&XmlElement> = root.elements().collect();
        assert!(elements[0].name.is("urn:x", "a"));
        assert_eq!(elements[0].text(), "x<<y>\u{10400}");
        let xml = "http://www.w3.org/XML/1998/namespace";
        let attributes = [
            (XmlName::new("DAV:", "b"), "1&2".to_owned()),
            (XmlName::new(xml, "lang"), "de".to_owned()),
        ];
        assert_eq!(elements[0].attributes, attributes);
        assert!(elements[1].name.is("", "b"));
    }

    #[test]
    fn what_was_parsed_is_written_so_that_it_parses_the_same() {
        let text = "<a xmlns='urn:1' xmlns:p='urn:2'><p:b p:c='\"&#10;' d=''>1 &amp; 2\r\
            </p:b><e xmlns=''>]]&gt;</e></a>";
        let root = XmlElement::parse(text.as_bytes()).expect("valid");
        let mut written = String::new();
        push_xml_element(&mut written, &root);
        assert_eq!(XmlElement::parse(written.as_bytes()), Ok(root), "{written}");
    }

    #[test]
    fn what_could_hurt_is_refused() {
        let parse = |text: &str| XmlElement::parse(text.as_bytes());
        let doc = "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>";
        assert_eq!(parse(doc), Err(XmlError::DocumentType));
        assert_eq!(parse("<a>&b;</a>"), Err(XmlError::Entity));
        assert_eq!(parse("<a b='&c;'/>"), Err(XmlError::Entity));
        let nested = |depth: usize| "<a>".repeat(depth) + &"</a>".repeat(depth);
        assert!(parse(&nested(XML_DEPTH_MAX)).is_ok());
        assert_eq!(parse(&nested(XML_DEPTH_MAX + 1)), Err(XmlError::Depth));
        let wide = |elements| format!("<a>{}</a>", "<b/>".repeat(elements));
        assert!(parse(&wide(XML_NODES_MAX - 1)).is_ok());
        assert_eq!(parse(&wide(XML_NODES_MAX)), Err(XmlError::Nodes));
        let attributes = |count: usize| {
            let all: String = (0..count).map(|number| format!(" b{number}='c'")).collect();
            format!("<a{all}/>")
        };
        assert_eq!(parse(&attributes(XML_NODES_MAX + 1)), Err(XmlError::Nodes));
        let long = format!("<a xmlns='{}'/>", "u".repeat(PROPERTY_NAME_BYTES_MAX + 1));
        assert!(parse(&long).is_err());
        for malformed in [
            "",
            "a",
            "<a>",
            "<a></b>",
            "</a>",
            "<a/><b/>",
            "<a/>text",
            "<p:a/>",
            "<a xmlns:b=''><b:c/></a>",
            "<a xmlns:b=''/>",
            "<a>\u{1}</a>",
            "<a>&#1;</a>",
            "<a b='1' b='2'/>",
            "<1/>",
            "<a\"b/>",
        ] {
            let refused = parse(malformed).expect_err(malformed);
            assert!(
                matches!(refused, XmlError::Malformed(_)),
                "{malformed}: {refused}"
            );
        }
        assert!(XmlElement::parse(b"<a>\xff</a>").is_err());
    }
}
