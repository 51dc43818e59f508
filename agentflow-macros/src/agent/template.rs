//! Parses the documentation comment of an agent. It splits the comment into the instruction and the
//! user's message and checks the names in placeholders. The compiler checks fields and types.

use proc_macro2::{Ident, Span};
use syn::{Attribute, Expr, Lit};

use crate::docs;
use crate::errors::{Errors, nearest};
use crate::placeholders::{self, FieldPath, Part};

/// The parsed comment. A paragraph with a placeholder for an argument, such as `{text}`, belongs to
/// the user's message. All other paragraphs belong to the instruction.
#[derive(Default)]
pub(super) struct Template {
    pub(super) instruction: Vec<Piece>,
    pub(super) message: Vec<Piece>,
    /// The values of the placeholders, without duplicates.
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
    /// For example `include_str!("..")`. Only the compiler can read it, so it has no placeholders.
    Expr(Box<Expr>),
}

/// A parameter or a field of a parameter.
pub(super) struct Shown {
    /// The index of the parameter.
    pub(super) param: usize,
    pub(super) fields: Vec<Ident>,
    /// The path as written between the braces, without `system:`.
    pub(super) path: String,
    /// Span of the line of the comment.
    pub(super) span: Span,
}

/// The parameter names that a placeholder can use.
pub(super) struct ParamNames<'a> {
    pub(super) params: Vec<String>,
    pub(super) context: Option<&'a Ident>,
}

/// Consecutive lines that are not empty.
#[derive(Default)]
struct Paragraph {
    pieces: Vec<Piece>,
    /// The first placeholder for an argument of the caller. With it, the paragraph belongs to the
    /// message.
    data: Option<String>,
    /// The placeholders with `system:`, which keeps an argument in the instruction.
    system: Vec<(String, Span)>,
}

