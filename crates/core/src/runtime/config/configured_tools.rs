//! Tools of the library in a configuration: their limits, and the hosts and folders that they reach. It calls none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::entry_problem::EntryProblem;
use crate::model::SecretProvider;
use crate::tool::ToolRef;

/// Tools of the library that a configuration gives to a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ToolSettings {
    /// The tool `http_request`. Replaces the program's tool of this name.
    pub http_request: Option<HttpRequestSettings>,
    /// The tool `alert`.
    pub alert: Option<AlertSettings>,
    /// The tools `storage_list`, `storage_read`, `storage_write` and `storage_append`.
    pub storage: Option<StorageSettings>,
    /// Tools that are described by files.
    pub api: Option<ApiToolSettings>,
}

/// The tool [`HttpRequest`](crate::tools::HttpRequest) in a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct HttpRequestSettings {
    /// The only hosts that are requested. Default: any host of the public internet.
    pub hosts: Option<Vec<String>>,
    /// Methods. Default: `GET` and `HEAD`.
    pub methods: Option<Vec<String>>,
    /// Headers for one host, such as a key: by the host, then by the header.
    pub headers: BTreeMap<String, BTreeMap<String, String>>,
    /// Networks beside the public internet that may be reached, such as `10.1.0.0/16`.
    pub networks: Vec<String>,
    /// Maximum size of a body, in bytes. Default: 1 MiB.
    pub max_bytes: Option<usize>,
    /// The longest that a call may take, in milliseconds. Default: 30,000.
    pub timeout_ms: Option<u64>,
}

/// The tool [`Alert`](crate::tools::Alert) in a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AlertSettings {
    /// The address of the webhook, as in `${ALERTS}`.
    pub url: String,
    /// The field that has the message. Default: `message`.
    pub field: Option<String>,
    /// Networks beside the public internet that may be reached.
    pub networks: Vec<String>,
}

/// The tools of a [`Storage`](crate::tools::Storage) in a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct StorageSettings {
    /// The folder. It has to be there.
    pub folder: PathBuf,
    /// The folders within it that may be written. Default: all of it.
    pub writable: Option<Vec<PathBuf>>,
    /// Leaves out the tools that write.
    pub read_only: bool,
    /// Maximum size of a file, in bytes. Default: 1 MiB.
    pub max_bytes: Option<u64>,
}

/// Folders of tools that are described by files: an [`ApiTool`](crate::tools::ApiTool) or a
/// [`GraphqlTool`](crate::tools::GraphqlTool) each, or an [`OpenApi`](crate::tools::OpenApi) document with an operation for each
/// tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ApiToolSettings {
    /// The folders. Files that end in `.yaml`, `.yml` or `.json` are read.
    pub folders: Vec<PathBuf>,
    /// The only hosts that are called. Required for descriptions with a key.
    pub hosts: Option<Vec<String>>,
    /// Names of keys by the security schemes of OpenAPI documents.
    pub keys: BTreeMap<String, String>,
    /// Networks beside the public internet that may be reached.
    pub networks: Vec<String>,
    /// Maximum size of all answers to one call, in bytes. Default: 1 MiB.
    pub max_bytes: Option<usize>,
    /// The longest that a call may take, in milliseconds. Default: 30,000.
    pub timeout_ms: Option<u64>,
}

/// Tools, and the entries that cannot be used.
#[derive(Default)]
pub(super) struct MadeTools {
    pub(super) tools: Vec<ToolRef>,
    /// By the names of the entries.
    pub(super) problems: Vec<(String, EntryProblem)>,
}

impl MadeTools {
    fn add(&mut self, entry: &str, made: Result<Vec<ToolRef>, EntryProblem>) {
        match made {
            Ok(tools) => self.tools.extend(tools),
            Err(problem) => self.problems.push((entry.to_owned(), problem)),
        }
    }
}

impl ToolSettings {
    /// Resolves relative paths in a folder.
    pub(super) fn in_folder(mut self, folder: &Path) -> Self {
        let storage = self.storage.iter_mut().map(|storage| &mut storage.folder);
        for path in storage.chain(self.api.iter_mut().flat_map(|api| &mut api.folders)) {
            *path = folder.join(&*path);
        }
        self
    }

