//! Compares two lists of lines: expected and actual.
//!
//! An expected line may end in `..`, which matches any rest of the line, or be `..`, which matches
//! any number of lines. [`diff`] supports these wildcards by aligning the lists. [`plain_diff`]
//! compares long lists without wildcards.

/// The wildcard of an expected line.
const REST: &str = "..";

/// Returns `true` if a line matches an expected line.
pub(crate) fn line_matches(expected: &str, actual: &str) -> bool {
    if expected == actual {
        return true;
    }
    match expected.strip_suffix(REST) {
        Some(start) => actual.starts_with(start) || actual == start.trim_end(),
        None => false,
    }
}

/// Returns the cost of aligning two lines: 0 if they match, 1 if their first words are equal.
/// Returns `None` for other pairs.
fn pairing(expected: &str, actual: &str) -> Option<usize> {
    if line_matches(expected, actual) {
        return Some(0);
    }
    (expected.split(' ').next() == actual.split(' ').next()).then_some(1)
}

/// Returns `None` if the lines match, otherwise a diff: ` ` marks a line that matches, `-` an
/// expected line that is missing, `+` an unexpected line.
pub(crate) fn diff<E: AsRef<str>, A: AsRef<str>>(expected: &[E], actual: &[A]) -> Option<String> {
    let (expected, actual): (Vec<&str>, Vec<&str>) =
        (expected.iter().map(AsRef::as_ref).collect(), actual.iter().map(AsRef::as_ref).collect());
    let (rows, columns) = (expected.len(), actual.len());
    let width = columns + 1;
    // cost[e * width + a]: the number of unmatched lines in the best alignment of `expected[e..]`
    // and `actual[a..]`.
    let mut cost = vec![0_usize; (rows + 1) * width];
    for e in (0..=rows).rev() {
        for a in (0..=columns).rev() {
            let here = e * width + a;
            cost[here] = if e == rows {
                columns - a
            } else if expected[e] == REST {
                let skip = cost[here + width];
                if a == columns { skip } else { skip.min(cost[here + 1]) }
            } else {
                let without_expected = cost[here + width] + 1;
                if a == columns {
                    without_expected
                } else {
                    without_expected.min(cost[here + 1] + 1).min(
                        match pairing(expected[e], actual[a]) {
                            Some(price) => cost[here + width + 1] + price,
                            None => usize::MAX,
                        },
                    )
                }
            };
        }
    }
    if cost[0] == 0 {
        return None;
    }
    let mut text = String::new();
    let mut put = |mark: char, line: &str| {
        text.push(mark);
        text.push(' ');
        text.push_str(line);
        text.push('\n');
    };
    // Follow the choices that lead to the minimal cost.
    let (mut e, mut a) = (0, 0);
    while e < rows || a < columns {
        let here = e * width + a;
        if e == rows {
            put('+', actual[a]);
            a += 1;
        } else if expected[e] == REST {
            if cost[here] == cost[here + width] {
                e += 1;
            } else {
                put(' ', actual[a]);
                a += 1;
            }
        } else if a < columns
            && let Some(price) = pairing(expected[e], actual[a])
            && cost[here] == cost[here + width + 1] + price
        {
            if price == 0 {
                put(' ', actual[a]);
            } else {
                put('-', expected[e]);
                put('+', actual[a]);
            }
            e += 1;
            a += 1;
        } else if cost[here] == cost[here + width] + 1 {
            put('-', expected[e]);
            e += 1;
        } else {
            put('+', actual[a]);
            a += 1;
        }
    }
    text.pop();
    Some(text)
}

/// Number of equal lines shown around differences.
const CONTEXT: usize = 3;
/// Maximum number of lines of a list that are aligned, because the alignment takes quadratic time.
const ALIGNED: usize = 600;

