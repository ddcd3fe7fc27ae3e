//! Fuzz function for the aws-chunked framing.

use bytes::Bytes;

use super::chunked::{ChunkedDecoder, ChunkedStep};

/// Runs a decoder over `input` in pieces of `piece` bytes. Returns the data, and whether it ended
/// correctly.
fn run(input: &Bytes, piece: usize, with_trailers: bool) -> (Vec<u8>, bool) {
    let mut decoder = ChunkedDecoder::new(None, with_trailers);
    let mut data = Vec::new();
    let mut rest = input.clone();
    while !rest.is_empty() {
        let mut part = rest.split_to(piece.min(rest.len()));
        loop {
            match decoder.step(&mut part) {
                Ok(ChunkedStep::Data(bytes)) => {
                    assert!(!bytes.is_empty(), "an empty slice of data");
                    data.extend_from_slice(&bytes);
                }
                Ok(ChunkedStep::More | ChunkedStep::Done) => break,
                Err(_) => return (data, false),
            }
        }
    }
    let ended = decoder.end().is_ok();
    (data, ended)
}

/// Fuzzes the decoder. The first byte decides the split of the input and whether trailers are
/// expected. No input may panic, and the split must not change the result.
pub fn fuzz_aws_chunked(data: &[u8]) {
    let Some((&control, body)) = data.split_first() else {
        return;
    };
    let body = Bytes::copy_from_slice(body);
    let with_trailers = control & 0x80 != 0;
    let piece = usize::from(control & 0x7f).max(1);
    let whole = run(&body, usize::MAX, with_trailers);
    let split = run(&body, piece, with_trailers);
    assert_eq!(whole, split);
}
