//! The third-party copy options of an `open`.

use std::time::Duration;

use dewar_xrootd_client::Endpoint;
use dewar_xrootd_proto::{Cgi, ErrorCode};

use crate::error::{ErrorReply, VerbResult};

/// Bytes of a key. Clients make them from clock and process, 24 digits long; less could be tried
/// out.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 16..=256;

/// Connections to one source, however many the client wants.
pub(crate) const STREAMS_MAX: usize = 4;

/// How long a key is good when the client does not say, and at most.
pub(crate) const KEY_TIME: Duration = Duration::from_secs(60);
pub(crate) const KEY_TIME_MAX: Duration = Duration::from_secs(300);

/// What a reader wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReaderParams<'a> {
    /// To leave a key for a destination.
    Grant {
        key: &'a str,
        destination: &'a str,
        time: Duration,
    },
    /// To use a key that a client left.
    Redeem { key: &'a str, origin: &'a str },
}

/// What a reader says; `None` where it is no third-party copy.
pub(crate) fn reading<'a>(cgi: Cgi<'a>, shown: &str) -> VerbResult<Option<ReaderParams<'a>>> {
    let Some(key) = cgi.get("tpc.key") else {
        return Ok(None);
    };
    let key = sound(key, shown)?;
    match (cgi.get("tpc.dst"), cgi.get("tpc.org")) {
        (Some(destination), None) => {
            let asked = cgi.get("tpc.ttl").and_then(|ttl| ttl.parse().ok());
            let time = asked.map_or(KEY_TIME, Duration::from_secs);
            Ok(Some(ReaderParams::Grant {
                key,
                destination,
                time: time.min(KEY_TIME_MAX),
            }))
        }
        (None, Some(origin)) => Ok(Some(ReaderParams::Redeem { key, origin })),
        _ => Err(bad(shown, "conflicting tpc cgi")),
    }
}

fn sound<'a>(key: &'a str, shown: &str) -> VerbResult<&'a str> {
    let plain = key.bytes().all(|byte| byte.is_ascii_graphic());
    let mut kinds: Vec<u8> = key.bytes().collect();
    kinds.sort_unstable();
    kinds.dedup();
    if !KEY_BYTES.contains(&key.len()) || !plain || kinds.len() < 4 {
        return Err(bad(shown, "the tpc key is too easily guessed"));
    }
    Ok(key)
}

fn bad(shown: &str, why: &str) -> ErrorReply {
    ErrorReply::new(
        ErrorCode::ArgInvalid,
        format!("Unable to open {shown}; {why}"),
    )
}

/// From where a writer wants its file to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FetchParams {
    pub(crate) place: Endpoint,
    /// The path there, with what the client wants to hang on it.
    pub(crate) path: String,
    /// The key that the client leaves there; none with delegation.
    pub(crate) key: Option<String>,
    /// Connections on which it shall come.
    pub(crate) streams: usize,
}

