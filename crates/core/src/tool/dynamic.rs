//! `FnTool`: tools created at run time, from a closure with typed arguments or from a definition.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;

use agentflow_schema::schema::without_nulls;
use futures_util::{Stream, StreamExt};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::parameters::{given, names_in, unknown_argument, with_integers};
use super::{
    Tool, ToolDefinition, ToolError, ToolFuture, ToolHost, ToolOutput, ToolPolicy, ToolRef,
    ToolReturn,
};
use crate::context::Context;
use crate::error::Error;
use crate::future::Exclusive;
use crate::message::ToolStatus;

/// Maximum size of a streamed answer in bytes. It applies in addition to the limit of the tool's
/// policy.
const MOST_STREAMED: usize = 16 << 20;

type Body = dyn Fn(Context, String) -> Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>
    + Send
    + Sync;

/// A tool that is created from a closure.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use agentflow::{Context, Tool, schemars, serde};
/// use agentflow::tool::FnTool;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// #[serde(crate = "agentflow::serde")]
/// #[schemars(crate = "agentflow::schemars")]
/// struct Greeting {
///     name: String,
/// }
///
/// let word = "Hello".to_owned();
/// let greet = FnTool::new("greet", "Greet somebody.", move |_cx, greeting: Greeting| {
///     let text = format!("{word}, {}!", greeting.name);
///     async move { Ok::<_, std::io::Error>(text) }
/// });
/// let answer = greet.call(&Context::detached(), r#"{"name": "Ada"}"#).await.unwrap();
/// assert_eq!(answer.as_json(), r#""Hello, Ada!""#);
/// # }
/// ```
pub struct FnTool {
    definition: Arc<ToolDefinition>,
    body: Arc<Body>,
    /// `true` if the arguments are deserialized into a Rust type, which checks them.
    is_typed: bool,
    output_schema: Option<Value>,
    /// A mistake in the tool's settings. Building an agent with the tool fails with it.
    problem: Option<Arc<str>>,
}