    pub(super) async fn made(self, secrets: &Arc<dyn SecretProvider>) -> MadeTools {
        let mut all = MadeTools::default();
        if let Some(request) = self.http_request {
            all.add("tools.http_request", request.made(secrets).await);
        }
        if let Some(alert) = self.alert {
            all.add("tools.alert", alert.made(secrets).await);
        }
        if let Some(storage) = self.storage {
            all.add("tools.storage", storage.made());
        }
        if let Some(api) = self.api {
            api.add_to(&mut all, secrets);
        }
        all
    }
}

#[cfg(feature = "a2a-client")]
pub(super) use self::with_http::guard;

#[cfg(feature = "tool-http")]
mod with_http {
    use std::time::Duration;

    use super::{Arc, EntryProblem, HttpRequestSettings, SecretProvider, ToolRef};
    use crate::model::Secret;
    use crate::runtime::config::entry_problem::fill;
    use crate::tools::{AddressGuard, HttpRequest};

    impl HttpRequestSettings {
        pub(super) async fn made(mut self, secrets: &Arc<dyn SecretProvider>) -> Result<Vec<ToolRef>, EntryProblem> {
            fill(self.headers.values_mut().flat_map(|headers| headers.values_mut()), secrets).await?;
            let mut request = HttpRequest::new().guard(guard(&self.networks)?);
            request = self.hosts.into_iter().fold(request, HttpRequest::hosts);
            if let Some(methods) = &self.methods {
                request = request.methods(methods.iter().map(String::as_str));
            }
            for (host, headers) in self.headers {
                for (name, value) in headers {
                    request = request.secret_header(&host, name, Secret::new(value));
                }
            }
            request = self.max_bytes.into_iter().fold(request, HttpRequest::max_bytes);
            request = self.timeout_ms.map(Duration::from_millis).into_iter().fold(request, HttpRequest::timeout);
            Ok(vec![request.tool().into()])
        }
    }

    /// Reads networks such as `10.1.0.0/16`.
    pub(in crate::runtime::config) fn guard(networks: &[String]) -> Result<AddressGuard, EntryProblem> {
        let mut guard = AddressGuard::default();
        for network in networks {
            let (address, bits) = network.split_once('/').unwrap_or((network, "128"));
            guard = match (address.parse(), bits.parse()) {
                (Ok(address), Ok(bits)) => guard.allow(address, bits),
                _ => return Err(format!("`{network}` is not a network; write one such as `10.1.0.0/16`").into()),
            };
        }
        Ok(guard)
    }
}

#[cfg(feature = "tool-api")]
mod with_api {
    use super::with_http::guard;
    use super::{AlertSettings, Arc, EntryProblem, SecretProvider, ToolRef};
    use crate::model::Secret;
    use crate::runtime::config::entry_problem::fill;
    use crate::tools::{Alert, ApiAccess};

    /// The name of the address among the keys of the tool.
    const ADDRESS: &str = "ALERT";

    impl AlertSettings {
        pub(super) async fn made(mut self, secrets: &Arc<dyn SecretProvider>) -> Result<Vec<ToolRef>, EntryProblem> {
            fill([&mut self.url], secrets).await?;
            if self.url.is_empty() {
                return Err("it needs a `url`".into());
            }
            let access = ApiAccess::new().secret(ADDRESS, Secret::new(self.url)).guard(guard(&self.networks)?);
            let alert = Alert::new(ADDRESS).access(access);
            Ok(vec![self.field.into_iter().fold(alert, Alert::field).tool().into()])
        }
    }
}

#[cfg(all(feature = "documents", feature = "tool-api"))]
mod with_descriptions {
    use std::time::Duration;

    use super::with_http::guard;
    use super::{ApiToolSettings, Arc, MadeTools, SecretProvider};
    use crate::document::Document;
    use crate::text_file;
    use crate::tools::{ApiAccess, MOST_DESCRIBED_BYTES, described_tools};

