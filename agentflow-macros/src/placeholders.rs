//! Parses placeholders in a string, such as `Refund {order.id}?`. It splits the text and reads the
//! paths. The caller checks the names; the compiler checks the fields.

use proc_macro2::{Ident, Span};

/// A part of a string.
#[derive(Debug, PartialEq)]
pub(crate) enum Part<'t> {
    Text(&'t str),
    /// The text between the braces: a path, or another form with a colon that the caller
    /// interprets.
    Placeholder(&'t str),
    /// A brace without its counterpart, with an error message.
    Wrong(&'static str),
}

/// Splits a string. `{{` and `}}` become literal braces. A placeholder must end on its line.
pub(crate) fn parts(mut text: &str) -> Vec<Part<'_>> {
    let mut all = Vec::new();
    while let Some(at) = text.find(['{', '}']) {
        let (before, rest) = text.split_at(at);
        if !before.is_empty() {
            all.push(Part::Text(before));
        }
        let line = rest[1..].split('\n').next().unwrap_or_default();
        text = if let Some(after) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
            all.push(Part::Text(&rest[..1]));
            after
        } else if let Some(after) = rest.strip_prefix('}') {
            all.push(Part::Wrong("this `}` has no `{` before it; write `}}` for a brace"));
            after
        } else if let Some(end) = line.find('}') {
            all.push(Part::Placeholder(&line[..end]));
            &rest[end + 2..]
        } else {
            all.push(Part::Wrong("this `{` has no `}` on its line; write `{{` for a brace"));
            &rest[1..]
        };
    }
    if !text.is_empty() {
        all.push(Part::Text(text));
    }
    all
}

/// A variable with an optional path of fields.
pub(crate) struct FieldPath<'t> {
    pub(crate) name: &'t str,
    pub(crate) fields: Vec<Ident>,
}

impl<'t> FieldPath<'t> {
    /// Parses `order` or `order.customer.name`.
    ///
    /// # Errors
    /// Returns a message that explains what to write. The caller reports it at the text.
    pub(crate) fn read(path: &'t str, span: Span) -> Result<Self, String> {
        let mut parts = path.split('.');
        let name = parts.next().unwrap_or_default();
        let fields: Vec<&str> = parts.collect();
        if !is_name(name) || fields.iter().any(|field| !is_name(field) && !is_index(field)) {
            return Err(no_placeholder(path));
        }
        let fields = fields
            .into_iter()
            .map(|field| field_name(field, path, span))
            .collect::<Result<_, _>>()?;
        Ok(Self { name, fields })
    }
}

fn no_placeholder(inside: &str) -> String {
    format!(
        "`{{{inside}}}` is not a placeholder; write `{{name}}` to show a value, or `{{{{` and `}}}}` for braces"
    )
}

fn field_name(name: &str, path: &str, span: Span) -> Result<Ident, String> {
    if is_index(name) {
        return Err(format!(
            "`{{{path}}}` names a field by its number; only fields with names can be shown"
        ));
    }
    // A span of the expansion, because the compiler would otherwise suggest to replace the whole
    // line with the right name.
    let span = Span::mixed_site().located_at(span);
    match syn::parse_str::<Ident>(name) {
        Ok(_) => Ok(Ident::new(name, span)),
        Err(_) if matches!(name, "_" | "self" | "Self" | "super" | "crate") => {
            Err(no_placeholder(path))
        }
        // The name is a keyword, so it needs `r#`.
        Err(_) => Ok(Ident::new_raw(name, span)),
    }
}

/// Returns `true` if a string is a valid variable name.
pub(crate) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '_')
}

fn is_index(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;

    use super::FieldPath;
    use super::Part::{Placeholder, Text, Wrong};
    use super::parts;

    #[test]
    fn a_text_is_split_at_its_placeholders() {
        assert_eq!(parts("a {b} c"), [Text("a "), Placeholder("b"), Text(" c")]);
        assert_eq!(parts("{a}{b.c:.2}"), [Placeholder("a"), Placeholder("b.c:.2")]);
        assert_eq!(parts("{{a}} é"), [Text("{"), Text("a"), Text("}"), Text(" é")]);
        assert_eq!(parts("{{{a}}}"), [Text("{"), Placeholder("a"), Text("}")]);
        assert_eq!(parts(""), []);
        assert!(matches!(parts("a { b")[..], [Text("a "), Wrong(_), Text(" b")]));
        assert!(matches!(parts("a } b")[..], [Text("a "), Wrong(_), Text(" b")]));
        assert!(matches!(parts("{é\n}")[..], [Wrong(_), Text("é\n"), Wrong(_)]));
        assert_eq!(parts("{a}\n{b}"), [Placeholder("a"), Text("\n"), Placeholder("b")]);
    }

    #[test]
    fn a_path_is_a_name_and_fields() {
        let path = FieldPath::read("order.type.id", Span::call_site()).ok().unwrap();
        let fields: Vec<String> = path.fields.iter().map(ToString::to_string).collect();
        assert_eq!((path.name, fields), ("order", vec!["r#type".to_owned(), "id".to_owned()]));
        assert!(FieldPath::read("order", Span::call_site()).ok().unwrap().fields.is_empty());
        for wrong in ["", " order", "order.", ".id", "order id", "\"a\": 1", "order.self"] {
            let message = FieldPath::read(wrong, Span::call_site()).err().unwrap();
            assert!(
                message.starts_with(&format!("`{{{wrong}}}` is not a placeholder; write")),
                "{message}"
            );
        }
        let message = FieldPath::read("order.0", Span::call_site()).err().unwrap();
        assert_eq!(
            message,
            "`{order.0}` names a field by its number; only fields with names can be shown"
        );
    }
}
