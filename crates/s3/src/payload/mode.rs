//! How a body is framed and what vouches for it.

use dewar_sigv4::{
    STREAMING_SIGNED, STREAMING_SIGNED_TRAILER, STREAMING_UNSIGNED_TRAILER, UNSIGNED_PAYLOAD,
    parse_hex_32,
};

use crate::error::{Code, Refusal, Result};

/// The kind of body that `x-amz-content-sha256` announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadMode {
    /// The body is the object, and has this SHA-256.
    Exact([u8; 32]),
    /// The body is the object.
    Unsigned,
    /// The body is in aws-chunked framing.
    Chunked {
        /// Each chunk, and the trailers if any, carry a signature.
        signed: bool,
        /// Trailers follow the last chunk.
        trailers: bool,
    },
}

impl PayloadMode {
    /// Reads the header's value; no value is an unsigned payload.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown word or broken digest, `NotImplemented` for V4A.
    pub fn parse(value: Option<&str>) -> Result<Self> {
        let chunked = |signed, trailers| Ok(Self::Chunked { signed, trailers });
        match value {
            None | Some(UNSIGNED_PAYLOAD) => Ok(Self::Unsigned),
            Some(STREAMING_UNSIGNED_TRAILER) => chunked(false, true),
            Some(STREAMING_SIGNED) => chunked(true, false),
            Some(STREAMING_SIGNED_TRAILER) => chunked(true, true),
            Some(text) if text.starts_with("STREAMING-AWS4-ECDSA") => Err(Refusal::new(
                Code::NotImplemented,
                "Signature Version 4A is not supported.",
            )),
            Some(text) => parse_hex_32(text).map(Self::Exact).ok_or_else(|| {
                Refusal::new(
                    Code::InvalidArgument,
                    "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, \
                     STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, \
                     STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid sha256 value.",
                )
                .element("ArgumentName", "x-amz-content-sha256")
                .element("ArgumentValue", text)
            }),
        }
    }

    /// Whether the body is framed.
    #[must_use]
    pub fn is_chunked(self) -> bool {
        matches!(self, Self::Chunked { .. })
    }
}

/// A Content-Encoding without `aws-chunked`, which describes the transfer and not the object.
/// `None` when nothing else was in it.
#[must_use]
pub fn strip_aws_chunked(encoding: &str) -> Option<String> {
    let framed = |coding: &str| coding.trim().eq_ignore_ascii_case("aws-chunked");
    if !encoding.split(',').any(framed) {
        let encoding = encoding.trim();
        return (!encoding.is_empty()).then(|| encoding.to_owned());
    }
    let kept: Vec<&str> = encoding
        .split(',')
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && !framed(coding))
        .collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_five_modes() {
        let parse = |text| PayloadMode::parse(Some(text));
        let chunked = |signed, trailers| PayloadMode::Chunked { signed, trailers };
        assert_eq!(
            PayloadMode::parse(None).expect("fine"),
            PayloadMode::Unsigned
        );
        assert_eq!(
            parse("UNSIGNED-PAYLOAD").expect("fine"),
            PayloadMode::Unsigned
        );
        assert_eq!(
            parse("STREAMING-UNSIGNED-PAYLOAD-TRAILER").expect("fine"),
            chunked(false, true)
        );
        assert_eq!(
            parse("STREAMING-AWS4-HMAC-SHA256-PAYLOAD").expect("fine"),
            chunked(true, false)
        );
        assert_eq!(
            parse("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER").expect("fine"),
            chunked(true, true)
        );
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert!(matches!(parse(empty), Ok(PayloadMode::Exact([0xe3, ..]))));
        for bad in [
            "",
            "unsigned-payload",
            "STREAMING-X",
            &empty[1..],
            &empty.to_uppercase(),
        ] {
            let refusal = PayloadMode::parse(Some(bad)).expect_err(bad);
            assert_eq!(refusal.code(), Code::InvalidArgument, "{bad}");
        }
    }

    #[test]
    fn keeps_other_encodings() {
        assert_eq!(strip_aws_chunked("aws-chunked"), None);
        assert_eq!(
            strip_aws_chunked("aws-chunked,gzip").as_deref(),
            Some("gzip")
        );
        assert_eq!(
            strip_aws_chunked("gzip, AWS-chunked , br").as_deref(),
            Some("gzip,br")
        );
        assert_eq!(
            strip_aws_chunked("deflate, gzip").as_deref(),
            Some("deflate, gzip")
        );
        assert_eq!(strip_aws_chunked(""), None);
    }
}
