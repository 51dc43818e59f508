//! Reads one server entry of a configuration file, in the forms that different programs write.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use agentflow_schema::text::variables;
use serde_json::{Map, Value};

use super::mcp_client::{McpClient, McpClientBuilder};

/// A configuration entry whose variables are already replaced.
#[derive(Debug, Default)]
pub(super) struct ConfigEntry {
    kind: Option<String>,
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    url: Option<String>,
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "read, and not used"))]
    headers: BTreeMap<String, String>,
    connect_timeout: Option<Duration>,
}

/// Description of a mistake in an entry. The caller puts the name of the server before it.
pub(super) type EntryProblem = Box<str>;

/// Alternative names of fields in the files of different programs.
const KIND: [&str; 3] = ["type", "transport_type", "transport"];
const URL: [&str; 4] = ["url", "httpUrl", "serverUrl", "endpoint"];
/// Values of the field `type` for a local process and for a server at an address.
const LOCAL: [&str; 2] = ["stdio", "local"];
const REMOTE: [&str; 5] =
    ["http", "streamable-http", "streamableHttp", "streamable_http", "remote"];

/// Returns `true` if the entry has a `command` or an address.
pub(super) fn has_form(entry: &Value) -> bool {
    entry.as_object().is_some_and(|entry| {
        entry.contains_key("command") || URL.iter().any(|name| entry.contains_key(*name))
    })
}

/// Returns `true` if the entry is disabled.
pub(super) fn is_disabled(entry: &Value) -> bool {
    entry["disabled"] == true || entry["enabled"] == false
}

impl ConfigEntry {
    /// Reads the fields of an entry and replaces `${NAME}` with `variable(NAME)`.
    ///
    /// # Errors
    /// Fails if a field has the wrong type or a variable is not set.
    pub(super) fn read(
        entry: &Value,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, EntryProblem> {
        let Some(fields) = entry.as_object() else {
            return Err("an entry is an object with `command` or `url`".into());
        };
        let fields = EntryFields { fields, variable };
        let mut args = fields.list("args")?;
        let mut command = None;
        match fields.fields.get("command") {
            Some(Value::Array(all)) if all.is_empty() => {
                return Err("`command` is an empty list".into());
            }
            // Some programs write the arguments into this list, too.
            Some(Value::Array(_)) => {
                let mut whole = fields.list("command")?;
                command = Some(whole.remove(0));
                whole.append(&mut args);
                args = whole;
            }
            _ => command = command.or(fields.text(&["command"])?),
        }
        let connect_timeout = fields.fields.get("connection_timeout").and_then(Value::as_f64);
        let connect_timeout =
            connect_timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(Self {
            kind: fields.text(&KIND)?,
            command,
            args,
            env: fields.texts("env")?,
            cwd: fields.text(&["cwd"])?,
            url: fields.text(&URL)?,
            headers: fields.texts("headers")?,
            connect_timeout,
        })
    }

    /// Creates the builder of the client that this entry describes.
    ///
    /// # Errors
    /// Fails if the entry has neither or both of `command` and `url`, or if its type is not
    /// supported.
    pub(super) fn builder(&self, name: &str) -> Result<McpClientBuilder, EntryProblem> {
        // A type that contradicts the other fields is an error.
        let builder = match (&self.command, &self.url, self.kind.as_deref()) {
            (Some(command), None, kind) if kind.is_none_or(|kind| LOCAL.contains(&kind)) => {
                let builder = McpClient::stdio(name, command).args(self.args.iter().cloned());
                let builder = self
                    .env
                    .iter()
                    .fold(builder, |builder, (name, value)| builder.env(name, value));
                self.cwd.iter().map(PathBuf::from).fold(builder, McpClientBuilder::current_dir)
            }
            #[cfg(feature = "http")]
            (None, Some(url), kind) if kind.is_none_or(|kind| REMOTE.contains(&kind)) => {
                let builder = McpClient::http(name, url);
                self.headers
                    .iter()
                    .fold(builder, |builder, (name, value)| builder.header(name, value))
            }
            #[cfg(not(feature = "http"))]
            (None, Some(_), kind) if kind.is_none_or(|kind| REMOTE.contains(&kind)) => {
                return Err("a `url` needs the feature `mcp-http`".into());
            }
            // The protocol has replaced this transport by streamable HTTP.
            (_, _, Some("sse")) => {
                return Err("the type `sse` is one that the protocol no longer has; ask for streamable HTTP".into());
            }
            (_, _, Some(kind)) if !LOCAL.contains(&kind) && !REMOTE.contains(&kind) => {
                let problem =
                    "does not fit; a process has a `command`, a server at an address a `url`";
                return Err(format!("the type `{kind}` {problem}").into());
            }
            _ => {
                return Err(
                    "it needs either a `command` or a `url`, of the type that it says".into()
                );
            }
        };
        Ok(self.connect_timeout.into_iter().fold(builder, McpClientBuilder::connect_timeout))
    }
}

/// The fields of an entry, with the lookup for variables in their values.
struct EntryFields<'e> {
    fields: &'e Map<String, Value>,
    variable: &'e dyn Fn(&str) -> Option<String>,
}

