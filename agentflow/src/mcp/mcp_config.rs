//! `McpConfig`: servers as people have them in files, under `mcpServers`. It starts none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::mcp_client::{McpClient, McpClientBuilder};
use super::mcp_error::McpError;
use crate::strict;
use crate::text::{did_you_mean, nearest};
use crate::text_file;

/// The servers of a file such as `.mcp.json`: an object `mcpServers` with an entry for each.
///
/// An entry has `command`, `args`, `env` and `cwd`, or with the feature `mcp-http` a `url` and `headers`; `disabled: true`
/// leaves it out. In all texts `${NAME}` is a variable of
/// this program's environment, and `${NAME:-else}` has a text for when that is not set. Fields that are not known, such as
/// those of other programs, are ignored.
///
/// ```
/// use agentflow::mcp::McpConfig;
///
/// let config = McpConfig::from_json(r#"{"mcpServers": {
///     "time": {"command": "uvx", "args": ["mcp-server-time"]},
///     "notes": {"command": "npx", "args": ["-y", "notes-server"], "env": {"FOLDER": "${HOME:-/tmp}/notes"}}
/// }}"#)?;
/// assert_eq!(config.names().collect::<Vec<_>>(), ["notes", "time"]);
/// let clients = config.allow(["time"])?.clients()?;
/// assert_eq!(&**clients[0].name(), "time");
/// # Ok::<(), agentflow::mcp::McpError>(())
/// ```
#[derive(Clone, Debug)]
pub struct McpConfig {
    at: Option<String>,
    servers: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    mcp_servers: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Entry {
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    url: Option<String>,
    #[cfg_attr(not(feature = "mcp-http"), allow(dead_code, reason = "read, and not used"))]
    headers: BTreeMap<String, String>,
    disabled: bool,
    /// Seconds of connecting.
    connection_timeout: Option<u64>,
}

impl McpConfig {
    /// Reads JSON.
    ///
    /// # Errors
    /// [`McpError::Config`] when it is not JSON of this form, a key is there twice, or a variable is not set.
    pub fn from_json(json: &str) -> Result<Self, McpError> {
        Self::read(None, json, &|name| std::env::var(name).ok())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json), and when the file cannot be read, is not a regular file or has more than 4 MiB.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, McpError> {
        let path = path.as_ref();
        let at = Some(path.display().to_string());
        match text_file::read(path, text_file::MOST_BYTES) {
            Ok(json) => Self::read(at, &json, &|name| std::env::var(name).ok()),
            Err(error) => Err(McpError::Config { at, problem: error.to_string() }),
        }
    }

    fn read(at: Option<String>, json: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, McpError> {
        let failed = |problem: String| McpError::Config { at: at.clone(), problem };
        strict::check(json).map_err(|error| failed(error.to_string()))?;
        let file: File = serde_json::from_str(json).map_err(|error| failed(error.to_string()))?;
        let mut servers = BTreeMap::new();
        for (name, entry) in file.mcp_servers {
            if !entry.disabled {
                let entry = entry.expanded(variable).map_err(|problem| failed(format!("`{name}`: {problem}")))?;
                servers.insert(name, entry);
            }
        }
        Ok(Self { at, servers })
    }

    /// The names of the servers that are not disabled, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }

    /// Keeps these servers alone: a program that reads a file of others should say which of them it may start.
    ///
    /// # Errors
    /// [`McpError::Config`] for a name that is not there.
    pub fn allow<S: AsRef<str>>(mut self, names: impl IntoIterator<Item = S>) -> Result<Self, McpError> {
        let names: BTreeSet<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        if let Some(unknown) = names.iter().find(|name| !self.servers.contains_key(*name)) {
            let near = did_you_mean(nearest(unknown, self.names()));
            return Err(McpError::Config { at: self.at, problem: format!("there is no server `{unknown}`{near}") });
        }
        self.servers.retain(|name, _| names.contains(name));
        Ok(self)
    }

    /// What is said of one server, to say more of it.
    ///
    /// # Errors
    /// [`McpError::Config`] for a name that is not there, and for an entry that this program cannot use.
    pub fn server(&self, name: &str) -> Result<McpClientBuilder, McpError> {
        let failed = |problem: String| McpError::Config { at: self.at.clone(), problem };
        let Some(entry) = self.servers.get(name) else {
            let near = did_you_mean(nearest(name, self.names()));
            return Err(failed(format!("there is no server `{name}`{near}")));
        };
        entry.builder(name).map_err(|problem| failed(format!("`{name}`: {problem}")))
    }

    /// A client for each server, ordered by name. Nothing is started.
    ///
    /// # Errors
    /// As [`server`](Self::server).
    pub fn clients(&self) -> Result<Vec<McpClient>, McpError> {
        self.names().map(|name| self.server(name)?.build()).collect()
    }
}

impl Entry {
    fn expanded(mut self, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let Self { command, args, env, cwd, url, headers, .. } = &mut self;
        let texts =
            command.iter_mut().chain(args).chain(env.values_mut()).chain(cwd).chain(url).chain(headers.values_mut());
        for text in texts {
            *text = expanded(text, variable)?;
        }
        Ok(self)
    }

