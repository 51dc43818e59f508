//! Formats JSON for review. Values that fit on one line are not broken, and the keys of plain
//! values are sorted.
//!
//! The order of keys does not depend on features of `serde_json`, so equal cassettes are equal
//! files.

use serde_json::Value;

/// Maximum width of a line in characters.
const WIDTH: usize = 110;

/// JSON with a fixed order of some fields.
pub(super) enum Node {
    /// Plain JSON. Its keys are sorted.
    Plain(Value),
    List(Vec<Node>),
    Fields(Vec<(&'static str, Node)>),
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        Self::Plain(value)
    }
}

/// Formats a document, with a line feed at its end.
pub(super) fn document(node: &Node) -> String {
    let mut text = String::new();
    broken(&view(node), 0, &mut text);
    text.push('\n');
    text
}

/// Formats a value as lines.
pub(super) fn lines(value: &Value) -> Vec<String> {
    let mut text = String::new();
    broken(&plain(value), 0, &mut text);
    text.lines().map(ToOwned::to_owned).collect()
}

/// A node with sorted keys and serialized scalars.
enum View {
    Scalar(String),
    List(Vec<View>),
    Fields(Vec<(String, View)>),
}

fn view(node: &Node) -> View {
    match node {
        Node::Plain(value) => plain(value),
        Node::List(nodes) => View::List(nodes.iter().map(view).collect()),
        Node::Fields(fields) => {
            View::Fields(fields.iter().map(|(key, node)| (quoted(key), view(node))).collect())
        }
    }
}

fn plain(value: &Value) -> View {
    match value {
        Value::Array(values) => View::List(values.iter().map(plain).collect()),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            View::Fields(
                fields.into_iter().map(|(key, value)| (quoted(key), plain(value))).collect(),
            )
        }
        scalar => View::Scalar(scalar.to_string()),
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the view on one line, or `None` if it is wider than `room`.
fn one_line(view: &View, room: usize) -> Option<String> {
    let text = match view {
        View::Scalar(text) => text.clone(),
        View::List(items) => {
            let mut text = String::from("[");
            for (at, item) in items.iter().enumerate() {
                text.push_str(if at > 0 { ", " } else { "" });
                text.push_str(&one_line(item, room.checked_sub(text.len())?)?);
            }
            text + "]"
        }
        View::Fields(fields) => {
            let mut text = String::from("{");
            for (at, (key, item)) in fields.iter().enumerate() {
                text.push_str(if at > 0 { ", " } else { "" });
                text.push_str(key);
                text.push_str(": ");
                text.push_str(&one_line(item, room.checked_sub(text.len())?)?);
            }
            text + "}"
        }
    };
    (text.chars().count() <= room).then_some(text)
}

fn broken(view: &View, indent: usize, out: &mut String) {
    if let Some(line) = one_line(view, WIDTH.saturating_sub(indent)) {
        out.push_str(&line);
        return;
    }
    let inner = indent + 2;
    let new_line = |out: &mut String, indent: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent));
    };
    match view {
        View::Scalar(text) => out.push_str(text),
        View::List(items) => {
            out.push('[');
            // Scalars share lines, because a streamed text has many short pieces.
            let fills = items.iter().all(|item| matches!(item, View::Scalar(_)));
            let mut column = usize::MAX;
            for (at, item) in items.iter().enumerate() {
                let mut text = String::new();
                broken(item, inner, &mut text);
                text.push_str(if at + 1 < items.len() { "," } else { "" });
                let width = text.chars().count();
                if fills && column.saturating_add(width + 1) <= WIDTH {
                    out.push(' ');
                    column += width + 1;
                } else {
                    new_line(out, inner);
                    column = inner + width;
                }
                out.push_str(&text);
            }
            new_line(out, indent);
            out.push(']');
        }
        View::Fields(fields) => {
            out.push('{');
            for (at, (key, item)) in fields.iter().enumerate() {
                new_line(out, inner);
                out.push_str(key);
                out.push_str(": ");
                broken(item, inner, out);
                out.push_str(if at + 1 < fields.len() { "," } else { "" });
            }
            new_line(out, indent);
            out.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Node, WIDTH, document, lines};

    #[test]
    fn what_fits_is_on_one_line_and_keys_are_sorted() {
        assert_eq!(document(&json!({"b": [1, 2], "a": {}}).into()), "{\"a\": {}, \"b\": [1, 2]}\n");
        let fields = vec![("z", Node::from(json!("x".repeat(WIDTH)))), ("a", Node::List(vec![]))];
        assert_eq!(
            document(&Node::Fields(fields)),
            format!("{{\n  \"z\": \"{}\",\n  \"a\": []\n}}\n", "x".repeat(WIDTH))
        );
    }

    #[test]
    fn it_is_the_same_json_and_short_scalars_share_lines() {
        let value = json!({"pieces": vec!["some"; 100], "deep": {"list": vec![json!({"text": "x".repeat(90)}); 3]}});
        let lines = lines(&value);
        assert_eq!(serde_json::from_str::<Value>(&lines.join("\n")).expect("JSON"), value);
        assert!(lines.iter().all(|line| line.len() <= WIDTH), "{lines:#?}");
        assert!(lines.len() < 20, "{lines:#?}");
    }
}
