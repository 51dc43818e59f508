//! The tools `calculate` and `text`, for arithmetic and text operations.
//!
//! Both use only their arguments, so they are declared without effects. `calculate` evaluates a
//! line of arithmetic (`computing/arithmetic.rs`). `text` counts, splits and searches strings; its
//! lists have a maximum length. An invalid argument becomes a tool error that names the position
//! or the remedy.

mod arithmetic;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

use self::arithmetic::value_of;
use agentflow_core::tool::{Effects, FnTool, ToolError, ToolPolicy};

/// Maximum number of places that `find` lists and of parts that `split` returns.
const MOST_PARTS: usize = 1000;

/// 2^53: integers up to this size are represented exactly by an `f64`.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

#[derive(Deserialize, JsonSchema)]
struct Calculation {
    /// A line of arithmetic, such as `2 * (3 + 4) ^ 2` or `round(mean(3, 4, 8), 2)`.
    expression: String,
}

/// Creates the tool `calculate`, which evaluates one line of arithmetic to a JSON number.
///
/// The arguments are `{"expression": "2 * (3 + 4)"}`. Supported are `+ - * / % ^`, parentheses,
/// `pi`, `e` and the functions `abs`, `ceil`, `cos`, `exp`, `floor`, `ln`, `log10`, `max`, `mean`,
/// `median`, `min`, `pow`, `round`, `sin`, `sqrt`, `sum` and `tan`. Numbers are 64-bit floats. The
/// tool has no effects. An expression has at most 4 KiB and 64 levels of nesting. For an invalid
/// expression, or a result that is not a number, the model gets an error with the position.
///
/// ```
/// use agentflow::message::ToolCall;
/// use agentflow::{Runtime, tools};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
/// let runtime = Runtime::builder().tools(tools::calculate()).build();
/// let call = ToolCall::new("1", "calculate", r#"{"expression": "2 * (3 + 4)"}"#);
/// assert_eq!(runtime.invoke(&call, &[]).await?.text(), "14");
/// # Ok(())
/// # }
/// ```
#[doc(alias = "math")]
#[doc(alias = "calculator")]
pub fn calculate() -> FnTool {
    let about = "Computes one line of arithmetic: + - * / % ^, parentheses, pi, e, and functions such as sqrt, round, min, \
                 max, sum, mean, median, ln and exp.";
    let tool = FnTool::new("calculate", about, |_cx, asked: Calculation| {
        std::future::ready(calculated(&asked))
    });
    tool.policy(ToolPolicy::default().effects(Effects::None))
}

fn calculated(asked: &Calculation) -> Result<Value, ToolError> {
    let value = value_of(&asked.expression)?;
    // A whole number is written without a fraction: `14`, not `14.0`.
    if value.fract() == 0.0 && value.abs() <= LARGEST_EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and within 2^53")]
        return Ok(Value::from(value as i64));
    }
    Number::from_f64(value)
        .map(Value::from)
        .ok_or_else(|| ToolError::new("the result is not a number"))
}

#[derive(Deserialize, JsonSchema)]
struct TextAsked {
    /// The operation on the text.
    operation: TextOperation,
    /// The text.
    text: String,
    /// The part to search for; of `replace`, `split` and `find`.
    find: Option<String>,
    /// The replacement; of `replace`.
    with: Option<String>,
    /// The first character, from 0; of `slice`.
    from: Option<usize>,
    /// How many characters; of `slice`. Without it, all to the end.
    length: Option<usize>,
}

/// Operations of the tool `text`.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TextOperation {
    /// Counts characters, words and lines.
    Count,
    /// Capital letters.
    Upper,
    /// Small letters.
    Lower,
    /// Removes spaces at both ends.
    Trim,
    /// Replaces all places of `find` by `with`.
    Replace,
    /// Splits at all places of `find`.
    Split,
    /// Lists the places of `find`, as numbers of characters from 0.
    Find,
    /// A part, from the character `from` on, `length` characters long.
    Slice,
}

#[derive(Serialize)]
struct TextCount {
    characters: usize,
    words: usize,
    lines: usize,
}

/// Creates the tool `text`, which counts, changes, splits and searches text.
///
/// The arguments are `{"operation": "replace", "text": "a-b", "find": "-", "with": "+"}`. The
/// operations are `count`, `upper`, `lower`, `trim`, `replace`, `split`, `find` and `slice`.
/// Positions and lengths are counted in characters (Unicode scalar values). The tool has no
/// effects. `split` and `find` return at most 1,000 parts; with more, the call fails.
///
/// ```
/// use agentflow::message::ToolCall;
/// use agentflow::{Runtime, tools};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
/// let runtime = Runtime::builder().tools(tools::text()).build();
/// let call = ToolCall::new("1", "text", r#"{"operation": "count", "text": "to be or not"}"#);
/// assert!(runtime.invoke(&call, &[]).await?.text().contains(r#""words":4"#));
/// # Ok(())
/// # }
/// ```
pub fn text() -> FnTool {
    let about = "Counts the characters, words and lines of a text, changes its case, trims it, replaces or finds a part, \
                 splits it, or takes a slice of it.";
    let tool =
        FnTool::new("text", about, |_cx, asked: TextAsked| std::future::ready(worked(&asked)));
    tool.policy(ToolPolicy::default().effects(Effects::None))
}

