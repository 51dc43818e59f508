//! Lays out JSON for review: it puts on one line what fits there and sorts the keys of plain values.
//!
//! The order of keys never depends on how `serde_json` was built, so equal cassettes are equal files.

use serde_json::Value;

/// The widest line that is not broken further.
const WIDTH: usize = 110;

/// JSON with fields in an order of ours.
pub(super) enum Node {
    /// Plain JSON; its keys are sorted.
    Plain(Value),
    List(Vec<Node>),
    Fields(Vec<(&'static str, Node)>),
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        Self::Plain(value)
    }
}

/// The text of a document, with a line feed at its end.
pub(super) fn document(node: &Node) -> String {
    let mut text = String::new();
    broken(&view(node), 0, &mut text);
    text.push('\n');
    text
}

/// The lines of one value.
pub(super) fn lines(value: &Value) -> Vec<String> {
    let mut text = String::new();
    broken(&plain(value), 0, &mut text);
    text.lines().map(ToOwned::to_owned).collect()
}

/// A node with everything sorted and every scalar written.
enum View {
    Scalar(String),
    List(Vec<View>),
    Fields(Vec<(String, View)>),
}

fn view(node: &Node) -> View {
    match node {
        Node::Plain(value) => plain(value),
        Node::List(nodes) => View::List(nodes.iter().map(view).collect()),
        Node::Fields(fields) => View::Fields(fields.iter().map(|(key, node)| (quoted(key), view(node))).collect()),
    }
}

fn plain(value: &Value) -> View {
    match value {
        Value::Array(values) => View::List(values.iter().map(plain).collect()),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            View::Fields(fields.into_iter().map(|(key, value)| (quoted(key), plain(value))).collect())
        }
        scalar => View::Scalar(scalar.to_string()),
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The view on one line, unless that is wider than `room`.
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
            // Scalars fill their lines: the pieces of a streamed text are many and short.
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
