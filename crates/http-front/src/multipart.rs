//! multipart/form-data (RFC 7578, RFC 2046 section 5.1), decoded without I/O and, the bytes around
//! a boundary aside, without copying.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem;

use crate::limits::{FORM_BOUNDARY_BYTES_MAX, FORM_PART_HEAD_BYTES_MAX};
use crate::{RequestError, Result};

/// The result of a call of [`FormDecoder::step`].
#[derive(Debug, PartialEq, Eq)]
pub enum FormStep {
    /// A part begins.
    Part {
        /// The field's name.
        name: String,
        /// The file's name, where it is one.
        file_name: Option<String>,
        /// Its Content-Type.
        content_type: Option<String>,
    },
    /// Bytes of the part.
    Data(Bytes),
    /// The part has ended.
    PartEnd,
    /// All input is used up; more is needed.
    More,
    /// The form has ended.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first boundary.
    Preamble,
    /// After a boundary: `--` or the line end.
    AfterBoundary,
    Head,
    Body,
    Done,
}

/// Decodes one form.
pub struct FormDecoder {
    state: State,
    /// `\r\n--boundary`
    delimiter: Vec<u8>,
    /// Input that cannot be classified yet: less than a delimiter, or a part's head.
    held: BytesMut,
    /// Whether a delimiter has been read that is not reported yet.
    at_boundary: bool,
}

fn malformed(message: &'static str) -> RequestError {
    RequestError::Form(message)
}

/// The boundary in a Content-Type of multipart/form-data; `None` for another type or no boundary.
#[must_use]
pub fn boundary_of(content_type: &str) -> Option<String> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let value = parameter(parameters, "boundary")?;
    let fine = (1..=FORM_BOUNDARY_BYTES_MAX).contains(&value.len())
        && value.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    fine.then_some(value)
}

/// A parameter `name=value` or `name="value"` of a header's value.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([';', ' ', '\t']);
        if rest.is_empty() {
            return None;
        }
        let (key, tail) = rest.split_once('=')?;
        let (value, tail) = match tail.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = tail.find(';').unwrap_or(tail.len());
                (tail[..end].trim().to_owned(), &tail[end..])
            }
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = tail;
    }
}

/// Reads up to the closing quote. Browsers write `%22` for a quote and leave backslashes alone;
/// other clients escape with a backslash.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' if text[at + 1..].starts_with(['"', '\\']) => {
                value.push(chars.next()?.1);
            }
            c => value.push(c),
        }
    }
    None
}

impl FormDecoder {
    /// A decoder for a form with this boundary.
    #[must_use]
    pub fn new(boundary: &str) -> Self {
        Self {
            state: State::Preamble,
            delimiter: [b"\r\n--", boundary.as_bytes()].concat(),
            // The first boundary may stand at the very beginning, without a line end before it.
            held: BytesMut::from(&b"\r\n"[..]),
            at_boundary: false,
        }
    }

    /// Continues with `input`, and removes the processed bytes from its front.
    ///
    /// # Errors
    /// [`RequestError::Form`].
    pub fn step(&mut self, input: &mut Bytes) -> Result<FormStep> {
        loop {
            let step = match self.state {
                State::Preamble | State::Body => self.content(input)?,
                State::AfterBoundary => self.after_boundary(input)?,
                State::Head => self.head(input)?,
                State::Done => {
                    // What follows the last boundary means nothing.
                    input.clear();
                    return Ok(FormStep::Done);
                }
            };
            if let Some(step) = step {
                return Ok(step);
            }
        }
    }

    /// Marks the end of the input.
    ///
    /// # Errors
    /// [`RequestError::Form`] when the form is incomplete.
    pub fn end(&self) -> Result<()> {
        match self.state {
            State::Done => Ok(()),
            _ => Err(malformed("The form ended before its last boundary.")),
        }
    }

