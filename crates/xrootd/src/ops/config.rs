//! `query config`: the settings that clients query.

use bytes::Bytes;
use dewar_xrootd_proto::limits::{
    ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, READV_ITEM_BYTES_MAX, VECTOR_ITEMS_MAX,
};

use super::stat_format::CHECKSUMS;
use super::{Context, third_party};
use crate::error::VerbResult;
use crate::limits::BOUND_MAX;

/// How many times as long as its key a value is.
const VALUE_FACTOR: usize = 16;

pub(super) async fn config(context: &Context, keys: &str) -> VerbResult<()> {
    let room = context.room(keys.len() * VALUE_FACTOR).await;
    let lines: Vec<String> = keys
        .split_ascii_whitespace()
        .map(|key| value(context, key))
        .collect();
    let mut text = lines.join("\n");
    text.push('\n');
    // No NUL behind it: uproot reads the lines as numbers.
    context.ok_in(room, Bytes::from(text)).await;
    Ok(())
}

/// The value of a key; of one that is not known, the key itself.
fn value(context: &Context, key: &str) -> String {
    match key {
        "bind_max" => BOUND_MAX.to_string(),
        "chksum" => {
            let list = CHECKSUMS.iter().enumerate();
            let list: Vec<String> = list
                .map(|(number, (name, _))| format!("{number}:{name}"))
                .collect();
            list.join(",")
        }
        "fattr" => format!("{ATTRIBUTE_NAME_BYTES_MAX} {ATTRIBUTE_VALUE_BYTES_MAX}"),
        "cms" => "none|".to_owned(),
        "pio_max" => "5".to_owned(),
        "readv_iov_max" => VECTOR_ITEMS_MAX.to_string(),
        "readv_ior_max" => READV_ITEM_BYTES_MAX.to_string(),
        "role" if context.door.config.redirect.is_all() => "manager".to_owned(),
        "role" => "server".to_owned(),
        "sitename" if !context.door.config.site.is_empty() => context.door.config.site.clone(),
        // Clients ask it of sources too, and every server is one. A destination that fetches from nowhere
        // says so when the file is opened there.
        "tpc" => "1".to_owned(),
        // What of a client's can be shown to a source: its token, where it has one.
        "tpcdlg" if third_party::may_delegate(context) => "ztn".to_owned(),
        // Who proved nothing is told nothing that helps to find weaknesses.
        "version" if context.is_unproven() => key.to_owned(),
        "version" => concat!("dewar-", env!("CARGO_PKG_VERSION")).to_owned(),
        "xattrs" => "0".to_owned(),
        key => key.to_owned(),
    }
}
