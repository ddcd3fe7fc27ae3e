//! The facts about a request that a policy may test. Headers of S3 have no effect here, so that
//! policies do not see them.

use std::borrow::Cow;
use std::sync::Arc;

use dewar_auth::{Fact, Facts};
use dewar_types::RequestId;
use http::request::Parts;

/// The head of a request.
pub(crate) struct WireFacts {
    head: Arc<Parts>,
    tls: Option<&'static str>,
}

impl WireFacts {
    pub(crate) fn of(head: &Arc<Parts>, tls: Option<&'static str>) -> Arc<dyn Facts> {
        Arc::new(Self {
            head: Arc::clone(head),
            tls,
        })
    }
}

impl Facts for WireFacts {
    fn fact(&self, fact: Fact) -> Option<Cow<'_, str>> {
        let name = match fact {
            Fact::TlsVersion => return self.tls.map(Cow::Borrowed),
            Fact::UserAgent => "user-agent",
            Fact::Referer => "referer",
            Fact::IfMatch => "if-match",
            Fact::IfNoneMatch => "if-none-match",
            _ => return None,
        };
        let value = self.head.headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()))
    }

    fn request_id(&self) -> Option<String> {
        let id = self.head.extensions.get::<RequestId>();
        id.map(ToString::to_string)
    }
}
