//! Measures and cuts text with the embedded widths of one family of fonts.

use crate::font_widths::{
    GREEK_AND_CYRILLIC, GREEK_AND_CYRILLIC_BOLD, GREEK_AND_CYRILLIC_START, LATIN, LATIN_BOLD,
    LATIN_START, PUNCTUATION, PUNCTUATION_BOLD, PUNCTUATION_START,
};

/// A text that fits into a width.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FittedText {
    /// Text on one line, without control characters.
    pub(crate) text: String,
    /// Width in pixels.
    pub(crate) width: f64,
    /// `true` if the table has the widths of all its characters.
    pub(crate) is_exact: bool,
}

/// Character that replaces what no drawing may contain.
const REPLACEMENT: char = '\u{fffd}';

/// Cuts a text to a width in pixels, and marks a cut with `…`. Characters that XML forbids or that
/// change the direction of the text around them are replaced. Only the beginning of a very long
/// text is read.
pub(crate) fn fit(text: &str, font_size: f64, is_bold: bool, max_width: f64) -> FittedText {
    let ellipsis = char_width('…', is_bold).0 * font_size;
    let mut fitted = FittedText { text: String::new(), width: 0.0, is_exact: true };
    // DiagramPoint and width of the longest beginning that leaves room for the ellipsis.
    let mut cut = (0, 0.0);
    let mut joins = false;
    for c in text.chars().map(printable) {
        // A drawing shows several spaces as one.
        if c == ' ' && fitted.text.ends_with(' ') {
            continue;
        }
        let (width, is_exact) = char_width(c, is_bold);
        // A mark or a joined emoji belongs to the character before it.
        let continues = width == 0.0 || joins;
        joins = c == '\u{200d}';
        if !continues && fitted.width + ellipsis <= max_width {
            cut = (fitted.text.len(), fitted.width);
        }
        // Marks have no width, so a limit on their number bounds the text as well.
        if fitted.width + width * font_size > max_width || fitted.text.len() > MAX_BYTES {
            fitted.text.truncate(cut.0);
            fitted.text.push('…');
            fitted.width = cut.1 + ellipsis;
            break;
        }
        fitted.text.push(c);
        fitted.width += width * font_size;
        fitted.is_exact &= is_exact;
    }
    fitted
}

/// Maximum number of bytes in a line.
const MAX_BYTES: usize = 400;

/// Returns the character, or a replacement if a drawing may not contain the character.
pub(crate) fn printable(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' => ' ',
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => REPLACEMENT,
        // Overrides and isolates of the direction, which could reorder the text.
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => REPLACEMENT,
        // Separators of lines and paragraphs, and the byte order mark.
        '\u{2028}' | '\u{2029}' => ' ',
        '\u{feff}' => REPLACEMENT,
        c => c,
    }
}

/// Returns the width of a character at a font size of one pixel, and `true` if it is in the table.
fn char_width(c: char, is_bold: bool) -> (f64, bool) {
    let tables: [(u32, &[u16], &[u16]); 3] = [
        (LATIN_START, &LATIN, &LATIN_BOLD),
        (GREEK_AND_CYRILLIC_START, &GREEK_AND_CYRILLIC, &GREEK_AND_CYRILLIC_BOLD),
        (PUNCTUATION_START, &PUNCTUATION, &PUNCTUATION_BOLD),
    ];
    let code = u32::from(c);
    for (start, regular, bold) in tables {
        let table = if is_bold { bold } else { regular };
        let width = code.checked_sub(start).and_then(|index| table.get(index as usize));
        if let Some(width) = width {
            return (f64::from(*width) / 1000.0, true);
        }
    }
    (width_by_script(c), false)
}

/// Estimates the width of a character that the table does not have. The estimates are rather too
/// large, so that text does not leave its box.
fn width_by_script(c: char) -> f64 {
    match u32::from(c) {
        // Combining marks, joiners and variation selectors.
        0x300..=0x36f | 0x483..=0x489 | 0x591..=0x5bd | 0x610..=0x61a | 0x64b..=0x65f => 0.0,
        0x200b..=0x200d | 0x20d0..=0x20ff | 0xfe00..=0xfe0f | 0xe0100..=0xe01ef => 0.0,
        0x1f3fb..=0x1f3ff => 0.0,
        // Scripts of East Asia.
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff => 1.0,
        0xfe30..=0xfe6f | 0xff00..=0xff60 | 0x20000..=0x3fffd => 1.0,
        // Emoji and other symbols.
        0x2190..=0x2bff => 1.0,
        0x1f000..=0x1faff => 1.4,
        // The replacement of forbidden characters.
        0xfffd => 1.1,
        // Arabic has narrow joined forms.
        0x600..=0x6ff => 0.65,
        _ => 0.75,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_width_of_its_characters() {
        let fitted = fit("Hello", 10.0, false, 1000.0);
        assert!((fitted.width - (7.22 + 5.56 + 2.22 + 2.22 + 5.56)).abs() < 1e-9, "{fitted:?}");
        assert!(fitted.is_exact);
        assert!(fit("Hello", 10.0, true, 1000.0).width > fitted.width);
    }

    #[test]
    fn a_long_text_is_cut_to_the_width() {
        let fitted = fit(&"x".repeat(10_000), 12.0, false, 100.0);
        assert!(fitted.width <= 100.0 && fitted.width > 85.0, "{fitted:?}");
        assert!(fitted.text.ends_with('…'));
    }

    #[test]
    fn a_text_that_fits_exactly_is_not_cut() {
        let whole = fit("approve", 12.0, false, 1000.0);
        assert_eq!(fit("approve", 12.0, false, whole.width), whole);
    }

    #[test]
    fn a_cut_does_not_separate_joined_emoji() {
        let family = "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}";
        for width in 0..200 {
            let fitted = fit(&family.repeat(4), 13.0, true, f64::from(width));
            let whole = fitted.text.trim_end_matches('…');
            assert!(whole.is_empty() || whole.ends_with('\u{1f467}'), "{width}: {whole:?}");
        }
    }

    #[test]
    fn marks_without_width_are_bounded() {
        let fitted = fit(&format!("a{}", "\u{301}".repeat(100_000)), 12.0, false, 100.0);
        assert!(fitted.text.len() < 500);
    }

    #[test]
    fn control_characters_are_replaced() {
        let fitted = fit("a\u{0}b\u{1b}c\u{202e}d\te\nf\u{ffff}", 12.0, false, 1000.0);
        assert_eq!(fitted.text, "a\u{fffd}b\u{fffd}c\u{fffd}d e f\u{fffd}");
    }
}
