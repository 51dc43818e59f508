//! The official MCP conformance suite, run against a runtime served over HTTP with the tools that
//! the suite requires, and against a client. Unsupported scenarios are listed in a baseline per
//! revision, with the reason. A listed scenario that passes fails the test, too.

use std::path::{Path, PathBuf};

use agentflow::mcp_server::{ClientFolders, ClientReply, McpServer, ServedPrompt, ServedResource};
use agentflow::message::{Media, Part, Role};
use agentflow::prelude::*;
use agentflow::schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};
use agentflow::serde::{Deserialize, Serialize};
use agentflow::serde_json::json;
use agentflow::store::MemoryStore;
use agentflow::tool::{ToolError, ToolOutput};
use agentflow_testing::{ScriptedModel, Turn};
use agentflow_tests::mcp_conformance;
use tokio::net::TcpListener;

/// An image of one pixel.
const PNG: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// An audio file without a sample.
const WAV: &str =
    "data:audio/wav;base64,UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

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
    ToolOutput::media(embedded(
        "test://embedded-resource",
        "text/plain",
        "This is an embedded resource content.",
    ))
}

/// Gives a text, a picture and a file.
#[tool(effects = "none")]
fn test_multiple_content_types() -> ToolOutput {
    let file = embedded(
        "test://mixed-content-resource",
        "application/json",
        r#"{"test":"data","value":123}"#,
    );
    let text =
        ToolOutput::text("Multiple content types test:").with_text("Multiple content types test:");
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
        cx.emit(
            &json!({"progress": progress, "total": 100, "message": format!("{progress} of 100")}),
        );
    }
    "done".to_owned()
}

/// Says three times what it does.
#[tool(effects = "none")]
fn test_tool_with_logging(cx: &Context) -> String {
    for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        cx.emit(&json!({"level": "info", "message": message}));
    }
    "done".to_owned()
}

/// Logs nothing, since nobody asks it to.
#[tool(effects = "none")]
fn test_logging_tool() -> String {
    "done".to_owned()
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Confirmed {
    ok: bool,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Colour {
    color: String,
}

/// Asks for a name.
#[workflow]
async fn test_input_required_result_elicitation() -> Result<String> {
    let user_name: Name = gate!("What is your name?", answer = Name).await?;
    Ok(format!("Hello, {}!", user_name.name))
}

/// Asks for a name while its call is open.
#[workflow]
async fn test_streaming_elicitation() -> Result<String> {
    let user_name: Name = gate!("What is your name?", answer = Name).await?;
    Ok(user_name.name)
}

/// Asks for a confirmation.
#[workflow]
async fn test_input_required_result_request_state() -> Result<String> {
    let confirm: Confirmed = gate!("Please confirm", answer = Confirmed).await?;
    Ok(format!("state-ok, {}", confirm.ok))
}

/// Asks for a confirmation, too.
#[workflow]
async fn test_input_required_result_tampered_state() -> Result<String> {
    let confirm: Confirmed = gate!("Please confirm", answer = Confirmed).await?;
    Ok(format!("confirmed: {}", confirm.ok))
}

/// Asks twice.
#[workflow]
async fn test_input_required_result_multi_round() -> Result<String> {
    let step1: Name = gate!("Step 1: What is your name?", answer = Name).await?;
    let step2: Colour = gate!("Step 2: What is your favorite color?", answer = Colour).await?;
    Ok(format!("{} likes {}", step1.name, step2.color))
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Account {
    username: String,
    email: String,
}

/// Asks for an account.
#[workflow]
async fn test_elicitation(message: String) -> Result<String> {
    let account: Account = gate!("{message}", message, answer = Account).await?;
    Ok(format!("{} at {}", account.username, account.email))
}

fn john() -> String {
    "John Doe".to_owned()
}

fn thirty() -> u32 {
    30
}

fn most() -> f64 {
    95.5
}

fn yes() -> bool {
    true
}

fn one_of_three(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"})
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Defaults {
    #[serde(default = "john")]
    name: String,
    #[serde(default = "thirty")]
    age: u32,
    #[serde(default = "most")]
    score: f64,
    #[schemars(schema_with = "one_of_three")]
    status: String,
    #[serde(default = "yes")]
    verified: bool,
}

/// Asks for values that the form has already.
#[workflow]
async fn test_elicitation_sep1034_defaults() -> Result<String> {
    let asked: Defaults = gate!("Who are you?", answer = Defaults).await?;
    Ok(format!(
        "{} is {}, {}, {}, {}",
        asked.name, asked.age, asked.score, asked.status, asked.verified
    ))
}

fn plain(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["option1", "option2", "option3"]})
}

fn titled(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "oneOf": [
        {"const": "value1", "title": "First Option"},
        {"const": "value2", "title": "Second Option"},
    ]})
}

