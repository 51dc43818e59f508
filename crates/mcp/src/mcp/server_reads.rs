//! Reads of a server other than its tools: the lists of resources and prompts, one resource, and
//! one prompt. Reads do not change the server, so a read over a lost connection is repeated once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentflow_schema::text::head;
use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, InputRequiredResult, JsonObject,
    ReadResourceRequest, ReadResourceRequestParams, ServerCapabilities, ServerResult,
};

use super::connection::Connection;
use super::elicited;
use super::kept_list::CachedServerList;
use super::mcp_error::McpError;
use super::mcp_prompt::{self, McpPrompt};
use super::mcp_resource::{McpContent, McpResource, McpResourceTemplate};
use super::mcp_settings::Settings;
use super::server_link::ServerLink;
use super::server_list::{self, Listed};
use agentflow_core::__private::extension::BoxFuture;
use agentflow_core::message::Message;

/// Maximum number of bytes of a server's question in an error.
const MOST_QUESTION: usize = 2048;

/// Function that fetches a list.
type FetchList<R> =
    for<'a> fn(&'a Connection, &'a Settings) -> BoxFuture<'a, Result<Listed<R>, McpError>>;
/// Function that returns `Some(true)` if the server announces changes of a list, and `None` if the
/// server does not have the list.
type Says = fn(&ServerCapabilities) -> Option<bool>;

/// Reads of one server, with the caches of its lists.
pub(super) struct ServerReads {
    pub(super) link: Arc<ServerLink>,
    resources: CachedServerList<McpResource>,
    templates: CachedServerList<McpResourceTemplate>,
    prompts: CachedServerList<McpPrompt>,
}

impl ServerReads {
    pub(super) fn new(link: Arc<ServerLink>) -> Self {
        Self {
            link,
            resources: CachedServerList::default(),
            templates: CachedServerList::default(),
            prompts: CachedServerList::default(),
        }
    }

    pub(super) async fn resources(&self) -> Result<Arc<[McpResource]>, McpError> {
        let ask: FetchList<_> =
            |connection, settings| Box::pin(server_list::resources(connection, settings));
        self.listed(
            &self.resources,
            &self.link.versions.resources,
            of_resources,
            ask,
            McpResource::all,
        )
        .await
    }

    pub(super) async fn templates(&self) -> Result<Arc<[McpResourceTemplate]>, McpError> {
        let ask: FetchList<_> =
            |connection, settings| Box::pin(server_list::resource_templates(connection, settings));
        self.listed(
            &self.templates,
            &self.link.versions.resources,
            of_resources,
            ask,
            McpResourceTemplate::all,
        )
        .await
    }

    pub(super) async fn prompts(&self) -> Result<Arc<[McpPrompt]>, McpError> {
        let ask: FetchList<_> =
            |connection, settings| Box::pin(server_list::prompts(connection, settings));
        let of_prompts: Says = |capabilities| {
            capabilities.prompts.as_ref().map(|prompts| prompts.list_changed == Some(true))
        };
        self.listed(&self.prompts, &self.link.versions.prompts, of_prompts, ask, McpPrompt::all)
            .await
    }

    /// Returns a list from its cache, or fetches it. The list is empty if the server does not offer
    /// it. `says` reads the server's capabilities for the list.
    async fn listed<R, T>(
        &self,
        kept: &CachedServerList<T>,
        version: &AtomicU64,
        says: Says,
        ask: FetchList<R>,
        all: fn(Vec<R>) -> Vec<T>,
    ) -> Result<Arc<[T]>, McpError> {
        let mut is_second = false;
        loop {
            // Changes are announced only over an open connection. After a reconnect, all lists
            // count as changed.
            let connection = self.link.connection().await?;
            if let Some(kept) = kept.kept(version) {
                return Ok(kept);
            }
            // The version is read before the request, so a change during the request makes the
            // result outdated.
            let version = version.load(Ordering::SeqCst);
            let says_changes =
                connection.info().map(|info| says(&info.capabilities)).unwrap_or_default();
            let Some(says_changes) = says_changes else { return Ok(Arc::from([])) };
            match ask(&connection, &self.link.described.settings).await {
                Err(error) if error.is_lost() && !is_second => is_second = true,
                // A server without templates may answer "method not found" (-32601).
                Err(McpError::Refused { code: -32601, .. }) => return Ok(Arc::from([])),
                listed => {
                    let Listed { entries, fresh_for, .. } = answered(&connection, listed)?;
                    return Ok(kept.keep(version, fresh_for, says_changes, all(entries)));
                }
            }
        }
    }

