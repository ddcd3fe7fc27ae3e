//! The bytes of a session token: sealing and opening.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dewar_env::Rng;
use dewar_types::{Timestamp, UserId};
use minicbor::{Decode, Encode};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::{MasterKeyId, MasterKeys, Secret};

/// First byte of a token.
const VERSION: u8 = 1;
const ID_AT: usize = 1;
const SALT_AT: usize = ID_AT + 8;
const SALT_BYTES: usize = 24;
const BODY_AT: usize = SALT_AT + SALT_BYTES;
const TAG_BYTES: usize = 16;

/// Longest token in characters.
const TOKEN_CHARS_MAX: usize = 16 * 1024;

/// The prefix of the access keys of sessions.
pub const SESSION_KEY_PREFIX: &str = "DWST";

const KEY_LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Why a session token is not taken.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SessionError {
    /// Not a session token, or changed.
    #[error("not a session token of this deployment")]
    Malformed,
    /// Too much is to go into it.
    #[error("policies, tags and claims of the session are too long together")]
    TooLong,
}

/// The identity of a session.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SessionPrincipal {
    /// The id of the role or user. A later one of the same name has another id.
    #[n(0)]
    pub id: u64,
    /// Its tenant.
    #[n(1)]
    pub tenant: String,
    /// Its name, with the account's before it.
    #[n(2)]
    pub name: String,
    /// The session's name, of a role; none means a user.
    #[n(3)]
    pub session: Option<String>,
}

/// A session or user from which this session was made. Revoking it also revokes this session.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ParentCredential {
    /// The session's access key, of sessions.
    #[n(0)]
    pub session: Option<String>,
    /// Id of the user or role.
    #[n(1)]
    pub id: UserId,
    /// When the credential was given; nothing for keys, which do not end.
    #[n(2)]
    pub issued: Option<Timestamp>,
    /// The issuer whose token it came from, if it came from one.
    #[n(3)]
    pub issuer: Option<u64>,
}

/// The content of a login token.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TokenFacts {
    /// The issuer's id here.
    #[n(0)]
    pub issuer: u64,
    /// Its address.
    #[n(1)]
    pub url: String,
    /// The token's subject.
    #[n(2)]
    pub subject: String,
    /// Claims that policies may test, by `PROVIDER:claim`.
    #[n(3)]
    pub claims: Vec<(String, Vec<String>)>,
    /// Its capabilities, which restrict the session, and the path that they are relative to.
    #[n(4)]
    pub scope: Option<(String, String)>,
    /// Whether they are named as SciTokens names them.
    #[n(5)]
    pub scitoken: bool,
    /// Names, without provider, of claims that the token had and that are not kept here, as in
    /// [`crate::Bounds::unkept`]. Releases that did not write this field dropped claims without a
    /// record.
    #[n(6)]
    pub unkept: Option<Vec<String>>,
}

/// The kind of a sealed session, if it is not one that signs with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum SessionKind {
    /// The identifier of a macaroon.
    #[n(1)]
    Macaroon,
    /// The same, for a caller with a login token. The issuer's rules decide the user.
    #[n(2)]
    MacaroonOfLogin,
}