fn legacy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]})
}

fn plain_ones(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}})
}

fn titled_ones(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"anyOf": [
        {"const": "value1", "title": "First Choice"},
        {"const": "value2", "title": "Second Choice"},
    ]}})
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Choices {
    #[schemars(schema_with = "plain")]
    untitled_single: String,
    #[schemars(schema_with = "titled")]
    titled_single: String,
    #[schemars(schema_with = "legacy")]
    legacy_enum: String,
    #[schemars(schema_with = "plain_ones")]
    untitled_multi: Vec<String>,
    #[schemars(schema_with = "titled_ones")]
    titled_multi: Vec<String>,
}

/// Asks for choices of each kind.
#[workflow]
async fn test_elicitation_sep1330_enums() -> Result<String> {
    let chosen: Choices = gate!("What do you choose?", answer = Choices).await?;
    Ok(format!("{}, {}", chosen.untitled_single, chosen.titled_multi.join(" and ")))
}

/// Has the client's model say something.
#[workflow]
async fn test_sampling(prompt: String) -> Result<String> {
    let reply: ClientReply = gate!("{prompt}", prompt, answer = ClientReply).await?;
    Ok(format!("LLM response: {}", reply.text))
}

/// Asks the client's model.
#[workflow]
async fn test_input_required_result_sampling() -> Result<String> {
    let capital_question: ClientReply =
        gate!("What is the capital of France?", answer = ClientReply).await?;
    Ok(capital_question.text)
}

/// Asks the client's model, even without that capability.
#[workflow]
async fn test_missing_capability() -> Result<String> {
    let reply: ClientReply = gate!("Say something.", answer = ClientReply).await?;
    Ok(reply.text)
}

/// Asks where the client works.
#[workflow]
async fn test_input_required_result_list_roots() -> Result<Vec<String>> {
    let client_roots: ClientFolders =
        gate!("In which folders do you work?", answer = ClientFolders).await?;
    Ok(client_roots.folders.into_iter().map(|folder| folder.uri).collect())
}

/// Ask everything.
#[agent(tools = [agentflow::ask_user])]
async fn test_input_required_result_multiple_inputs(cx: &Context) -> Result<String>;

/// Ask everything of whoever can be asked.
#[agent(tools = [agentflow::ask_user])]
async fn test_input_required_result_capabilities(cx: &Context) -> Result<String>;

/// Creates a model that asks the client's person, its model and the client itself in one turn.
fn asks_all() -> ScriptedModel {
    ScriptedModel::from_fn(|request| {
        let is_answered =
            request.messages.messages().iter().any(|message| message.results().next().is_some());
        let name = json_schema!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        let schemas = [name, schema_for!(ClientReply), schema_for!(ClientFolders)];
        let asked = |schema| ("ask_user", json!({"question": "Who are you?", "schema": schema}));
        if is_answered { Turn::text("done") } else { Turn::calls(schemas.map(asked)) }
    })
}

const AGENTS: [&str; 2] =
    ["test_input_required_result_multiple_inputs", "test_input_required_result_capabilities"];

const WORKFLOWS: [&str; 12] = [
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_input_required_result_elicitation",
    "test_input_required_result_list_roots",
    "test_input_required_result_multi_round",
    "test_input_required_result_request_state",
    "test_input_required_result_sampling",
    "test_input_required_result_tampered_state",
    "test_missing_capability",
    "test_sampling",
    "test_streaming_elicitation",
];

