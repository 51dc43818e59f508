//! Reads the parts of a GraphQL document that a tool needs: the kind of its operation and its
//! variables. The service validates the selection.

use serde_json::{Value, json};

/// Maximum nesting of a list type.
const MOST_DEPTH: usize = 8;

/// The single operation of a document.
#[derive(Debug, PartialEq)]
pub(crate) struct Operation {
    pub(crate) name: Option<String>,
    pub(crate) is_mutation: bool,
    pub(crate) variables: Vec<Variable>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// JSON Schema of the type. It accepts all values of a type that is defined by the service.
    pub(crate) schema: Value,
    pub(crate) required: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'t> {
    Name(&'t str),
    Sign(char),
    /// A number or a string.
    Datum,
}

impl Operation {
    /// Reads a document.
    ///
    /// # Errors
    /// A message, if the text is not exactly one operation with its fragments.
    pub(crate) fn read(document: &str) -> Result<Self, String> {
        let tokens = tokens(document)?;
        let mut reader = Reader { tokens: &tokens, at: 0 };
        let mut found = None;
        // A document may also contain fragments, in any order.
        while let Some(token) = reader.next() {
            let operation = match token {
                Token::Sign('{') => {
                    // The short form `{ .. }` of a query has no keyword, so its selection starts
                    // here.
                    reader.at -= 1;
                    Self { name: None, is_mutation: false, variables: Vec::new() }
                }
                Token::Name("fragment") => {
                    reader.definition()?;
                    continue;
                }
                Token::Name(kind @ ("query" | "mutation")) => {
                    reader.operation(kind == "mutation")?
                }
                Token::Name("subscription") => {
                    return Err(
                        "a subscription has no single answer; use a query or a mutation".to_owned()
                    );
                }
                Token::Name(word) => {
                    return Err(format!(
                        "`{word}` begins no operation; begin with `query`, `mutation` or `{{`"
                    ));
                }
                _ => return Err("a document begins with `query`, `mutation` or `{`".to_owned()),
            };
            reader.definition()?;
            if found.replace(operation).is_some() {
                return Err(
                    "the document has several operations; keep the one that the tool is for"
                        .to_owned(),
                );
            }
        }
        found.ok_or_else(|| "the document has no operation; write `query { .. }`".to_owned())
    }
}

struct Reader<'r> {
    tokens: &'r [Token<'r>],
    at: usize,
}

impl<'r> Reader<'r> {
    fn peek(&self) -> Option<Token<'r>> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Option<Token<'r>> {
        let token = self.peek()?;
        self.at += 1;
        Some(token)
    }

    fn takes(&mut self, sign: char) -> bool {
        let takes = self.peek() == Some(Token::Sign(sign));
        self.at += usize::from(takes);
        takes
    }

    /// Parses an operation after its keyword `query` or `mutation`, up to the selection.
    fn operation(&mut self, is_mutation: bool) -> Result<Operation, String> {
        let mut operation = Operation { name: None, is_mutation, variables: Vec::new() };
        if let Some(Token::Name(name)) = self.peek() {
            operation.name = Some(name.to_owned());
            self.at += 1;
        }
        if self.takes('(') {
            while !self.takes(')') {
                let (true, Some(Token::Name(name)), true) =
                    (self.takes('$'), self.next(), self.takes(':'))
                else {
                    return Err("a variable is written `$name: Type`".to_owned());
                };
                let (schema, not_null) = self.type_of(MOST_DEPTH)?;
                let has_default = self.takes('=');
                if has_default {
                    self.value()?;
                }
                // Directives of a variable do not matter for the tool.
                while self.takes('@') {
                    self.next();
                    if self.takes('(') {
                        self.closed()?;
                    }
                }
                // GraphQL: a variable may be omitted if it is nullable or has a default.
                let variable =
                    Variable { name: name.to_owned(), schema, required: not_null && !has_default };
                if operation.variables.iter().any(|one| one.name == variable.name) {
                    return Err(format!("the variable `${name}` is there twice"));
                }
                operation.variables.push(variable);
            }
        }
        Ok(operation)
    }