/// All that a gateway must know of a session.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Session {
    /// The access key, which is the session's id as well.
    #[n(0)]
    pub access_key: String,
    /// Its secret, in clear: the token as a whole is sealed.
    #[n(1)]
    secret: String,
    /// When it was given.
    #[n(2)]
    pub issued: Timestamp,
    /// When it ends.
    #[n(3)]
    pub expires: Timestamp,
    /// The identity of the session.
    #[n(4)]
    pub became: SessionPrincipal,
    /// Policies that restrict the session, as they were written.
    #[n(5)]
    pub policies: Vec<String>,
    /// Its tags.
    #[n(6)]
    pub tags: Vec<(String, String)>,
    /// The keys of those that go on to sessions that come from it.
    #[n(7)]
    pub transitive: Vec<String>,
    /// The sessions from which this one was made, the latest last.
    #[n(8)]
    pub parents: Vec<ParentCredential>,
    /// The content of the login token.
    #[n(9)]
    pub token: Option<TokenFacts>,
    /// The source identity that the first session of a chain was given. It stays the same along the
    /// chain.
    #[n(10)]
    pub source_identity: Option<String>,
    /// The kind of session, if it is not one that signs with a key.
    #[n(11)]
    pub kind: Option<SessionKind>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("access_key", &self.access_key)
            .field("became", &self.became)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// A new session, with an access key and a secret that are made up here.
    #[must_use]
    pub fn begin(
        rng: &dyn Rng,
        issued: Timestamp,
        expires: Timestamp,
        became: SessionPrincipal,
    ) -> Self {
        let mut bytes = [0; 16];
        rng.fill(&mut bytes);
        let mut access_key = String::from(SESSION_KEY_PREFIX);
        for byte in bytes {
            access_key.push(char::from(
                KEY_LETTERS[usize::from(byte) % KEY_LETTERS.len()],
            ));
        }
        let mut clear = Zeroizing::new([0; 30]);
        rng.fill(&mut *clear);
        Self {
            access_key,
            secret: URL_SAFE_NO_PAD.encode(*clear),
            issued,
            expires,
            became,
            policies: Vec::new(),
            tags: Vec::new(),
            transitive: Vec::new(),
            parents: Vec::new(),
            token: None,
            source_identity: None,
            kind: None,
        }
    }

    /// The secret that belongs to the access key.
    #[must_use]
    pub fn secret(&self) -> Secret {
        Secret::new(self.secret.clone())
    }

    /// The token.
    ///
    /// # Errors
    /// [`SessionError::TooLong`].
    pub fn seal(&self, keys: &MasterKeys, rng: &dyn Rng) -> Result<Secret, SessionError> {
        let mut clear = Zeroizing::new(Vec::with_capacity(4096));
        minicbor::encode(self, &mut *clear).expect("encoding into memory does not fail");
        let id = keys.current();
        let mut out = Vec::with_capacity(BODY_AT + clear.len() + TAG_BYTES);
        out.push(VERSION);
        out.extend_from_slice(&id.0);
        let mut salt = [0; SALT_BYTES];
        rng.fill(&mut salt);
        out.extend_from_slice(&salt);
        let aad = out.clone();
        out.extend_from_slice(&clear);
        let key = key_of(keys, id, &salt).ok_or(SessionError::Malformed)?;
        let tag = key
            .seal_in_place_separate_tag(nonce(), Aad::from(aad), &mut out[BODY_AT..])
            .map_err(|_| SessionError::TooLong)?;
        out.extend_from_slice(tag.as_ref());
        let text = URL_SAFE_NO_PAD.encode(&out);
        if text.len() > TOKEN_CHARS_MAX {
            return Err(SessionError::TooLong);
        }
        Ok(Secret::new(text))
    }

    /// Opens a token. The caller must check expiry and revocation.
    ///
    /// # Errors
    /// [`SessionError::Malformed`].
    pub fn open(keys: &MasterKeys, token: &str) -> Result<Self, SessionError> {
        let malformed = SessionError::Malformed;
        if token.len() > TOKEN_CHARS_MAX {
            return Err(malformed);
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| malformed)?;
        let mut bytes = Zeroizing::new(bytes);
        if bytes.len() < BODY_AT + TAG_BYTES || bytes[0] != VERSION {
            return Err(malformed);
        }
        let id = bytes[ID_AT..SALT_AT].try_into().map_err(|_| malformed)?;
        let aad = bytes[..BODY_AT].to_vec();
        let key = key_of(keys, MasterKeyId(id), &aad[SALT_AT..]).ok_or(malformed)?;
        let clear = key
            .open_in_place(nonce(), Aad::from(aad), &mut bytes[BODY_AT..])
            .map_err(|_| malformed)?;
        minicbor::decode(clear).map_err(|_| malformed)
    }
}

