//! The lists of a server, page by page, with a limit on pages and entries. It calls no tool.

use std::collections::BTreeSet;
use std::time::Duration;

use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool};

use super::connection::Connection;
use super::mcp_error::McpError;

/// The most pages of a list.
const MOST_PAGES: usize = 100;
/// The most entries of a list.
const MOST_ENTRIES: usize = 1000;

/// All tools of a server, in its order. `limit` is the longest for all pages together.
pub(super) async fn tools(connection: &Connection, limit: Duration) -> Result<Vec<Tool>, McpError> {
    const REQUEST: &str = "tools/list";
    let deadline = tokio::time::Instant::now() + limit;
    let (mut tools, mut cursor, mut seen) = (Vec::new(), None::<String>, BTreeSet::new());
    for _ in 0..MOST_PAGES {
        let page = cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let request = match page {
            Some(page) => ListToolsRequest::with_param(page),
            None => ListToolsRequest::default(),
        };
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        let answer = connection.ask_within(REQUEST, ClientRequest::ListToolsRequest(request), left).await;
        let ServerResult::ListToolsResult(page) = answer.map_err(|error| whole_limit(error, limit))? else {
            return Err(connection.unexpected(REQUEST));
        };
        tools.extend(page.tools);
        if tools.len() > MOST_ENTRIES {
            let problem = format!("it has more than {MOST_ENTRIES} tools");
            return Err(connection.unusable(REQUEST, problem));
        }
        match page.next_cursor {
            None => return Ok(tools),
            Some(next) if !seen.insert(next.clone()) => {
                return Err(connection.unusable(REQUEST, "one of its pages leads back to itself".to_owned()));
            }
            Some(next) => cursor = Some(next),
        }
    }
    Err(connection.unusable(REQUEST, format!("it has more than {MOST_PAGES} pages")))
}

/// A time-out is that of all pages, not of what was left for the last one.
fn whole_limit(error: McpError, limit: Duration) -> McpError {
    match error {
        McpError::Silent { server, request, .. } => McpError::Silent { server, request, limit },
        other => other,
    }
}