    impl ApiToolSettings {
        pub(super) fn add_to(self, all: &mut MadeTools, secrets: &Arc<dyn SecretProvider>) {
            let guard = match guard(&self.networks) {
                Ok(guard) => guard,
                Err(problem) => return all.problems.push(("tools.api".to_owned(), problem)),
            };
            let mut access = ApiAccess::new().guard(guard).secrets(Arc::clone(secrets));
            access = self.hosts.into_iter().fold(access, ApiAccess::hosts);
            access = self.max_bytes.into_iter().fold(access, ApiAccess::max_bytes);
            access = self.timeout_ms.map(Duration::from_millis).into_iter().fold(access, ApiAccess::timeout);
            for folder in &self.folders {
                let paths = match Document::paths_in(folder) {
                    Ok(paths) => paths,
                    Err(error) => {
                        all.problems.push(("tools.api".to_owned(), error.to_string().into()));
                        continue;
                    }
                };
                for path in paths {
                    let entry = format!("tools.api, {}", path.display());
                    let text = text_file::within(folder, &path);
                    let text = text.and_then(|path| text_file::read(&path, MOST_DESCRIBED_BYTES));
                    let text = match text {
                        Ok(text) => text,
                        Err(error) => {
                            all.problems.push((entry, error.to_string().into()));
                            continue;
                        }
                    };
                    let (tools, errors) = described_tools(&text, &access, &self.keys);
                    all.tools.extend(tools.into_iter().map(Into::into));
                    for error in errors {
                        // A person who writes the file has fields, not methods.
                        let problem = error.to_string().replace("`ApiAccess::hosts`", "`hosts`");
                        all.problems.push((entry.clone(), problem.into()));
                    }
                }
            }
        }
    }
}

#[cfg(feature = "tool-storage")]
impl StorageSettings {
    fn made(self) -> Result<Vec<ToolRef>, EntryProblem> {
        let in_words = |error: std::io::Error| EntryProblem(format!("the folder `{}`: {error}", self.folder.display()));
        let mut storage = crate::tools::Storage::open(&self.folder).map_err(in_words)?;
        if let Some(writable) = &self.writable {
            storage = storage.writable(writable).map_err(in_words)?;
        }
        storage = self.max_bytes.into_iter().fold(storage, crate::tools::Storage::max_bytes);
        let tools = if self.read_only { storage.reading_tools() } else { storage.tools() };
        Ok(tools.into_iter().map(Into::into).collect())
    }
}

/// Errors of entries in a build without their features.
mod without_features {
    #![allow(clippy::unused_async, clippy::unused_self, unused_imports, reason = "the same with the features")]

    use super::{
        AlertSettings, ApiToolSettings, Arc, EntryProblem, HttpRequestSettings, MadeTools, SecretProvider,
        StorageSettings, ToolRef,
    };

    #[cfg(not(feature = "tool-http"))]
    impl HttpRequestSettings {
        pub(super) async fn made(self, _: &Arc<dyn SecretProvider>) -> Result<Vec<ToolRef>, EntryProblem> {
            Err("it needs the feature `tool-http`, without which this program is built".into())
        }
    }

    #[cfg(not(feature = "tool-api"))]
    impl AlertSettings {
        pub(super) async fn made(self, _: &Arc<dyn SecretProvider>) -> Result<Vec<ToolRef>, EntryProblem> {
            Err("it needs the feature `tool-api`, without which this program is built".into())
        }
    }

    #[cfg(not(all(feature = "documents", feature = "tool-api")))]
    impl ApiToolSettings {
        pub(super) fn add_to(self, all: &mut MadeTools, _: &Arc<dyn SecretProvider>) {
            let problem = "it needs the features `documents` and `tool-api`, without which this program is built";
            all.problems.push(("tools.api".to_owned(), problem.into()));
        }
    }

    #[cfg(not(feature = "tool-storage"))]
    impl StorageSettings {
        pub(super) fn made(self) -> Result<Vec<ToolRef>, EntryProblem> {
            Err("it needs the feature `tool-storage`, without which this program is built".into())
        }
    }
}
