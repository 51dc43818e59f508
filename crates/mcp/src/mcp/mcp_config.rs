//! `McpConfig`: reads server definitions from files such as `.mcp.json`. `config_entry.rs` reads
//! single entries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use agentflow_schema::strict;
use agentflow_schema::text::{did_you_mean, nearest};
use serde_json::Value;

use super::config_entry::{ConfigEntry, has_form, is_disabled};
use super::json_comments::without_comments;
use super::mcp_client::{McpClient, McpClientBuilder};
use super::mcp_error::McpError;
use agentflow_core::__private::extension::text_file;

/// Server definitions from a file such as `.mcp.json`: an object `mcpServers` with one entry for
/// each server.
///
/// An entry has `command`, `args`, `env` and `cwd`, or, with the feature `mcp-http`, `url` and
/// `headers`. `disabled: true` leaves the entry out, and `connection_timeout` is a number of
/// seconds. In all strings, `${NAME}` is replaced by this program's environment variable, and
/// `${NAME:-default}` has a default for a variable that is not set. Unknown fields, such as fields
/// for other programs, are ignored. A mistake in one entry affects only that server, and is
/// reported when the program uses it.
///
/// The forms of other programs are accepted, too:
///
/// - `servers` (VS Code) instead of `mcpServers`, or the entries without such an object;
/// - `httpUrl` or `endpoint` instead of `url`, and `transport_type` or `transport` instead of
///   `type`;
/// - a `command` that is a list;
/// - comments, trailing commas and a byte order mark.
///
/// In server names, characters other than letters, digits, `_` and `-` are replaced by `_`.
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
    /// The entries as written in the file, by their names in this program.
    servers: BTreeMap<String, Value>,
}

/// Names of the object that contains the servers, in the files of different programs.
const SERVERS: [&str; 4] = ["mcpServers", "servers", "mcp_servers", "context_servers"];

impl McpConfig {
    /// Parses a JSON text.
    ///
    /// # Errors
    /// [`McpError::Config`] if the text is not JSON of one of the accepted forms, or an object
    /// contains a key twice.
    pub fn from_json(json: &str) -> Result<Self, McpError> {
        Self::read(None, json)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The same as [`from_json`](Self::from_json). Also fails if the file cannot be read, is not a
    /// regular file, or has more than 4 MiB.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, McpError> {
        let path = path.as_ref();
        let at = Some(path.display().to_string());
        match text_file::read(path, text_file::MOST_BYTES) {
            Ok(json) => Self::read(at, &json),
            Err(error) => Err(McpError::Config { at, problem: error.to_string() }),
        }
    }

    fn read(at: Option<String>, json: &str) -> Result<Self, McpError> {
        let failed = |problem: String| McpError::Config { at: at.clone(), problem };
        // Some editors write a byte order mark.
        let json = without_comments(json.trim_start_matches('\u{feff}'));
        strict::check(&json).map_err(|error| failed(error.to_string()))?;
        let file: Value = serde_json::from_str(&json).map_err(|error| failed(error.to_string()))?;
        let named = SERVERS.iter().find_map(|name| Some((*name, file.get(*name)?)));
        let entries = match (named, &file) {
            (Some((_, Value::Object(entries))), _) => entries,
            (Some((name, _)), _) => {
                return Err(failed(format!(
                    "`{name}` is not an object with an entry for each server"
                )));
            }
            // Without a known object, each field of the file has to be an entry.
            (None, Value::Object(entries))
                if !entries.is_empty() && entries.values().all(has_form) =>
            {
                entries
            }
            _ => {
                let problem = "missing field `mcpServers`; write `{\"mcpServers\": {\"NAME\": {\"command\": \"..\"}}}`";
                return Err(failed(problem.to_owned()));
            }
        };
        let mut servers = BTreeMap::new();
        for (name, entry) in entries.iter().filter(|(_, entry)| !is_disabled(entry)) {
            let own = usable_name(name);
            // Two different names can become equal by the replacement of characters.
            if servers.insert(own.clone(), entry.clone()).is_some() {
                return Err(failed(format!("two servers are called `{own}`; rename one of them")));
            }
        }
        Ok(Self { at, servers })
    }

    /// Returns the names of all servers that are not disabled, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }

    /// Keeps only these servers. A program that reads a file written for other programs should list
    /// the servers that it may start.
    ///
    /// # Errors
    /// [`McpError::Config`] if a name is unknown.
    pub fn allow<S: AsRef<str>>(
        mut self,
        names: impl IntoIterator<Item = S>,
    ) -> Result<Self, McpError> {
        let names: BTreeSet<String> =
            names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        if let Some(unknown) = names.iter().find(|name| !self.servers.contains_key(*name)) {
            let near = did_you_mean(nearest(unknown, self.names()));
            return Err(McpError::Config {
                at: self.at,
                problem: format!("there is no server `{unknown}`{near}"),
            });
        }
        self.servers.retain(|name, _| names.contains(name));
        Ok(self)
    }

    /// Returns the builder of one server, so that the program can change further settings.
    ///
    /// # Errors
    /// [`McpError::Config`] if the name is unknown, or this program cannot use the entry, for
    /// example because a variable is not set.
    pub fn server(&self, name: &str) -> Result<McpClientBuilder, McpError> {
        let failed = |problem: String| McpError::Config { at: self.at.clone(), problem };
        let Some(entry) = self.servers.get(name) else {
            let near = did_you_mean(nearest(name, self.names()));
            return Err(failed(format!("there is no server `{name}`{near}")));
        };
        let entry = ConfigEntry::read(entry, &|name| std::env::var(name).ok());
        entry
            .and_then(|entry| entry.builder(name))
            .map_err(|problem| failed(format!("`{name}`: {problem}")))
    }

