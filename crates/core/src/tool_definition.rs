//! `ToolDefinition`: name, description, schema and policy of a tool. It has no body and calls nothing.

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

/// Everything about a tool but its body.
///
/// Its JSON has `required_permissions`, which are the scopes of the policy, and `supports_streaming` beside the fields below.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "ReadDefinition")]
#[non_exhaustive]
#[doc(alias = "ToolSpec")]
pub struct ToolDefinition {
    /// The name the model calls it by: at most 64 letters, digits, `_` and `-`. One that is given with dots, such as
    /// `files.read`, is what a program knows the tool by, and the model gets a wire name.
    pub name: Arc<str>,
    /// What it does, for the model.
    pub description: Arc<str>,
    /// JSON Schema (2020-12) of the arguments; always an object schema. Its name in JSON is `parameters_schema`.
    #[doc(alias = "parameters_schema")]
    pub parameters: Value,
    /// `true` if a call may report its progress while it runs, as [`Context::emit`](crate::Context::emit) does.
    pub supports_streaming: bool,
    /// How the runtime treats it.
    pub policy: ToolPolicy,
    /// Where it was written.
    pub source: Option<SourceLocation>,
    /// The check of arguments against `parameters`, made when it is first needed.
    #[cfg(feature = "dynamic")]
    arguments: ArgumentsCheck,
    /// What identifies its version, by aspects.
    pub(crate) aspects: Aspects,
    /// The name that a program knows it by, where `name` is the wire name of that.
    in_catalogue: Option<Arc<str>>,
    /// The description for others than the models of this program, if it is another one.
    pub(crate) public_description: Option<Arc<str>>,
}

/// The JSON form that is written.
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

/// The JSON form that is read: only the name and the schema are needed.
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
        let mut definition = Self::new(read.name, read.description, read.parameters).policy(read.policy);
        definition.supports_streaming = read.supports_streaming;
        definition.source = read.source;
        for scope in read.required_permissions {
            if !definition.policy.scopes.contains(&scope) {
                definition.policy.scopes.push(scope);
            }
        }
        definition
    }
}

impl ToolDefinition {
    /// A definition with the default policy.
    ///
    /// `parameters` is a JSON Schema of an object, such as
    /// `json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})`.
    pub fn new(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>, parameters: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
            supports_streaming: false,
            policy: ToolPolicy::default(),
            source: None,
            #[cfg(feature = "dynamic")]
            arguments: ArgumentsCheck::default(),
            aspects: Aspects::default(),
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

    /// The same tool, known to a program by a name, of which `wire` is the wire name.
    pub(crate) fn renamed(&self, name: Arc<str>, wire: impl Into<Arc<str>>) -> Self {
        Self {
            name: wire.into(),
            in_catalogue: Some(name),
            #[cfg(feature = "dynamic")]
            arguments: ArgumentsCheck(Arc::clone(&self.arguments.0)),
            ..self.clone()
        }
    }

    /// The name that a program knows it by: the one in sentences that a person reads.
    pub(crate) fn catalogue_name(&self) -> &Arc<str> {
        self.in_catalogue.as_ref().unwrap_or(&self.name)
    }

    /// The check of arguments, as far as the schema can be checked, made once and shared with the same tool under other names. `parameters` must not change
    /// afterwards; a clone has a check of its own.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the schema.
    #[cfg(feature = "dynamic")]
    pub(crate) fn arguments_check(&self) -> Result<&SchemaCheck, &str> {
        let made = self.arguments.0.check.get_or_init(|| SchemaCheck::tolerant(&self.parameters).map_err(Into::into));
        made.as_ref().map_err(|problem| &**problem)
    }

    /// Returns true if the schema has limits that deserialization into Rust types does not enforce. Computed once.
    #[cfg(feature = "dynamic")]
    pub(crate) fn has_limits(&self) -> bool {
        *self.arguments.0.has_limits.get_or_init(|| has_limits(&self.parameters))
    }

    /// Whether every provider takes the name: 1 to 64 letters, digits, `_` and `-`.
    ///
    /// The rule is the one OpenAI and Anthropic publish for function names.
    pub fn has_valid_name(&self) -> bool {
        is_valid_name(&self.name)
    }
}

/// Belongs to one schema, so a copy of a definition, whose schema may be changed, begins without one.
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

/// The hashes of what a version of a tool consists of, computed when they are first needed. A copy of a definition, which
/// may be changed, begins without them.
#[derive(Default)]
pub(crate) struct Aspects(OnceLock<BTreeMap<String, Arc<str>>>);

impl Aspects {
    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> BTreeMap<String, Arc<str>>) -> &BTreeMap<String, Arc<str>> {
        self.0.get_or_init(make)
    }
}

