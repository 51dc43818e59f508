//! The official conformance suite of the Model Context Protocol against a runtime that is served over HTTP, with the tools
//! that it asks for, and against a client. What they do not have stands in a baseline for each revision, with its reason; a scenario of a
//! baseline that passes fails the test, too.

use std::path::{Path, PathBuf};

use agentflow::mcp_server::McpServer;
use agentflow::message::Media;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::tool::{ToolError, ToolOutput};
use agentflow_tests::mcp_conformance;
use tokio::net::TcpListener;

/// A picture of one pixel.
const PNG: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// A sound without a sample.
const WAV: &str = "data:audio/wav;base64,UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// Gives a text.
#[tool(effects = "none")]
fn test_simple_text() -> String {
    "This is a simple text response for testing.".to_owned()
}

/// Gives a picture.
#[tool(effects = "none")]
fn test_image_content() -> ToolOutput {
    ToolOutput::media(Media::new("image/png", PNG))
}

/// Gives a sound.
#[tool(effects = "none")]
fn test_audio_content() -> ToolOutput {
    ToolOutput::media(Media::new("audio/wav", WAV))
}

fn embedded(name: &str, mime_type: &str, content: &str) -> Media {
    Media::of_bytes(mime_type, content).name(name)
}

/// Gives a file.
#[tool(effects = "none")]
fn test_embedded_resource() -> ToolOutput {
    ToolOutput::media(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))
}

/// Gives a text, a picture and a file.
#[tool(effects = "none")]
fn test_multiple_content_types() -> ToolOutput {
    let file = embedded("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#);
    let text = ToolOutput::text("Multiple content types test:").with_text("Multiple content types test:");
    text.with_media(Media::new("image/png", PNG)).with_media(file)
}

/// Fails.
#[tool(effects = "none")]
fn test_error_handling() -> std::result::Result<String, ToolError> {
    Err(ToolError::new("This tool intentionally returns an error for testing"))
}

/// Shows how far it is.
#[tool(effects = "none")]
fn test_tool_with_progress(cx: &Context) -> String {
    for progress in [0, 50, 100] {
        cx.emit(&json!({"progress": progress, "total": 100, "message": format!("{progress} of 100")}));
    }
    "done".to_owned()
}

const TOOLS: [&str; 7] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_progress",
];

/// What does not pass, for each revision.
fn baseline(revision: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/catalogue/mcp_conformance/{revision}.yml"))
}

/// Runs all scenarios that a revision requires of a client.
fn client_conforms(revision: &str) {
    let Some(mut suite) = mcp_conformance() else { return };
    let client = env!("CARGO_BIN_EXE_mcp-conformance-client");
    suite.args(["client", "--command", client, "--requirements", revision, "--expected-failures"]);
    let ran = suite.arg(baseline(revision)).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("tools_call"), "{said}");
}

/// Runs all scenarios that a revision requires.
async fn conforms(revision: &str) {
    let Some(mut suite) = mcp_conformance() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = McpServer::from_runtime(&Runtime::builder().build()).tools(TOOLS);
    // The suite is a page of this machine.
    let server = server.allow_origins(["http://localhost:*", "http://127.0.0.1:*"]);
    let serving = tokio::spawn(async move { server.serve_http(listener).await });
    suite.args(["server", "--url", &url, "--requirements", revision, "--expected-failures"]).arg(baseline(revision));
    let ran = tokio::task::spawn_blocking(move || suite.output()).await.unwrap().unwrap();
    serving.abort();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("tools-call-mixed-content"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_revision_with_a_handshake_is_served_as_it_requires() {
    conforms("2025-11-25").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_revision_without_a_handshake_is_served_as_it_requires() {
    conforms("2026-07-28").await;
}

#[test]
fn a_client_of_the_revision_with_a_handshake_does_what_it_requires() {
    client_conforms("2025-11-25");
}

#[test]
fn a_client_of_the_revision_without_a_handshake_does_what_it_requires() {
    client_conforms("2026-07-28");
}