/// A separate key for each session, so that no nonce is ever used twice with one key.
fn key_of(keys: &MasterKeys, id: MasterKeyId, salt: &[u8]) -> Option<LessSafeKey> {
    let bytes = keys.derive(id, b"dewar session token\0", salt)?;
    let unbound = UnboundKey::new(&AES_256_GCM, &*bytes).expect("32 bytes are an AES-256 key");
    Some(LessSafeKey::new(unbound))
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[cfg(test)]
mod tests {
    use dewar_env::RealRng;

    use super::*;

    /// Master keys of sevens, everything else of nines: the input of the samples.
    struct Constant;

    impl Rng for Constant {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(if bytes.len() == 32 { 7 } else { 9 });
        }
    }

    fn session() -> Session {
        let became = SessionPrincipal {
            id: 7,
            tenant: String::new(),
            name: "reader".into(),
            session: Some("me".into()),
        };
        let (issued, expires) = (Timestamp::from_secs(1000), Timestamp::from_secs(4600));
        Session {
            policies: vec!["{}".into()],
            tags: vec![("a".into(), "b".into())],
            parents: vec![ParentCredential {
                session: None,
                id: UserId(3),
                issued: None,
                issuer: None,
            }],
            ..Session::begin(&RealRng, issued, expires, became)
        }
    }

    #[test]
    fn opens_what_it_sealed_and_nothing_else() {
        let keys = MasterKeys::generate(&RealRng);
        let session = session();
        assert_eq!(session.access_key.len(), 20);
        assert_eq!(session.secret().reveal().len(), 40);
        let token = session.seal(&keys, &RealRng).expect("seals");
        assert_eq!(Session::open(&keys, token.reveal()), Ok(session.clone()));
        assert!(!token.reveal().contains("reader"));
        assert_ne!(session.seal(&keys, &RealRng).expect("seals"), token);
        let bytes = URL_SAFE_NO_PAD.decode(token.reveal()).expect("base64");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let text = URL_SAFE_NO_PAD.encode(&changed);
            assert!(Session::open(&keys, &text).is_err(), "byte {at}");
            let cut = URL_SAFE_NO_PAD.encode(&bytes[..at]);
            assert!(Session::open(&keys, &cut).is_err(), "cut at {at}");
        }
        let others = MasterKeys::generate(&RealRng);
        assert!(Session::open(&others, token.reveal()).is_err());
    }

    #[test]
    fn what_is_too_long_for_a_header_is_refused() {
        let keys = MasterKeys::generate(&RealRng);
        let mut session = session();
        session.policies = vec!["x".repeat(13_000)];
        assert_eq!(session.seal(&keys, &RealRng), Err(SessionError::TooLong));
    }

    /// Version 1 must always open. The sample was made by another implementation (Python's
    /// `cryptography`) from master key 32 x 0x07, salt 24 x 0x09 and the layout in the format page.
    #[test]
    fn a_session_of_version_1_opens() {
        let keys = MasterKeys::generate(&Constant);
        let token = include_str!("../../testdata/session-v1/token.txt").trim();
        let session = Session::open(&keys, token).expect("opens");
        assert_eq!(session.became.name, "reader");
        assert_eq!(session.expires, Timestamp::from_secs(4600));
        assert_eq!(
            session.seal(&keys, &Constant).expect("seals").reveal(),
            token
        );
    }

    /// The same for a session with a login token, as release 708fabe wrote it: it does not record
    /// whether all claims are there.
    #[test]
    fn a_login_session_without_a_list_of_unkept_claims_opens() {
        let keys = MasterKeys::generate(&Constant);
        let token = include_str!("../../testdata/session-v1/login.txt").trim();
        let session = Session::open(&keys, token).expect("opens");
        assert_eq!(session, login());
        assert_eq!(
            session.seal(&keys, &Constant).expect("seals").reveal(),
            token
        );
    }

    fn login() -> Session {
        let became = SessionPrincipal {
            id: 9,
            tenant: String::new(),
            name: "ann@idp.example.org".into(),
            session: None,
        };
        let claims = |name: &str, values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            (format!("idp.example.org:{name}"), values)
        };
        let (issued, expires) = (Timestamp::from_secs(1000), Timestamp::from_secs(4600));
        let mut session = Session::begin(&Constant, issued, expires, became);
        session.kind = Some(SessionKind::MacaroonOfLogin);
        session.token = Some(TokenFacts {
            issuer: 5,
            url: "https://idp.example.org".into(),
            subject: "ann".into(),
            claims: vec![claims("groups", &["/a", "/b"]), claims("sub", &["ann"])],
            scope: Some(("storage.read:/".into(), "/data".into())),
            scitoken: false,
            unkept: None,
        });
        session
    }
}
