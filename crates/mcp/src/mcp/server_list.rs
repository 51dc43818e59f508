//! Reads a server's lists page by page, with limits for pages, entries, bytes and time.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use rmcp::model::{
    ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
    ListToolsRequest, PaginatedRequestParams, Prompt, Resource, ResourceTemplate, ServerResult,
    Tool,
};
use serde::Serialize;
use tokio::time::Instant;

use super::connection::Connection;
use super::mcp_error::McpError;
use super::mcp_settings::Settings;

/// Maximum number of pages of a list.
const MOST_PAGES: usize = 100;
/// Maximum number of entries of a list.
const MOST_ENTRIES: usize = 1000;

/// A complete list, or the beginning of a list that exceeds a limit.
pub(super) struct Listed<T> {
    /// The entries, in the server's order.
    pub(super) entries: Vec<T>,
    /// Time that the list stays valid, if the server limits it: the shortest time of all pages.
    pub(super) fresh_for: Option<Duration>,
    /// Reason why the rest of the list was not read.
    pub(super) cut: Option<String>,
}

/// A page of a list.
struct Page<T> {
    entries: Vec<T>,
    next: Option<String>,
    /// Validity of the page in milliseconds.
    fresh_for: Option<u64>,
}

/// Kind of a list.
#[derive(Clone, Copy)]
struct ListKind {
    request: &'static str,
    /// Name of the entries in error messages.
    what: &'static str,
    /// Returns the beginning of a list that exceeds a limit, instead of an error. For tools, an
    /// error would make all agents with this server fail.
    keeps_beginning: bool,
}

const TOOLS: ListKind = ListKind { request: "tools/list", what: "tools", keeps_beginning: true };
const RESOURCES: ListKind =
    ListKind { request: "resources/list", what: "resources", keeps_beginning: false };
const TEMPLATES: ListKind = ListKind {
    request: "resources/templates/list",
    what: "templates of resources",
    keeps_beginning: false,
};
const PROMPTS: ListKind =
    ListKind { request: "prompts/list", what: "prompts", keeps_beginning: false };

/// Reads all tools of a server, or the beginning of a list that exceeds a limit.
pub(super) async fn tools(
    connection: &Connection,
    settings: &Settings,
) -> Result<Listed<Tool>, McpError> {
    let ask = |params| {
        ClientRequest::ListToolsRequest(ListToolsRequest { params, ..ListToolsRequest::default() })
    };
    let page = |answer| match answer {
        ServerResult::ListToolsResult(of) => {
            Some(Page { entries: of.tools, next: of.next_cursor, fresh_for: of.ttl_ms })
        }
        _ => None,
    };
    all_pages(connection, settings, TOOLS, ask, page).await
}

/// Reads all resources of a server.
pub(super) async fn resources(
    connection: &Connection,
    settings: &Settings,
) -> Result<Listed<Resource>, McpError> {
    let ask = |params| {
        ClientRequest::ListResourcesRequest(ListResourcesRequest {
            params,
            ..ListResourcesRequest::default()
        })
    };
    let page = |answer| match answer {
        ServerResult::ListResourcesResult(of) => {
            Some(Page { entries: of.resources, next: of.next_cursor, fresh_for: of.ttl_ms })
        }
        _ => None,
    };
    all_pages(connection, settings, RESOURCES, ask, page).await
}

/// Reads all resource templates of a server.
pub(super) async fn resource_templates(
    connection: &Connection,
    settings: &Settings,
) -> Result<Listed<ResourceTemplate>, McpError> {
    let ask = |params| {
        let request =
            ListResourceTemplatesRequest { params, ..ListResourceTemplatesRequest::default() };
        ClientRequest::ListResourceTemplatesRequest(request)
    };
    let page = |answer| match answer {
        ServerResult::ListResourceTemplatesResult(of) => Some(Page {
            entries: of.resource_templates,
            next: of.next_cursor,
            fresh_for: of.ttl_ms,
        }),
        _ => None,
    };
    all_pages(connection, settings, TEMPLATES, ask, page).await
}

/// Reads all prompts of a server.
pub(super) async fn prompts(
    connection: &Connection,
    settings: &Settings,
) -> Result<Listed<Prompt>, McpError> {
    let ask = |params| {
        ClientRequest::ListPromptsRequest(ListPromptsRequest {
            params,
            ..ListPromptsRequest::default()
        })
    };
    let page = |answer| match answer {
        ServerResult::ListPromptsResult(of) => {
            Some(Page { entries: of.prompts, next: of.next_cursor, fresh_for: of.ttl_ms })
        }
        _ => None,
    };
    all_pages(connection, settings, PROMPTS, ask, page).await
}

/// Reads all pages within the time for one call.
async fn all_pages<T: Serialize>(
    connection: &Connection,
    settings: &Settings,
    ListKind { request, what, keeps_beginning }: ListKind,
    ask: impl Fn(Option<PaginatedRequestParams>) -> ClientRequest,
    page: impl Fn(ServerResult) -> Option<Page<T>>,
) -> Result<Listed<T>, McpError> {
    let (limit, most_bytes) = (settings.call_timeout, settings.max_message);
    let deadline = Instant::now() + limit;
    let (mut entries, mut bytes, mut fresh_for) = (Vec::new(), Bytes(0), None::<u64>);
    let (mut cursor, mut seen, mut page_count) = (None::<String>, BTreeSet::new(), 0);
    loop {
        let params =
            cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        // All pages share one deadline.
        let left = deadline.saturating_duration_since(Instant::now());
        let answer = connection.request_within(request, ask(params), left).await;
        let answer = answer.map_err(|error| with_total_limit(error, limit))?;
        let Page { entries: more, next, fresh_for: of_page } =
            page(answer).ok_or_else(|| connection.unexpected(request))?;
        // The received page was JSON of at least this size.
        let _ = serde_json::to_writer(&mut bytes, &more);
        fresh_for = fresh_for.into_iter().chain(of_page).min();
        page_count += 1;
        let mut problem = None;
        if bytes.0 > most_bytes {
            problem = Some(format!("its pages have more than {most_bytes} bytes"));
        } else {
            entries.extend(more);
        }
        if entries.len() > MOST_ENTRIES {
            entries.truncate(MOST_ENTRIES);
            problem = Some(format!("it has more than {MOST_ENTRIES} {what}"));
        }
        // A cursor that repeats would make the loop endless.
        let is_known = next.as_ref().is_some_and(|next| !seen.insert(next.clone()));
        if is_known {
            problem = problem.or_else(|| Some("one of its pages leads back to itself".to_owned()));
        } else if next.is_some() && page_count == MOST_PAGES {
            problem = problem.or_else(|| Some(format!("it has more than {MOST_PAGES} pages")));
        }
        match (problem, next) {
            (Some(problem), _) if !keeps_beginning => {
                return Err(connection.unusable(request, problem));
            }
            (None, Some(next)) => cursor = Some(next),
            (cut, _) => {
                return Ok(Listed {
                    entries,
                    fresh_for: fresh_for.map(Duration::from_millis),
                    cut,
                });
            }
        }
    }
}

/// Replaces the remaining time in a time-out error with the limit for all pages.
fn with_total_limit(error: McpError, limit: Duration) -> McpError {
    match error {
        McpError::Silent { server, request, .. } => McpError::Silent { server, request, limit },
        other => other,
    }
}

/// A writer that only counts bytes.
struct Bytes(usize);

impl io::Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
