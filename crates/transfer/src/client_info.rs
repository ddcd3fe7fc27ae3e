//! The header `ClientInfo`, in which FTS describes a copy.

use serde::Serialize;

/// Longest value that is kept, in characters.
const VALUE_CHARS_MAX: usize = 128;

/// The job of FTS that a copy belongs to: `job-id=…;file-id=…;retry=…`. Values are what the client
/// says. They are kept for records and decide nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClientInfo {
    /// The job's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// The number of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_id: Option<String>,
    /// How many attempts failed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
}

impl ClientInfo {
    /// Reads the value of the header. Names that are not known are ignored, and so are characters that
    /// are not visible ASCII. A long value is cut.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut info = Self::default();
        for part in text.split(';') {
            let Some((name, value)) = part.split_once('=') else {
                continue;
            };
            let field = match name.trim().to_ascii_lowercase().as_str() {
                "job-id" => &mut info.job_id,
                "file-id" => &mut info.file_id,
                "retry" => &mut info.retry,
                _ => continue,
            };
            let kept = value.chars().filter(char::is_ascii_graphic);
            let kept: String = kept.take(VALUE_CHARS_MAX).collect();
            *field = Some(kept).filter(|kept| !kept.is_empty());
        }
        info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fts_sends_is_read() {
        let text = "job-id=a3a1b1ea-5e1e-11ef-9a8c-fa163e;file-id=812;retry=0";
        let info = ClientInfo::parse(text);
        assert_eq!(
            info.job_id.as_deref(),
            Some("a3a1b1ea-5e1e-11ef-9a8c-fa163e")
        );
        assert_eq!(info.file_id.as_deref(), Some("812"));
        assert_eq!(info.retry.as_deref(), Some("0"));
    }

    #[test]
    fn other_text_does_no_harm() {
        assert_eq!(ClientInfo::parse(""), ClientInfo::default());
        assert_eq!(ClientInfo::parse(";;=;x=y;job-id="), ClientInfo::default());
        let info = ClientInfo::parse("JOB-ID = a\u{7}b\"c ;retry=1;retry=2");
        assert_eq!(info.job_id.as_deref(), Some("ab\"c"));
        assert_eq!(info.retry.as_deref(), Some("2"));
        let long = ClientInfo::parse(&format!("job-id={}", "x".repeat(1000)));
        assert_eq!(long.job_id.map(|id| id.len()), Some(VALUE_CHARS_MAX));
    }
}