impl Clone for Aspects {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Aspects {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Aspects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

pub(crate) fn is_valid_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

/// How the runtime treats a tool. The attribute `#[tool(..)]` sets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ToolPolicy {
    /// The longest a call may take, in JSON as whole `timeout_ms`; `None` leaves it to the run's own time limit.
    #[serde(
        rename = "timeout_ms",
        alias = "timeout",
        with = "milliseconds::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
    /// How often a failed call is retried, whoever makes it, with growing pauses: what its arguments, its grants or a
    /// cancellation decided is not.
    pub retry: u32,
    /// Whether calling it twice with the same idempotency key is the same as calling it once.
    pub idempotent: bool,
    /// What it does to the world; decides what happens to a call that a crash interrupted.
    pub effects: Effects,
    /// A person must agree before it runs. A run that was granted `approve:NAME` calls it at once; any other run asks, and
    /// waits for the [answer](crate::Runtime::answer).
    pub approve: bool,
    /// How long a person's answer is waited for, in JSON as whole `approve_timeout_ms`; `None`: for ever.
    #[serde(
        rename = "approve_timeout_ms",
        alias = "approve_timeout",
        with = "milliseconds::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub approve_timeout: Option<Duration>,
    /// What happens when nobody has answered by then.
    #[serde(skip_serializing_if = "OnTimeout::is_default")]
    pub on_timeout: OnTimeout,
    /// The scopes a run must have been granted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[doc(alias = "required_permissions")]
    pub scopes: Vec<Arc<str>>,
    /// Whether the body runs on threads for blocking work.
    pub blocking: bool,
    /// The most bytes of output; a larger answer becomes an error that the model sees.
    pub max_output: usize,
    /// The most calls of the tool at once, over all runs of a runtime, at least 1; a further one waits for its turn, and
    /// its time-out begins after that. `None`: any number. A tool that calls itself needs more than 1. A call that its step
    /// holds and no longer polls is one of them until it is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// The name of the tool that undoes a call of this one. It takes the arguments of that call by their names and, as
    /// `output`, what the call answered. A run that [asks for it](crate::runtime::StartRun::compensate) calls it when it
    /// fails or is cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensate: Option<Arc<str>>,
}

impl ToolPolicy {
    /// The default for [`max_output`](Self::max_output): 64 KiB, some 16,000 tokens.
    pub const MAX_OUTPUT: usize = 64 * 1024;

    /// Sets the longest a call may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how often a failed call is retried.
    #[must_use]
    pub fn retry(mut self, times: u32) -> Self {
        self.retry = times;
        self
    }

    /// Sets the most calls of the tool at once, over all runs of a runtime.
    #[must_use]
    pub fn concurrency(mut self, calls: u32) -> Self {
        self.concurrency = Some(calls);
        self
    }

    /// Declares that calling the tool twice with the same idempotency key is the same as calling it once.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Declares what the tool does to the world.
    #[must_use]
    pub fn effects(mut self, effects: Effects) -> Self {
        self.effects = effects;
        self
    }

    /// Declares that a person must agree before the tool runs.
    #[must_use]
    pub fn approve(mut self) -> Self {
        self.approve = true;
        self
    }

