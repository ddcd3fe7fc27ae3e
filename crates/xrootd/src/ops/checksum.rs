//! `query checksum`: from the catalog, or computed by reading the file if the catalog has none yet.

use bytes::Bytes;
use dewar_checksum::Algorithm;
use dewar_store::file::Node;
use dewar_xrootd_proto::ErrorCode;

use super::stat_format::{algorithm, checksum, value};
use super::{Context, deferred_reply, failed, namespace, with_nul};
use crate::error::{ErrorReply, VerbResult};
use crate::limits::CHECKSUM_PATIENCE;
use crate::path::WirePath;

pub(super) async fn checksum_of(context: &Context, sent: &str) -> VerbResult<()> {
    let path = context.path(sent)?;
    let name = path.cgi().get("cks.type").unwrap_or("adler32").to_owned();
    let Some(wanted) = algorithm(&name) else {
        let message = format!("{name} checksum not supported.");
        return Err(ErrorReply::new(ErrorCode::ServerError, message));
    };
    // Who came with a key alone may ask about what the key opened.
    let open = match context.session.proof() {
        None => context.session.reader_of(&path.shown),
        Some(_) => None,
    };
    let is_open = open.is_some();
    let node = match open {
        Some(reader) => Node::File(
            reader.file.attributes.clone(),
            Box::new(reader.file.info.clone()),
        ),
        None => namespace::stat_path(context, &path, "get the checksum of").await?,
    };
    let info = match node {
        Node::File(_, info) => info,
        Node::Directory(_) => {
            let message = format!(
                "Unable to get the checksum of {}; is a directory",
                path.shown
            );
            return Err(ErrorReply::new(ErrorCode::IsDirectory, message));
        }
    };
    if let Some(text) = checksum(&info.digests, &name) {
        context.text(&text).await;
        return Ok(());
    }
    if is_open {
        let message = format!(
            "Unable to get the checksum of {}; no {name} is stored, and a key alone has none computed",
            path.shown
        );
        return Err(ErrorReply::new(ErrorCode::Unsupported, message));
    }
    compute(context, &path, &name, wanted).await
}

/// Answers at once if that does not take long. Else the client is told that the answer comes later,
/// and can use its connection for other things.
async fn compute(
    context: &Context,
    path: &WirePath,
    name: &str,
    wanted: Algorithm,
) -> VerbResult<()> {
    let caller = context.caller(path).await?;
    let object = path.object("get the checksum of")?;
    let computed = async {
        let digest = context.door.store.digest(&caller, object, wanted).await;
        let digest = digest.map_err(failed("get the checksum of", path))?;
        Ok(with_nul(&format!("{name} {}", value(&digest))))
    };
    let mut computed = Box::pin(computed);
    match tokio::time::timeout(CHECKSUM_PATIENCE, &mut computed).await {
        Ok(outcome) => {
            let body: Bytes = outcome?;
            context.ok(body).await;
        }
        Err(_) => deferred_reply::answer(context, computed).await,
    }
    Ok(())
}
