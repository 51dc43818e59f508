//! MCP servers of others, each installed for these tests: one of each revision of the protocol.

use agentflow::mcp::{McpClient, McpClientBuilder};
use agentflow::message::{ToolCall, ToolResult, ToolStatus};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow_tests::{Process, free_port, mcp_everything, mcp_time};

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
    let weather = call(&client, "mcp.everything.get-structured-content", json!({"location": "New York"})).await;
    let weather: Value = serde_json::from_str(&weather.output).unwrap();
    assert!(weather["temperature"].is_number(), "{weather}");
    client.close().await;
}

#[tokio::test]
async fn a_server_of_the_newest_revision_is_used_by_its_tools() {
    let Some(command) = mcp_time() else { return };
    let client = of_command("time", &command).build().unwrap();
    let arguments = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
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
    let client = McpClient::http("everything", format!("http://127.0.0.1:{port}/mcp")).build().unwrap();
    let echo = call(&client, "mcp.everything.echo", json!({"message": "Hello"})).await;
    assert_eq!((echo.status, &*echo.text()), (ToolStatus::Success, "Echo: Hello"));
    client.close().await;
}
