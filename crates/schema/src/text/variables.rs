//! Expands environment variables, written as `${NAME}`, in the text of configuration files. The
//! caller provides the values.

/// Replaces each `${NAME}` with the value of the variable, and `${NAME:-else}` with `else` if the
/// variable is not set. Values are not expanded again.
///
/// # Errors
/// A variable is not set, or a `${` has no `}`.
pub fn expanded(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, VariableError> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            return Err(VariableError::OpenBrace { text: text.to_owned() });
        };
        let (name, or_else) = match name.split_once(":-") {
            Some((name, or_else)) => (name, Some(or_else.to_owned())),
            None => (name, None),
        };
        let value = variable(name)
            .or(or_else)
            .ok_or_else(|| VariableError::NotSet { name: name.to_owned() })?;
        out.push_str(before);
        out.push_str(&value);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// The reason that the variables of a text cannot be expanded. It contains the name of the variable
/// but never a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// A `${` has no `}`.
    #[error("`{text}` has a `${{` without its `}}`")]
    OpenBrace {
        /// The whole text.
        text: String,
    },
    /// The variable is not set, and the text has no alternative for it.
    #[error("the variable `{name}` is not set")]
    NotSet {
        /// Name of the variable.
        name: String,
    },
}

/// Returns the names of the variables in a string, in order.
pub fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let after = text.split("${").skip(1);
    after
        .filter_map(|part| part.split_once('}'))
        .map(|(name, _)| name.split(":-").next().unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::{expanded, names_in};

    #[test]
    fn names_are_those_that_are_expanded() {
        let text = "Bearer ${KEY} of ${WHO:-ada}, $5 {x}";
        assert_eq!(names_in(text).collect::<Vec<_>>(), ["KEY", "WHO"]);
        let key = |name: &str| (name == "KEY").then(|| "${X}".to_owned());
        assert_eq!(expanded(text, &key).unwrap(), "Bearer ${X} of ada, $5 {x}");
        assert_eq!(
            expanded("${WHO}", &key).unwrap_err().to_string(),
            "the variable `WHO` is not set"
        );
        assert!(expanded("${KEY", &key).unwrap_err().to_string().contains("without its `}`"));
    }
}
