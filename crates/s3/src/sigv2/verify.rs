//! Verifying a V2 signature, in the Authorization header or in the query string.

use dewar_sigv4::Query;
use dewar_types::Timestamp;
use http::HeaderMap;
use http::header::DATE;
use http::request::Parts;

use super::{AuthorizationV2, PresignedUrlV2, canonical, verifies};
use crate::error::{Code, Refusal, Result};
use crate::sigv4::{
    AMZ_DATE, CONTENT_SHA256, SECURITY_TOKEN, SignatureCheck, VerifiedSignature, Verifier,
    check_skew, header_date, mismatch, single,
};

/// A key and the data that it signs, before any secret is known.
struct Proof<'a> {
    access_key: &'a str,
    /// The session token that goes with the key.
    token: Option<&'a str>,
    signature: &'a str,
    /// The possible strings to sign. If none matches, the first is reported.
    strings: Vec<String>,
}

impl Verifier {
    /// Order: the header is parsed, the date compared with the clock, then the key looked up and
    /// the signature compared in constant time. The body is verified only if the request has a
    /// Content-MD5.
    ///
    /// # Errors
    /// S3's code for each kind of wrong signature.
    pub(crate) async fn verify_header_v2(
        &self,
        head: &Parts,
        query: &Query,
        bucket: Option<&str>,
        value: &str,
        now: Timestamp,
    ) -> Result<SignatureCheck> {
        self.check_takes_v2()?;
        let authorization = AuthorizationV2::parse(value)?;
        canonical::check_parameters(query)?;
        check_skew(&header_date(&head.headers)?, now)?;
        let proof = Proof {
            access_key: &authorization.access_key,
            token: single(&head.headers, &SECURITY_TOKEN)?,
            signature: &authorization.signature,
            strings: canonical::strings_to_sign(head, query, bucket, &dates(&head.headers)?),
        };
        self.prove_v2(head, &proof).await
    }

    /// Order: the query string is parsed, its expiry compared with the clock, then as for the
    /// header.
    ///
    /// # Errors
    /// S3's code for each kind of wrong signature.
    pub(crate) async fn verify_presigned_v2(
        &self,
        head: &Parts,
        query: &Query,
        bucket: Option<&str>,
        now: Timestamp,
    ) -> Result<SignatureCheck> {
        self.check_takes_v2()?;
        let presigned = PresignedUrlV2::parse(query)?;
        presigned.check_time(now)?;
        let token = query.get("x-amz-security-token");
        let proof = Proof {
            access_key: &presigned.access_key,
            token: token.or(single(&head.headers, &SECURITY_TOKEN)?),
            signature: &presigned.signature,
            strings: presigned.strings_to_sign(head, query, bucket),
        };
        self.prove_v2(head, &proof).await
    }

    /// Refuses V2 for calls of IAM and STS, whose content is in the body, which V2 does not sign.
    fn check_takes_v2(&self) -> Result<()> {
        if self.serves_s3() {
            return Ok(());
        }
        let message = "The authorization mechanism you have provided is not supported. Please use \
                       AWS4-HMAC-SHA256.";
        Err(Refusal::new(Code::InvalidRequest, message))
    }

    /// Looks the key up and compares the signature.
    async fn prove_v2(&self, head: &Parts, proof: &Proof<'_>) -> Result<SignatureCheck> {
        let key = self.key(proof.access_key, proof.token).await?;
        let signed = |text: &String| verifies(&key.secret, text, proof.signature);
        if !proof.strings.iter().any(signed) {
            let refusal = mismatch()
                .element("AWSAccessKeyId", proof.access_key)
                .element("SignatureProvided", proof.signature);
            // With a session token, the string would put a credential into the answer.
            let told = proof.strings.first().filter(|_| proof.token.is_none());
            return Err(match told {
                Some(text) => refusal.element("StringToSign", text.as_str()),
                None => refusal,
            });
        }
        let payload = single(&head.headers, &CONTENT_SHA256)?;
        Ok(SignatureCheck::Signed(Box::new(VerifiedSignature {
            key,
            payload: payload.map(str::to_owned),
            chunks: None,
        })))
    }
}

