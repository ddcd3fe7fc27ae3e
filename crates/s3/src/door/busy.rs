//! The answer to a client when no connection is free. Its request is not read.

/// `503 SlowDown` as a whole HTTP answer, after which the connection is closed.
pub(super) const SLOW_DOWN: &[u8] =
    b"HTTP/1.1 503 Slow Down\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/xml\r\ncontent-length: 139\r\n\r\n\
    <?xml version=\"1.0\" encoding=\"UTF-8\"?>\
    <Error><Code>SlowDown</Code><Message>Too many connections are open; try again soon.</Message>\
    </Error>";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_long_as_it_says() {
        let text = std::str::from_utf8(SLOW_DOWN).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a body");
        let length = format!("content-length: {}", body.len());
        assert!(head.contains(&length), "{length}");
        assert!(body.contains("<Code>SlowDown</Code>"));
    }
}
