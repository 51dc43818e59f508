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

/// What to say about a tool's name that does not exist: the nearest one, or those that do, at most ten.
pub(crate) fn name_hint<'a>(wrong: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    if let Some(near) = nearest(wrong, names.clone()) {
        return format!("did you mean `{near}`?");
    }
    let count = names.clone().count();
    let shown = names.take(10).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match count {
        0 => "there are no tools at all".to_owned(),
        1 => format!("the only tool is {shown}"),
        2..=10 => format!("the tools are {shown}"),
        _ => format!("the tools are {shown} and {} more", count - 10),
    }
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
    use super::{head, name_hint, nearest};

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

    #[test]
    fn hints_name_what_there_is() {
        let hint = |names: &[&str]| name_hint("x", names.iter().copied());
        assert_eq!(hint(&[]), "there are no tools at all");
        assert_eq!(hint(&["add"]), "the only tool is `add`");
        assert_eq!(hint(&["add", "sub"]), "the tools are `add`, `sub`");
        assert!(hint(&["tool"; 12]).ends_with(" and 2 more"));
    }
}
