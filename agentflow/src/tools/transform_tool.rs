//! `transform`: the tool that takes parts out of JSON by a JSONPath query. It reads nothing but its arguments.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use serde_json_path::JsonPath;

use crate::tool::{Effects, FnTool, ToolError, ToolPolicy};

/// The most bytes of a query.
const LONGEST: usize = 4 << 10;
/// Every `..` and every filter may look at all that is below each of its items, so their number bounds the work.
const MOST_WIDE: usize = 3;

#[derive(Deserialize, JsonSchema)]
struct Asked {
    /// The JSON that is looked into.
    data: Value,
    /// A JSONPath query (RFC 9535), such as `$.rows[?@.price < 10].name`.
    path: String,
}

/// The tool `transform`: the parts of JSON that a JSONPath query (RFC 9535) finds.
///
/// Its arguments are `{"data": .., "path": "$.rows[*].name"}`. One match is the answer itself, of several it is a list in the
/// order of the query, of none it is `null`; a query that can match only one place, such as `$.a[0]`, never gives a list of
/// matches. It has no effects. A query has at most 4 KiB, and at most three of `..` and `?` together.
///
/// ```
/// use agentflow::message::ToolCall;
/// use agentflow::{Runtime, tools};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
/// let runtime = Runtime::builder().tools(tools::transform()).build();
/// let data = json!({"rows": [{"name": "tea", "price": 3}, {"name": "rice", "price": 12}]});
/// let arguments = json!({"data": data, "path": "$.rows[?@.price < 10].name"});
/// let result = runtime.invoke(&ToolCall::new("1", "transform", arguments.to_string()), &[]).await?;
/// assert_eq!(result.text(), "tea");
/// # Ok(())
/// # }
/// ```
#[doc(alias = "TransformTool")]
pub fn transform() -> FnTool {
    let about = "Takes parts out of JSON by a JSONPath query (RFC 9535): one match is the answer, several are a list, none \
                 is null.";
    let tool = FnTool::new("transform", about, |_cx, asked: Asked| std::future::ready(found(&asked)));
    tool.policy(ToolPolicy::default().effects(Effects::None))
}

fn found(Asked { data, path }: &Asked) -> Result<Value, ToolError> {
    if path.len() > LONGEST {
        return Err(ToolError::new(format!("a query has at most {LONGEST} bytes, and this one has {}", path.len())));
    }
    let wide = wide_parts(path);
    if wide > MOST_WIDE {
        let problem =
            format!("a query has at most {MOST_WIDE} of `..` and `?`, and this one has {wide}; name the fields");
        return Err(ToolError::new(problem));
    }
    let query = JsonPath::parse(path).map_err(|error| {
        ToolError::new(format!("`{path}` is not a JSONPath query: {error}; write one such as `$.rows[0].name`"))
    })?;
    let found = query.query(data);
    Ok(match found.len() {
        0 => Value::Null,
        1 => found.first().cloned().unwrap_or_default(),
        _ => found.into_iter().cloned().collect(),
    })
}

/// How many `..` and `?` a query has, outside of names and texts in quotes.
fn wide_parts(path: &str) -> usize {
    let (mut count, mut quote, mut letters) = (0, None, path.chars().peekable());
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => drop(letters.next()),
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '?') => count += 1,
            (None, '.') if letters.peek() == Some(&'.') => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::wide_parts;

    #[test]
    fn what_is_in_quotes_is_not_counted() {
        for (path, count) in [
            ("$.a.b[0]", 0),
            ("$..a[?@.b == '..?']", 2),
            ("$['..']['?'][\"a\\\"..\"]", 0),
            ("$..a..b[?@..c]", 4),
            ("$['a\\\\']..b", 1),
        ] {
            assert_eq!(wide_parts(path), count, "{path}");
        }
    }
}
