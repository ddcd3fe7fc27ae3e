//! All digests of an upload, its MD5 hashed on lanes shared with other uploads.

use bytes::Bytes;

use crate::{Algorithm, AlgorithmSet, DigestSet, Md5Lanes, Md5Stream, Pipeline};

/// The digests of an upload, computed while its bytes come in. A [`Pipeline`] computes digests that
/// need no waiting; an [`Md5Stream`] computes the MD5, if it is needed.
///
/// Cancellation-safe as [`Md5Stream::update`] is: a chunk belongs to the stream from the first poll
/// on.
///
/// If the bytes need no other processing, call `update` and then send the chunk on. If both can run
/// at the same time, split it: the digests of [`StreamDigests::pipeline_mut`] need no waiting, and
/// [`StreamDigests::update_md5`] may be awaited together with a disk.
#[derive(Debug)]
pub struct StreamDigests {
    pipeline: Pipeline,
    md5: Option<Md5Stream>,
}

impl StreamDigests {
    /// A stream without bytes that computes `want` and [`AlgorithmSet::ALWAYS`].
    #[must_use]
    pub fn new(want: AlgorithmSet, lanes: &Md5Lanes) -> Self {
        Self {
            pipeline: Pipeline::new(want.without(Algorithm::Md5)),
            md5: want.contains(Algorithm::Md5).then(|| lanes.stream()),
        }
    }

    /// Takes the next bytes, at most about 1 MiB. Digests that are computed at once block the
    /// thread meanwhile (SHA-256 about half a millisecond for 1 MiB).
    pub async fn update(&mut self, chunk: Bytes) {
        self.pipeline.update(&chunk);
        self.update_md5(chunk).await;
    }

    /// The same for bytes whose CRC-32C is known; see [`Pipeline::update_with_crc32c`].
    pub async fn update_with_crc32c(&mut self, chunk: Bytes, crc32c_of_chunk: u32) {
        self.pipeline.update_with_crc32c(&chunk, crc32c_of_chunk);
        self.update_md5(chunk).await;
    }

    /// The digests that never wait. All bytes given to it must go to [`StreamDigests::update_md5`]
    /// too.
    pub fn pipeline_mut(&mut self) -> &mut Pipeline {
        &mut self.pipeline
    }

    /// Adds bytes to the MD5 alone, if it is requested.
    pub async fn update_md5(&mut self, chunk: Bytes) {
        if let Some(md5) = &mut self.md5 {
            md5.update(chunk).await;
        }
    }

    /// Bytes taken in so far.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.pipeline.length()
    }

    /// The digests of all bytes taken in.
    pub async fn finish(self) -> DigestSet {
        let set = self.pipeline.finish();
        match self.md5 {
            Some(md5) => set.with_md5(md5.finish().await),
            None => set,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{crc32c, md5};

    #[tokio::test]
    async fn as_the_pipeline_alone() {
        let lanes = Md5Lanes::new();
        let want: AlgorithmSet = Algorithm::ALL.into_iter().collect();
        let tasks: Vec<_> = (0..5u8)
            .map(|i| {
                let mut digests = StreamDigests::new(want, &lanes);
                tokio::spawn(async move {
                    let body = Bytes::from(vec![i; 300_000 + usize::from(i) * 777]);
                    for (n, chunk) in body.chunks(70_000).enumerate() {
                        let chunk = body.slice_ref(chunk);
                        if n % 2 == 0 {
                            digests.update(chunk).await;
                        } else {
                            let crc = crc32c(&chunk);
                            digests.update_with_crc32c(chunk, crc).await;
                        }
                    }
                    assert_eq!(digests.length(), body.len() as u64);
                    (body, digests.finish().await)
                })
            })
            .collect();
        for task in tasks {
            let (body, found) = task.await.expect("no panic");
            let mut pipeline = Pipeline::new(want);
            pipeline.update(&body);
            assert_eq!(found, pipeline.finish());
            assert_eq!(found.md5(), Some(md5(&body)));
        }
        assert!(lanes.lane_use().jobs > 0);
    }

    #[tokio::test]
    async fn without_md5() {
        let mut digests = StreamDigests::new(AlgorithmSet::EMPTY, &Md5Lanes::new());
        digests.update(Bytes::from_static(b"123456789")).await;
        assert_eq!(
            digests.finish().await,
            DigestSet::new(0x091e_01de, 0xe306_9283)
        );
    }
}
