//! Draws a graph as SVG.

use agentflow_views::layout::{Diagram, SvgWriter};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api_error::{ApiError, ApiResult};

/// Maximum number of nodes of a drawing. A larger one takes seconds and shows little.
const MAX_NODES: usize = 3000;

/// Parameters of a drawing.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(super) struct DrawingQuery {
    /// `false` leaves out the style sheet, for a page that has it already. Default: `true`.
    #[serde(default = "is_standalone")]
    standalone: bool,
}

fn is_standalone() -> bool {
    true
}

/// Draws a diagram on a blocking thread, since the layout of a large one takes a while.
///
/// # Errors
/// 422 if the graph has too many nodes.
pub(super) async fn draw(
    nodes: usize,
    query: DrawingQuery,
    diagram: impl FnOnce() -> Diagram + Send + 'static,
) -> ApiResult<Response> {
    if nodes > MAX_NODES {
        let detail = format!("the graph has {nodes} nodes, more than the {MAX_NODES} of a drawing");
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "too_many_nodes", detail));
    }
    let written = tokio::task::spawn_blocking(move || {
        let layout = diagram().layout();
        let writer = match query.standalone {
            true => SvgWriter::new(),
            false => SvgWriter::new().without_style_sheet(),
        };
        writer.write(&layout)
    });
    match written.await {
        Ok(svg) => Ok(([(header::CONTENT_TYPE, "image/svg+xml")], svg).into_response()),
        Err(error) => {
            tracing::error!(%error, "a graph could not be drawn");
            let detail = "the graph could not be drawn; see the log of the server";
            Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "drawing", detail))
        }
    }
}