impl Template {
    pub(super) fn read(attrs: &[Attribute], names: &ParamNames<'_>, errors: &mut Errors) -> Self {
        let mut template = Self::default();
        let mut paragraph = Paragraph::default();
        for value in attrs.iter().filter_map(docs::doc) {
            match value {
                Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) => {
                    for line in docs::unindented(&text.value()).split('\n') {
                        if line.trim().is_empty() {
                            template.end(&mut paragraph, errors);
                        } else {
                            template.line(&mut paragraph, line, text.span(), names, errors);
                        }
                    }
                }
                other => {
                    template.end(&mut paragraph, errors);
                    // The macro cannot see the text, so it becomes a separate paragraph of the
                    // instruction.
                    paragraph.pieces.push(Piece::Expr(Box::new(other.clone())));
                    template.end(&mut paragraph, errors);
                }
            }
        }
        template.end(&mut paragraph, errors);
        template
    }

    /// Returns `true` if the comment is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.instruction.is_empty() && self.message.is_empty()
    }

    /// Returns `true` if a placeholder inserts the parameter or a field of it.
    pub(super) fn shows(&self, param: usize) -> bool {
        self.values.iter().any(|shown| shown.param == param)
    }

    /// Ends a paragraph and adds it to the message or the instruction.
    fn end(&mut self, paragraph: &mut Paragraph, errors: &mut Errors) {
        let Paragraph { mut pieces, data, system } = std::mem::take(paragraph);
        let part = match &data {
            Some(data) => {
                // The whole paragraph becomes part of the message, which contradicts `{system:..}`.
                for (path, span) in system {
                    let message = format!(
                        "`{{system:{path}}}` stands in a paragraph that is sent as the user's message, since it shows \
                         `{{{data}}}`; put an empty `///` line between them, or write `{{{path}}}`"
                    );
                    errors.at_span(span, message);
                }
                &mut self.message
            }
            None => &mut self.instruction,
        };
        if part.is_empty() {
            if let Some(Piece::Text(text)) = pieces.first_mut() {
                *text = text.trim_start().to_owned();
            }
        } else if !pieces.is_empty() {
            push_text(part, "\n\n");
        }
        for piece in pieces {
            match piece {
                Piece::Text(text) => push_text(part, &text),
                other => part.push(other),
            }
        }
    }

    fn line(
        &mut self,
        paragraph: &mut Paragraph,
        line: &str,
        span: Span,
        names: &ParamNames<'_>,
        errors: &mut Errors,
    ) {
        if !paragraph.pieces.is_empty() {
            push_text(&mut paragraph.pieces, "\n");
        }
        for part in placeholders::parts(line) {
            let piece = match part {
                Part::Text(text) => {
                    push_text(&mut paragraph.pieces, text);
                    continue;
                }
                Part::Wrong(message) => Err(message.to_owned()),
                Part::Placeholder(inside) => self.placeholder(paragraph, inside, span, names),
            };
            match piece {
                Ok(piece) => paragraph.pieces.push(piece),
                Err(message) => errors.at_span(span, message),
            }
        }
    }

    fn placeholder(
        &mut self,
        paragraph: &mut Paragraph,
        inside: &str,
        span: Span,
        names: &ParamNames<'_>,
    ) -> Result<Piece, String> {
        match inside.split_once(':').filter(|(before, _)| placeholders::is_name(before)) {
            None => {
                let piece = self.value(inside, span, names)?;
                paragraph.data.get_or_insert_with(|| inside.to_owned());
                Ok(piece)
            }
            Some(("system", path)) => {
                let piece = self.value(path, span, names)?;
                paragraph.system.push((path.to_owned(), span));
                Ok(piece)
            }
            Some(("app", key)) => app_value(key),
            Some((param, _)) if names.params.iter().any(|name| name == param) => {
                Err(format!("a placeholder has no format; write `{{{param}}}`"))
            }
            Some((source, _)) => Err(format!(
                "`{source}:` is not a source of values; write `{{app:key}}` for a value of the application, or \
                 `{{system:name}}` for a parameter that may stand in the instruction"
            )),
        }
    }

    /// Parses a parameter or a field of a parameter.
    fn value(&mut self, path: &str, span: Span, names: &ParamNames<'_>) -> Result<Piece, String> {
        let FieldPath { name, fields } = FieldPath::read(path, span)?;
        if let Some(context) = names.context.filter(|context| *context == name) {
            return Err(format!(
                "`{context}` is the context, which cannot be shown; name another parameter"
            ));
        }
        let Some(param) = names.params.iter().position(|param| param == name) else {
            return Err(format!("there is no parameter `{name}`; {}", names.hint(name)));
        };
        // A value that occurs twice is serialized once.
        if let Some(known) = self.values.iter().position(|shown| shown.path == path) {
            return Ok(Piece::Value(known));
        }
        self.values.push(Shown { param, fields, path: path.to_owned(), span });
        Ok(Piece::Value(self.values.len() - 1))
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        Some(Piece::Text(before)) => before.push_str(text),
        _ if text.is_empty() => {}
        _ => pieces.push(Piece::Text(text.to_owned())),
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

fn app_value(key: &str) -> Result<Piece, String> {
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

#[cfg(test)]
mod tests {
    use super::{ParamNames, Piece, Template};
    use crate::errors::Errors;

    fn read(lines: &[&str]) -> (Template, Vec<String>) {
        let attrs: Vec<syn::Attribute> =
            lines.iter().map(|line| syn::parse_quote!(#[doc = #line])).collect();
        template(&attrs)
    }

    fn template(attrs: &[syn::Attribute]) -> (Template, Vec<String>) {
        let names = ParamNames {
            params: vec!["text".into(), "type".into()],
            context: Some(&syn::parse_quote!(cx)),
        };
        let mut errors = Errors::default();
        let template = Template::read(attrs, &names, &mut errors);
        (template, errors.messages())
    }

    fn shown(template: &Template, pieces: &[Piece]) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(index) => format!("<{}>", template.values[*index].path),
            Piece::App { key, optional } => format!("<app {key} {optional}>"),
            Piece::Expr(_) => "<expr>".to_owned(),
        };
        pieces.iter().map(piece).collect()
    }

    fn divided(lines: &[&str]) -> (String, String) {
        let (template, errors) = read(lines);
        assert_eq!(errors, [""; 0]);
        (shown(&template, &template.instruction), shown(&template, &template.message))
    }

    #[test]
    fn the_message_is_trimmed_and_its_values_are_found_once() {
        let (template, errors) = read(&[
            " ",
            " Say {text}",
            " to {type.name.match}, {text} ",
            "  of {app:company?}. ",
            "",
        ]);
        assert_eq!(errors, [""; 0]);
        assert_eq!(
            shown(&template, &template.message),
            "Say <text>\nto <type.name.match>, <text>\n of <app company true>."
        );
        assert!(template.instruction.is_empty());
        assert_eq!(template.values.len(), 2);
        assert_eq!(
            template.values[1].fields.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["name", "r#match"]
        );
        assert!(template.shows(0) && template.shows(1) && !template.shows(2));
        assert!(read(&[" ", ""]).0.is_empty());
    }

    #[test]
    fn a_paragraph_that_shows_data_is_a_part_of_the_message() {
        let (instruction, message) = divided(&[
            " You judge for {app:company}.",
            "",
            " Text:",
            " {text}",
            "",
            "",
            "  - Be brief.",
            " ",
            " {type}",
        ]);
        assert_eq!(instruction, "You judge for <app company false>.\n\n - Be brief.");
        assert_eq!(message, "Text:\n<text>\n\n<type>");
        assert_eq!(
            divided(&[" {{text}} is a brace."]),
            ("{text} is a brace.".to_owned(), String::new())
        );
    }

    #[test]
    fn data_is_a_part_of_the_instruction_where_the_author_says_so() {
        let (instruction, message) =
            divided(&[" Translate into {system:type.name}.", "", " {text} {type.name}"]);
        assert_eq!(instruction, "Translate into <type.name>.");
        assert_eq!(message, "<text> <type.name>");
    }

    #[test]
    fn a_text_that_only_the_compiler_reads_is_a_paragraph_of_the_instruction() {
        let attrs: Vec<syn::Attribute> = vec![
            syn::parse_quote!(#[doc = "Judge:"]),
            syn::parse_quote!(#[doc = include_str!("judge.md")]),
            syn::parse_quote!(#[doc = "{text}"]),
        ];
        let (template, errors) = template(&attrs);
        assert_eq!(errors, [""; 0]);
        assert_eq!(shown(&template, &template.instruction), "Judge:\n\n<expr>");
        assert_eq!(shown(&template, &template.message), "<text>");
    }

    #[test]
    fn each_mistake_says_what_to_do() {
        for (line, expected) in [
            ("{txt}", "there is no parameter `txt`; did you mean `{text}`?"),
            ("{system:txt}", "there is no parameter `txt`; did you mean `{text}`?"),
            ("{summary}", "there is no parameter `summary`; the parameters are `text`, `type`"),
            ("{cx}", "`cx` is the context, which cannot be shown; name another parameter"),
            ("{text:?}", "a placeholder has no format; write `{text}`"),
            (
                "{user:name}",
                "`user:` is not a source of values; write `{app:key}` for a value of the application, or `{system:name}` for a parameter that may stand in the instruction",
            ),
            (
                "{system:type} {text}",
                "`{system:type}` stands in a paragraph that is sent as the user's message, since it shows `{text}`; put an empty `///` line between them, or write `{type}`",
            ),
            (
                "{app:}",
                "a key after `app:` consists of letters, digits, `_`, `-` and `.`, as in `{app:company}`",
            ),
            (
                "{}",
                "`{}` is not a placeholder; write `{name}` to show a value, or `{{` and `}}` for braces",
            ),
            (
                r#"{"level": 3}"#,
                r#"`{"level": 3}` is not a placeholder; write `{name}` to show a value, or `{{` and `}}` for braces"#,
            ),
            (
                "{text.0}",
                "`{text.0}` names a field by its number; only fields with names can be shown",
            ),
            ("{", "this `{` has no `}` on its line; write `{{` for a brace"),
            ("}", "this `}` has no `{` before it; write `}}` for a brace"),
        ] {
            assert_eq!(read(&[line]).1, [expected], "{line}");
        }
        assert_eq!(read(&["{a} {b}", "{c}"]).1.len(), 3);
    }
}