    /// Parses a type into a JSON Schema. The flag is `true` if the type is non-null.
    fn type_of(&mut self, depth: usize) -> Result<(Value, bool), String> {
        let mut schema = match self.next() {
            Some(Token::Sign('[')) if depth > 0 => {
                let (items, _) = self.type_of(depth - 1)?;
                if !self.takes(']') {
                    return Err("a list type is written `[Type]`".to_owned());
                }
                json!({"type": "array", "items": items})
            }
            Some(Token::Name("ID" | "String")) => json!({"type": "string"}),
            Some(Token::Name("Int")) => {
                json!({"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX})
            }
            Some(Token::Name("Float")) => json!({"type": "number"}),
            Some(Token::Name("Boolean")) => json!({"type": "boolean"}),
            // An enum, input object or custom scalar, which only the service knows.
            Some(Token::Name(_)) => json!({}),
            _ => return Err("a variable is written `$name: Type`".to_owned()),
        };
        let not_null = self.takes('!');
        // A nullable type accepts `null` explicitly, in addition to omitting the variable.
        if let (false, Some(kind)) = (not_null, schema["type"].as_str().map(ToOwned::to_owned)) {
            schema["type"] = json!([kind, "null"]);
        }
        Ok((schema, not_null))
    }

    /// Skips a constant value.
    fn value(&mut self) -> Result<(), String> {
        match self.next() {
            Some(Token::Sign('[' | '{')) => self.closed(),
            Some(Token::Name(_) | Token::Datum) => Ok(()),
            _ => Err("after `=` a variable has its default".to_owned()),
        }
    }

    /// Skips to the end of the bracket that is already open.
    fn closed(&mut self) -> Result<(), String> {
        let mut open = 1;
        while let Some(token) = self.next() {
            match token {
                Token::Sign('(' | '[' | '{') => open += 1,
                Token::Sign(')' | ']' | '}') => open -= 1,
                _ => {}
            }
            if open == 0 {
                return Ok(());
            }
        }
        Err("the document ends before what it has opened".to_owned())
    }

    /// Skips to the end of a definition's selection.
    fn definition(&mut self) -> Result<(), String> {
        while let Some(token) = self.next() {
            match token {
                Token::Sign('{') => return self.closed(),
                Token::Sign('(' | '[') => self.closed()?,
                Token::Sign(sign @ (')' | ']' | '}')) => {
                    return Err(format!("a `{sign}` closes nothing"));
                }
                _ => {}
            }
        }
        Err("an operation has a selection in braces; write `{ .. }` after it".to_owned())
    }
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end_of = |is_part: fn(char) -> bool| rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let length = match first {
            '#' => rest.find(['\n', '\r']).unwrap_or(rest.len()),
            '"' => {
                found.push(Token::Datum);
                text_length(rest).ok_or("a text in quotes has no end")?
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let length = end_of(|c| c.is_ascii_alphanumeric() || c == '_');
                found.push(Token::Name(&rest[..length]));
                length
            }
            c if c.is_ascii_digit() || c == '-' => {
                found.push(Token::Datum);
                end_of(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.'))
            }
            '!' | '$' | '&' | '(' | ')' | '.' | ':' | '=' | '@' | '[' | ']' | '{' | '|' | '}' => {
                found.push(Token::Sign(first));
                1
            }
            // Commas and the byte order mark are insignificant in GraphQL.
            c if c.is_whitespace() || matches!(c, ',' | '\u{feff}') => c.len_utf8(),
            other => return Err(format!("`{other}` has no place in a document of GraphQL")),
        };
        rest = &rest[length..];
    }
    Ok(found)
}

/// Returns the length of a quoted string, including its quotes.
fn text_length(text: &str) -> Option<usize> {
    // Block strings `"""..."""` may contain quotes and line ends.
    if let Some(block) = text.strip_prefix("\"\"\"") {
        let mut from = 0;
        loop {
            let end = from + block[from..].find("\"\"\"")?;
            // `\"""` is an escaped end of the block.
            if !block[..end].ends_with('\\') {
                return Some(end + 6);
            }
            from = end + 3;
        }
    }
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::Operation;

    #[test]
    fn variables_become_schemas() {
        let text = r#"
            # The issues of a repository.
            query Issues($owner: String!, $first: Int = 10, $ids: [ID!], $by: IssueOrder = {field: "}"} @x(y: 1) $deep: [[Float]]!) @cached {
                repository(owner: $owner, note: "}\"") { issues(text: """ } \""" """) { ...Parts } }
            }
            fragment Parts on Issue { title }
        "#;
        let operation = Operation::read(text).unwrap();
        assert_eq!((operation.name.as_deref(), operation.is_mutation), (Some("Issues"), false));
        let found: Vec<_> = operation
            .variables
            .iter()
            .map(|one| (&*one.name, one.schema.clone(), one.required))
            .collect();
        let int = json!({"type": ["integer", "null"], "minimum": i32::MIN, "maximum": i32::MAX});
        let float = json!({"type": ["number", "null"]});
        assert_eq!(
            found,
            [
                ("owner", json!({"type": "string"}), true),
                ("first", int, false),
                ("ids", json!({"type": ["array", "null"], "items": {"type": "string"}}), false),
                ("by", json!({}), false),
                (
                    "deep",
                    json!({"type": "array", "items": {"type": ["array", "null"], "items": float}}),
                    true
                ),
            ]
        );
        assert!(Operation::read("mutation { a }").unwrap().is_mutation);
        assert_eq!(Operation::read("{ a }").unwrap().name, None);
    }

    #[test]
    fn what_is_no_operation_is_refused() {
        for (text, says) in [
            ("", "has no operation"),
            ("subscription { a }", "has no single answer"),
            ("query A { a } query B { b }", "several operations"),
            ("query A", "has a selection in braces"),
            ("query A { a", "ends before"),
            ("qeury { a }", "`qeury` begins no operation"),
            ("query ($a) { a }", "is written `$name: Type`"),
            ("query ($a: Int, $a: Int) { a }", "is there twice"),
            ("query { a(b: \"x) }", "has no end"),
            ("query { a } }", "begins with"),
            ("query { a ^ }", "`^` has no place"),
            ("fragment A on B { a }", "has no operation"),
        ] {
            let problem = Operation::read(text).unwrap_err();
            assert!(problem.contains(says), "{text}: {problem}");
        }
        assert!(Operation::read(&format!("query ($a: {}Int", "[".repeat(100_000))).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(query|fragment|[a($:!=@\\[\\]{}\"\\\\#.\n\u{e9}\\-1]){0,40}") {
            let _ = Operation::read(&text);
        }
    }
}
