//! [`ToolDefinition`] and [`ToolPolicy`]: name, description, schema and policy of a tool. A
//! definition has no body. [`ToolManifest`] is the list of the tools that are offered in one model
//! request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[cfg(feature = "dynamic")]
use agentflow_schema::schema::has_limits;
#[cfg(feature = "dynamic")]
use agentflow_schema::schema_check::SchemaCheck;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::on_timeout::OnTimeout;
use crate::time::milliseconds;
use crate::wire::WireCache;

/// The description of a tool, without its body.
///
/// Its JSON form has two more fields: `required_permissions`, which are the scopes of the policy,
/// and `supports_streaming`.
///
/// ```
/// use agentflow::serde_json::json;
/// use agentflow::tool::{Effects, ToolDefinition, ToolPolicy};
///
/// let parameters = json!({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]});
/// let definition = ToolDefinition::new("find_order", "Find an order by its number.", parameters)
///     .policy(ToolPolicy::default().effects(Effects::Read));
/// assert!(definition.has_valid_name());
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "ReadDefinition")]
#[non_exhaustive]
#[doc(alias = "ToolSpec")]
pub struct ToolDefinition {
    /// Name by which the model calls the tool: at most 64 letters, digits, `_` and `-`. For a tool
    /// that was declared with dots in its name, such as `files.read`, this is the wire name, and
    /// the program uses the declared name.
    pub name: Arc<str>,
    /// Description for the model.
    pub description: Arc<str>,
    /// JSON Schema (2020-12) of the arguments; always an object schema. In JSON, the field is named
    /// `parameters_schema`.
    #[doc(alias = "parameters_schema")]
    pub parameters: Value,
    /// `true` if a call may report its progress while it runs, with
    /// [`Context::emit`](crate::Context::emit).
    pub supports_streaming: bool,
    /// Rules for calls to the tool.
    pub policy: ToolPolicy,
    /// Location of the declaration.
    pub source: Option<SourceLocation>,
    /// Check of arguments against `parameters`, compiled on first use.
    #[cfg(feature = "dynamic")]
    arguments: ArgumentsCheck,
    /// Hashes that identify the tool's version, by aspect.
    pub(crate) aspects: VersionAspects,
    /// Declared name, if `name` is the wire name of it.
    in_catalogue: Option<Arc<str>>,
    /// Description for clients other than the models of this program, if it differs.
    pub(crate) public_description: Option<Arc<str>>,
}

/// The JSON form, for writing.
#[derive(Serialize)]
struct WrittenDefinition<'a> {
    name: &'a str,
    description: &'a str,
    parameters_schema: &'a Value,
    supports_streaming: bool,
    required_permissions: &'a [Arc<str>],
    policy: &'a ToolPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a SourceLocation>,
}

/// The JSON form, for reading. Only the name and the schema are required.
#[derive(Deserialize)]
struct ReadDefinition {
    name: Arc<str>,
    #[serde(default)]
    description: Arc<str>,
    #[serde(rename = "parameters_schema", alias = "parameters")]
    parameters: Value,
    #[serde(default)]
    supports_streaming: bool,
    #[serde(default)]
    required_permissions: Vec<Arc<str>>,
    #[serde(default)]
    policy: ToolPolicy,
    #[serde(default)]
    source: Option<SourceLocation>,
}

impl Serialize for ToolDefinition {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WrittenDefinition {
            name: &self.name,
            description: &self.description,
            parameters_schema: &self.parameters,
            supports_streaming: self.supports_streaming,
            required_permissions: &self.policy.scopes,
            policy: &self.policy,
            source: self.source.as_ref(),
        }
        .serialize(serializer)
    }
}

impl From<ReadDefinition> for ToolDefinition {
    fn from(read: ReadDefinition) -> Self {
        let mut definition =
            Self::new(read.name, read.description, read.parameters).policy(read.policy);
        definition.supports_streaming = read.supports_streaming;
        definition.source = read.source;
        // `required_permissions` repeats the scopes of the policy; a definition of another program
        // may have only one of them.
        for scope in read.required_permissions {
            if !definition.policy.scopes.contains(&scope) {
                definition.policy.scopes.push(scope);
            }
        }
        definition
    }
}

