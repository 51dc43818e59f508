//! Third-party MCP servers, installed for these tests: at least one per protocol revision.

use agentflow::mcp::{McpClient, McpClientBuilder, McpContent, McpError};
use agentflow::message::{ToolCall, ToolResult, ToolStatus};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow_tests::{
    Process, free_port, mcp_everything, mcp_fetch, mcp_filesystem, mcp_memory, mcp_time,
};
use tokio::io::AsyncWriteExt;

use crate::raw_http::{full, request};

async fn call(client: &McpClient, tool: &str, arguments: Value) -> ToolResult {
    let runtime = Runtime::builder().toolset(client.clone()).build();
    runtime.invoke(&ToolCall::new("c", tool, arguments.to_string()), &[]).await.unwrap()
}

fn of_command(name: &str, command: &std::process::Command) -> McpClientBuilder {
    let text = |text: &std::ffi::OsStr| text.to_str().expect("a path of this machine").to_owned();
    McpClient::stdio(name, text(command.get_program())).args(command.get_args().map(text))
}

#[tokio::test]
async fn the_reference_server_is_used_by_its_tools() {
    let Some(command) = mcp_everything() else { return };
    let client = of_command("everything", &command).build().unwrap();
    let tools = client.toolset().tools().await.unwrap();
    assert!(tools.len() > 8, "{tools:?}");
    assert_eq!(client.health().left_out, []);
    let echo = call(&client, "mcp.everything.echo", json!({"message": "Hello"})).await;
    assert_eq!((echo.status, &*echo.text()), (ToolStatus::Success, "Echo: Hello"));
    let wrong = call(&client, "mcp.everything.echo", json!({"message": 7})).await;
    assert_eq!(wrong.status, ToolStatus::InvalidArguments);
    let image = call(&client, "mcp.everything.get-tiny-image", json!({})).await;
    assert_eq!(image.media().next().map(|file| file.mime_type.as_str()), Some("image/png"));
    let weather =
        call(&client, "mcp.everything.get-structured-content", json!({"location": "New York"}))
            .await;
    let weather: Value = serde_json::from_str(&weather.output).unwrap();
    assert!(weather["temperature"].is_number(), "{weather}");
    reads(&client).await;
    client.close().await;
}

/// Reads the resources and prompts of the reference server.
async fn reads(client: &McpClient) {
    let resources = client.resources().await.unwrap();
    let features = resources.iter().find(|resource| resource.name == "features.md").unwrap();
    assert_eq!(features.mime_type.as_deref(), Some("text/markdown"));
    let read = client.resource(&features.uri).await.unwrap();
    assert!(read[0].text().unwrap().contains("Everything Server"), "{read:?}");
    let templates = client.resource_templates().await.unwrap();
    assert_eq!(templates.len(), 2, "{templates:?}");
    let blob = client.resource("demo://resource/dynamic/blob/1").await.unwrap();
    assert!(
        matches!(&blob[0], McpContent::Bytes { bytes, .. } if bytes.starts_with(b"Resource 1")),
        "{blob:?}"
    );
    let unknown = client.resource("demo://nowhere").await.unwrap_err();
    assert!(matches!(&unknown, McpError::Refused { code: -32602, .. }), "{unknown}");
    let prompts = client.prompts().await.unwrap();
    let prompt = prompts.iter().find(|prompt| prompt.name == "args-prompt").unwrap();
    assert_eq!(prompt.arguments.iter().map(|of| of.required).collect::<Vec<_>>(), [true, false]);
    let messages = client.prompt("args-prompt", &[("city", "Oslo")]).await.unwrap();
    assert_eq!(messages[0].text(), "What's weather in Oslo?");
    assert!(client.prompt("args-prompt", &[]).await.is_err());
    let embedded = client
        .prompt("resource-prompt", &[("resourceType", "Text"), ("resourceId", "1")])
        .await
        .unwrap();
    assert!(embedded.iter().any(|message| message.text().contains("Resource 1")), "{embedded:?}");
}

#[tokio::test]
async fn a_server_of_the_newest_revision_is_used_by_its_tools() {
    let Some(command) = mcp_time() else { return };
    let client = of_command("time", &command).build().unwrap();
    let arguments =
        json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let converted = call(&client, "mcp.time.convert_time", arguments).await;
    assert!(converted.text().contains("21:00"), "{}", converted.text());
    let unknown = call(&client, "mcp.time.get_current_time", json!({"timezone": "Nowhere"})).await;
    assert_eq!(unknown.status, ToolStatus::Error, "{}", unknown.text());
    assert_eq!(client.health().protocol.as_deref(), Some("2026-07-28"));
    client.close().await;
}

