//! Two lists of lines beside each other: what was expected and what there was.
//!
//! An expected line may end in `..` (whatever follows) or be `..` alone (any number of lines), so this is an alignment
//! and no plain diff. It never decides which lines are compared.

/// The wildcard of an expected line.
const REST: &str = "..";

/// Whether one line is what was expected.
pub(crate) fn line_matches(expected: &str, actual: &str) -> bool {
    if expected == actual {
        return true;
    }
    match expected.strip_suffix(REST) {
        Some(start) => actual.starts_with(start) || actual == start.trim_end(),
        None => false,
    }
}

/// `None` when the lines are what was expected, otherwise a diff: ` ` for a line that fits, `-` for an expected one that
/// is missing, `+` for one that was not expected.
pub(crate) fn diff<E: AsRef<str>, A: AsRef<str>>(expected: &[E], actual: &[A]) -> Option<String> {
    let (expected, actual): (Vec<&str>, Vec<&str>) =
        (expected.iter().map(AsRef::as_ref).collect(), actual.iter().map(AsRef::as_ref).collect());
    let (rows, columns) = (expected.len(), actual.len());
    let width = columns + 1;
    // cost[e * width + a]: how many lines are left over when the rest of both lists, from `e` and `a` on, is aligned.
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
                    let unpaired = without_expected.min(cost[here + 1] + 1);
                    if line_matches(expected[e], actual[a]) { unpaired.min(cost[here + width + 1]) } else { unpaired }
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
        } else if a < columns && line_matches(expected[e], actual[a]) && cost[here] == cost[here + width + 1] {
            put(' ', actual[a]);
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

#[cfg(test)]
mod tests {
    use super::diff;

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
        assert_eq!(diff(&["a", "b", "c"], &["a", "x", "c", "d"]).unwrap(), "  a\n- b\n+ x\n  c\n+ d");
        assert_eq!(diff(&["a", "..", "c"], &["a", "b", "b", "d"]).unwrap(), "  a\n  b\n  b\n  d\n- c");
    }
}
