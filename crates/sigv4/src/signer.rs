//! The signing side.

use std::convert::Infallible;

use zeroize::Zeroizing;

use crate::canonical::{push_headers, string_to_sign};
use crate::encode::{encode_path, encode_strict};
use crate::{
    ALGORITHM, ChunkChain, CredentialScope, RequestDate, Signature, SigningKey, UNSIGNED_PAYLOAD,
};

/// An access key and its secret. The secret is wiped from memory when dropped and never printed.
#[derive(Clone)]
pub struct Credentials {
    /// The access key id, public.
    pub access_key: String,
    secret_key: Zeroizing<String>,
}

impl Credentials {
    /// A pair of access key id and secret key.
    #[must_use]
    pub fn new(access_key: &str, secret_key: &str) -> Self {
        Self {
            access_key: access_key.to_owned(),
            secret_key: Zeroizing::new(secret_key.to_owned()),
        }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key", &self.access_key)
            .finish_non_exhaustive()
    }
}

/// A request that is about to be sent, in the parts that its signature covers.
#[derive(Debug)]
pub struct RequestToSign<'a> {
    /// `GET`, `PUT` and so on.
    pub method: &'a str,
    /// The path as it will be sent: percent-encoded, and beginning with a slash.
    pub path: &'a str,
    /// The query, percent-encoded pairs joined by `&`, sorted by name; empty if there is none.
    pub query: &'a str,
    /// Headers to sign: names in lower case, sorted; values trimmed.
    pub headers: &'a [(&'a str, &'a str)],
    /// The value of `x-amz-content-sha256`.
    pub payload: &'a str,
}

/// Signs the requests of one connection to S3. A signer derives its key once a day, and reuses its
/// buffers.
pub struct Signer {
    secret_key: Zeroizing<String>,
    date: RequestDate,
    scope: CredentialScope,
    key: SigningKey,
    header_names: String,
    canonical: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer")
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

impl Signer {
    /// A signer for `region`, at `secs` seconds since 1970. [`Signer::tick`] advances the time.
    #[must_use]
    pub fn new(credentials: Credentials, region: &str, secs: u64) -> Self {
        let date = RequestDate::at(secs);
        let scope = CredentialScope {
            access_key: credentials.access_key,
            day: date.day().to_owned(),
            region: region.to_owned(),
            service: "s3".to_owned(),
        };
        Self {
            key: SigningKey::derive(&credentials.secret_key, &scope),
            secret_key: credentials.secret_key,
            date,
            scope,
            header_names: String::new(),
            canonical: String::new(),
        }
    }

    /// Sets the time of the following signatures; derives a new key when the UTC day changed.
    pub fn tick(&mut self, secs: u64) {
        if secs == self.date.secs() {
            return;
        }
        self.date = RequestDate::at(secs);
        if self.date.day() != self.scope.day {
            self.date.day().clone_into(&mut self.scope.day);
            self.key = SigningKey::derive(&self.secret_key, &self.scope);
        }
    }

    /// The time of the signatures; its text is the value of `x-amz-date`.
    #[must_use]
    pub fn date(&self) -> &RequestDate {
        &self.date
    }

    /// Signs a request.
    pub fn sign(&mut self, request: &RequestToSign<'_>) -> Signature {
        self.header_names.clear();
        for (i, (name, _)) in request.headers.iter().enumerate() {
            if i > 0 {
                self.header_names.push(';');
            }
            self.header_names.push_str(name);
        }
        self.canonical.clear();
        for line in [request.method, request.path, request.query] {
            self.canonical.push_str(line);
            self.canonical.push('\n');
        }
        let mut values = request.headers.iter().map(|(_, value)| *value);
        let Ok(()) = push_headers::<Infallible>(
            &mut self.canonical,
            &self.header_names,
            request.payload,
            |out, _| {
                out.extend(values.next());
                Ok(())
            },
        );
        let string = string_to_sign(&self.canonical, &self.date, &self.scope);
        self.key.sign(&string)
    }

    /// Appends the value of the `authorization` header to `out` and returns the signature, which
    /// seeds the chain of chunk signatures.
    pub fn authorize(&mut self, request: &RequestToSign<'_>, out: &mut Vec<u8>) -> Signature {
        let signature = self.sign(request);
        let (scope, names) = (&self.scope, &self.header_names);
        let value =
            format!("{ALGORITHM} Credential={scope},SignedHeaders={names},Signature={signature}");
        out.extend_from_slice(value.as_bytes());
        signature
    }

    /// Signs the chunks of the request that has this signature.
    #[must_use]
    pub fn chunks(&self, request: Signature) -> ChunkChain {
        ChunkChain::new(self.key.clone(), &self.date, &self.scope, request)
    }

    /// A URL that allows a request for some seconds, a week at most, as `generate_presigned_url` of
    /// an SDK makes it. `endpoint` is `https://HOST[:PORT]`, and `path` is not encoded. `None` for
    /// an endpoint without a host.
    pub fn presigned_url(
        &mut self,
        method: &str,
        endpoint: &str,
        path: &str,
        seconds: u64,
    ) -> Option<String> {
        let (scheme, host) = endpoint.trim_end_matches('/').split_once("://")?;
        let default = match scheme {
            "https" => ":443",
            "http" => ":80",
            _ => return None,
        };
        // Clients leave the usual port out of the header that is signed.
        let host = host.strip_suffix(default).unwrap_or(host);
        if host.is_empty() || host.contains('/') {
            return None;
        }
        let (mut encoded, mut credential) = (String::new(), String::new());
        encode_path(&mut encoded, path.as_bytes());
        encode_strict(&mut credential, self.scope.to_string().as_bytes());
        let date = self.date.as_str();
        let query = format!(
            "X-Amz-Algorithm={ALGORITHM}&X-Amz-Credential={credential}&X-Amz-Date={date}&\
             X-Amz-Expires={seconds}&X-Amz-SignedHeaders=host"
        );
        let signature = self.sign(&RequestToSign {
            method,
            path: &encoded,
            query: &query,
            headers: &[("host", host)],
            payload: UNSIGNED_PAYLOAD,
        });
        Some(format!(
            "{scheme}://{host}{encoded}?{query}&X-Amz-Signature={signature}"
        ))
    }
}