    /// Content of a part, or the preamble, up to the next delimiter.
    fn content(&mut self, input: &mut Bytes) -> Result<Option<FormStep>> {
        if self.at_boundary {
            self.at_boundary = false;
            return Ok(self.boundary_reached());
        }
        if !self.held.is_empty() && !input.is_empty() {
            return Ok(self.content_around_held(input));
        }
        if input.is_empty() {
            return Ok(Some(FormStep::More));
        }
        let (take, found) = match memmem::find(input, &self.delimiter) {
            Some(at) => (at, true),
            None => (input.len() - partial_suffix(input, &self.delimiter), false),
        };
        let data = input.split_to(take);
        if found {
            input.advance(self.delimiter.len());
            self.at_boundary = true;
        } else {
            self.held.extend_from_slice(input);
            input.clear();
        }
        Ok(self.emit(data))
    }

    /// The same while the last bytes that were read may be the beginning of a delimiter.
    fn content_around_held(&mut self, input: &mut Bytes) -> Option<FormStep> {
        let (held, whole) = (self.held.len(), self.delimiter.len());
        // With so many bytes more, a delimiter that begins in what is held is complete.
        let enough = whole - 1;
        let take = enough.min(input.len());
        self.held.extend_from_slice(&input[..take]);
        match memmem::find(&self.held, &self.delimiter) {
            Some(at) if at < held => {
                input.advance(at + whole - held);
                self.at_boundary = true;
                self.held.truncate(at);
            }
            None if take < enough => {
                let keep = partial_suffix(&self.held, &self.delimiter);
                let data = self.held.split_to(self.held.len() - keep).freeze();
                input.clear();
                return self.emit(data);
            }
            _ => self.held.truncate(held),
        }
        let data = self.held.split().freeze();
        self.emit(data)
    }

    fn emit(&self, data: Bytes) -> Option<FormStep> {
        (self.state == State::Body && !data.is_empty()).then_some(FormStep::Data(data))
    }

    fn boundary_reached(&mut self) -> Option<FormStep> {
        let in_part = self.state == State::Body;
        self.state = State::AfterBoundary;
        in_part.then_some(FormStep::PartEnd)
    }

    /// `--` ends the form, blanks and a line end begin a part.
    fn after_boundary(&mut self, input: &mut Bytes) -> Result<Option<FormStep>> {
        while !input.is_empty() {
            let byte = input.get_u8();
            match (self.held.first(), byte) {
                (None, b' ' | b'\t') => {}
                (None, b'-' | b'\r') => self.held.extend_from_slice(&[byte]),
                (Some(b'-'), b'-') => {
                    self.held.clear();
                    self.state = State::Done;
                    return Ok(None);
                }
                (Some(b'\r'), b'\n') => {
                    self.held.clear();
                    self.state = State::Head;
                    return Ok(None);
                }
                _ => return Err(malformed("A boundary is followed by something else.")),
            }
        }
        Ok(Some(FormStep::More))
    }

    /// The header lines of a part, up to an empty line.
    fn head(&mut self, input: &mut Bytes) -> Result<Option<FormStep>> {
        let before = self.held.len();
        let room = (FORM_PART_HEAD_BYTES_MAX + 4).saturating_sub(before);
        let take = input.len().min(room);
        self.held.extend_from_slice(&input[..take]);
        let from = before.saturating_sub(3);
        let Some(at) = memmem::find(&self.held[from..], b"\r\n\r\n") else {
            if self.held.len() > FORM_PART_HEAD_BYTES_MAX {
                return Err(malformed("The head of a form's part is too long."));
            }
            input.advance(take);
            return Ok(Some(FormStep::More));
        };
        let end = from + at + 4;
        input.advance(end - before);
        let part = part_head(&self.held[..end - 4])?;
        self.held.clear();
        self.state = State::Body;
        Ok(Some(part))
    }
}