/// Returns a diff of two lists without wildcards, or `None` if they are equal. It shows only the
/// lines around the differences.
pub(crate) fn plain_diff(expected: &[String], actual: &[String]) -> Option<String> {
    if expected == actual {
        return None;
    }
    let same = expected.iter().zip(actual).take_while(|(e, a)| e == a).count();
    let (rest_e, rest_a) = (&expected[same..], &actual[same..]);
    let same_end = rest_e.iter().rev().zip(rest_a.iter().rev()).take_while(|(e, a)| e == a).count();
    let after = &rest_e[rest_e.len() - same_end..];
    let (rest_e, rest_a) = (&rest_e[..rest_e.len() - same_end], &rest_a[..rest_a.len() - same_end]);
    let (shown_e, shown_a) =
        (&rest_e[..rest_e.len().min(ALIGNED)], &rest_a[..rest_a.len().min(ALIGNED)]);
    // A NUL at the end of each line prevents it from being read as a wildcard.
    let marked =
        |lines: &[String]| lines.iter().map(|line| format!("{line}\u{0}")).collect::<Vec<_>>();
    let middle = diff(&marked(shown_e), &marked(shown_a)).unwrap_or_default().replace('\u{0}', "");
    let mut lines: Vec<String> = Vec::new();
    let before = &expected[same.saturating_sub(CONTEXT)..same];
    lines.extend((same > before.len()).then(|| format!("  ({} equal lines)", same - before.len())));
    lines.extend(before.iter().map(|line| format!("  {line}")));
    lines.push(middle);
    let left = (rest_e.len() - shown_e.len()).max(rest_a.len() - shown_a.len());
    lines.extend((left > 0).then(|| format!("  ({left} further lines)")));
    lines.extend(after.iter().take(CONTEXT).map(|line| format!("  {line}")));
    lines.extend(
        (after.len() > CONTEXT).then(|| format!("  ({} equal lines)", after.len() - CONTEXT)),
    );
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::{diff, plain_diff};

    #[test]
    fn a_plain_diff_knows_no_wildcards_and_is_short() {
        let lines =
            |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        assert_eq!(plain_diff(&lines(&["a", ".."]), &lines(&["a", ".."])), None);
        assert_eq!(
            plain_diff(&lines(&["a", ".."]), &lines(&["a", "b"])).unwrap(),
            "  a\n- ..\n+ b"
        );
        let long: Vec<String> = (0..5000).map(|line| line.to_string()).collect();
        let mut other = long.clone();
        other[2000].push('!');
        let diff = plain_diff(&long, &other).unwrap();
        assert_eq!(diff.lines().count(), 10, "{diff}");
        assert!(
            diff.starts_with("  (1997 equal lines)\n  1997") && diff.contains("- 2000\n+ 2000!\n"),
            "{diff}"
        );
        assert!(plain_diff(&long, &[]).is_some());
    }

    #[test]
    fn equal_lists_have_no_diff() {
        assert_eq!(diff(&["a", "b"], &["a", "b"]), None);
        assert_eq!(diff::<&str, &str>(&[], &[]), None);
    }

    #[test]
    fn wildcards_match_the_rest_of_a_line_and_any_number_of_lines() {
        assert_eq!(diff(&["a ..", "..", "z"], &["a 1", "b", "c", "z"]), None);
        assert_eq!(diff(&["..", "z"], &["z"]), None);
        assert_eq!(diff(&["a", ".."], &["a"]), None);
        assert_eq!(diff(&["a .."], &["a"]), None);
        assert!(diff(&["a .."], &["ab"]).is_some());
    }

    #[test]
    fn a_diff_keeps_the_common_lines_together() {
        assert_eq!(
            diff(&["a", "b", "c"], &["a", "x", "c", "d"]).unwrap(),
            "  a\n- b\n+ x\n  c\n+ d"
        );
        assert_eq!(diff(&["..", "b 1"], &["a", "b 2"]).unwrap(), "  a\n- b 1\n+ b 2");
        assert_eq!(
            diff(&["a", "..", "c"], &["a", "b", "b", "d"]).unwrap(),
            "  a\n  b\n  b\n  d\n- c"
        );
    }
}
