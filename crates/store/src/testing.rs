//! Users, requests and content for the tests of this and other crates. All functions panic on an
//! error.

use bytes::Bytes;
use dewar_auth::{Caller, CredentialStore as _, Origin};
use dewar_checksum::{Algorithm, AlgorithmSet};
use dewar_types::{BucketName, ObjectKey, UserId};

use crate::Store;
use crate::api::{BucketRef, GetRequest, ObjectRef, ReadCondition, WriteRequest};

/// Adds a user with a key, by which it calls.
pub async fn user(store: &Store, name: &str, id: u64) -> Caller {
    let accounts = store.accounts();
    accounts.add_user(UserId(id), name).await.expect("added");
    let (key, _) = accounts.add_key(name, None, None).await.expect("added");
    let key = accounts
        .access_key(&key)
        .await
        .expect("read")
        .expect("valid");
    Caller::by_access_key(&key, origin())
}

/// A local call over TLS.
#[must_use]
pub fn origin() -> Origin {
    Origin {
        address: None,
        secure: true,
    }
}

/// A bucket of the default tenant.
#[must_use]
pub fn bucket(name: &str) -> BucketRef {
    BucketRef::own(BucketName::new(name).expect("valid"))
}

/// A write of an object in the bucket `first`, with its MD5.
#[must_use]
pub fn put_request(key: &str) -> WriteRequest {
    WriteRequest {
        want: AlgorithmSet::EMPTY.with(Algorithm::Md5),
        ..WriteRequest::new(object(key))
    }
}

/// An object in the bucket `first`.
#[must_use]
pub fn object(key: &str) -> ObjectRef {
    ObjectRef {
        bucket: bucket("first"),
        key: ObjectKey::new(key).expect("valid"),
    }
}

/// A read of all of an object in the bucket `first`.
#[must_use]
pub fn get(key: &str) -> GetRequest {
    GetRequest {
        customer_key: None,
        version: None,
        object: object(key),
        range: None,
        part: None,
        condition: ReadCondition::default(),
    }
}

/// Bytes that a seed determines.
#[must_use]
pub fn content(len: usize, seed: u64) -> Bytes {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        })
        .collect::<Vec<u8>>()
        .into()
}