impl EntryFields<'_> {
    /// Returns the first of these fields that is present. A `null` counts as absent.
    fn text(&self, names: &[&str]) -> Result<Option<String>, EntryProblem> {
        for name in names {
            match self.fields.get(*name) {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) => return expanded(text, self.variable).map(Some),
                Some(other) => return Err(misfit(name, other, "a text")),
            }
        }
        Ok(None)
    }

    fn list(&self, name: &str) -> Result<Vec<String>, EntryProblem> {
        let items = match self.fields.get(name) {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(misfit(name, other, "a list of texts")),
        };
        let mut texts = Vec::new();
        for item in items {
            texts.push(match item {
                Value::String(text) => expanded(text, self.variable)?,
                // Numbers and truth values are accepted without quotes.
                Value::Number(_) | Value::Bool(_) => item.to_string(),
                other => return Err(misfit(name, other, "a list of texts")),
            });
        }
        Ok(texts)
    }

    fn texts(&self, name: &str) -> Result<BTreeMap<String, String>, EntryProblem> {
        let fields = match self.fields.get(name) {
            None | Some(Value::Null) => return Ok(BTreeMap::new()),
            Some(Value::Object(fields)) => fields,
            Some(other) => return Err(misfit(name, other, "an object of texts")),
        };
        let mut texts = BTreeMap::new();
        for (key, value) in fields {
            let text = match value {
                Value::String(text) => expanded(text, self.variable)?,
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                Value::Null => continue,
                other => return Err(misfit(&format!("{name}.{key}"), other, "a text")),
            };
            texts.insert(key.clone(), text);
        }
        Ok(texts)
    }
}

fn misfit(name: &str, value: &Value, wanted: &str) -> EntryProblem {
    let what = match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    format!("`{name}` is {what}, and should be {wanted}").into()
}

/// Replaces the variables of a string. Accepts `${NAME}` and `${env:NAME}`, the form of VS Code.
fn expanded(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, EntryProblem> {
    let variable = |name: &str| variable(name.strip_prefix("env:").unwrap_or(name));
    variables::expanded(text, &variable).map_err(|error| error.to_string().into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_are_filled_in_once() {
        let variable = |name: &str| (name == "KEY").then(|| "of the ${X}".to_owned());
        let read =
            |args: Value| ConfigEntry::read(&json!({"command": "c", "args": args}), &variable);
        let args =
            read(json!(["-${KEY}-", "${NONE:-else}", "$5 {x}", "${env:KEY}", 7])).unwrap().args;
        assert_eq!(args, ["-of the ${X}-", "else", "$5 {x}", "of the ${X}", "7"]);
        for (wrong, says) in
            [("${NONE}", "the variable `NONE` is not set"), ("${KEY", "without its `}`")]
        {
            let problem = read(json!([wrong])).unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
    }
}