fn worked(asked: &TextAsked) -> Result<Value, ToolError> {
    let text = asked.text.as_str();
    let sought = || match asked.find.as_deref() {
        Some("") | None => Err(ToolError::invalid_arguments(
            "`find` is missing or empty; give the part to search for",
        )),
        Some(sought) => Ok(sought),
    };
    Ok(match asked.operation {
        TextOperation::Count => json!(TextCount {
            characters: text.chars().count(),
            words: text.split_whitespace().count(),
            lines: text.lines().count(),
        }),
        TextOperation::Upper => text.to_uppercase().into(),
        TextOperation::Lower => text.to_lowercase().into(),
        TextOperation::Trim => text.trim().into(),
        TextOperation::Replace => {
            let Some(with) = &asked.with else {
                return Err(ToolError::invalid_arguments(
                    "`with` is missing; give the replacement of `find`",
                ));
            };
            text.replace(sought()?, with).into()
        }
        TextOperation::Split => bounded(text.split(sought()?))?.into(),
        TextOperation::Find => {
            let sought = sought()?;
            // `match_indices` counts bytes. Characters are counted from match to match, so each is
            // counted once.
            let (mut places, mut characters, mut last) = (Vec::new(), 0, 0);
            for (at, _) in text.match_indices(sought).take(MOST_PARTS + 1) {
                characters += text[last..at].chars().count();
                last = at;
                places.push(characters);
            }
            bounded(places.into_iter())?.into()
        }
        TextOperation::Slice => {
            let part = text.chars().skip(asked.from.unwrap_or_default());
            part.take(asked.length.unwrap_or(usize::MAX)).collect::<String>().into()
        }
    })
}

fn bounded<T>(parts: impl Iterator<Item = T>) -> Result<Vec<T>, ToolError> {
    // Takes an additional part, to detect that the limit is exceeded.
    let parts: Vec<T> = parts.take(MOST_PARTS + 1).collect();
    match parts.len() > MOST_PARTS {
        true => Err(ToolError::new(format!(
            "there are more than {MOST_PARTS} parts; take a slice of the text first"
        ))),
        false => Ok(parts),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Calculation, ToolError, calculated, worked};

    fn text(arguments: Value) -> Result<Value, ToolError> {
        worked(&serde_json::from_value(arguments).unwrap())
    }

    #[test]
    fn a_whole_result_is_a_whole_number() {
        let of = |expression: &str| {
            calculated(&Calculation { expression: expression.to_owned() }).unwrap()
        };
        assert_eq!(of("6 / 2"), json!(3));
        assert_eq!(of("7 / 2"), json!(3.5));
        assert_eq!(of("2 ^ 60").as_f64(), Some(2_f64.powi(60)));
    }

    #[test]
    fn places_and_lengths_are_characters() {
        assert_eq!(
            text(json!({"operation": "find", "text": "über über", "find": "b"})).unwrap(),
            json!([1, 6])
        );
        assert_eq!(
            text(json!({"operation": "slice", "text": "überall", "from": 1, "length": 3})).unwrap(),
            "ber"
        );
        assert_eq!(text(json!({"operation": "slice", "text": "ab", "from": 9})).unwrap(), "");
        assert_eq!(
            text(json!({"operation": "split", "text": "a, b", "find": ", "})).unwrap(),
            json!(["a", "b"])
        );
        assert_eq!(
            text(json!({"operation": "replace", "text": "a-b", "find": "-", "with": ""})).unwrap(),
            "ab"
        );
        assert_eq!(text(json!({"operation": "upper", "text": "straße"})).unwrap(), "STRASSE");
    }

    #[test]
    fn what_is_missing_or_too_much_is_said() {
        let problem = text(json!({"operation": "find", "text": "a"})).unwrap_err();
        assert_eq!(problem.message(), "`find` is missing or empty; give the part to search for");
        let problem = text(json!({"operation": "replace", "text": "a", "find": "a"})).unwrap_err();
        assert_eq!(problem.message(), "`with` is missing; give the replacement of `find`");
        let problem =
            text(json!({"operation": "split", "text": "a".repeat(2000), "find": "a"})).unwrap_err();
        assert!(problem.message().starts_with("there are more than 1000 parts"), "{problem}");
    }
}