    pub(super) async fn resource(&self, uri: &str) -> Result<Vec<McpContent>, McpError> {
        const REQUEST: &str = "resources/read";
        let request = || {
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(
                ReadResourceRequestParams::new(uri),
            ))
        };
        let (connection, answer) = self.asked(REQUEST, request).await?;
        let ServerResult::ReadResourceResult(result) = answer else {
            return Err(self.missing_result_error(&connection, REQUEST, answer));
        };
        McpContent::all(result.contents).map_err(|problem| connection.unusable(REQUEST, problem))
    }

    pub(super) async fn prompt(
        &self,
        name: &str,
        arguments: &[(&str, &str)],
    ) -> Result<Vec<Message>, McpError> {
        const REQUEST: &str = "prompts/get";
        let arguments: JsonObject =
            arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let request = || {
            let params = GetPromptRequestParams::new(name);
            let params = if arguments.is_empty() {
                params
            } else {
                params.with_arguments(arguments.clone())
            };
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        };
        let (connection, answer) = self.asked(REQUEST, request).await?;
        let ServerResult::GetPromptResult(result) = answer else {
            return Err(self.missing_result_error(&connection, REQUEST, answer));
        };
        mcp_prompt::messages(result.messages)
            .map_err(|problem| connection.unusable(REQUEST, problem))
    }

    /// Sends a request. If the connection is lost, sends it once more over a new connection.
    async fn asked(
        &self,
        name: &'static str,
        request: impl Fn() -> ClientRequest,
    ) -> Result<(Arc<Connection>, ServerResult), McpError> {
        let mut is_second = false;
        loop {
            let connection = self.link.connection().await?;
            // Questions that arrive during this request must not be assigned to a running tool
            // call.
            let open = connection.questions().of_call(false);
            let answer = connection
                .request_within(name, request(), self.link.described.settings.call_timeout)
                .await;
            drop(open);
            match answer {
                Err(error) if error.is_lost() && !is_second => is_second = true,
                answer => {
                    let answer = answered(&connection, answer)?;
                    return Ok((connection, answer));
                }
            }
        }
    }

    /// Returns the error for a response that is not a result.
    fn missing_result_error(
        &self,
        connection: &Connection,
        request: &'static str,
        answer: ServerResult,
    ) -> McpError {
        let ServerResult::InputRequiredResult(InputRequiredResult { input_requests, .. }) = answer
        else {
            return connection.unexpected(request);
        };
        let server = Arc::clone(self.link.name());
        let asked = input_requests.unwrap_or_default().into_values().next();
        let question = match asked.map(|asked| elicited::question(&server, &asked)) {
            Some(Ok(question)) => question.message,
            Some(Err(problem)) => format!("it {problem}"),
            None => return connection.unusable(request, "it puts the answer off".to_owned()),
        };
        let question = head(&self.link.described.masked(&question), MOST_QUESTION).to_owned();
        McpError::Asks { server, request, question }
    }
}

/// Returns `Some(true)` if the server announces changes of its resources, and `None` if it has
/// none.
fn of_resources(capabilities: &ServerCapabilities) -> Option<bool> {
    capabilities.resources.as_ref().map(|resources| resources.list_changed == Some(true))
}

/// Records the success of a request at its connection.
fn answered<T>(connection: &Connection, answer: Result<T, McpError>) -> Result<T, McpError> {
    if answer.is_ok() {
        connection.count_answer();
    }
    answer
}
