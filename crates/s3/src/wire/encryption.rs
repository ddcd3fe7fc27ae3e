//! Headers of encryption at rest: SSE-S3, where the key is Dewar's, and SSE-C, where the customer
//! sends it with each request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dewar_checksum::{Algorithm, Digest, md5};
use dewar_http_front::header;
use dewar_store::{CustomerKey, Encryption, EncryptionMode};
use http::{HeaderMap, HeaderValue};
use zeroize::Zeroizing;

use crate::door::RequestContext;
use crate::error::{Code, Refusal, Result};

const MANAGED: &str = "x-amz-server-side-encryption";
const AES256: &str = "AES256";
const KEY_BYTES: usize = 32;

/// The three headers of a customer's key.
struct CustomerKeyHeaders {
    algorithm: &'static str,
    key: &'static str,
    md5: &'static str,
}

const OF_OBJECT: CustomerKeyHeaders = CustomerKeyHeaders {
    algorithm: "x-amz-server-side-encryption-customer-algorithm",
    key: "x-amz-server-side-encryption-customer-key",
    md5: "x-amz-server-side-encryption-customer-key-md5",
};

const OF_SOURCE: CustomerKeyHeaders = CustomerKeyHeaders {
    algorithm: "x-amz-copy-source-server-side-encryption-customer-algorithm",
    key: "x-amz-copy-source-server-side-encryption-customer-key",
    md5: "x-amz-copy-source-server-side-encryption-customer-key-md5",
};

/// The encryption of new content.
///
/// # Errors
/// `InvalidArgument`, `InvalidEncryptionAlgorithmError`, `NotImplemented` for keys of a key
/// management service, `InvalidRequest` for a key over a connection without TLS.
pub(crate) fn encryption_of(
    context: &RequestContext,
    headers: &HeaderMap,
) -> Result<Option<Encryption>> {
    let customer = key_of(context, headers, &OF_OBJECT)?;
    match (header(headers, MANAGED)?, customer) {
        (None, None) => Ok(None),
        (None, Some(key)) => Ok(Some(Encryption::Customer(key))),
        (Some(_), Some(_)) => {
            let message = "Server Side Encryption with Customer provided key is incompatible with \
                           the encryption method specified";
            Err(Refusal::new(Code::InvalidArgument, message).element("ArgumentName", MANAGED))
        }
        (Some(AES256), None) => Ok(Some(Encryption::Dewar)),
        (Some(method @ ("aws:kms" | "aws:kms:dsse")), None) => Err(Refusal::new(
            Code::NotImplemented,
            format!(
                "A header you provided implies functionality that is not implemented: {method}"
            ),
        )),
        (Some(method), None) => {
            let message = "The encryption method specified is not supported";
            Err(Refusal::new(Code::InvalidArgument, message)
                .element("ArgumentName", MANAGED)
                .element("ArgumentValue", method))
        }
    }
}

/// The customer's key for reading an object, or for continuing an upload.
///
/// # Errors
/// As [`encryption_of`]; `InvalidRequest` when an encryption is requested, because it was decided
/// when the object was written.
pub(crate) fn customer_key(context: &RequestContext) -> Result<Option<CustomerKey>> {
    let headers = context.headers();
    if headers.contains_key(MANAGED) {
        let message = "The encryption parameters are not applicable to this request.";
        return Err(Refusal::new(Code::InvalidRequest, message).element("ArgumentName", MANAGED));
    }
    key_of(context, headers, &OF_OBJECT)
}

/// The customer's key of the source of a copy.
///
/// # Errors
/// As [`encryption_of`].
pub(crate) fn source_key(context: &RequestContext) -> Result<Option<CustomerKey>> {
    key_of(context, context.headers(), &OF_SOURCE)
}

/// Adds the encryption headers to an answer. `asked` are the headers with the customer's key, whose
/// digest is returned.
pub(crate) fn encryption_headers(
    headers: &mut HeaderMap,
    encrypted: Option<EncryptionMode>,
    asked: &HeaderMap,
) {
    let aes = HeaderValue::from_static(AES256);
    match encrypted {
        None => {}
        Some(EncryptionMode::ByDewar) => {
            headers.insert(MANAGED, aes);
        }
        Some(EncryptionMode::ByCustomer) => {
            headers.insert(OF_OBJECT.algorithm, aes);
            if let Some(md5) = asked.get(OF_OBJECT.md5) {
                headers.insert(OF_OBJECT.md5, md5.clone());
            }
        }
    }
}

fn key_of(
    context: &RequestContext,
    headers: &HeaderMap,
    names: &CustomerKeyHeaders,
) -> Result<Option<CustomerKey>> {
    let algorithm = header(headers, names.algorithm)?;
    let (key, stated) = (header(headers, names.key)?, header(headers, names.md5)?);
    if algorithm.is_none() && key.is_none() && stated.is_none() {
        return Ok(None);
    }
    let refused = |message: &'static str, argument: &'static str| {
        Refusal::new(Code::InvalidArgument, message).element("ArgumentName", argument)
    };
    match algorithm {
        Some(AES256) => {}
        Some(other) => {
            let message =
                "The Encryption request you specified is not valid. Supported value: AES256";
            return Err(Refusal::new(Code::InvalidEncryptionAlgorithmError, message)
                .element("ArgumentName", names.algorithm)
                .element("ArgumentValue", other));
        }
        None => {
            let message = "Requests specifying Server Side Encryption with Customer provided keys \
                           must provide a valid encryption algorithm.";
            return Err(refused(message, names.algorithm));
        }
    }
    let Some(key) = key else {
        let message = "Requests specifying Server Side Encryption with Customer provided keys must \
                       provide an appropriate secret key.";
        return Err(refused(message, names.key));
    };
    let Some(stated) = stated else {
        let message = "Requests specifying Server Side Encryption with Customer provided keys must \
                       provide the client calculated MD5 of the secret key.";
        return Err(refused(message, names.md5));
    };
    let invalid = || {
        refused(
            "The secret key was invalid for the specified algorithm.",
            names.key,
        )
    };
    let bytes = Zeroizing::new(STANDARD.decode(key).map_err(|_| invalid())?);
    let bytes: Zeroizing<[u8; KEY_BYTES]> =
        Zeroizing::new(bytes.as_slice().try_into().map_err(|_| invalid())?);
    let stated = Digest::from_base64(Algorithm::Md5, stated).ok();
    if stated.is_none_or(|stated| stated.as_bytes() != md5(&*bytes)) {
        let message =
            "The calculated MD5 hash of the key did not match the hash that was provided.";
        return Err(refused(message, names.md5));
    }
    let origin = context.caller.origin();
    let local = origin.address.is_some_and(|address| address.is_loopback());
    if !origin.secure && !local {
        let message = "Requests specifying Server Side Encryption with Customer provided keys must \
                       be made over a secure connection.";
        return Err(Refusal::new(Code::InvalidRequest, message));
    }
    Ok(Some(CustomerKey::new(*bytes)))
}
