//! Defects of requests in S3's words.

use dewar_http_front::RequestError;

use super::{Code, Refusal};

impl From<RequestError> for Refusal {
    fn from(error: RequestError) -> Self {
        let code = match error {
            RequestError::Header(_) | RequestError::Value(_) | RequestError::Macaroon(_) => {
                Code::InvalidArgument
            }
            RequestError::TransferCoding => Code::NotImplemented,
            RequestError::Length(_) | RequestError::TooLong => Code::InvalidRequest,
            RequestError::Stalled => Code::RequestTimeout,
            RequestError::Incomplete => Code::IncompleteBody,
            RequestError::TooLarge { .. } => Code::EntityTooLarge,
            RequestError::Form(_) => Code::MalformedPOSTRequest,
        };
        let refusal = Self::new(code, error.to_string());
        match error {
            RequestError::TooLarge { size, largest } => refusal
                .element("ProposedSize", size.to_string())
                .element("MaxSizeAllowed", largest.to_string()),
            _ => refusal,
        }
    }
}
