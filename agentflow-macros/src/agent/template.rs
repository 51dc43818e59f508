//! The instruction: reads the documentation comment and checks its placeholders by name. Whether a parameter has a field,
//! and whether a value can be shown, is left to the compiler.

use proc_macro2::{Ident, Span};
use syn::{Attribute, Expr, Lit};

use crate::docs;
use crate::errors::{Errors, nearest};

/// The instruction in pieces.
#[derive(Default)]
pub(super) struct Template {
    pub(super) pieces: Vec<Piece>,
    /// The values that are shown; a value that is shown twice is here once.
    pub(super) values: Vec<Shown>,
}

pub(super) enum Piece {
    Text(String),
    /// The index of the value in [`Template::values`].
    Value(usize),
    App {
        key: String,
        optional: bool,
    },
    /// Such as `include_str!("..")`: only the compiler can read it, so it has no placeholders.
    Expr(Box<Expr>),
}

/// A parameter, or a field of it.
pub(super) struct Shown {
    /// The index of the parameter.
    pub(super) param: usize,
    pub(super) fields: Vec<Ident>,
    /// As it was written between the braces.
    pub(super) path: String,
    /// The line of the comment.
    pub(super) span: Span,
}

/// What a placeholder can name.
pub(super) struct ParamNames<'a> {
    pub(super) params: Vec<String>,
    pub(super) context: Option<&'a Ident>,
}

impl Template {
    pub(super) fn read(attrs: &[Attribute], names: &ParamNames<'_>, errors: &mut Errors) -> Self {
        let mut template = Self::default();
        for (index, value) in attrs.iter().filter_map(docs::doc).enumerate() {
            if index > 0 {
                template.text("\n");
            }
            match value {
                Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) => {
                    for (index, line) in docs::unindented(&text.value()).split('\n').enumerate() {
                        if index > 0 {
                            template.text("\n");
                        }
                        template.line(line, text.span(), names, errors);
                    }
                }
                other => template.pieces.push(Piece::Expr(Box::new(other.clone()))),
            }
        }
        template.trim();
        template
    }

    /// Whether the instruction is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether a placeholder shows the parameter or a part of it.
    pub(super) fn shows(&self, param: usize) -> bool {
        self.values.iter().any(|shown| shown.param == param)
    }

    fn line(&mut self, line: &str, span: Span, names: &ParamNames<'_>, errors: &mut Errors) {
        for token in tokens(line) {
            let piece = match token {
                Token::Text(text) => {
                    self.text(text);
                    continue;
                }
                Token::Wrong(message) => Err(message.to_owned()),
                Token::Placeholder(inside) => self.placeholder(inside, span, names),
            };
            match piece {
                Ok(piece) => self.pieces.push(piece),
                Err(message) => errors.at_span(span, message),
            }
        }
    }

    fn placeholder(&mut self, inside: &str, span: Span, names: &ParamNames<'_>) -> Result<Piece, String> {
        if let Some((before, after)) = inside.split_once(':').filter(|(before, _)| is_name(before)) {
            return app_value(before, after, names);
        }
        let mut path = inside.split('.');
        let name = path.next().unwrap_or_default();
        let fields: Vec<&str> = path.collect();
        if !is_name(name) || fields.iter().any(|field| !is_name(field) && !is_index(field)) {
            return Err(no_placeholder(inside));
        }
        if let Some(context) = names.context.filter(|context| *context == name) {
            return Err(format!("`{context}` is the context, which cannot be shown; name another parameter"));
        }
        let Some(param) = names.params.iter().position(|param| param == name) else {
            return Err(format!("there is no parameter `{name}`; {}", names.hint(name)));
        };
        if let Some(known) = self.values.iter().position(|shown| shown.path == inside) {
            return Ok(Piece::Value(known));
        }
        let fields = fields.into_iter().map(|field| field_name(field, inside, span)).collect::<Result<_, _>>()?;
        self.values.push(Shown { param, fields, path: inside.to_owned(), span });
        Ok(Piece::Value(self.values.len() - 1))
    }

    fn text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Text(before)) => before.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    /// Removes empty lines and spaces around the whole instruction.
    fn trim(&mut self) {
        if let Some(Piece::Text(text)) = self.pieces.first_mut() {
            *text = text.trim_start().to_owned();
        }
        if let Some(Piece::Text(text)) = self.pieces.last_mut() {
            text.truncate(text.trim_end().len());
        }
        self.pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
    }
}

