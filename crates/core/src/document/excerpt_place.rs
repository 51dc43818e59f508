//! Converts a position in an expression or a template to the position in the document that contains
//! it. YAML can write a text with quotes, escapes and line breaks.

use std::ops::Range;

/// Returns the range of a document that shows the range `bytes` of `text`. The document writes
/// `text` at `place`. Returns the whole place if the range cannot be determined.
pub(super) fn place_in(
    document: &str,
    place: Range<usize>,
    text: &str,
    bytes: Range<usize>,
) -> Range<usize> {
    let Some(written) = document.get(place.clone()) else { return place };
    if let Some(at) = written.find(text) {
        let start = place.start + at;
        return start + bytes.start..start + bytes.end;
    }
    // YAML writes escapes and line breaks within a text, but rarely within a token.
    let marked = text.get(bytes.clone()).unwrap_or_default();
    if marked.trim().is_empty() {
        return match bytes.start >= text.trim_end().len() {
            true => end_of(written, &place),
            false => place,
        };
    }
    // The first line of a block, such as `>-`, is not part of its text.
    let is_block = written.starts_with(['>', '|']);
    let header = written.find('\n').filter(|_| is_block).map_or(0, |at| at + 1);
    let body = &written[header..];
    let number = text[..bytes.start].matches(marked).count();
    if text.matches(marked).count() != body.matches(marked).count() {
        return place;
    }
    match body.match_indices(marked).nth(number) {
        Some((at, _)) => {
            let start = place.start + header + at;
            start..start + marked.len()
        }
        None => place,
    }
}

/// Returns the empty range behind the last character of a written text, without its quote.
fn end_of(written: &str, place: &Range<usize>) -> Range<usize> {
    let text = written.trim_end();
    let is_quoted = text.starts_with(['"', '\'']) && text.len() > 1;
    let end = place.start + text.len() - usize::from(is_quoted);
    end..end
}

#[cfg(test)]
mod tests {
    use super::place_in;

    fn marked(written: &str, text: &str, part: &str) -> String {
        let document = format!("when: {written}\n");
        let at = text.rfind(part).unwrap();
        let range = place_in(&document, 6..6 + written.len(), text, at..at + part.len());
        document[range].to_owned()
    }

    #[test]
    fn the_token_is_found_in_every_way_to_write_a_text() {
        let text = "a.b == 'x' && a.c > 1";
        for written in [
            text,
            "\"a.b == 'x' && a.c > 1\"",
            "'a.b == ''x'' && a.c > 1'",
            ">-\n  a.b == 'x'\n  && a.c > 1",
        ] {
            for part in ["c", ">", "&&", "1"] {
                assert_eq!(marked(written, text, part), part, "{written}");
            }
        }
        assert_eq!(marked("'x'' >'", "x' >", ">"), ">");
        let range = place_in("when: 'x'' > '", 6..14, "x' > ", 5..5);
        assert_eq!(range, 13..13);
    }
}