impl ToolDefinition {
    /// Creates a definition with the default policy.
    ///
    /// `parameters` is a JSON Schema of an object, such as
    /// `json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})`.
    pub fn new(
        name: impl Into<Arc<str>>,
        description: impl Into<Arc<str>>,
        parameters: Value,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
            supports_streaming: false,
            policy: ToolPolicy::default(),
            source: None,
            #[cfg(feature = "dynamic")]
            arguments: ArgumentsCheck::default(),
            aspects: VersionAspects::default(),
            in_catalogue: None,
            public_description: None,
        }
    }

    /// Replaces the policy.
    #[must_use]
    pub fn policy(mut self, policy: ToolPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Declares that a call may report its progress while it runs.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.supports_streaming = true;
        self
    }

    /// Returns the same tool under a declared name with its wire name.
    pub(crate) fn renamed(&self, name: Arc<str>, wire: impl Into<Arc<str>>) -> Self {
        Self {
            name: wire.into(),
            in_catalogue: Some(name),
            #[cfg(feature = "dynamic")]
            // The schema is the same, so the compiled check is shared.
            arguments: ArgumentsCheck(Arc::clone(&self.arguments.0)),
            ..self.clone()
        }
    }

    /// Returns the name that the program uses; shown in messages to people.
    #[doc(hidden)]
    pub fn catalogue_name(&self) -> &Arc<str> {
        self.in_catalogue.as_ref().unwrap_or(&self.name)
    }

    /// Returns the check of arguments. It covers the part of the schema that can be checked, is
    /// compiled once and is shared with renamed copies of the tool. `parameters` must not change
    /// afterwards. A clone has a separate check.
    ///
    /// # Errors
    /// A message that describes the invalid part of the schema.
    #[cfg(feature = "dynamic")]
    #[doc(hidden)]
    pub fn arguments_check(&self) -> Result<&SchemaCheck, &str> {
        let made = self.arguments.0.check.get_or_init(|| {
            SchemaCheck::tolerant(&self.parameters).map_err(|problem| problem.message().into())
        });
        made.as_ref().map_err(|problem| &**problem)
    }

    /// Returns true if the schema has limits that deserialization into Rust types does not enforce. Computed once.
    #[cfg(feature = "dynamic")]
    pub(crate) fn has_limits(&self) -> bool {
        *self.arguments.0.has_limits.get_or_init(|| has_limits(&self.parameters))
    }

    /// Returns `true` if every provider accepts the name: 1 to 64 letters, digits, `_` and `-`.
    ///
    /// OpenAI and Anthropic publish this rule for function names.
    pub fn has_valid_name(&self) -> bool {
        is_valid_name(&self.name)
    }
}

/// Lazily compiled check of one schema. A clone of the definition may be changed, so it starts
/// without a check.
#[cfg(feature = "dynamic")]
#[derive(Debug, Default)]
struct ArgumentsCheck(Arc<CheckOnce>);

#[cfg(feature = "dynamic")]
#[derive(Debug, Default)]
struct CheckOnce {
    check: OnceLock<Result<SchemaCheck, Box<str>>>,
    has_limits: OnceLock<bool>,
}