impl ParamNames<'_> {
    fn hint(&self, wrong: &str) -> String {
        if let Some(near) = nearest(wrong, self.params.iter().map(|name| &**name)) {
            return format!("did you mean `{{{near}}}`?");
        }
        let all: Vec<String> = self.params.iter().map(|name| format!("`{name}`")).collect();
        match all.as_slice() {
            [] => "this function has no parameters; for braces write `{{` and `}}`".to_owned(),
            [one] => format!("the only parameter is {one}"),
            all => format!("the parameters are {}", all.join(", ")),
        }
    }
}

fn app_value(before: &str, key: &str, names: &ParamNames<'_>) -> Result<Piece, String> {
    if before != "app" {
        return Err(match names.params.iter().any(|name| name == before) {
            true => format!("a placeholder has no format; write `{{{before}}}`"),
            false => {
                format!("`{before}:` is not a source of values; write `{{app:key}}` for a value of the application")
            }
        });
    }
    let (key, optional) = match key.strip_suffix('?') {
        Some(key) => (key, true),
        None => (key, false),
    };
    if key.is_empty() || !key.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c)) {
        return Err(
            "a key after `app:` consists of letters, digits, `_`, `-` and `.`, as in `{app:company}`".to_owned()
        );
    }
    Ok(Piece::App { key: key.to_owned(), optional })
}

fn no_placeholder(inside: &str) -> String {
    format!(
        "`{{{inside}}}` is not a placeholder; write `{{name}}` to show a parameter, or `{{{{` and `}}}}` for braces"
    )
}

fn field_name(name: &str, path: &str, span: Span) -> Result<Ident, String> {
    if is_index(name) {
        return Err(format!("`{{{path}}}` names a field by its number; only fields with names can be shown"));
    }
    // With a span of the expansion, since the compiler would otherwise suggest replacing the whole line by the right name.
    let span = Span::mixed_site().located_at(span);
    match syn::parse_str::<Ident>(name) {
        Ok(_) => Ok(Ident::new(name, span)),
        Err(_) if matches!(name, "_" | "self" | "Self" | "super" | "crate") => Err(no_placeholder(path)),
        // A keyword.
        Err(_) => Ok(Ident::new_raw(name, span)),
    }
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_') && chars.all(|c| c.is_alphanumeric() || c == '_')
}

