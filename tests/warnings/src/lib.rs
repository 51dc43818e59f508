//! Uses every feature of the macros in a crate that allows no warnings. `cargo check` and `cargo
//! clippy` are the test.

#![deny(
    warnings,
    missing_docs,
    missing_debug_implementations,
    missing_copy_implementations,
    unreachable_pub,
    unused_qualifications,
    unused_lifetimes,
    single_use_lifetimes,
    elided_lifetimes_in_paths,
    trivial_casts,
    trivial_numeric_casts,
    let_underscore_drop,
    non_ascii_idents,
    unit_bindings,
    variant_size_differences,
    clippy::all,
    clippy::pedantic
)]
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;

use agentflow::agent::AgentDefinition;
use agentflow::schemars::JsonSchema;
use agentflow::serde::{Deserialize, Serialize};
use agentflow::tool::ToolRef;
use agentflow::{Approval, Context, Error, Inject, agent, tool, tools, workflow};

/// How hot it is.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
pub enum Unit {
    /// Water freezes at zero.
    #[default]
    Celsius,
    /// Water freezes at 32.
    Fahrenheit,
}

/// An error type that does not implement `Error`.
#[derive(Clone, Copy, Debug)]
pub struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused")
    }
}

type Answer<T> = Result<T, Refused>;

/// A constant whose name resembles items of the macros.
pub const TOOL: u32 = 3;

/// Plain values in, a plain value out.
#[tool]
#[must_use]
pub fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// A parameter may be called what the function is called.
#[tool]
#[must_use]
pub fn value(value: String, cx: u8, call: bool, p0: i8) -> usize {
    value.len() + usize::from(cx) + usize::from(call) + usize::from(p0.unsigned_abs())
}

/// The text is only looked at, but a tool owns its arguments.
#[tool]
#[must_use]
pub fn length(text: String) -> usize {
    text.len()
}

/// Nothing in, nothing out.
#[tool]
pub fn nothing() {}

/// An old one.
#[deprecated]
#[tool]
pub fn old(a: i64) {
    let _ = a;
}

/// All options.
///
/// # Errors
/// When it is refused.
#[tool(
    name = "all-options",
    description = "Has all options.",
    timeout = "5s",
    retry = 3,
    idempotent,
    effects = "read",
    approve,
    scopes(read, "billing:write"),
    blocking,
    max_output = 1024,
    crate = ::agentflow
)]
pub fn all_options(
    cx: &Context,
    numbers: Inject<Vec<u32>>,
    /// What it is called.
    ///
    /// In two lines.
    #[tool(default = "none".to_owned())]
    #[tool(rename = "type")]
    kind: String,
    #[tool(default)] unit: Unit,
    #[tool(default = TOOL)] mut count: u32,
) -> Answer<BTreeMap<String, u32>> {
    if cx.is_cancelled() {
        return Err(Refused);
    }
    count += numbers.iter().sum::<u32>() + u32::from(matches!(unit, Unit::Celsius));
    Ok(BTreeMap::from([(kind, count)]))
}

/// Waits.
///
/// # Errors
/// Never.
#[tool(timeout = "1m")]
pub async fn wait(cx: &Context, r#type: Option<String>) -> Answer<()> {
    std::future::ready(()).await;
    drop((cx.now(), r#type));
    Ok(())
}

/// Keywords are names too.
#[tool]
pub async fn r#match(list: Vec<(u8, char)>) -> String {
    std::future::ready(list.into_iter().map(|(_, c)| c).collect()).await
}

/// Kept at home.
#[tool]
pub(crate) const fn at_home(a: bool) -> bool {
    !a
}

mod inner {
    use agentflow::tool;

    /// Private to the module above.
    #[tool]
    pub(super) fn inner_tool(a: bool) -> bool {
        !a
    }

    /// Used by nobody but the model.
    #[tool]
    fn alone(a: bool) -> bool {
        !a
    }
}

/// Judge `{value}` in {unit} of {change.title} by {change.author.name}, {{so}} for {app:company}.
#[agent(
    model = "anthropic/claude-sonnet-4-5",
    tools = [add, inner::inner_tool],
    temperature = 0.5,
    max_tokens = 100,
    max_steps = 3,
    output_retries = 0,
    name = "judge-of-all",
    crate = ::agentflow
)]
#[must_use]
pub async fn judge(
    cx: &Context,
    value: String,
    unit: Unit,
    change: Change,
    judge: u8,
    call: Option<bool>,
) -> Judged;

