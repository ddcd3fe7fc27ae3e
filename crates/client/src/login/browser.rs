//! The browser flow: authorization code with PKCE, and a loopback port to come back to (RFC 8252, 7636).

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::cache::Login;
use super::provider::Provider;
use super::web::{Web, form};
use crate::clock;

/// Longest wait for a person.
const WAIT: Duration = Duration::from_secs(600);
/// Between two looks whether the browser came back.
const POLL: Duration = Duration::from_millis(50);
/// For the one request that the browser sends.
const REQUEST_TIME: Duration = Duration::from_secs(5);
const REQUEST_BYTES_MAX: u64 = 16 << 10;

/// Random text that needs no escaping in a URL.
fn random() -> Result<String> {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| anyhow::anyhow!("the system gives no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

pub(super) fn login(
    web: &Web,
    provider: &Provider,
    client: &str,
    scope: &str,
    open: bool,
    say: impl Fn(&str),
) -> Result<Login> {
    let authorization = provider.authorization.as_deref().with_context(|| {
        format!(
            "{} does not offer the browser flow: --device",
            provider.issuer
        )
    })?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen for the browser")?;
    listener
        .set_nonblocking(true)
        .context("listen for the browser")?;
    let port = listener
        .local_addr()
        .context("listen for the browser")?
        .port();
    let back = format!("http://127.0.0.1:{port}/");
    let (verifier, state) = (random()?, random()?);
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
    let query = form(&[
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", &back),
        ("scope", scope),
        ("state", &state),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ]);
    let joint = if authorization.contains('?') {
        '&'
    } else {
        '?'
    };
    let place = format!("{authorization}{joint}{query}");
    say(&format!("Open {place}\n"));
    if open && !opened(&place) {
        say("No browser could be opened here: open the address by hand, or use --device\n");
    }
    let code = code(&listener, &state, &provider.issuer)?;
    let response = web.post(
        &provider.token,
        &[
            ("grant_type", "authorization_code"),
            ("client_id", client),
            ("code", &code),
            ("redirect_uri", &back),
            ("code_verifier", &verifier),
        ],
    )?;
    provider.login(client, &response)
}

fn opened(place: &str) -> bool {
    let started = Command::new("xdg-open")
        .arg(place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.is_ok()
}

/// Waits for the browser to bring a code that answers to our question.
fn code(listener: &TcpListener, state: &str, issuer: &str) -> Result<String> {
    let give_up = clock::now() + WAIT;
    while clock::now() < give_up {
        match listener.accept() {
            Ok((mut stream, _)) => {
                // What is not the browser's answer to this login is somebody else's, and waits on.
                let Ok(Some(query)) = asked(&stream) else {
                    continue;
                };
                if query.get("state").map(String::as_str) != Some(state) {
                    answer(
                        &mut stream,
                        "400 Bad Request",
                        "This is no answer to a login here.",
                    );
                    continue;
                }
                let found = found(&query, issuer);
                match &found {
                    Ok(_) => answer(&mut stream, "200 OK", "Logged in. You can close this page."),
                    Err(_) => answer(
                        &mut stream,
                        "200 OK",
                        "Not logged in; the terminal says why.",
                    ),
                }
                return found;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(POLL),
            Err(error) => return Err(error).context("wait for the browser"),
        }
    }
    bail!("the login in the browser was not completed in time")
}

type Fields = std::collections::BTreeMap<String, String>;

fn found(query: &Fields, issuer: &str) -> Result<String> {
    if let Some(error) = query.get("error") {
        let more = query.get("error_description").map_or("", String::as_str);
        bail!("the login was declined: {error} {more}");
    }
    // RFC 9207: the answer of another provider is none of ours.
    ensure!(
        query.get("iss").is_none_or(|named| named == issuer),
        "the answer comes from another provider"
    );
    query
        .get("code")
        .cloned()
        .context("the browser brought no code")
}

/// The query of a request to `/`; `None` for another one.
fn asked(stream: &TcpStream) -> io::Result<Option<Fields>> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(REQUEST_TIME))?;
    stream.set_write_timeout(Some(REQUEST_TIME))?;
    let mut reader = BufReader::new(stream.take(REQUEST_BYTES_MAX));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut rest = String::new();
    while reader.read_line(&mut rest)? > 2 {
        rest.clear();
    }
    let target = line
        .strip_prefix("GET ")
        .and_then(|rest| rest.split(' ').next());
    Ok(target
        .and_then(|target| target.strip_prefix("/?"))
        .map(fields))
}

fn fields(query: &str) -> Fields {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                if let (Some(high), Some(low)) = (digit(), digit()) {
                    bytes.push(u8::try_from(high << 4 | low).unwrap_or_default());
                }
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Only the browser reads the answer, so a failed write is ignored.
fn answer(stream: &mut TcpStream, status: &str, words: &str) {
    let body = format!("<!doctype html><title>Dewar</title><p>{words}</p>\n");
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_browsers_send_them() {
        let query = fields("code=a%2Fb+c&state=s%ZZ&iss=https%3A%2F%2Fidp");
        assert_eq!(query["code"], "a/b c");
        assert_eq!(query["iss"], "https://idp");
    }

    #[test]
    fn a_code_of_another_provider_is_not_taken() {
        let query = fields("code=c&state=s&iss=https%3A%2F%2Fevil");
        assert!(found(&query, "https://idp").is_err());
        assert!(found(&fields("code=c&state=s"), "https://idp").is_ok());
        assert!(found(&fields("error=access_denied&state=s"), "https://idp").is_err());
        assert!(found(&fields("state=s"), "https://idp").is_err());
    }

    #[test]
    fn two_secrets_are_never_the_same() {
        assert_ne!(random().expect("random"), random().expect("random"));
    }
}