/// The possible values of the date line. With `x-amz-date`, which is signed among the headers, it
/// is empty. But botocore puts the Date header there even then.
fn dates(headers: &HeaderMap) -> Result<Vec<&str>> {
    let date = single(headers, &DATE)?;
    Ok(match (single(headers, &AMZ_DATE)?, date) {
        (None, date) => vec![date.unwrap_or_default()],
        (Some(_), None) => vec![""],
        (Some(_), Some(date)) => vec!["", date],
    })
}

#[cfg(test)]
mod tests {
    use dewar_auth::Secret;

    use super::*;

    fn verifies_as(request: http::request::Builder, bucket: Option<&str>, signature: &str) -> bool {
        let head = request.body(()).expect("a request").into_parts().0;
        let query = Query::parse(head.uri.query()).expect("a query");
        let dates = dates(&head.headers).expect("dates");
        let strings = canonical::strings_to_sign(&head, &query, bucket, &dates);
        let secret = Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into());
        strings
            .iter()
            .any(|text| verifies(&secret, text, signature))
    }

    /// The examples of the S3 guide, "Signing and authenticating REST requests".
    #[test]
    fn the_examples_of_the_guide_verify() {
        let get = http::Request::get("/photos/puppy.jpg")
            .header("date", "Tue, 27 Mar 2007 19:36:42 +0000");
        assert!(verifies_as(
            get,
            Some("awsexamplebucket1"),
            "qgk2+6Sv9/oM7G3qLEjTH1a1l1g="
        ));
        let put = http::Request::put("/photos/puppy.jpg")
            .header("content-type", "image/jpeg")
            .header("content-length", "94328")
            .header("date", "Tue, 27 Mar 2007 21:15:45 +0000");
        assert!(verifies_as(
            put,
            Some("awsexamplebucket1"),
            "iqRzw+ileNPu1fhspnRs8nOjjIA="
        ));
        let list = http::Request::get("/?prefix=photos&max-keys=50&marker=puppy")
            .header("date", "Tue, 27 Mar 2007 19:42:41 +0000");
        assert!(verifies_as(
            list,
            Some("awsexamplebucket1"),
            "m0WP8eCtspQl5Ahe6L1SozdX9YA="
        ));
        let acl = http::Request::get("/?acl").header("date", "Tue, 27 Mar 2007 19:44:46 +0000");
        assert!(verifies_as(
            acl,
            Some("awsexamplebucket1"),
            "82ZHiFIjc+WbcwFKGUVEQspPn+0="
        ));
        let delete = http::Request::delete("/awsexamplebucket1/photos/puppy.jpg")
            .header("date", "Tue, 27 Mar 2007 21:20:26 +0000");
        assert!(verifies_as(delete, None, "XbyTlbQdu9Xw5o8P4iMwPktxQd8="));
        let upload = http::Request::put("/db-backup.dat.gz")
            .header("content-type", "application/x-download")
            .header("content-md5", "4gJE4saaMU4BqNR0kLY+lw==")
            .header("x-amz-acl", "public-read")
            .header("x-amz-meta-reviewedby", "joe@example.com")
            .header("x-amz-meta-reviewedby", "jane@example.com")
            .header("x-amz-meta-filechecksum", "0x02661779")
            .header("x-amz-meta-checksumalgorithm", "crc32")
            .header("date", "Tue, 27 Mar 2007 21:06:08 +0000");
        assert!(verifies_as(
            upload,
            Some("static.example.com"),
            "jtBQa0Aq+DkULFI8qrpwIjGEx0E="
        ));
        let get = http::Request::get("/photos/puppy.jpg")
            .header("date", "Tue, 27 Mar 2007 19:36:43 +0000");
        assert!(!verifies_as(
            get,
            Some("awsexamplebucket1"),
            "qgk2+6Sv9/oM7G3qLEjTH1a1l1g="
        ));
    }

    #[test]
    fn x_amz_date_takes_the_place_of_date() {
        let with = |date: Option<&str>| {
            let request = http::Request::get("/b/k").header("x-amz-date", "now");
            let request = match date {
                Some(date) => request.header("date", date),
                None => request,
            };
            let head = request.body(()).expect("a request").into_parts().0;
            let dates = dates(&head.headers).expect("dates");
            dates
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(with(None), [""]);
        assert_eq!(with(Some("then")), ["", "then"]);
    }
}