/// The result of the agent.
pub type Judged = Result<Vec<Unit>, Failed>;

/// The error of the agent.
#[derive(Debug)]
pub struct Failed(pub String);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

/// A type without a JSON form. Only its fields are used in the prompt.
#[derive(Debug)]
pub struct Change {
    /// A short description.
    pub title: String,
    /// The author of the change.
    pub author: Author,
}

/// A person.
#[derive(Debug)]
pub struct Author {
    /// The full name.
    pub name: Box<str>,
}

/// Kept at home, and asked by nobody.
#[agent]
async fn quiet() -> agentflow::Result<String>;

/// An old one.
#[deprecated]
#[agent]
pub async fn old_agent(r#type: String) -> agentflow::Result<()>;

/// Keywords are names too: {match.type}
#[agent]
pub(crate) async fn r#loop(cx: &Context, r#match: Typed) -> agentflow::Result<String>;

/// A type with a field that is named like a keyword.
#[derive(Debug, Default)]
pub(crate) struct Typed {
    /// A field named like a keyword.
    pub(crate) r#type: u8,
}

/// Returns all agents of this crate.
pub async fn ask(cx: &Context) -> Vec<&'static AgentDefinition> {
    /// Lives in a function.
    #[agent]
    async fn local(a: u8) -> agentflow::Result<u8>;

    drop(r#loop(cx, Typed::default()).await);
    drop(local(1).await);
    vec![judge::definition(), r#loop::definition()]
}

macro_rules! agent_of {
    ($name:ident, $param:ident, $ty:ty, $cx:ty) => {
        /// Made by a macro.
        #[agent]
        pub async fn $name(cx: $cx, $param: $ty) -> agentflow::Result<$ty>;
    };
}

agent_of!(same_answer, text, String, &Context);

macro_rules! tool_of {
    ($name:ident, $ty:ty, $cx:ty) => {
        /// Made by a macro.
        #[tool]
        #[must_use]
        pub fn $name(_cx: $cx, a: $ty) -> $ty {
            a
        }
    };
}

tool_of!(same_text, String, &Context);
tool_of!(same_number, u64, &Context);

/// Returns all tools of this crate.
#[must_use]
pub fn all() -> Vec<ToolRef> {
    /// Lives in a function.
    #[tool]
    fn local(a: u8) -> u8 {
        a
    }
    tools![
        add,
        value,
        length,
        nothing,
        all_options,
        wait,
        r#match,
        at_home,
        inner::inner_tool,
        local,
        same_text,
        same_number
    ]
}

/// What was found.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
pub enum Found {
    /// A text.
    Text(String),
    /// A number, with its weight.
    Number {
        /// The number.
        value: u32,
        /// Its weight.
        weight: u32,
    },
    /// Nothing.
    Nothing,
}

async fn look(_cx: &Context, text: String) -> agentflow::Result<Found> {
    Ok(if text.is_empty() { Found::Nothing } else { Found::Text(text) })
}

async fn weigh(value: u32) -> agentflow::Result<u32> {
    Ok(value + 1)
}

async fn count(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

/// Every form of a workflow.
///
/// # Errors
/// When a step fails.
#[workflow(name = "everything", concurrency = 4, stop = best_effort)]
pub async fn everything(
    cx: &Context,
    text: String,
    numbers: Vec<u32>,
) -> agentflow::Result<(u32, Option<String>)> {
    let found = look(cx, text).await?;
    let length = count(&text).await;
    let heavy = length > 5;
    #[node(retry = 2, timeout = "1m", concurrency = 3)]
    let weights = map!(numbers, |number| weigh(number + length)).await?;
    let picked = match found {
        Found::Text(text) if heavy => count(&text).await,
        Found::Number { value, weight } => {
            let more = weigh(value).await?;
            if more > weight { weigh(more).await? } else { weight }
        }
        Found::Text(_) | Found::Nothing => 0,
    };
    #[after(weights)]
    let _saved = weigh(picked).await?;
    let _ = weigh(length).await?;
    #[node(on_error = route(weigh(0)), approve = "go on?")]
    let routed = weigh(picked).await?;
    let raced = race!(weigh(routed), weigh(picked)).await?;
    let tried = fallback!(weigh(raced), weigh(1)).await?;
    let grown = repeat!(tried, |n| weigh(n), until = |n| *n > 5, max = 9).await?;
    let limited = timeout!("5s", weigh(grown)).await?;
    #[node(timeout = "7d")]
    let answer = gate!("is {limited} enough?", weights).await?;
    let (comment, _granted) = match answer {
        Approval::Granted { comment, .. } => (comment, true),
        Approval::Denied { comment } => (comment, false),
    };
    let sum: u32 = {
        let mut sum = 0;
        for weight in weights {
            sum += weight;
        }
        sum
    };
    Ok((sum + limited, comment))
}

/// A workflow as a step of another.
///
/// # Errors
/// When a step fails.
#[workflow]
pub async fn twice(cx: &Context) -> agentflow::Result<u32> {
    let first = everything(cx, String::new(), vec![1]).await?;
    if first.1.is_some() { weigh(1).await } else { Ok(first.0) }
}

#[deprecated]
async fn outdated(value: u32) -> agentflow::Result<(u32, u32)> {
    Ok((value, value))
}

/// The levels of lints before the parts of a workflow hold there.
///
/// # Errors
/// When a step fails.
#[workflow]
pub async fn lints(#[allow(unused_variables)] unread: u32, value: u32) -> agentflow::Result<u32> {
    #[allow(deprecated, unused_variables)]
    let (one, other) = outdated(value).await?;
    #[expect(deprecated)]
    let pair = outdated(one).await?;
    #[allow(unused_variables)]
    let nobody = weigh(pair.0).await?;
    #[allow(clippy::no_effect_underscore_binding, unused_variables)]
    let glue = pair.1;
    let picked = match value {
        #[allow(deprecated)]
        0 => {
            let pair = outdated(1).await?;
            pair.0
        }
        #[allow(unreachable_patterns)]
        0 => 2,
        1 =>
        {
            #[allow(deprecated)]
            outdated(2).await?.1
        }
        _ => 3,
    };
    #[allow(deprecated)]
    #[node(id = "end", retry = 1)]
    Ok(outdated(picked).await?.0)
}

/// Expected lints apply to the steps or to the signature.
///
/// # Errors
/// When a step fails.
#[workflow]
#[expect(
    unused_parens,
    clippy::double_parens,
    clippy::too_many_arguments,
    reason = "as on a plain function"
)]
pub async fn expected_lints(
    #[expect(unused_variables)] unread: u32,
    one: u32,
    two: u32,
    three: u32,
    four: u32,
    five: u32,
    six: u32,
    seven: u32,
) -> agentflow::Result<u32> {
    let sum = weigh((one + two + three + four + five + six)).await?;
    weigh(sum + seven).await
}

/// A condition in parentheses, a binding that changes, a macro of the body, a condition that begins with a block.
///
/// # Errors
/// When a step fails.
#[workflow]
pub async fn unusual(base: u32, left: Option<u32>) -> agentflow::Result<u32> {
    macro_rules! plus {
        ($n:literal) => {
            base + $n
        };
    }
    let more = match left {
        Some(mut left) => {
            weigh({
                left += 1;
                left
            })
            .await?
        }
        None => weigh(plus!(2)).await?,
    };
    let limit = None;
    let none = limit.or(left).is_none();
    if none && limit.is_none() { Ok(more) } else { weigh(plus!(3)).await }
}