#[tokio::test]
async fn the_reference_server_is_used_at_an_address() {
    let Some(stdio) = mcp_everything() else { return };
    let port = free_port();
    let script = stdio.get_args().next().expect("a script");
    let mut command = std::process::Command::new(stdio.get_program());
    command.arg(script).arg("streamableHttp").env("PORT", port.to_string());
    let mut process = Process::start(&mut command).unwrap();
    process.wait_until("it listens", |_| std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    let client =
        McpClient::http("everything", format!("http://127.0.0.1:{port}/mcp")).build().unwrap();
    let echo = call(&client, "mcp.everything.echo", json!({"message": "Hello"})).await;
    assert_eq!((echo.status, &*echo.text()), (ToolStatus::Success, "Echo: Hello"));
    reads(&client).await;
    client.close().await;
}

#[tokio::test]
async fn files_below_a_folder_are_read_and_those_beside_it_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().canonicalize().unwrap().join("notes");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("a.txt"), "one").unwrap();
    std::fs::write(folder.path().join("secret.txt"), "two").unwrap();
    let Some(command) = mcp_filesystem(&notes) else { return };
    let client = of_command("files", &command).build().unwrap();
    let read = call(&client, "files:read_text_file", json!({"path": notes.join("a.txt")})).await;
    assert_eq!((read.status, read.text().trim()), (ToolStatus::Success, "one"), "{}", read.text());
    let beside =
        call(&client, "files:read_text_file", json!({"path": notes.join("../secret.txt")})).await;
    assert_eq!(beside.status, ToolStatus::Error, "{}", beside.text());
    let written = json!({"path": notes.join("b.txt"), "content": "three"});
    assert!(call(&client, "files:write_file", written).await.status.is_success());
    assert_eq!(std::fs::read_to_string(notes.join("b.txt")).unwrap(), "three");
    assert!(
        client.resources().await.unwrap().is_empty() && client.prompts().await.unwrap().is_empty()
    );
    client.close().await;
}

#[tokio::test]
async fn what_is_remembered_is_there_for_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.jsonl");
    let Some(command) = mcp_memory() else { return };
    let client = || {
        of_command("memory", &command)
            .env("MEMORY_FILE_PATH", file.to_str().unwrap())
            .build()
            .unwrap()
    };
    let first = client();
    let ada =
        json!({"name": "Ada", "entityType": "person", "observations": ["likes window seats"]});
    let made = call(&first, "mcp.memory.create_entities", json!({"entities": [ada]})).await;
    assert_eq!(made.status, ToolStatus::Success, "{}", made.text());
    first.close().await;
    let second = client();
    let found = call(&second, "mcp.memory.search_nodes", json!({"query": "window"})).await;
    assert!(found.text().contains("Ada"), "{}", found.text());
    second.close().await;
}

#[tokio::test]
async fn a_page_of_loopback_is_fetched() {
    let Some(command) = mcp_fetch() else { return };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            while let Some(request) = request(&mut stream).await {
                let response = match request.head.starts_with("GET /page ") {
                    true => full("200 OK", "text/plain", "tea is in the kitchen"),
                    false => full("404 Not Found", "text/plain", "nothing"),
                };
                if stream.write_all(response.as_bytes()).await.is_err() {
                    break;
                }
            }
        }
    });
    let client = of_command("fetch", &command).build().unwrap();
    let page =
        call(&client, "fetch:fetch", json!({"url": format!("{url}/page"), "raw": true})).await;
    assert!(page.text().contains("tea is in the kitchen"), "{}", page.text());
    let missing =
        call(&client, "fetch:fetch", json!({"url": format!("{url}/none"), "raw": true})).await;
    assert_eq!(missing.status, ToolStatus::Error, "{}", missing.text());
    // The server's prompt fetches the page for a person.
    assert_eq!(client.prompts().await.unwrap()[0].name, "fetch");
    let messages = client.prompt("fetch", &[("url", &format!("{url}/page"))]).await.unwrap();
    assert!(messages[0].text().contains("tea is in the kitchen"), "{messages:?}");
    client.close().await;
}