/// The number of bytes at the end of `data` that could be the beginning of `delimiter`.
fn partial_suffix(data: &[u8], delimiter: &[u8]) -> usize {
    let from = data.len().saturating_sub(delimiter.len() - 1);
    (from..data.len())
        .find(|at| delimiter.starts_with(&data[*at..]))
        .map_or(0, |at| data.len() - at)
}

fn part_head(head: &[u8]) -> Result<FormStep> {
    let text = std::str::from_utf8(head).map_err(|_| malformed("A part's head is not UTF-8."))?;
    let (mut disposition, mut content_type) = (None, None);
    for line in text.split("\r\n") {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| malformed("A part's header has no colon."))?;
        if name.eq_ignore_ascii_case("content-disposition") {
            disposition = Some(value.trim());
        } else if name.eq_ignore_ascii_case("content-type") {
            content_type = Some(value.trim().to_owned());
        }
    }
    let missing = || malformed("A part has no Content-Disposition: form-data with a name.");
    let disposition = disposition.ok_or_else(missing)?;
    let (kind, parameters) = disposition.split_once(';').ok_or_else(missing)?;
    if !kind.trim().eq_ignore_ascii_case("form-data") {
        return Err(missing());
    }
    Ok(FormStep::Part {
        name: parameter(parameters, "name").ok_or_else(missing)?,
        file_name: parameter(parameters, "filename"),
        content_type,
    })
}

/// The decoded form: for each part its head and its bytes; and whether the form ended correctly.
type DecodedForm = (Vec<(String, Vec<u8>)>, bool);

fn run(boundary: &str, input: &Bytes, piece: usize) -> DecodedForm {
    let mut decoder = FormDecoder::new(boundary);
    let mut parts: Vec<(String, Vec<u8>)> = Vec::new();
    let mut rest = input.clone();
    while !rest.is_empty() {
        let mut part = rest.split_to(piece.min(rest.len()));
        loop {
            match decoder.step(&mut part) {
                Ok(step @ FormStep::Part { .. }) => parts.push((format!("{step:?}"), Vec::new())),
                Ok(FormStep::Data(data)) => {
                    let (_, bytes) = parts.last_mut().expect("data only within a part");
                    bytes.extend_from_slice(&data);
                }
                Ok(FormStep::PartEnd) => {}
                Ok(FormStep::More | FormStep::Done) => break,
                Err(_) => return (parts, false),
            }
        }
    }
    (parts, decoder.end().is_ok())
}

/// Fuzzes the form decoder with the boundary `B`: the first byte says how the input is split,
/// which must not change the outcome. The input is a Content-Type too.
pub fn fuzz_multipart(data: &[u8]) {
    let Some((&control, body)) = data.split_first() else {
        return;
    };
    if let Some(boundary) = std::str::from_utf8(body).ok().and_then(boundary_of) {
        assert!((1..=70).contains(&boundary.len()));
    }
    let body = Bytes::copy_from_slice(body);
    let piece = usize::from(control).max(1);
    assert_eq!(run("B", &body, usize::MAX), run("B", &body, piece));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn boundaries_are_read_as_clients_write_them() {
        let of = |text: &str| boundary_of(text);
        assert_eq!(
            of("multipart/form-data; boundary=abc").as_deref(),
            Some("abc")
        );
        assert_eq!(
            of("Multipart/Form-Data;charset=utf-8; Boundary=\"a b\"").as_deref(),
            Some("a b")
        );
        for bad in [
            "multipart/form-data",
            "multipart/mixed; boundary=a",
            "multipart/form-data; boundary=",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
        assert_eq!(
            of(&format!("multipart/form-data; boundary={}", "x".repeat(71))),
            None
        );
    }

    proptest! {
        #[test]
        fn the_decoder_never_panics(
            noise in "(--B|\r\n|--|;|=|\"|\\\\|name|form-data|Content-Disposition: |x){0,30}",
            control in any::<u8>(),
        ) {
            fuzz_multipart(&[&[control], noise.as_bytes()].concat());
        }
    }
}