    /// Creates a client for each server, ordered by name. Starts no server.
    ///
    /// # Errors
    /// The same as [`server`](Self::server).
    pub fn clients(&self) -> Result<Vec<McpClient>, McpError> {
        self.names().map(|name| self.server(name)?.build()).collect()
    }
}

/// Returns the name with each character replaced that a tool name cannot contain.
fn usable_name(name: &str) -> String {
    let sign = |sign: char| {
        if sign.is_ascii_alphanumeric() || sign == '_' || sign == '-' { sign } else { '_' }
    };
    name.trim().chars().map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<McpConfig, String> {
        McpConfig::read(None, json).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_a_file_of_servers_is_refused_with_its_place() {
        for (json, says) in [
            ("{}", "missing field `mcpServers`"),
            (r#"{"editor": {"theme": "dark"}}"#, "missing field `mcpServers`"),
            ("[", "EOF"),
            (r#"{"mcpServers": []}"#, "`mcpServers` is not an object"),
            (r#"{"mcpServers": {"a": {"command": "c"}, "a": {"command": "d"}}}"#, "`a`"),
            (r#"{"mcpServers": {"a b": {"command": "c"}, "a/b": {"command": "d"}}}"#, "`a_b`"),
        ] {
            let error = read(json).unwrap_err();
            assert!(
                error.starts_with("the MCP servers cannot be read: ") && error.contains(says),
                "{json}: {error}"
            );
        }
    }

    #[test]
    fn a_mistake_is_an_error_of_its_server_alone() {
        let config = read(
            r#"{"mcpServers": {
                "good": {"command": "c", "args": null, "env": null, "headers": null, "disabled": null},
                "files": {"url": "u", "command": "c"}, "old": {"type": "sse", "url": "http://127.0.0.1/sse"},
                "off": {"disabled": true}, "a": {}, "new": {"type": "ws", "url": "ws://127.0.0.1"},
                "unset": {"command": "c", "env": {"KEY": "${NO_SUCH_VARIABLE}"}}, "open": {"command": "${KEY"},
                "pairs": {"command": "c", "env": []}, "one": {"command": "c", "args": "x"}, "number": {"command": 7},
                "unset_url": {"url": "http://127.0.0.1:${NO_SUCH_PORT}/mcp"}, "text": "c", "empty": {"command": []}
            }}"#,
        );
        let config = config.unwrap();
        assert!(config.server("good").is_ok());
        for (name, says) in [
            ("files", "either a `command` or a `url`"),
            ("a", "either a `command` or a `url`"),
            ("old", "`sse` is one that the protocol no longer has"),
            ("new", "the type `ws` does not fit"),
            ("file", "`files`"),
            ("off", "no server"),
            ("unset", "the variable `NO_SUCH_VARIABLE` is not set"),
            ("unset_url", "the variable `NO_SUCH_PORT` is not set"),
            ("open", "without its `}`"),
            ("pairs", "`env` is a list, and should be an object of texts"),
            ("one", "`args` is a text, and should be a list of texts"),
            ("number", "`command` is a number, and should be a text"),
            ("text", "an entry is an object"),
            ("empty", "`command` is an empty list"),
        ] {
            let error = config.server(name).map(drop).unwrap_err().to_string();
            assert!(error.contains(says), "{name}: {error}");
            assert!(error.contains(&format!("`{name}`")), "{name}: {error}");
        }
        assert_eq!(config.clone().allow(["good"]).unwrap().clients().unwrap().len(), 1);
        assert!(config.allow(["fils"]).unwrap_err().to_string().contains("`files`"));
    }

    #[test]
    fn the_forms_of_other_programs_are_read() {
        for json in [
            r#"{"servers": {"time": {"type": "stdio", "command": "mcp-time"}}, "inputs": []}"#,
            r#"{"time": {"command": "mcp-time"}}"#,
            "\u{feff}{\n  // servers\n  \"mcpServers\": {\"time\": {\"command\": \"mcp-time\", /* none */ \"args\": [],},},\n}",
            r#"{"mcpServers": {"time": {"type": "local", "command": ["mcp-time", "--utc"]}}}"#,
            r#"{"mcpServers": {"time": {"command": "mcp-time", "transport_type": "stdio", "connection_timeout": 30}}}"#,
            r#"{"mcpServers": {" time ": {"command": "mcp-time"}}}"#,
        ] {
            let config = read(json).unwrap();
            assert_eq!(config.names().collect::<Vec<_>>(), ["time"], "{json}");
            assert!(config.server("time").is_ok());
        }
        let named = read(r#"{"mcpServers": {"my time/server": {"command": "c"}}}"#).unwrap();
        assert_eq!(named.names().collect::<Vec<_>>(), ["my_time_server"]);
        named.clients().unwrap();
    }

    #[cfg(feature = "http")]
    #[test]
    fn a_server_at_an_address_has_many_forms() {
        for entry in [
            r#"{"httpUrl": "http://127.0.0.1/mcp"}"#,
            r#"{"type": "remote", "url": "http://127.0.0.1/mcp", "headers": {"a": "b"}}"#,
            r#"{"type": "streamable_http", "url": "http://127.0.0.1/mcp"}"#,
            r#"{"type": "http", "serverUrl": "http://127.0.0.1/mcp"}"#,
            r#"{"endpoint": "http://127.0.0.1/mcp", "transport_type": "http", "connection_timeout": 30}"#,
        ] {
            let config = read(&format!(r#"{{"mcpServers": {{"far": {entry}}}}}"#)).unwrap();
            assert_eq!(config.clients().unwrap().len(), 1, "{entry}");
        }
    }
}