    /// Sets how long a person's answer is waited for, and what happens when nobody has answered by then. The time counts
    /// from the recorded question, so a crash does not begin it anew.
    #[must_use]
    pub fn approve_timeout(mut self, timeout: Duration, on_timeout: OnTimeout) -> Self {
        (self.approve_timeout, self.on_timeout) = (Some(timeout), on_timeout);
        self
    }

    /// Sets the scopes a run must have been granted.
    #[must_use]
    pub fn scopes<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Names the tool that undoes a call of this one; see [`compensate`](Self::compensate).
    #[must_use]
    pub fn compensate(mut self, tool: impl Into<Arc<str>>) -> Self {
        self.compensate = Some(tool.into());
        self
    }

    /// Returns the form that is hashed for a tool's definition. It never changes: the hash is compared with hashes in
    /// journals of earlier versions, which wrote durations in another form.
    pub(crate) fn hashed_form(&self) -> Value {
        let mut form = serde_json::to_value(self).unwrap_or_default();
        for (key, earlier, duration) in
            [("timeout_ms", "timeout", self.timeout), ("approve_timeout_ms", "approve_timeout", self.approve_timeout)]
        {
            if let (Some(fields), Some(duration)) = (form.as_object_mut(), duration) {
                fields.remove(key);
                fields.insert(earlier.to_owned(), json!(duration));
            }
        }
        form
    }

    /// Whether a call of which nobody knows how it ended may be repeated.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.idempotent || self.effects != Effects::Write
    }

    /// Sets the most bytes of output.
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

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effects {
    /// Nothing: a pure function of its arguments.
    None,
    /// It reads what others may change.
    Read,
    /// It changes something. What a tool does that declares nothing.
    #[default]
    Write,
}

impl Effects {
    /// What is known of the effect of a call that was stopped in the middle.
    pub(crate) fn when_stopped(self) -> &'static str {
        match self {
            Self::None | Self::Read => "it changes nothing",
            Self::Write => "whether it had its effect is unknown",
        }
    }
}

/// A place in a source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SourceLocation {
    /// The file, as the compiler names it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl SourceLocation {
    /// A line of a file, from 1.
    pub fn new(file: impl Into<Arc<str>>, line: u32) -> Self {
        Self { file: file.into(), line }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The tools offered in one request, ordered by name. Cloning is one reference count.
#[derive(Clone, Debug, Default)]
pub struct ToolManifest(Arc<Manifest>);

#[derive(Debug, Default)]
struct Manifest {
    definitions: Vec<Arc<ToolDefinition>>,
    wire: WireCache,
}

impl ToolManifest {
    /// The definitions, ordered by name.
    pub fn definitions(&self) -> &[Arc<ToolDefinition>] {
        &self.0.definitions
    }

    /// Whether no tool is offered.
    pub fn is_empty(&self) -> bool {
        self.0.definitions.is_empty()
    }

    /// The manifest in one wire format, encoded once and kept; see [`Message::encoded`](crate::Message::encoded).
    pub fn encoded(&self, format: &str, encode: impl FnOnce(&[Arc<ToolDefinition>]) -> Vec<u8>) -> Arc<[u8]> {
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
        let definition = ToolDefinition::new("fetch", "Fetch.", json!({"type": "object"})).policy(policy).streaming();
        let written = json!(definition);
        assert_eq!(written["required_permissions"], json!(["network"]));
        assert_eq!(written["supports_streaming"], true);
        assert_eq!(written["parameters_schema"], json!({"type": "object"}));
        assert_eq!(serde_json::from_value::<ToolDefinition>(written).unwrap(), definition);

        // Other programs write the permissions without a policy, and earlier releases the policy without permissions.
        let of_others = json!({"name": "fetch", "parameters": {}, "required_permissions": ["network"]});
        let read: ToolDefinition = serde_json::from_value(of_others).unwrap();
        assert_eq!((read.supports_streaming, &*read.policy.scopes), (false, &["network".into()][..]));
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