#[cfg(feature = "dynamic")]
impl Clone for ArgumentsCheck {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[cfg(feature = "dynamic")]
impl PartialEq for ArgumentsCheck {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Hashes of the parts of a tool's version, computed on first use. A clone of the definition may be
/// changed, so it starts without hashes.
#[derive(Default)]
pub(crate) struct VersionAspects(OnceLock<BTreeMap<String, Arc<str>>>);

impl VersionAspects {
    pub(crate) fn get_or_init(
        &self,
        make: impl FnOnce() -> BTreeMap<String, Arc<str>>,
    ) -> &BTreeMap<String, Arc<str>> {
        self.0.get_or_init(make)
    }
}

impl Clone for VersionAspects {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for VersionAspects {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for VersionAspects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

pub(crate) fn is_valid_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

/// Rules that the runtime applies to calls to a tool. Set by the attribute `#[tool(..)]`.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::tool::{Effects, ToolPolicy};
///
/// let policy = ToolPolicy::default()
///     .effects(Effects::Read)
///     .timeout(Duration::from_secs(10))
///     .retry(2)
///     .scopes(["orders:read"]);
/// assert!(policy.is_repeatable());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ToolPolicy {
    /// Time limit of a call, in JSON as whole milliseconds `timeout_ms`. `None`: only the time
    /// limit of the run applies.
    #[serde(
        rename = "timeout_ms",
        alias = "timeout",
        with = "milliseconds::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
    /// Maximum number of retries of a failed call, with increasing pauses. Applies to calls by
    /// models and by functions. A call that failed because of its arguments, its grants or a
    /// cancellation is not retried.
    pub retry: u32,
    /// `true` if a second call with the same idempotency key has no further effect.
    pub idempotent: bool,
    /// Effects of a call outside of the run. They decide how a call is treated that a crash
    /// interrupted.
    pub effects: Effects,
    /// `true` if a call requires the approval of a person. A run that was granted `approve:NAME`
    /// calls the tool directly; any other run asks and waits for the
    /// [answer](crate::runtime::RunRef::answer).
    pub approve: bool,
    /// Time limit for the answer of a person, in JSON as whole milliseconds `approve_timeout_ms`.
    /// `None`: no limit.
    #[serde(
        rename = "approve_timeout_ms",
        alias = "approve_timeout",
        with = "milliseconds::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub approve_timeout: Option<Duration>,
    /// Effect of an unanswered question after `approve_timeout`.
    #[serde(skip_serializing_if = "OnTimeout::is_default")]
    pub on_timeout: OnTimeout,
    /// Scopes that a run must have been granted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[doc(alias = "required_permissions")]
    pub scopes: Vec<Arc<str>>,
    /// `true` if the body runs on a thread for blocking work.
    pub blocking: bool,
    /// Maximum size of the output in bytes. A larger output becomes an error that is reported to
    /// the model.
    pub max_output: usize,
    /// Maximum number of concurrent calls over all runs of a runtime, at least 1. Further calls
    /// wait, and their time-out starts after the wait. `None`: no limit. A recursive tool needs
    /// more than 1. A call that its step holds without polling counts until it is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Name of the tool that compensates a call of this one. It receives the arguments of the call
    /// by name and the result of the call as `output`. A run that was [started with
    /// compensation](crate::runtime::StartRun::compensate) calls it when the run fails or is
    /// cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensate: Option<Arc<str>>,
}

impl ToolPolicy {
    /// Default of [`max_output`](Self::max_output): 64 KiB, about 16,000 tokens.
    pub const MAX_OUTPUT: usize = 64 * 1024;

    /// Sets the time limit of a call.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the maximum number of retries of a failed call.
    #[must_use]
    pub fn retry(mut self, times: u32) -> Self {
        self.retry = times;
        self
    }

    /// Sets the maximum number of concurrent calls over all runs of a runtime.
    #[must_use]
    pub fn concurrency(mut self, calls: u32) -> Self {
        self.concurrency = Some(calls);
        self
    }

    /// Declares that a second call with the same idempotency key has no further effect.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Declares the effects of a call outside of the run.
    #[must_use]
    pub fn effects(mut self, effects: Effects) -> Self {
        self.effects = effects;
        self
    }

    /// Declares that a call requires the approval of a person.
    #[must_use]
    pub fn approve(mut self) -> Self {
        self.approve = true;
        self
    }

    /// Sets the time limit for the answer of a person and the effect of an unanswered question. The
    /// time counts from the recorded question, so it does not restart after a crash.
    #[must_use]
    pub fn approve_timeout(mut self, timeout: Duration, on_timeout: OnTimeout) -> Self {
        (self.approve_timeout, self.on_timeout) = (Some(timeout), on_timeout);
        self
    }

    /// Sets the scopes that a run must have been granted.
    #[must_use]
    pub fn scopes<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the tool that compensates a call of this one; see the field
    /// [`compensate`](Self::compensate).
    #[must_use]
    pub fn compensate(mut self, tool: impl Into<Arc<str>>) -> Self {
        self.compensate = Some(tool.into());
        self
    }

    /// Returns the JSON form that is hashed into a tool's definition hash. The form must never
    /// change, since the hash is compared with hashes in journals of earlier versions, which wrote
    /// durations in a different form.
    pub(crate) fn hashed_form(&self) -> Value {
        let mut form = serde_json::to_value(self).unwrap_or_default();
        for (key, earlier, duration) in [
            ("timeout_ms", "timeout", self.timeout),
            ("approve_timeout_ms", "approve_timeout", self.approve_timeout),
        ] {
            if let (Some(fields), Some(duration)) = (form.as_object_mut(), duration) {
                fields.remove(key);
                fields.insert(earlier.to_owned(), json!(duration));
            }
        }
        form
    }

    /// Returns `true` if a call with an unknown outcome may be repeated.
    pub fn is_repeatable(&self) -> bool {
        self.idempotent || self.effects != Effects::Write
    }

