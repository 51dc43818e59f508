//! Parses server-sent events from bytes that may be split at any position.
//!
//! Follows the WHATWG rules (line ends, byte order mark, comments, fields), with three differences.
//!
//! - [`SseReader::finish`] passes on an incomplete event at the end of the body, because some
//!   servers omit the last blank line.
//! - A JSON object without a field name is an event, because some servers send errors in this form.
//! - A JSON object in a field `error` is an event, because older llama.cpp servers send it.
//!
//! The parser does no I/O and never waits. It passes on an event as soon as its blank line has
//! arrived.

/// Maximum size of one event in bytes. A larger event is an error, so that a response cannot
/// exhaust the memory.
const MAX_EVENT: usize = 16 * 1024 * 1024;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Removes a byte order mark at the start of a document. JSON parsers refuse it.
pub fn without_bom(document: &[u8]) -> &[u8] {
    document.strip_prefix(BOM).unwrap_or(document)
}

/// Returns true if the body starts with an SSE field or comment. Some servers send events with the
/// content type of a document.
pub fn is_events(document: &[u8]) -> bool {
    let text = without_bom(document).trim_ascii_start();
    [&b"data:"[..], b"event:", b"id:", b"retry:", b":"]
        .into_iter()
        .any(|field| text.starts_with(field))
}

/// Returns a document without its byte order mark and without a trailing `data: [DONE]`, which some
/// servers append.
pub fn without_end(document: &[u8]) -> &[u8] {
    let document = without_bom(document);
    let behind = document.trim_ascii_end().strip_suffix(b"[DONE]").map(<[u8]>::trim_ascii_end);
    behind.and_then(|rest| rest.strip_suffix(b"data:")).unwrap_or(document)
}

/// A server-sent event. The fields `id` and `retry` are skipped, because a model's response cannot
/// be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The field `event`. Empty if the event has no name.
    pub name: &'a [u8],
    /// The `data` lines, joined by line feeds.
    pub data: &'a [u8],
}

/// The decision of the callback that receives events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SseFlow {
    /// More events may follow.
    More,
    /// The response has its stop reason. The remaining events arrive at once or never.
    Finishing,
    /// This event is the last, as the server indicated.
    End,
}

/// The error of an event that exceeds 16 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one event of the answer is larger than {MAX_EVENT} bytes")]
pub struct EventTooLarge;

/// Splits the bytes of a body into events.
#[derive(Debug, Default)]
pub struct SseReader {
    /// The incomplete line at the end of the last chunk.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// `true` if the event is a JSON object whose lines have no field names.
    bare: bool,
    /// `true` once a line with content has started.
    begun: bool,
    /// Number of bytes of the byte order mark seen so far. `BOM.len()` once other bytes have
    /// arrived.
    bom: usize,
    /// `true` if the last byte was a carriage return. A line feed right after it belongs to it.
    after_cr: bool,
}

impl SseReader {
    /// Returns true if the body starts like a JSON document. The content type of a response may be
    /// wrong.
    pub fn is_document(&self, first: &[u8]) -> bool {
        let first = without_bom(first).trim_ascii_start();
        !self.begun && matches!(first.first(), Some(b'{' | b'['))
    }