fn is_index(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

#[derive(Debug, PartialEq)]
enum Token<'a> {
    Text(&'a str),
    /// The text between the braces.
    Placeholder(&'a str),
    Wrong(&'static str),
}

/// Splits a line; `{{` and `}}` become text.
fn tokens(mut line: &str) -> Vec<Token<'_>> {
    let mut all = Vec::new();
    while let Some(at) = line.find(['{', '}']) {
        let (before, rest) = line.split_at(at);
        if !before.is_empty() {
            all.push(Token::Text(before));
        }
        line = if let Some(after) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
            all.push(Token::Text(&rest[..1]));
            after
        } else if let Some(after) = rest.strip_prefix('}') {
            all.push(Token::Wrong("this `}` has no `{` before it; write `}}` for a brace"));
            after
        } else if let Some((inside, after)) = rest[1..].split_once('}') {
            all.push(Token::Placeholder(inside));
            after
        } else {
            all.push(Token::Wrong("this `{` has no `}` on its line; write `{{` for a brace"));
            &rest[1..]
        };
    }
    if !line.is_empty() {
        all.push(Token::Text(line));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::Token::{Placeholder, Text, Wrong};
    use super::{ParamNames, Piece, Template, tokens};
    use crate::errors::Errors;

    #[test]
    fn a_line_is_text_and_placeholders() {
        assert_eq!(tokens("a {b} c"), [Text("a "), Placeholder("b"), Text(" c")]);
        assert_eq!(tokens("{a}{b.c}"), [Placeholder("a"), Placeholder("b.c")]);
        assert_eq!(tokens("{{a}} é"), [Text("{"), Text("a"), Text("}"), Text(" é")]);
        assert_eq!(tokens("{{{a}}}"), [Text("{"), Placeholder("a"), Text("}")]);
        assert_eq!(tokens(""), []);
        assert!(matches!(tokens("a { b")[..], [Text("a "), Wrong(_), Text(" b")]));
        assert!(matches!(tokens("a } b")[..], [Text("a "), Wrong(_), Text(" b")]));
    }

    fn read(lines: &[&str]) -> (Template, Vec<String>) {
        let attrs: Vec<syn::Attribute> = lines.iter().map(|line| syn::parse_quote!(#[doc = #line])).collect();
        let names = ParamNames { params: vec!["text".into(), "type".into()], context: Some(&syn::parse_quote!(cx)) };
        let mut errors = Errors::default();
        let template = Template::read(&attrs, &names, &mut errors);
        (template, errors.messages())
    }

    #[test]
    fn the_instruction_is_trimmed_and_its_values_are_found_once() {
        let (template, errors) =
            read(&[" ", " Say {text}", " to {type.name.match}, {text} ", "  of {app:company?}. ", ""]);
        assert_eq!(errors, [""; 0]);
        let shown: Vec<String> = template
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Value(index) => format!("<{}>", template.values[*index].path),
                Piece::App { key, optional } => format!("<app {key} {optional}>"),
                Piece::Expr(_) => unreachable!(),
            })
            .collect();
        assert_eq!(shown.concat(), "Say <text>\nto <type.name.match>, <text>\n of <app company true>.");
        assert_eq!(template.values.len(), 2);
        assert_eq!(template.values[1].fields.iter().map(ToString::to_string).collect::<Vec<_>>(), ["name", "r#match"]);
        assert!(template.shows(0) && template.shows(1) && !template.shows(2));
        assert!(read(&[" ", ""]).0.is_empty());
    }

    #[test]
    fn each_mistake_says_what_to_do() {
        for (line, expected) in [
            ("{txt}", "there is no parameter `txt`; did you mean `{text}`?"),
            ("{summary}", "there is no parameter `summary`; the parameters are `text`, `type`"),
            ("{cx}", "`cx` is the context, which cannot be shown; name another parameter"),
            ("{text:?}", "a placeholder has no format; write `{text}`"),
            ("{user:name}", "`user:` is not a source of values; write `{app:key}` for a value of the application"),
            ("{app:}", "a key after `app:` consists of letters, digits, `_`, `-` and `.`, as in `{app:company}`"),
            ("{}", "`{}` is not a placeholder; write `{name}` to show a parameter, or `{{` and `}}` for braces"),
            (
                "{ text }",
                "`{ text }` is not a placeholder; write `{name}` to show a parameter, or `{{` and `}}` for braces",
            ),
            (
                "{text.}",
                "`{text.}` is not a placeholder; write `{name}` to show a parameter, or `{{` and `}}` for braces",
            ),
            (
                "{text.self}",
                "`{text.self}` is not a placeholder; write `{name}` to show a parameter, or `{{` and `}}` for braces",
            ),
            (
                r#"{"level": 3}"#,
                r#"`{"level": 3}` is not a placeholder; write `{name}` to show a parameter, or `{{` and `}}` for braces"#,
            ),
            ("{text.0}", "`{text.0}` names a field by its number; only fields with names can be shown"),
            ("{", "this `{` has no `}` on its line; write `{{` for a brace"),
            ("}", "this `}` has no `{` before it; write `}}` for a brace"),
        ] {
            assert_eq!(read(&[line]).1, [expected], "{line}");
        }
        assert_eq!(read(&["{a} {b}", "{c}"]).1.len(), 3);
    }
}
