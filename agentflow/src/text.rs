//! Small questions about texts: the nearest of some names, the start of a long text.

/// The name nearest to `wrong`, if one is near enough to be what was meant: at most a third of it differs.
pub(crate) fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (wrong.chars().count() / 3).max(1);
    names
        .into_iter()
        .map(|name| (strsim::osa_distance(&wrong.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}

/// The longest start of `text` that has at most `max` bytes and ends between two characters.
pub(crate) fn head(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let end = (0..=max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::{head, nearest};

    #[test]
    fn only_near_names_are_offered() {
        assert_eq!(nearest("qurey", ["query", "limit"]), Some("query"));
        assert_eq!(nearest("Serach", ["search", "reach"]), Some("search"));
        assert_eq!(nearest("x", ["query", "limit"]), None);
    }

    #[test]
    fn a_head_ends_between_characters() {
        assert_eq!(head("aé", 2), "a");
        assert_eq!(head("aé", 3), "aé");
        assert_eq!(head("é", 1), "");
    }
}
