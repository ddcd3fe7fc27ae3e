//! Writing XML.

use super::XmlElement;
use super::XmlNode;
use super::document::is_xml_char;

const XML: &str = "http://www.w3.org/XML/1998/namespace";

/// Appends text for use in an element or a quoted attribute. Characters that XML does not allow are
/// left out.
pub fn push_escaped(out: &mut String, text: &str) {
    for character in text.chars().filter(|c| is_xml_char(*c)) {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // A parser would turn them into other white space.
            '\r' => out.push_str("&#13;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            character => out.push(character),
        }
    }
}

/// Appends an element that declares all namespaces that it uses, so that it may stand anywhere.
pub fn push_xml_element(out: &mut String, element: &XmlElement) {
    push_within(out, element, None);
}

/// Appends the content of an element, without the element itself.
pub fn push_xml_content(out: &mut String, element: &XmlElement) {
    for child in &element.children {
        match child {
            XmlNode::Element(child) => push_xml_element(out, child),
            XmlNode::Text(text) => push_escaped(out, text),
        }
    }
}

/// `around` is the namespace without a prefix in the element around this one, if it is known.
fn push_within(out: &mut String, element: &XmlElement, around: Option<&str>) {
    let namespace = element.name.namespace.as_str();
    let local = &element.name.local;
    out.push('<');
    out.push_str(local);
    if around != Some(namespace) {
        out.push_str(" xmlns=\"");
        push_escaped(out, namespace);
        out.push('"');
    }
    for (index, (name, value)) in element.attributes.iter().enumerate() {
        let prefix = match name.namespace.as_str() {
            "" => String::new(),
            XML => "xml:".to_owned(),
            namespace => {
                let prefix = format!("a{index}");
                out.push_str(" xmlns:");
                out.push_str(&prefix);
                out.push_str("=\"");
                push_escaped(out, namespace);
                out.push('"');
                prefix + ":"
            }
        };
        out.push(' ');
        out.push_str(&prefix);
        out.push_str(&name.local);
        out.push_str("=\"");
        push_escaped(out, value);
        out.push('"');
    }
    if element.children.is_empty() {
        out.push_str("/>");
        return;
    }
    out.push('>');
    for child in &element.children {
        match child {
            XmlNode::Element(child) => push_within(out, child, Some(namespace)),
            XmlNode::Text(text) => push_escaped(out, text),
        }
    }
    out.push_str("</");
    out.push_str(local);
    out.push('>');
}