    /// Sets the maximum size of the output in bytes.
    #[must_use]
    pub fn max_output(mut self, bytes: usize) -> Self {
        self.max_output = bytes;
        self
    }
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self {
            timeout: None,
            retry: 0,
            idempotent: false,
            effects: Effects::Write,
            approve: false,
            approve_timeout: None,
            on_timeout: OnTimeout::Fail,
            scopes: Vec::new(),
            blocking: false,
            max_output: Self::MAX_OUTPUT,
            concurrency: None,
            compensate: None,
        }
    }
}

/// Effects of a tool outside of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effects {
    /// No effects: a pure function of its arguments.
    None,
    /// Reads data that others may change.
    Read,
    /// Changes data. The default for tools that declare nothing.
    #[default]
    Write,
}

impl Effects {
    /// Describes the effect of an interrupted call, for a message.
    #[doc(hidden)]
    pub fn describe_interrupted(self) -> &'static str {
        match self {
            Self::None | Self::Read => "it changes nothing",
            Self::Write => "whether it had its effect is unknown",
        }
    }
}

/// A place in a source file.
///
/// ```
/// use agentflow::tool::SourceLocation;
///
/// let location = SourceLocation::new("src/orders.rs", 17);
/// assert_eq!(location.line, 17);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SourceLocation {
    /// The file, as the compiler names it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl SourceLocation {
    /// Creates a location. Lines count from 1.
    pub fn new(file: impl Into<Arc<str>>, line: u32) -> Self {
        Self { file: file.into(), line }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The tools that are offered in one model request, sorted by name. Cloning increments one
/// reference count.
#[derive(Clone, Debug, Default)]
pub struct ToolManifest(Arc<Manifest>);

#[derive(Debug, Default)]
struct Manifest {
    definitions: Vec<Arc<ToolDefinition>>,
    wire: WireCache,
}

impl ToolManifest {
    /// The definitions, sorted by name.
    pub fn definitions(&self) -> &[Arc<ToolDefinition>] {
        &self.0.definitions
    }

    /// Returns `true` if no tool is offered.
    pub fn is_empty(&self) -> bool {
        self.0.definitions.is_empty()
    }

    /// Returns the manifest in a wire format. The bytes are cached; see
    /// [`Message::encoded`](crate::Message::encoded).
    pub fn encoded(
        &self,
        format: &str,
        encode: impl FnOnce(&[Arc<ToolDefinition>]) -> Vec<u8>,
    ) -> Arc<[u8]> {
        self.0.wire.get_or_encode(format, || encode(&self.0.definitions))
    }
}

impl<D: Into<Arc<ToolDefinition>>> FromIterator<D> for ToolManifest {
    fn from_iter<I: IntoIterator<Item = D>>(definitions: I) -> Self {
        let mut definitions: Vec<_> = definitions.into_iter().map(Into::into).collect();
        definitions.sort_by(|a: &Arc<ToolDefinition>, b| a.name.cmp(&b.name));
        Self(Arc::new(Manifest { definitions, wire: WireCache::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_of_a_definition_has_the_permissions_and_whether_it_streams() {
        let policy = ToolPolicy::default().scopes(["network"]);
        let definition = ToolDefinition::new("fetch", "Fetch.", json!({"type": "object"}))
            .policy(policy)
            .streaming();
        let written = json!(definition);
        assert_eq!(written["required_permissions"], json!(["network"]));
        assert_eq!(written["supports_streaming"], true);
        assert_eq!(written["parameters_schema"], json!({"type": "object"}));
        assert_eq!(serde_json::from_value::<ToolDefinition>(written).unwrap(), definition);

        // Other programs write permissions without a policy. Earlier releases wrote the policy
        // without permissions.
        let of_others =
            json!({"name": "fetch", "parameters": {}, "required_permissions": ["network"]});
        let read: ToolDefinition = serde_json::from_value(of_others).unwrap();
        assert_eq!(
            (read.supports_streaming, &*read.policy.scopes),
            (false, &["network".into()][..])
        );
        let earlier = json!({"name": "fetch", "parameters": {}, "policy": {"scopes": ["network"]}});
        assert_eq!(serde_json::from_value::<ToolDefinition>(earlier).unwrap(), read);
    }

    #[test]
    fn the_hashed_form_is_that_of_earlier_versions() {
        let policy = ToolPolicy::default()
            .timeout(Duration::from_millis(5500))
            .approve_timeout(Duration::from_secs(60), OnTimeout::Deny);
        let expected = json!({
            "timeout": {"secs": 5, "nanos": 500_000_000},
            "retry": 0,
            "idempotent": false,
            "effects": "write",
            "approve": false,
            "approve_timeout": {"secs": 60, "nanos": 0},
            "on_timeout": "deny",
            "blocking": false,
            "max_output": 65_536,
        });
        assert_eq!(policy.hashed_form(), expected);
    }
}
