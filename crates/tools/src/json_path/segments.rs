//! Splits a JSONPath query into segments and estimates an upper bound for the work of each.

/// A segment as it is written, such as `..name` or `[?@.price < 10]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PathSegment {
    pub(super) text: String,
    /// `true` if it visits a place and all places below it.
    pub(super) is_descendant: bool,
    /// `true` if it can match several children of a place.
    pub(super) has_many: bool,
    /// Number of selectors in its brackets.
    pub(super) selectors: u64,
    /// Steps of its filters for one child.
    pub(super) filter_steps: u64,
    /// Number of nested parts of its filters that visit the places below the child.
    pub(super) filter_depth: u32,
    /// Steps for each 64 bytes of a string that a regular expression of a filter reads.
    pub(super) pattern_steps: u64,
}

/// Steps of compiling a regular expression that is a part of the data, for each item that it is
/// compiled for.
const UNKNOWN_PATTERN_STEPS: u64 = 100_000;
/// Steps of compiling a short regular expression.
const PATTERN_STEPS: u64 = 50;

/// Splits a well-formed query into segments. Returns `None` if one has an unexpected form.
pub(super) fn segments(path: &str) -> Option<Vec<PathSegment>> {
    let mut rest = path.trim().strip_prefix('$')?;
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Some(found);
        }
        let is_descendant = rest.starts_with("..");
        let sign = if is_descendant { 2 } else { usize::from(rest.starts_with('.')) };
        let end = match rest[sign..].starts_with('[') {
            true => sign + bracket_end(&rest[sign..])?,
            false if sign > 0 => sign + name_end(&rest[sign..]),
            false => return None,
        };
        if end == sign {
            return None;
        }
        let (text, after) = rest.split_at(end);
        found.push(PathSegment { is_descendant, ..segment(text) });
        rest = after;
    }
}

fn name_end(text: &str) -> usize {
    text.find(|letter: char| letter == '.' || letter == '[' || letter.is_whitespace())
        .unwrap_or(text.len())
}

/// Calls `visit` for each character outside of quotes, with its position and the number of open
/// brackets.
pub(super) fn outside_of_quotes(text: &str, mut visit: impl FnMut(usize, char, usize)) {
    let (mut quote, mut open) = (None, 0_usize);
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => drop(letters.next()),
            (Some(end), letter) if letter == end => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, letter) => {
                open += usize::from(matches!(letter, '[' | '('));
                visit(at, letter, open);
                open = open.saturating_sub(usize::from(matches!(letter, ']' | ')')));
            }
        }
    }
}

/// Finds the end of the bracket with which a string begins.
fn bracket_end(text: &str) -> Option<usize> {
    let mut end = None;
    outside_of_quotes(text, |at, letter, open| {
        if end.is_none() && letter == ']' && open == 1 {
            end = Some(at + 1);
        }
    });
    end
}

fn segment(text: &str) -> PathSegment {
    let mut segment = PathSegment { text: text.to_owned(), selectors: 1, ..PathSegment::default() };
    let (mut terms, mut has_filter, mut last) = (1_u64, false, ' ');
    outside_of_quotes(text, |_, letter, open| {
        match letter {
            '*' | ':' if open <= 1 => segment.has_many = true,
            ',' if open == 1 => segment.selectors += 1,
            // A filter inside a filter visits all children of each place of the outer filter.
            '?' if has_filter => segment.filter_depth += 1,
            '?' => has_filter = true,
            '.' if last == '.' && has_filter => segment.filter_depth += 1,
            '*' | ':' if has_filter => segment.filter_depth += 1,
            '.' | '[' | '(' | '&' | '|' | '=' | '<' | '>' => terms += 1,
            _ => {}
        }
        last = letter;
    });
    if has_filter {
        segment.has_many = true;
        (segment.filter_steps, segment.pattern_steps) = (terms, 0);
        let patterns = patterns_steps(text);
        segment.filter_steps = terms.saturating_add(patterns);
        segment.pattern_steps = patterns;
    }
    segment
}

/// Steps of compiling the regular expressions of the functions `match` and `search` once.
fn patterns_steps(text: &str) -> u64 {
    let mut steps = 0_u64;
    for name in ["match", "search"] {
        for (at, _) in text.match_indices(name) {
            let rest = text[at + name.len()..].trim_start();
            if !rest.starts_with('(') {
                continue;
            }
            steps = steps
                .saturating_add(pattern_literal(rest).map_or(UNKNOWN_PATTERN_STEPS, pattern_steps));
        }
    }
    steps
}

/// Returns the second argument of a function, if it is a string literal.
fn pattern_literal(arguments: &str) -> Option<&str> {
    let (mut from, mut end) = (None, None);
    outside_of_quotes(arguments, |at, letter, open| match letter {
        ',' if open == 1 && from.is_none() => from = Some(at + 1),
        ')' if open == 1 && end.is_none() => end = Some(at),
        _ => {}
    });
    let argument = arguments.get(from?..end?)?.trim();
    let quote = argument.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    argument.strip_prefix(quote)?.strip_suffix(quote)
}

/// Estimates the steps to compile a pattern: its length, multiplied by the numbers of repetitions.
fn pattern_steps(pattern: &str) -> u64 {
    let mut steps = pattern.len() as u64;
    for repetition in pattern.split('{').skip(1) {
        let inside = repetition.split('}').next().unwrap_or_default();
        let most = inside.split(',').filter_map(|number| number.trim().parse::<u64>().ok()).max();
        steps = steps.saturating_mul(most.unwrap_or(1).max(1));
    }
    PATTERN_STEPS.saturating_add(steps.saturating_mul(4))
}

#[cfg(test)]
mod tests {
    use super::{PathSegment, segments};

    fn texts(path: &str) -> Option<Vec<String>> {
        Some(segments(path)?.into_iter().map(|segment| segment.text).collect())
    }

    fn only(path: &str) -> PathSegment {
        segments(path).unwrap().remove(0)
    }

    #[test]
    fn a_query_is_split_between_its_segments() {
        for (path, expected) in [
            ("$", vec![]),
            ("$.a['b.c'][0]..*", vec![".a", "['b.c']", "[0]", "..*"]),
            ("$..[?@['x]'] == \"]\"].é", vec!["..[?@['x]'] == \"]\"]", ".é"]),
            ("$ .a [1:2]", vec![".a", "[1:2]"]),
        ] {
            assert_eq!(
                texts(path),
                Some(expected.into_iter().map(ToOwned::to_owned).collect()),
                "{path}"
            );
        }
        assert_eq!(texts("a.b"), None);
    }

    #[test]
    fn a_segment_knows_its_work() {
        assert!(
            !only("$.a").has_many
                && only("$[*]").has_many
                && only("$[1:2]").has_many
                && only("$[?@.a]").has_many
        );
        assert_eq!(only("$['a','b',0]").selectors, 3);
        assert_eq!(only("$[?@.a == 'b,?..']").filter_depth, 0);
        assert_eq!(only("$[?@..a[?@..b]]").filter_depth, 3);
        assert!(only("$[?search(@.a, @.b)]").filter_steps >= 100_000);
        assert!(only("$[?search(@.a, '(a{900}){9}')]").filter_steps >= 32_000);
        assert!(only("$[?match(@.a, '[a-z]{2}')]").filter_steps < 200);
    }
}