    fn builder(&self, name: &str) -> Result<McpClientBuilder, String> {
        let builder = match (&self.command, &self.url, self.kind.as_deref()) {
            (Some(command), None, None | Some("stdio")) => {
                let builder = McpClient::stdio(name, command).args(self.args.iter().cloned());
                let builder = self.env.iter().fold(builder, |builder, (name, value)| builder.env(name, value));
                self.cwd.iter().map(PathBuf::from).fold(builder, McpClientBuilder::current_dir)
            }
            #[cfg(feature = "mcp-http")]
            (None, Some(url), None | Some("http" | "streamable-http" | "streamableHttp")) => {
                let builder = McpClient::http(name, url);
                self.headers.iter().fold(builder, |builder, (name, value)| builder.header(name, value))
            }
            #[cfg(not(feature = "mcp-http"))]
            (None, Some(_), None | Some("http" | "streamable-http" | "streamableHttp")) => {
                return Err("a `url` needs the feature `mcp-http`".to_owned());
            }
            (_, _, Some("sse")) => {
                return Err("the type `sse` is one that the protocol no longer has; ask for streamable HTTP".to_owned());
            }
            (_, _, Some(kind)) => {
                return Err(format!(
                    "the type `{kind}` does not fit; a process has a `command`, a server at an address a `url`"
                ));
            }
            _ => return Err("it needs either a `command` or a `url`".to_owned()),
        };
        let limit = self.connection_timeout.map(Duration::from_secs);
        Ok(limit.into_iter().fold(builder, McpClientBuilder::connect_timeout))
    }
}

/// A text with its variables.
fn expanded(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            return Err(format!("`{text}` has a `${{` without its `}}`"));
        };
        let (name, or_else) = match name.split_once(":-") {
            Some((name, or_else)) => (name, Some(or_else.to_owned())),
            None => (name, None),
        };
        let value = variable(name).or(or_else).ok_or_else(|| format!("the variable `{name}` is not set"))?;
        out.push_str(before);
        out.push_str(&value);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<McpConfig, String> {
        let variable = |name: &str| (name == "KEY").then(|| "of the ${X}".to_owned());
        McpConfig::read(None, json, &variable).map_err(|error| error.to_string())
    }

    #[test]
    fn variables_are_filled_in_once() {
        let text = |json: &str| read(json).map(|config| config.servers["a"].args.clone());
        assert_eq!(
            text(r#"{"mcpServers": {"a": {"command": "c", "args": ["-${KEY}-", "${NONE:-else}", "$5 {x}"]}}}"#)
                .unwrap(),
            ["-of the ${X}-", "else", "$5 {x}"]
        );
        for (wrong, says) in [("${NONE}", "the variable `NONE` is not set"), ("${KEY", "without its `}`")] {
            let error =
                text(&format!(r#"{{"mcpServers": {{"a": {{"command": "c", "args": ["{wrong}"]}}}}}}"#)).unwrap_err();
            assert!(error.contains("`a`: ") && error.contains(says), "{error}");
        }
    }

    #[test]
    fn what_is_not_a_file_of_servers_is_refused_with_its_place() {
        for (json, says) in [
            ("{}", "missing field `mcpServers`"),
            ("[", "EOF"),
            (r#"{"mcpServers": {"a": {"command": "c"}, "a": {"command": "d"}}}"#, "`a`"),
            (r#"{"mcpServers": {"a": {"command": 7}}}"#, "invalid type"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.starts_with("the MCP servers cannot be read: ") && error.contains(says), "{json}: {error}");
        }
        let config = read(
            r#"{"mcpServers": {
                "files": {"url": "u", "command": "c"}, "old": {"type": "sse", "url": "http://127.0.0.1/sse"},
                "off": {"disabled": true}, "a": {}, "new": {"type": "ws", "url": "ws://127.0.0.1"}
            }}"#,
        );
        let config = config.unwrap();
        for (name, says) in [
            ("files", "either a `command` or a `url`"),
            ("a", "either a `command` or a `url`"),
            ("old", "`sse` is one that the protocol no longer has"),
            ("new", "the type `ws` does not fit"),
            ("file", "`files`"),
            ("off", "no server"),
        ] {
            let error = config.server(name).map(drop).unwrap_err().to_string();
            assert!(error.contains(says), "{name}: {error}");
        }
        assert!(config.allow(["fils"]).unwrap_err().to_string().contains("`files`"));
    }
}