    /// Parses the next bytes and calls `each` for every completed event, until `each` returns
    /// [`SseFlow::End`]. Returns [`SseFlow::Finishing`] if `each` returned it for one of the
    /// events.
    ///
    /// # Errors
    /// Returns the error of `each`, or [`EventTooLarge`] if an event exceeds 16 MiB.
    pub fn feed<E: From<EventTooLarge>>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(SseEvent<'_>) -> Result<SseFlow, E>,
    ) -> Result<SseFlow, E> {
        bytes = self.skip_bom(bytes);
        let mut all = SseFlow::More;
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.begun = true;
                self.line.extend_from_slice(bytes);
                break;
            };
            self.after_cr = bytes[end] == b'\r';
            // Usually the chunk contains the whole line, which is then parsed without a copy.
            // Otherwise the buffer is moved out for the call and put back, so that its allocation
            // is reused.
            let flow = if self.line.is_empty() {
                self.take_line(&bytes[..end], &mut each)?
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..end]);
                let flow = self.take_line(&line, &mut each)?;
                line.clear();
                self.line = line;
                flow
            };
            match flow {
                SseFlow::More => {}
                SseFlow::Finishing => all = flow,
                SseFlow::End => return Ok(SseFlow::End),
            }
            bytes = &bytes[end + 1..];
        }
        if self.line.len() + self.data.len() > MAX_EVENT {
            return Err(EventTooLarge.into());
        }
        Ok(all)
    }

    /// Ends the body: calls `each` for the event that was incomplete at the end, with the lines
    /// that arrived.
    ///
    /// # Errors
    /// Returns the error of `each`.
    pub fn finish<E>(
        &mut self,
        mut each: impl FnMut(SseEvent<'_>) -> Result<SseFlow, E>,
    ) -> Result<SseFlow, E> {
        let line = std::mem::take(&mut self.line);
        self.take_line(&line, &mut each)?;
        self.take_line(b"", &mut each)
    }

    fn take_line<E>(
        &mut self,
        line: &[u8],
        each: &mut impl FnMut(SseEvent<'_>) -> Result<SseFlow, E>,
    ) -> Result<SseFlow, E> {
        // An empty line ends the event. An event without a `data` line is dropped (WHATWG).
        if line.is_empty() {
            let flow = match std::mem::take(&mut self.has_data) {
                true => each(SseEvent { name: &self.name, data: &self.data }),
                false => Ok(SseFlow::More),
            };
            self.name.clear();
            self.data.clear();
            self.bare = false;
            return flow;
        }
        self.begun = true;
        // Only the first line decides: within a normal event, a line that starts with `{` is not a
        // field and is ignored.
        self.bare |= !self.has_data && line.starts_with(b"{");
        let (field, value) = match memchr::memchr(b':', line) {
            _ if self.bare => (&b"data"[..], line),
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            b"error" if value.starts_with(b"{") => {
                self.name = b"error".to_vec();
                self.data = value.to_vec();
                self.has_data = true;
            }
            _ => {}
        }
        Ok(SseFlow::More)
    }

    /// Drops a byte order mark at the start of the body, also if it is split over several chunks.
    fn skip_bom<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let mut rest = bytes;
        while self.bom < BOM.len()
            && let Some((&first, tail)) = rest.split_first()
        {
            if first == BOM[self.bom] {
                self.bom += 1;
                rest = tail;
            } else {
                // The bytes were not a mark. The ones already consumed are text.
                self.line.extend_from_slice(&BOM[..self.bom]);
                self.bom = BOM.len();
            }
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{EventTooLarge, MAX_EVENT, SseFlow, SseReader, is_events, without_end};

    type Seen = Vec<(String, String)>;

    fn read(chunks: &[&[u8]]) -> Seen {
        let mut seen = Seen::new();
        let mut reader = SseReader::default();
        let mut keep = |event: super::SseEvent<'_>| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            seen.push((text(event.name), text(event.data)));
            Ok::<_, EventTooLarge>(SseFlow::More)
        };
        for chunk in chunks {
            reader.feed(chunk, &mut keep).expect("small events");
        }
        reader.finish(&mut keep).expect("small events");
        seen
    }

    fn data(text: &str) -> Vec<String> {
        read(&[text.as_bytes()]).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn every_line_end_ends_a_line() {
        for text in
            ["data: a\n\ndata: b\n\n", "data: a\r\n\r\ndata: b\r\n\r\n", "data: a\r\rdata: b\r\r"]
        {
            assert_eq!(data(text), ["a", "b"], "{text:?}");
        }
    }

    #[test]
    fn fields_are_read_as_the_standard_says() {
        assert_eq!(data("\u{feff}data:a\n\n"), ["a"]);
        assert_eq!(data("data:  a\n\n"), [" a"]);
        assert_eq!(data(": comment\n:\n\ndata: a\nid: 3\nretry: 1\nodd\n\n"), ["a"]);
        assert_eq!(data("data: a\ndata\ndata: b\n\n"), ["a\n\nb"]);
        assert_eq!(data("event: x\n\ndata: a\n\n"), ["a"]);
        assert_eq!(
            read(&[b"event: ping\ndata: {}\n\ndata: b\n\n"]),
            [("ping".to_owned(), "{}".to_owned()), (String::new(), "b".to_owned())]
        );
    }

    #[test]
    fn a_bare_object_is_an_event() {
        assert_eq!(data("data: a\n\n{\"error\": 1}\n"), ["a", "{\"error\": 1}"]);
        assert_eq!(data("{\n  \"a\":\n  {}\n}\n\ndata: b\n\n"), ["{\n \"a\":\n {}\n}", "b"]);
        // Within an event, a line without a known field name is ignored.
        assert_eq!(data("data: a\n{}\n\n"), ["a"]);
    }

    #[test]
    fn an_error_in_a_field_is_an_event() {
        let error = read(&[b"error: {\"code\": 400}\n\nerror: no object\n\n"]);
        assert_eq!(error, [("error".to_owned(), "{\"code\": 400}".to_owned())]);
    }

    #[test]
    fn a_body_is_known_by_its_beginning_and_its_end() {
        for (body, events, document) in [
            (&b"\xef\xbb\xbf{}"[..], false, &b"{}"[..]),
            (b"{}\n\ndata: [DONE]\n\n", false, b"{}\n\n"),
            (b"[\"[DONE]\"]", false, b"[\"[DONE]\"]"),
            (b"\n: comment\n", true, b"\n: comment\n"),
            (b"data: {}\n\n", true, b"data: {}\n\n"),
        ] {
            assert_eq!((is_events(body), without_end(body)), (events, document), "{body:?}");
        }
    }

    #[test]
    fn an_event_is_handed_on_before_the_next_byte() {
        let mut seen = 0;
        let mut reader = SseReader::default();
        reader
            .feed(b"data: a\r\n\r", |_| {
                seen += 1;
                Ok::<_, EventTooLarge>(SseFlow::More)
            })
            .expect("small");
        assert_eq!(seen, 1);
    }

    #[test]
    fn the_last_event_needs_no_blank_line() {
        assert_eq!(data("data: a\n\ndata: [DONE]"), ["a", "[DONE]"]);
    }

    #[test]
    fn nothing_is_read_after_the_end() {
        let mut seen = 0;
        let flow = SseReader::default().feed(b"data: a\n\ndata: b\n\n", |_| {
            seen += 1;
            Ok::<_, EventTooLarge>(SseFlow::End)
        });
        assert_eq!((flow.expect("small"), seen), (SseFlow::End, 1));
    }

    #[test]
    fn an_endless_event_is_an_error() {
        let mut reader = SseReader::default();
        let piece = vec![b'x'; 1024 * 1024];
        let fed = (0..=MAX_EVENT / piece.len())
            .try_for_each(|_| reader.feed(&piece, |_| Ok(SseFlow::More)).map(drop));
        assert_eq!(fed, Err(EventTooLarge));
    }

    proptest! {
        #[test]
        fn splits_change_nothing(
            text in "(\u{feff})?((data|event|id|)(:| |: ?)?[a-zé日{}]{0,4}(\n|\r\n|\r|\n\n|\r\n\r\n)){0,12}",
            cuts in proptest::collection::vec(0_usize..200, 0..8),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            let whole = read(&[bytes]);
            prop_assert_eq!(&whole, &read(&chunks));
            prop_assert_eq!(&whole, &read(&single));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(read(&[&bytes]), read(&single));
        }
    }
}
