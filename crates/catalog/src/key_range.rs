//! Ranges of keys, and reading them in pages.

use bytes::{BufMut, Bytes, BytesMut};
use dewar_kv::{KvRead, Scan};
use dewar_types::{Error, ErrorKind};

/// Half-open range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First key that belongs to it.
    pub from: Bytes,
    /// First key that does not any more.
    pub to: Bytes,
}

impl KeyRange {
    /// All keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(prefix: Bytes) -> Self {
        let to = after_prefix(&prefix);
        Self {
            from: prefix,
            to: to.into(),
        }
    }

    /// The keys of the range from `key` on.
    #[must_use]
    pub fn starting(&self, key: &[u8]) -> Self {
        Self {
            from: Bytes::copy_from_slice(key.max(&self.from)),
            to: self.to.clone(),
        }
    }

    /// Reads the range from its beginning, at most `limit` records at once.
    #[must_use]
    pub fn pages(self, kv: &dyn KvRead, limit: usize) -> Pages<'_> {
        Pages {
            kv,
            from: Some(self.from),
            to: self.to,
            limit,
        }
    }
}

/// A range that is being read; see [`KeyRange::pages`].
pub struct Pages<'k> {
    kv: &'k dyn KvRead,
    /// Where the next page begins; `None` behind the last one.
    from: Option<Bytes>,
    to: Bytes,
    limit: usize,
}

impl Pages<'_> {
    /// Keys and values of the next page, in order; `None` at the end.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn next(&mut self) -> Result<Option<Vec<(Bytes, Bytes)>>, Error> {
        let Some(from) = self.from.take() else {
            return Ok(None);
        };
        let scan = Scan {
            from: &from,
            to: &self.to,
            limit: self.limit,
            reverse: false,
        };
        let page = self.kv.scan(scan).await?;
        if page.more {
            let (last, _) = page.pairs.last().ok_or_else(|| {
                let message = "an engine gave an empty page and said that there is more";
                Error::new(ErrorKind::Internal, message)
            })?;
            self.from = Some(just_after(last));
        }
        Ok(Some(page.pairs))
    }
}

/// The smallest string above every string that begins with `prefix`; empty when there is none.
#[must_use]
pub fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut next = prefix.to_vec();
    while let Some(last) = next.pop() {
        if last < 0xff {
            next.push(last + 1);
            break;
        }
    }
    next
}

/// The smallest string above `key`.
#[must_use]
pub fn just_after(key: &[u8]) -> Bytes {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.put_slice(key);
    next.put_u8(0);
    next.freeze()
}

#[cfg(test)]
mod tests {
    use dewar_kv::{Batch, Kv, MemoryKv};
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn pages_hold_each_record_once() {
        let kv = MemoryKv::new();
        let key = |n: u8| Bytes::copy_from_slice(&[b'a', n]);
        let batch = Batch {
            puts: (0..7).map(|n| (key(n), Bytes::new())).collect(),
            ..Batch::default()
        };
        kv.commit(batch).await.unwrap();
        let mut pages = KeyRange::prefix(Bytes::from_static(b"a")).pages(&kv, 3);
        let mut read = Vec::new();
        while let Some(page) = pages.next().await.unwrap() {
            assert!(page.len() <= 3);
            read.extend(page.into_iter().map(|(key, _)| key));
        }
        assert_eq!(read, (0..7).map(key).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn after_prefix_is_tight(prefix in proptest::collection::vec(any::<u8>(), 0..5), other in proptest::collection::vec(any::<u8>(), 0..7)) {
            let end = after_prefix(&prefix);
            let inside = other >= prefix && (end.is_empty() || other < end);
            prop_assert_eq!(inside, other.starts_with(&prefix));
        }
    }
}