impl FnTool {
    /// Creates a tool with typed arguments: one object type, or `()` for no arguments. The schema
    /// of the type is the schema of the tool. Arguments that are not a field of the type are
    /// rejected, unless its schema allows additional properties.
    ///
    /// With the feature `dynamic`, limits in the schema such as `#[schemars(range(max = 10))]` are
    /// enforced: a call that violates them gets
    /// [`ToolStatus::InvalidArguments`](crate::message::ToolStatus::InvalidArguments).
    pub fn new<A, O, E, F, Fut>(
        name: impl Into<Arc<str>>,
        description: impl Into<Arc<str>>,
        body: F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        O: ToolReturn,
        E: fmt::Display + 'static,
        F: Fn(Context, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        let schema = schemars::generate::SchemaSettings::draft2020_12()
            .with(|settings| {
                settings.inline_subschemas = true;
                settings.meta_schema = None;
            })
            .into_generator()
            .into_root_schema_for::<A>()
            .to_value();
        // `()` has the schema `null`. A model calls such a tool with an empty object.
        let schema = if schema["type"] == "null" { no_arguments() } else { closed(schema) };
        Self::from_definition(ToolDefinition::new(name, description, schema), body, true)
    }

    /// Creates a tool whose schema is known only at run time.
    ///
    /// The body gets the arguments as one JSON object that matches the schema and has no duplicate
    /// keys. Other arguments are answered with
    /// [`ToolStatus::InvalidArguments`](crate::message::ToolStatus::InvalidArguments) and a list of
    /// all mismatches with their paths. A `null` for an optional argument whose schema does not
    /// allow `null` is removed.
    ///
    /// Without the feature `dynamic`, only the argument names are checked, and only if the schema
    /// has `"additionalProperties": false`.
    ///
    /// An invalid schema is reported where the tool is offered: by
    /// [`Registry::register`](crate::Registry::register), or when the agent is built.
    ///
    /// A body that fails with a [`ToolError`] determines the class of the failure. Any other error
    /// has the class [`ToolStatus::Error`](crate::message::ToolStatus::Error).
    pub fn dynamic<O, E, F, Fut>(definition: ToolDefinition, body: F) -> Self
    where
        O: ToolReturn,
        E: fmt::Display + 'static,
        F: Fn(Context, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        let parameters = definition.parameters.clone();
        // A `null` counts as an omitted argument if the schema does not allow `null`.
        let body = move |cx, arguments: Value| body(cx, without_nulls(&parameters, arguments));
        Self::from_definition(definition, body, false)
    }

    /// Creates a tool that returns its answer as a stream of text pieces. Each piece is emitted
    /// when it arrives ([`Context::emit`]). The answer is the concatenation of all pieces. An error
    /// ends it. The arguments are read as in [`new`](Self::new).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use agentflow::{Context, Tool};
    /// use agentflow::tool::FnTool;
    /// use futures_util::stream;
    ///
    /// let count = FnTool::streaming("count", "Count to three.", |_cx, (): ()| {
    ///     stream::iter(["one, ", "two, ", "three"].map(Ok::<_, std::io::Error>))
    /// });
    /// let answer = count.call(&Context::detached(), "{}").await.unwrap();
    /// assert_eq!(answer.as_json(), r#""one, two, three""#);
    /// # }
    /// ```
    #[doc(alias = "execute_stream")]
    pub fn streaming<A, P, E, F, S>(
        name: impl Into<Arc<str>>,
        description: impl Into<Arc<str>>,
        body: F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        P: AsRef<str> + Send,
        E: fmt::Display + Send + 'static,
        F: Fn(Context, A) -> S + Send + Sync + 'static,
        S: Stream<Item = Result<P, E>> + Send + 'static,
    {
        let mut tool = Self::new(name, description, move |cx: Context, arguments: A| {
            let pieces = body(cx.clone(), arguments);
            async move {
                let mut pieces = pin!(pieces);
                let mut whole = String::new();
                while let Some(piece) = pieces.next().await {
                    let piece = piece.map_err(|error| ToolError::from_error(&error))?;
                    // The limit of the policy is checked at the end. This one bounds the memory
                    // until then.
                    if whole.len() + piece.as_ref().len() > MOST_STREAMED {
                        let problem =
                            format!("the answer has more than {MOST_STREAMED} bytes; ask for less");
                        return Err(ToolError::with_status(ToolStatus::OutputTooLarge, problem));
                    }
                    cx.emit(piece.as_ref());
                    whole.push_str(piece.as_ref());
                }
                Ok(whole)
            }
        });
        Arc::make_mut(&mut tool.definition).supports_streaming = true;
        tool
    }

    /// Creates a tool from a definition that fits the type of the arguments. `is_typed` is `true`
    /// if the type checks them.
    pub(super) fn from_definition<A, O, E, F, Fut>(
        definition: ToolDefinition,
        body: F,
        is_typed: bool,
    ) -> Self
    where
        A: DeserializeOwned,
        O: ToolReturn,
        E: fmt::Display + 'static,
        F: Fn(Context, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        // The future must own the body, because it may outlive the borrow of the tool.
        let body = Arc::new(body);
        let definition = Arc::new(definition);
        let described = Arc::clone(&definition);
        Self {
            definition,
            body: Arc::new(move |cx, arguments: String| {
                let (body, described) = (Arc::clone(&body), Arc::clone(&described));
                Box::pin(async move {
                    let arguments = read_whole(&arguments, &described.parameters)?;
                    match body(cx, arguments).await {
                        Ok(output) => output.to_output(),
                        Err(error) => Err(ToolError::from_error(&error)),
                    }
                })
            }),
            is_typed,
            output_schema: None,
            problem: None,
        }
    }

    /// Sets the JSON Schema of the answer. Catalogues show it, and graphs are checked against it.
    /// Answers are not checked.
    #[must_use]
    pub fn output_schema(mut self, schema: impl Into<Value>) -> Self {
        self.output_schema = Some(schema.into());
        self
    }

    /// Sets a mistake in the tool's settings. Building an agent with the tool then fails.
    #[doc(hidden)]
    pub fn unusable(mut self, problem: Option<String>) -> Self {
        self.problem = problem.map(Arc::from);
        self
    }

    /// Replaces the policy.
    #[must_use]
    pub fn policy(mut self, policy: ToolPolicy) -> Self {
        Arc::make_mut(&mut self.definition).policy = policy;
        self
    }
}

fn no_arguments() -> Value {
    serde_json::json!({"type": "object", "properties": {}, "additionalProperties": false})
}

/// Returns `true` if a schema equals [`no_arguments`].
fn is_no_arguments(schema: &Value) -> bool {
    schema.as_object().is_some_and(|fields| fields.len() == 3)
        && schema["type"] == "object"
        && schema["properties"].as_object().is_some_and(serde_json::Map::is_empty)
        && schema["additionalProperties"] == false
}

/// Forbids additional properties in a schema that lists all its properties, so that unknown
/// arguments are rejected.
fn closed(mut schema: Value) -> Value {
    const OTHERS: [&str; 7] = [
        "additionalProperties",
        "unevaluatedProperties",
        "patternProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "$ref",
    ];
    if let Some(fields) = schema.as_object_mut()
        && fields.contains_key("properties")
        && !OTHERS.iter().any(|other| fields.contains_key(*other))
    {
        fields.insert("additionalProperties".to_owned(), false.into());
    }
    schema
}

pub(crate) fn read_whole<A: DeserializeOwned>(
    arguments: &str,
    schema: &Value,
) -> Result<A, ToolError> {
    let text = given(arguments);
    let names = names_in(text)?;
    // Types such as `()` deserialize from `null`, but models send `{}`.
    if is_no_arguments(schema)
        && let Ok(arguments) = A::deserialize(Value::Null)
    {
        return match names.is_empty() {
            true => Ok(arguments),
            false => Err(ToolError::invalid_arguments(
                "this tool takes no arguments; send an empty object",
            )),
        };
    }
    if let Value::Object(properties) = &schema["properties"]
        && schema["additionalProperties"] == false
    {
        // All unknown names are reported together, so that the model can fix them in one attempt.
        let unknown = names.iter().filter(|name| !properties.contains_key(&***name));
        let unknown: Vec<String> = unknown
            .map(|name| unknown_argument(name, properties.keys().map(String::as_str)))
            .collect();
        if !unknown.is_empty() {
            return Err(ToolError::invalid_arguments(unknown.join("\n")));
        }
    }
    with_integers(text, |text| {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            let path = error.path().to_string();
            let at = if path == "." { String::new() } else { format!("`{path}`: ") };
            ToolError::invalid_arguments(format!("{at}{}", error.into_inner()))
        })
    })
}

impl Tool for FnTool {
    fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    fn call<'a>(&'a self, cx: &'a Context, arguments: &'a str) -> ToolFuture<'a> {
        ToolFuture(super::Inner::Boxed(Exclusive::new((self.body)(
            cx.clone(),
            arguments.to_owned(),
        ))))
    }

    fn checks_arguments(&self) -> bool {
        self.is_typed
    }

    fn within(&self, _: ToolHost<'_>) -> Option<Result<ToolRef, Error>> {
        let problem = self.problem.as_deref()?;
        let name = Arc::clone(&self.definition.name);
        Some(Err(Error::Build { what: "tool", name, problem: problem.to_owned() }))
    }

    fn output_schema(&self) -> Option<Value> {
        self.output_schema.clone()
    }
}

impl fmt::Debug for FnTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FnTool").field(&self.definition.name).finish()
    }
}
