//! Ready-made tools in a configuration: their limits, and the hosts and folders that they may
//! access.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::entry_problem::EntryProblem;
use agentflow_core::model::SecretProvider;
use agentflow_core::tool::ToolRef;

/// Ready-made tools that a configuration adds to a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ToolSettings {
    /// The tool `http_request`. It replaces the program's tool with this name.
    pub http_request: Option<HttpRequestSettings>,
    /// The tool `alert`.
    pub alert: Option<AlertSettings>,
    /// The tools `storage_list`, `storage_read`, `storage_write` and `storage_append`.
    pub storage: Option<StorageSettings>,
    /// Tools that are described by files.
    pub api: Option<ApiToolSettings>,
}

/// Settings of the tool [`HttpRequest`](agentflow_tools::HttpRequest).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct HttpRequestSettings {
    /// The only hosts that may be requested. Default: any host of the public internet.
    pub hosts: Option<Vec<String>>,
    /// Allowed methods. Default: `GET` and `HEAD`.
    pub methods: Option<Vec<String>>,
    /// Secret headers, such as keys: by host, then by header name.
    pub headers: BTreeMap<String, BTreeMap<String, String>>,
    /// Networks outside the public internet that may be accessed, such as `10.1.0.0/16`.
    pub networks: Vec<String>,
    /// Maximum size of a body, in bytes. Default: 1 MiB.
    pub max_bytes: Option<usize>,
    /// Maximum duration of a call, in milliseconds. Default: 30,000.
    pub timeout_ms: Option<u64>,
}

/// Settings of the tool [`Alert`](agentflow_tools::Alert).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AlertSettings {
    /// Address of the webhook, as in `${ALERTS}`.
    pub url: String,
    /// Field that contains the message. Default: `message`.
    pub field: Option<String>,
    /// Networks outside the public internet that may be accessed.
    pub networks: Vec<String>,
}

/// Settings of the tools of a [`Storage`](agentflow_tools::Storage).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct StorageSettings {
    /// Folder of the files. It must exist.
    pub folder: PathBuf,
    /// Subfolders that may be written. Default: the whole folder.
    pub writable: Option<Vec<PathBuf>>,
    /// Omits the tools that write.
    pub read_only: bool,
    /// Maximum size of a file, in bytes. Default: 1 MiB.
    pub max_bytes: Option<u64>,
}

/// Folders with files that describe tools. Each file describes an
/// [`ApiTool`](agentflow_tools::ApiTool), a [`GraphqlTool`](agentflow_tools::GraphqlTool), or is an
/// [`OpenApi`](agentflow_tools::OpenApi) document with an operation for each tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ApiToolSettings {
    /// The folders. Files that end in `.yaml`, `.yml` or `.json` are read.
    pub folders: Vec<PathBuf>,
    /// The only hosts that may be called. Required for descriptions with a key.
    pub hosts: Option<Vec<String>>,
    /// Names of keys, by the security schemes of OpenAPI documents.
    pub keys: BTreeMap<String, String>,
    /// Networks outside the public internet that may be accessed.
    pub networks: Vec<String>,
    /// Maximum total size of the responses to a call, in bytes. Default: 1 MiB.
    pub max_bytes: Option<usize>,
    /// Maximum duration of a call, in milliseconds. Default: 30,000.
    pub timeout_ms: Option<u64>,
}

/// The created tools, and the entries that cannot be used.
#[derive(Default)]
pub(super) struct ConfiguredTools {
    pub(super) tools: Vec<ToolRef>,
    /// Problems with the names of their entries.
    pub(super) problems: Vec<(String, EntryProblem)>,
}

impl ConfiguredTools {
    fn add(&mut self, entry: &str, made: Result<Vec<ToolRef>, EntryProblem>) {
        match made {
            Ok(tools) => self.tools.extend(tools),
            Err(problem) => self.problems.push((entry.to_owned(), problem)),
        }
    }
}

impl ToolSettings {
    /// Resolves relative paths against a folder.
    pub(super) fn in_folder(mut self, folder: &Path) -> Self {
        let storage = self.storage.iter_mut().map(|storage| &mut storage.folder);
        for path in storage.chain(self.api.iter_mut().flat_map(|api| &mut api.folders)) {
            *path = folder.join(&*path);
        }
        self
    }

