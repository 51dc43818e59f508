//! Health of the process and of its runtime, and the OpenAPI document.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;

use crate::extract::JsonResponse;
use crate::operation::Operation;
use crate::server_options::ServerState;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/health", "getLiveness", "Returns that the process answers.")
            .returns::<Liveness>(StatusCode::OK, "The process answers.")
            .handler(liveness),
        Operation::get(
            "/api/v1/health",
            "getHealth",
            "Checks the parts of the runtime: configuration, tools, agents, documents and store.",
        )
        .returns::<Readiness>(StatusCode::OK, "All parts can be used.")
        .returns::<Readiness>(StatusCode::SERVICE_UNAVAILABLE, "A part cannot be used.")
        .handler(readiness),
        Operation::get("/api/v1/openapi.json", "getOpenApi", "Returns this document.")
            .returns_other(StatusCode::OK, "The document.", "application/json")
            .handler(open_api),
    ]
}

/// The response of a process that answers.
#[derive(Debug, Serialize, JsonSchema)]
struct Liveness {
    /// Always `ok`.
    status: &'static str,
}

async fn liveness() -> JsonResponse<Liveness> {
    JsonResponse(StatusCode::OK, Liveness { status: "ok" })
}

/// The health of the runtime.
#[derive(Debug, Serialize, JsonSchema)]
struct Readiness {
    /// `ok` or `failing`.
    status: &'static str,
    /// Version of the server.
    version: &'static str,
    /// Problems, at most one for each part.
    problems: Vec<HealthProblem>,
}

/// A part of the runtime that cannot be used.
#[derive(Debug, Serialize, JsonSchema)]
struct HealthProblem {
    /// The part, such as `tools`.
    part: String,
    /// Problem and remedy.
    problem: String,
}

async fn readiness(State(state): State<ServerState>) -> JsonResponse<Readiness> {
    let health = state.runtime().health().await;
    let problems: Vec<HealthProblem> = health
        .problems()
        .iter()
        .map(|problem| HealthProblem {
            part: problem.phase().to_string(),
            problem: problem.to_string(),
        })
        .collect();
    let (status, word) = match problems.is_empty() {
        true => (StatusCode::OK, "ok"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "failing"),
    };
    let version = env!("CARGO_PKG_VERSION");
    JsonResponse(status, Readiness { status: word, version, problems })
}

async fn open_api(State(state): State<ServerState>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], state.open_api()).into_response()
}