/// What a writer says; `None` where it is no third-party copy. `own` is the path here, `token`
/// whether the client has shown one.
pub(crate) fn writing(
    cgi: Cgi<'_>,
    shown: &str,
    own: &str,
    token: bool,
) -> VerbResult<Option<FetchParams>> {
    let Some(key) = cgi.get("tpc.key") else {
        return Ok(None);
    };
    let key = sound(key, shown)?;
    let delegated = token && cgi.get("tpc.dlgon") == Some("1");
    let source = match delegated {
        // Whom the client named, which may be one who sends us on.
        true => cgi.get("tpc.dlg").or(cgi.get("tpc.src")),
        false => cgi.get("tpc.src"),
    };
    let source = source.ok_or_else(|| bad(shown, "tpc source not specified"))?;
    let secure = match cgi.get("tpc.spr") {
        None | Some("root" | "xroot") => false,
        Some("roots" | "xroots") => true,
        Some(_) => return Err(bad(shown, "the tpc source's protocol is not supported")),
    };
    if cgi.get("tpc.cks").is_some_and(|name| name != "adler32") {
        return Err(bad(shown, "the tpc checksum is not supported"));
    }
    let place = Endpoint::parse(source, secure).map_err(|error| bad(shown, &error.to_string()))?;
    let streams = cgi.get("tpc.str").and_then(|number| number.parse().ok());
    let mut path = cgi.get("tpc.lfn").unwrap_or(own).to_owned();
    let more = cgi.get("tpc.scgi").unwrap_or_default();
    let mut hangs = '?';
    for pair in more.split(['\t', '&']) {
        let ours = ["tpc.", "xrd.", "xrdcl."]
            .iter()
            .any(|prefix| pair.starts_with(prefix));
        if !ours && pair.contains('=') {
            path.push(hangs);
            path.push_str(pair);
            hangs = '&';
        }
    }
    if !path.starts_with('/') || path.bytes().any(|byte| byte < b' ') {
        return Err(bad(shown, "source lfn not absolute"));
    }
    Ok(Some(FetchParams {
        place,
        path,
        key: (!delegated).then(|| key.to_owned()),
        streams: streams.unwrap_or(1).clamp(1, STREAMS_MAX),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "tpc.key=0123456789abcdef01234567";

    #[test]
    fn both_sides_are_told_apart() {
        let read =
            |cgi: &str| reading(Cgi(&format!("{KEY}&{cgi}")), "/x").map(|r| format!("{r:?}"));
        assert!(
            read("tpc.dst=b&tpc.stage=copy")
                .expect("sound")
                .contains("Grant")
        );
        assert!(read("tpc.org=u.1@c").expect("sound").contains("Redeem"));
        assert!(read("").is_err() && read("tpc.dst=b&tpc.org=u.1@c").is_err());
        assert_eq!(
            reading(Cgi("tpc.stage=placement"), "/x").expect("sound"),
            None
        );
        for weak in ["short", "aaaaaaaaaaaaaaaaaaaaaaaa", "delegate", ""] {
            assert!(
                reading(Cgi(&format!("tpc.key={weak}&tpc.dst=b")), "/x").is_err(),
                "{weak}"
            );
        }
        let Ok(Some(ReaderParams::Grant { time, .. })) =
            reading(Cgi(&format!("{KEY}&tpc.dst=b&tpc.ttl=99999")), "/x")
        else {
            panic!("no grant");
        };
        assert_eq!(time, KEY_TIME_MAX);
    }

    #[test]
    fn what_the_source_is_told_holds_nothing_of_ours() {
        let cgi = format!(
            "{KEY}&tpc.src=ann@a:7&tpc.dlg=r:8&tpc.dlgon=1&tpc.lfn=/d/f&tpc.spr=root&tpc.str=99\
             &tpc.scgi=authz=Bearer%20x\ttpc.key=evil\txrd.wantprot=gsi\tq=1"
        );
        let fetch = |token| {
            writing(Cgi(&cgi), "/x", "/x", token)
                .expect("sound")
                .expect("a copy")
        };
        let plain = fetch(false);
        assert_eq!(plain.place.to_string(), "a:7");
        assert_eq!(plain.path, "/d/f?authz=Bearer%20x&q=1");
        assert!(plain.key.is_some());
        assert_eq!(plain.streams, STREAMS_MAX);
        let delegated = fetch(true);
        assert_eq!(
            (delegated.place.to_string().as_str(), delegated.key),
            ("r:8", None)
        );
        for bad in [
            "",
            "tpc.src=a&tpc.lfn=d",
            "tpc.src=a&tpc.spr=http",
            "tpc.src=a&tpc.cks=md5",
            "tpc.src=a/b",
        ] {
            assert!(
                writing(Cgi(&format!("{KEY}&{bad}")), "/x", "/x", false).is_err(),
                "{bad}"
            );
        }
    }
}
