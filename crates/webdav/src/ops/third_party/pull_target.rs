//! The local file of a pull.

use std::sync::Arc;
use std::time::Duration;

use dewar_checksum::{Algorithm, AlgorithmSet};
use dewar_env::BoxFuture;
use dewar_store::ContentWriter;
use dewar_store::api::{ExpectedContent, ObjectInfo, VersionAttributes, WriteRequest};
use dewar_transfer::{PullTarget, SourceDescription, TransferView};
use dewar_types::{Error, ErrorKind, Result};

use crate::context::RequestContext;
use crate::error::DavError;
use crate::front::WebDav;
use crate::limits::MEDIA_TYPE_BYTES_MAX;
use crate::ops::put::check_locks;

/// The file that a pull writes, for a caller who may write it.
pub(super) struct LocalTarget {
    front: Arc<WebDav>,
    context: RequestContext,
    request: WriteRequest,
    view: Option<TransferView>,
}

impl LocalTarget {
    /// `named` are the digests that the client named. They are computed and kept.
    pub(super) fn new(
        front: &Arc<WebDav>,
        context: &RequestContext,
        request: WriteRequest,
        named: impl Iterator<Item = Algorithm>,
    ) -> Self {
        Self {
            front: Arc::clone(front),
            context: context.without_body(),
            request: WriteRequest {
                want: named.fold(request.want, AlgorithmSet::with),
                ..request
            },
            view: None,
        }
    }

    /// The same in a registry, which counts the space that copies will need.
    pub(super) fn with_view(self, view: TransferView) -> Self {
        Self {
            view: Some(view),
            ..self
        }
    }

    async fn open(&self, source: &SourceDescription, want: AlgorithmSet) -> Result<ContentWriter> {
        let mut attributes = VersionAttributes::default();
        let kind = source.content_type.clone();
        attributes.headers.content_type = kind.filter(|kind| kind.len() <= MEDIA_TYPE_BYTES_MAX);
        let request = WriteRequest {
            size: source.size,
            attributes,
            want: self.request.want.union(want),
            ..self.request.clone()
        };
        let store = &self.front.store;
        let mut writer = store.write(&self.context.caller, request).await?;
        if let Some(size) = source.size {
            let free = store.usable_space().free;
            let fits = self
                .view
                .as_ref()
                .is_none_or(|view| view.reserve(size, free));
            if !fits {
                let message = format!("{size} bytes do not fit beside what other copies write");
                return Err(Error::new(ErrorKind::NoSpace, message));
            }
            writer.reserve(size).await?;
        }
        Ok(writer)
    }

    async fn finish(&self, writer: ContentWriter, expected: ExpectedContent) -> Result<ObjectInfo> {
        // Another client may have locked it while the bytes came.
        let object = &self.request.object;
        let unlocked = check_locks(&self.front, &self.context, object).await;
        unlocked.map_err(DavError::into_store_error)?;
        writer.commit(expected).await
    }
}

impl PullTarget for LocalTarget {
    fn begin<'a>(
        &'a self,
        source: &'a SourceDescription,
        want: AlgorithmSet,
    ) -> BoxFuture<'a, Result<ContentWriter>> {
        Box::pin(self.open(source, want))
    }

    fn commit<'a>(
        &'a self,
        writer: ContentWriter,
        expected: ExpectedContent,
    ) -> BoxFuture<'a, Result<ObjectInfo>> {
        Box::pin(self.finish(writer, expected))
    }
}

impl DavError {
    /// The error of the store behind a refusal. A lock passes, so its holder's copy may come again.
    fn into_store_error(self) -> Error {
        let later = ErrorKind::Busy(Duration::from_secs(1));
        self.into_cause()
            .unwrap_or_else(|message| Error::new(later, message))
    }
}
