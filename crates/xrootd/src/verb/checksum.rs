//! `query checksum`: answered from the catalog, never by reading the file.

use dewar_store::file::Node;
use dewar_xrootd_proto::ErrorCode;

use super::shown::{CHECKSUMS, algorithm, checksum};
use super::{Context, names};
use crate::error::{Answer, Refusal};

pub(super) async fn checksum_of(context: &Context, sent: &str) -> Answer<()> {
    let path = context.path(sent)?;
    let name = path.cgi().get("cks.type").unwrap_or("adler32").to_owned();
    if algorithm(&name).is_none() {
        let message = format!("{name} checksum not supported.");
        return Err(Refusal::new(ErrorCode::ServerError, message));
    }
    // Who came with a key alone may ask about what the key opened.
    let open = match context.session.proof() {
        None => context.session.reader_of(&path.shown),
        Some(_) => None,
    };
    let node = match open {
        Some(reader) => Node::File(
            reader.file.attributes.clone(),
            Box::new(reader.file.info.clone()),
        ),
        None => names::look(context, &path, "get the checksum of").await?,
    };
    let info = match node {
        Node::File(_, info) => info,
        Node::Directory(_) => {
            let message = format!(
                "Unable to get the checksum of {}; is a directory",
                path.shown
            );
            return Err(Refusal::new(ErrorCode::IsDirectory, message));
        }
    };
    match checksum(&info.digests, &name) {
        Some(text) => {
            context.text(&text).await;
            Ok(())
        }
        None => {
            let known: Vec<&str> = CHECKSUMS
                .iter()
                .map(|(its, _)| *its)
                .filter(|its| checksum(&info.digests, its).is_some())
                .collect();
            let known = match known.is_empty() {
                true => "none".to_owned(),
                false => known.join(", "),
            };
            let message = format!(
                "Unable to get the checksum of {}; no {name} was computed when it was written \
                 (there is: {known})",
                path.shown
            );
            Err(Refusal::new(ErrorCode::Unsupported, message))
        }
    }
}
