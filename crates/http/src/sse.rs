//! Server-sent events, read from bytes that may be split anywhere.
//!
//! Follows the WHATWG rules (line ends, byte order mark, comments, fields), with three differences. An incomplete event at
//! the end of the body is passed on by [`SseReader::finish`], since some servers leave out the last blank line. A JSON
//! object without a field name is an event, since some servers send errors in this form, and so is one in a field `error`,
//! as older llama.cpp servers write it. It does no I/O and never waits: an event is passed on as soon as its blank line has
//! arrived.

/// The most bytes of one event. A larger one is an error: an answer must not fill the memory.
const MAX_EVENT: usize = 16 * 1024 * 1024;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Removes a byte order mark at the beginning of a document, which JSON parsers refuse.
pub fn without_bom(document: &[u8]) -> &[u8] {
    document.strip_prefix(BOM).unwrap_or(document)
}

/// Returns true if a body with the content type of a document holds events, by its first field.
pub fn is_events(document: &[u8]) -> bool {
    let text = without_bom(document).trim_ascii_start();
    [&b"data:"[..], b"event:", b"id:", b"retry:", b":"].into_iter().any(|field| text.starts_with(field))
}

/// Returns a document without its byte order mark and without the end of a stream, which some servers add to it.
pub fn without_end(document: &[u8]) -> &[u8] {
    let document = without_bom(document);
    let behind = document.trim_ascii_end().strip_suffix(b"[DONE]").map(<[u8]>::trim_ascii_end);
    behind.and_then(|rest| rest.strip_suffix(b"data:")).unwrap_or(document)
}

/// One event; the fields `id` and `retry` are skipped, since a model's answer cannot be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The field `event`; empty when there is none.
    pub name: &'a [u8],
    /// The `data` lines, joined by line feeds.
    pub data: &'a [u8],
}

/// The decision of the callback that receives events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SseFlow {
    /// More events may follow.
    More,
    /// The answer has its stop reason: the rest follows at once or never.
    Finishing,
    /// This was the last event, by the server's own sign.
    End,
}

/// An event of more than 16 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one event of the answer is larger than {MAX_EVENT} bytes")]
pub struct EventTooLarge;

/// Splits the bytes of a body into events.
#[derive(Debug, Default)]
pub struct SseReader {
    /// The line that the last chunk ended in.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The event is a JSON object whose lines have no field names.
    bare: bool,
    /// A line with content has begun.
    begun: bool,
    /// How many bytes of the byte order mark have been seen; past it once anything else was.
    bom: usize,
    /// The last byte was a carriage return: a line feed right after it belongs to it.
    after_cr: bool,
}

impl SseReader {
    /// Returns true if the body begins like a JSON document. The content type may be wrong.
    pub fn is_document(&self, first: &[u8]) -> bool {
        let first = without_bom(first).trim_ascii_start();
        !self.begun && matches!(first.first(), Some(b'{' | b'['))
    }

    /// Takes the next bytes and calls `each` for every event they complete, until `each` returns [`SseFlow::End`]. Returns
    /// [`SseFlow::Finishing`] if `each` returned it for one of them.
    ///
    /// # Errors
    /// The error of `each`, or [`EventTooLarge`].
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

    /// The body has ended: calls `each` for the event that it ended in, as far as it arrived.
    ///
    /// # Errors
    /// The error of `each`.
    pub fn finish<E>(&mut self, mut each: impl FnMut(SseEvent<'_>) -> Result<SseFlow, E>) -> Result<SseFlow, E> {
        let line = std::mem::take(&mut self.line);
        self.take_line(&line, &mut each)?;
        self.take_line(b"", &mut each)
    }

    fn take_line<E>(
        &mut self,
        line: &[u8],
        each: &mut impl FnMut(SseEvent<'_>) -> Result<SseFlow, E>,
    ) -> Result<SseFlow, E> {
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

    /// Drops a byte order mark at the very beginning, however it is split.
    fn skip_bom<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let mut rest = bytes;
        while self.bom < BOM.len()
            && let Some((&first, tail)) = rest.split_first()
        {
            if first == BOM[self.bom] {
                self.bom += 1;
                rest = tail;
            } else {
                // Not a mark after all: what looked like its beginning is text.
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
        for text in ["data: a\n\ndata: b\n\n", "data: a\r\n\r\ndata: b\r\n\r\n", "data: a\r\rdata: b\r\r"] {
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
        // Within an event it is a line without a meaning.
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
        let fed = (0..=MAX_EVENT / piece.len()).try_for_each(|_| reader.feed(&piece, |_| Ok(SseFlow::More)).map(drop));
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
