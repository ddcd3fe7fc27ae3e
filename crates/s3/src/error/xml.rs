//! A refusal as an answer.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

use super::Refusal;

impl Refusal {
    /// The answer for the resource with this path. 304 has no body; the caller drops the body of
    /// an answer to HEAD.
    #[must_use]
    pub fn to_response(&self, resource: &str, request_id: &str, host_id: &str) -> Response<Bytes> {
        let status = self.0.code.status();
        let body = if status == StatusCode::NOT_MODIFIED {
            Bytes::new()
        } else {
            self.to_xml(resource, request_id, host_id).into()
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if status != StatusCode::NOT_MODIFIED {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        }
        for (name, value) in &self.0.headers {
            headers.insert(name.clone(), value.clone());
        }
        if let Some(value) = self.find("Region")
            && let Ok(value) = HeaderValue::from_str(value)
        {
            headers.insert("x-amz-bucket-region", value);
        }
        response
    }

    fn to_xml(&self, resource: &str, request_id: &str, host_id: &str) -> String {
        let element = self.to_element(resource, request_id, host_id);
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{element}")
    }

    /// The `Error` element alone, for an answer whose beginning has been sent already.
    pub(crate) fn to_element(&self, resource: &str, request_id: &str, host_id: &str) -> String {
        let mut xml = String::with_capacity(320);
        xml.push_str("<Error>");
        push_element(&mut xml, "Code", self.0.code.as_str());
        push_element(&mut xml, "Message", &self.0.message);
        for (name, value) in &self.0.elements {
            push_element(&mut xml, name, value);
        }
        push_element(&mut xml, "Resource", resource);
        push_element(&mut xml, "RequestId", request_id);
        push_element(&mut xml, "HostId", host_id);
        xml.push_str("</Error>");
        xml
    }
}

/// Appends an element with escaped text. Characters that XML 1.0 does not allow become U+FFFD, so
/// that a hostile key cannot break the answer.
pub(crate) fn push_element(xml: &mut String, name: &str, text: &str) {
    push(xml, name, text, |xml, _| xml.push('\u{fffd}'));
}

/// The same for a name that clients may send again. Characters that XML 1.0 cannot contain are
/// written as references, as in S3. Strict readers refuse the document (and can ask for
/// `encoding-type=url`), but none takes the name for another one.
pub(crate) fn push_name(xml: &mut String, name: &str, text: &str) {
    push(xml, name, text, |xml, c| {
        xml.push_str(&format!("&#{};", u32::from(c)));
    });
}

fn push(xml: &mut String, name: &str, text: &str, unspeakable: impl Fn(&mut String, char)) {
    xml.push('<');
    xml.push_str(name);
    xml.push('>');
    for c in text.chars() {
        match c {
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '&' => xml.push_str("&amp;"),
            '"' => xml.push_str("&quot;"),
            '\'' => xml.push_str("&apos;"),
            '\r' => xml.push_str("&#13;"),
            '\t' | '\n' => xml.push(c),
            c if c < ' ' || c == '\u{fffe}' || c == '\u{ffff}' => unspeakable(xml, c),
            c => xml.push(c),
        }
    }
    xml.push_str("</");
    xml.push_str(name);
    xml.push('>');
}

#[cfg(test)]
mod tests {
    use crate::error::{Code, Refusal};

    #[test]
    fn hostile_text_stays_text() {
        let refusal = Refusal::new(Code::NoSuchKey, "no <b> & \u{1}").element("Key", "]]>'\"");
        let response = refusal.to_response("/b/<x>\r\n", "ID", "HOST");
        assert_eq!(response.status(), 404);
        let text = String::from_utf8(response.into_body().to_vec()).expect("utf-8");
        assert!(text.contains("<Code>NoSuchKey</Code><Message>no &lt;b&gt; &amp; \u{fffd}<"));
        assert!(text.contains("<Key>]]&gt;&apos;&quot;</Key>"));
        assert!(text.contains("<Resource>/b/&lt;x&gt;&#13;\n</Resource>"));
        assert!(text.ends_with("<RequestId>ID</RequestId><HostId>HOST</HostId></Error>"));
    }

    #[test]
    fn not_modified_has_no_body() {
        let refusal = Refusal::new(Code::NotModified, "");
        assert!(refusal.to_response("/", "", "").into_body().is_empty());
    }
}
