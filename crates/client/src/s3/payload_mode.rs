//! The ways in which a signature covers a body.

/// How the body of a PUT is covered by the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PayloadMode {
    /// `UNSIGNED-PAYLOAD`: the body is not covered. Costs neither side anything.
    Unsigned,
    /// The SHA-256 of the whole body in `x-amz-content-sha256`, computed before it is sent.
    Signed,
    /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER`: aws-chunked with a CRC-32 trailer, what today's SDKs
    /// send by default over https.
    StreamingTrailer,
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`: aws-chunked, each chunk signed.
    StreamingSigned,
}

impl PayloadMode {
    /// The name used on the command line and in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unsigned => "unsigned",
            Self::Signed => "signed",
            Self::StreamingTrailer => "streaming-trailer",
            Self::StreamingSigned => "streaming-signed",
        }
    }
}