/// Adds the resources that the suite reads.
fn with_resources(server: McpServer) -> McpServer {
    server
        .resource(ServedResource::text(
            "test://static-text",
            "This is the content of the static text resource.",
        ))
        .resource(ServedResource::text("test://watched-resource", "This text may change."))
        .resource(ServedResource::bytes("test://static-binary", "image/png", *b"\x89PNG\r\n\x1a\n"))
        .resource(
            ServedResource::read("test://template/{id}/data", |read| async move {
                let id = read.value("id").ok_or("there is no id")?;
                let data =
                    json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                Ok::<_, String>(data.to_string())
            })
            .mime_type("application/json"),
        )
}

/// Adds the prompts that the suite fills in.
fn with_prompts(server: McpServer) -> McpServer {
    let arguments = ServedPrompt::text(
        "test_prompt_with_arguments",
        "Prompt with arguments: arg1='{arg1}', arg2='{arg2}'",
    );
    let file = ServedPrompt::messages("test_prompt_with_embedded_resource", |given| async move {
        let uri = given.get("resourceUri").ok_or("there is no address")?;
        let file = embedded(uri, "text/plain", "Embedded resource content for testing.");
        let text = Part::Text { text: "Please process the embedded resource above.".to_owned() };
        Ok::<_, String>(vec![Message::new(Role::User, [Part::Media(file), text])])
    });
    let picture = ServedPrompt::messages("test_prompt_with_image", |_| async {
        let text = Part::Text { text: "Please analyze the image above.".to_owned() };
        Ok::<_, String>(vec![Message::new(
            Role::User,
            [Part::Media(Media::new("image/png", PNG)), text],
        )])
    });
    let asking = ServedPrompt::text("test_input_required_result_prompt", "Consider {context}.");
    let simple = ServedPrompt::text("test_simple_prompt", "This is a simple prompt for testing.");
    server
        .prompt(simple.description("A text."))
        .prompt(
            asking
                .asked_argument("context", "What to consider.")
                .description("A text that needs a context."),
        )
        .prompt(
            arguments
                .argument("arg1", "The first.")
                .argument("arg2", "The second.")
                .description("Two arguments."),
        )
        .prompt(file.argument("resourceUri", "The address of the file.").description("A file."))
        .prompt(picture.description("A picture."))
}

const TOOLS: [&str; 9] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_logging_tool",
    "test_tool_with_logging",
    "test_tool_with_progress",
];

/// Returns the file of expected failures for a revision.
fn baseline(revision: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("tests/catalogue/mcp_conformance/{revision}.yml"))
}

/// Runs all scenarios that a revision requires of a client.
fn client_conforms(revision: &str) {
    let Some(mut suite) = mcp_conformance() else { return };
    let client = env!("CARGO_BIN_EXE_mcp-conformance-client");
    suite.args(["client", "--command", client, "--requirements", revision, "--expected-failures"]);
    let ran = suite.arg(baseline(revision)).output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("tools_call"), "{said}");
}

/// Runs all scenarios that a revision requires.
async fn conforms(revision: &str) {
    let Some(mut suite) = mcp_conformance() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let runtime = Runtime::builder().model(asks_all()).store(MemoryStore::new()).build();
    let server = McpServer::from_runtime(&runtime).tools(TOOLS).workflows(WORKFLOWS).agents(AGENTS);
    let server = with_prompts(with_resources(server));
    // The suite acts as a web page of this machine.
    let server = server.allow_origins(["http://localhost:*", "http://127.0.0.1:*"]);
    let serving = tokio::spawn(async move { server.serve_http(listener).await });
    suite
        .args(["server", "--url", &url, "--requirements", revision, "--expected-failures"])
        .arg(baseline(revision));
    let ran = tokio::task::spawn_blocking(move || suite.output()).await.unwrap().unwrap();
    serving.abort();
    let said =
        format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
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
