//! The S3 door as a front of this process.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use dewar_auth::Origin;
use dewar_env::Env;
use dewar_http_front::{AnswerBody, HttpFront};
use dewar_s3::{Door, DoorConfig, TlsVersion};
use dewar_store::Store;
use http::{Request, Response};
use http_body_util::BodyExt as _;

use crate::listener::{Arrival, Front, RequestBody, RequestSummary};

/// Hands requests to the S3 door.
#[derive(Clone)]
pub struct S3Front {
    door: Arc<Door>,
}

impl S3Front {
    pub(super) fn new(store: Store, env: Env, config: DoorConfig) -> Self {
        Self {
            door: Arc::new(Door::new(store, env, config)),
        }
    }
}

impl Front for S3Front {
    type Body = AnswerBody;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, Infallible>> + Send>>;

    fn busy(&self) -> &'static [u8] {
        HttpFront::busy(&*self.door)
    }

    fn call(&self, mut request: Request<RequestBody>) -> Self::Future {
        let door = Arc::clone(&self.door);
        let arrival = request.extensions().get::<Arrival>().copied();
        let origin = Origin {
            address: arrival.map(|arrival| arrival.peer.ip()),
            secure: arrival.is_some_and(|arrival| arrival.secure),
        };
        if let Some(version) = arrival.and_then(|arrival| arrival.tls) {
            request.extensions_mut().insert(TlsVersion(version));
        }
        Box::pin(async move {
            let request = request.map(|body| body.map_err(Into::into).boxed());
            let mut answer = door.handle(request, origin).await;
            if let Some(told) = answer
                .extensions_mut()
                .remove::<dewar_http_front::RequestSummary>()
            {
                answer.extensions_mut().insert(RequestSummary {
                    verb: told.verb,
                    user: told.user,
                    bucket: told.bucket,
                    key: told.key,
                });
            }
            Ok(answer)
        })
    }
}
