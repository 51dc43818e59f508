//! Replaces names in a text, and converts positions in the result to positions in the original.

use std::ops::Range;

/// The names that were replaced in a text, with their positions in the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renaming {
    replaced: Vec<Replaced>,
}

/// A replaced name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Replaced {
    /// Range in the result.
    new: Range<usize>,
    /// Range in the original text.
    old: Range<usize>,
}

impl Renaming {
    /// Replaces the ranges of a text with a name. The ranges are in order and do not overlap.
    /// Returns the result, with the renaming that converts its positions.
    pub fn apply(text: &str, ranges: &[Range<usize>], name: &str) -> (String, Self) {
        let (mut result, mut replaced, mut from) = (String::new(), Vec::new(), 0);
        for old in ranges {
            result.push_str(&text[from..old.start]);
            let start = result.len();
            result.push_str(name);
            // The name can contain the old one: `score` becomes `state.score`.
            replaced.push(Replaced { new: start..result.len(), old: old.clone() });
            from = old.end;
        }
        result.push_str(&text[from..]);
        (result, Self { replaced })
    }

    /// Inserts a prefix before the names at these ranges, which are in order and do not overlap.
    pub fn apply_prefix(text: &str, ranges: &[Range<usize>], prefix: &str) -> (String, Self) {
        let (mut result, mut replaced, mut from) = (String::new(), Vec::new(), 0);
        for old in ranges {
            result.push_str(&text[from..old.start]);
            let start = result.len();
            result.push_str(prefix);
            result.push_str(&text[old.clone()]);
            replaced.push(Replaced { new: start..result.len(), old: old.clone() });
            from = old.end;
        }
        result.push_str(&text[from..]);
        (result, Self { replaced })
    }

    /// Converts a range of the result to the original text. A range that begins or ends within a
    /// replaced name is extended to the whole name.
    pub fn written(&self, range: Range<usize>) -> Range<usize> {
        let start = self.position(range.start, |replaced| replaced.old.start);
        let end = self.position(range.end, |replaced| replaced.old.end);
        start..end.max(start)
    }

    /// Converts a position. `within` returns the position for one within a replaced name.
    fn position(&self, position: usize, within: impl Fn(&Replaced) -> usize) -> usize {
        let mut last = None;
        for replaced in &self.replaced {
            if position <= replaced.new.start {
                break;
            }
            if position < replaced.new.end {
                return within(replaced);
            }
            last = Some(replaced);
        }
        match last {
            Some(replaced) => replaced.old.end + (position - replaced.new.end),
            None => position,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Renaming;

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "one range is renamed")]
    fn positions_are_converted_to_the_original_text() {
        let text = "input > 1 && has(input.x)";
        let (result, renaming) = Renaming::apply(text, &[0..5, 17..22], "nodes['a']");
        assert_eq!(result, "nodes['a'] > 1 && has(nodes['a'].x)");
        let marked = |part: &str, from: usize| {
            let at = from + result[from..].find(part).unwrap();
            text[renaming.written(at..at + part.len())].to_owned()
        };
        assert_eq!(marked("nodes", 0), "input");
        assert_eq!(marked("nodes['a'].x", 15), "input.x");
        assert_eq!(marked(">", 0), ">");
        assert_eq!(marked("has", 0), "has");
        assert_eq!(marked("x)", 0), "x)");
        let (result, renaming) = Renaming::apply_prefix("score > 1", &[0..5], "state.");
        assert_eq!(result, "state.score > 1");
        assert_eq!(renaming.written(0..5), 0..5);
        assert_eq!(renaming.written(6..11), 0..5);
        assert_eq!(renaming.written(12..13), 6..7);
        assert_eq!(renaming.written(15..15), 9..9);
    }
}