    pub(super) async fn made(self, secrets: &Arc<dyn SecretProvider>) -> ConfiguredTools {
        let mut all = ConfiguredTools::default();
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

    use super::{Arc, BTreeMap, EntryProblem, HttpRequestSettings, SecretProvider, ToolRef};
    use crate::entry_problem::fill;
    use agentflow_core::model::Secret;
    use agentflow_tools::{AddressGuard, HttpRequest};

    impl HttpRequestSettings {
        pub(super) async fn made(
            mut self,
            secrets: &Arc<dyn SecretProvider>,
        ) -> Result<Vec<ToolRef>, EntryProblem> {
            fill(self.headers.values_mut().flat_map(BTreeMap::values_mut).collect(), secrets)
                .await?;
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
            request = self
                .timeout_ms
                .map(Duration::from_millis)
                .into_iter()
                .fold(request, HttpRequest::timeout);
            Ok(vec![request.tool().into()])
        }
    }

    /// Parses networks such as `10.1.0.0/16`. An address without a prefix length is a single host.
    pub(crate) fn guard(networks: &[String]) -> Result<AddressGuard, EntryProblem> {
        let mut guard = AddressGuard::default();
        for network in networks {
            let (address, bits) = network.split_once('/').unwrap_or((network, "128"));
            guard = match (address.parse(), bits.parse()) {
                (Ok(address), Ok(bits)) => guard.allow(address, bits),
                _ => {
                    return Err(format!(
                        "`{network}` is not a network; write one such as `10.1.0.0/16`"
                    )
                    .into());
                }
            };
        }
        Ok(guard)
    }
}

#[cfg(feature = "tool-api")]
mod with_api {
    use super::with_http::guard;
    use super::{AlertSettings, Arc, EntryProblem, SecretProvider, ToolRef};
    use crate::entry_problem::fill;
    use agentflow_core::model::Secret;
    use agentflow_tools::{Alert, ApiAccess};

    /// Name of the webhook address among the secrets of the tool.
    const ADDRESS: &str = "ALERT";

    impl AlertSettings {
        pub(super) async fn made(
            mut self,
            secrets: &Arc<dyn SecretProvider>,
        ) -> Result<Vec<ToolRef>, EntryProblem> {
            fill(vec![&mut self.url], secrets).await?;
            if self.url.is_empty() {
                return Err("it needs a `url`".into());
            }
            let access = ApiAccess::new()
                .secret(ADDRESS, Secret::new(self.url))
                .guard(guard(&self.networks)?);
            let alert = Alert::new(ADDRESS).access(access);
            Ok(vec![self.field.into_iter().fold(alert, Alert::field).tool().into()])
        }
    }
}

#[cfg(all(feature = "documents", feature = "tool-api"))]
mod with_descriptions {
    use std::time::Duration;

    use super::with_http::guard;
    use super::{ApiToolSettings, Arc, ConfiguredTools, SecretProvider};
    use agentflow_core::__private::extension::text_file;
    use agentflow_core::document::Document;
    use agentflow_tools::__private::{MOST_DESCRIBED_BYTES, described_tools};
    use agentflow_tools::ApiAccess;

    impl ApiToolSettings {
        pub(super) fn add_to(self, all: &mut ConfiguredTools, secrets: &Arc<dyn SecretProvider>) {
            let guard = match guard(&self.networks) {
                Ok(guard) => guard,
                Err(problem) => return all.problems.push(("tools.api".to_owned(), problem)),
            };
            let mut access = ApiAccess::new().guard(guard).secrets(Arc::clone(secrets));
            access = self.hosts.into_iter().fold(access, ApiAccess::hosts);
            access = self.max_bytes.into_iter().fold(access, ApiAccess::max_bytes);
            access = self
                .timeout_ms
                .map(Duration::from_millis)
                .into_iter()
                .fold(access, ApiAccess::timeout);
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
                        // The author of a file knows fields, not methods.
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
        let in_words = |error: std::io::Error| {
            EntryProblem(format!("the folder `{}`: {error}", self.folder.display()))
        };
        let mut storage = agentflow_tools::Storage::open(&self.folder).map_err(in_words)?;
        if let Some(writable) = &self.writable {
            storage = storage.writable(writable).map_err(in_words)?;
        }
        storage = self.max_bytes.into_iter().fold(storage, agentflow_tools::Storage::max_bytes);
        let tools = if self.read_only { storage.reading_tools() } else { storage.tools() };
        Ok(tools.into_iter().map(Into::into).collect())
    }
}

/// Errors for entries whose feature is not compiled in.
mod without_features {
    #![allow(
        clippy::unused_async,
        clippy::unused_self,
        unused_imports,
        reason = "the same with the features"
    )]

    use super::{
        AlertSettings, ApiToolSettings, Arc, ConfiguredTools, EntryProblem, HttpRequestSettings,
        SecretProvider, StorageSettings, ToolRef,
    };

    #[cfg(not(feature = "tool-http"))]
    impl HttpRequestSettings {
        pub(super) async fn made(
            self,
            _: &Arc<dyn SecretProvider>,
        ) -> Result<Vec<ToolRef>, EntryProblem> {
            Err("it needs the feature `tool-http`, without which this program is built".into())
        }
    }

    #[cfg(not(feature = "tool-api"))]
    impl AlertSettings {
        pub(super) async fn made(
            self,
            _: &Arc<dyn SecretProvider>,
        ) -> Result<Vec<ToolRef>, EntryProblem> {
            Err("it needs the feature `tool-api`, without which this program is built".into())
        }
    }

    #[cfg(not(all(feature = "documents", feature = "tool-api")))]
    impl ApiToolSettings {
        pub(super) fn add_to(self, all: &mut ConfiguredTools, _: &Arc<dyn SecretProvider>) {
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
