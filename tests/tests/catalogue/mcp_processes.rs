//! MCP servers as child processes: their start, their environment, their last output, and that no
//! process is left behind.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentflow::mcp::{McpClient, McpClientBuilder, McpConfig, McpError};
use agentflow::message::{ToolCall, ToolResult};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::tool::{Effects, ToolPolicy};
use agentflow_testing::within;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

fn peer(how: &str) -> McpClientBuilder {
    McpClient::stdio("peer", env!("CARGO_BIN_EXE_mcp-peer")).arg(how)
}

async fn work(client: &McpClient) -> ToolResult {
    let runtime = Runtime::builder().toolset(client.clone()).build();
    runtime.invoke(&ToolCall::new("c", "mcp.peer.work", "{}"), &[]).await.unwrap()
}

/// Returns the processes in `/proc` that run this program with these arguments.
fn running(words: &[&str]) -> Vec<u32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let of = |id: &u32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("mcp-peer")
            && words.iter().all(|word| line.split('\0').any(|part| part == *word))
    };
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(of).collect()
}

/// Waits until all such processes have ended.
async fn gone(words: &[&str]) {
    for _ in 0..400 {
        if running(words).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("these are left: {:?}", running(words));
}

#[tokio::test]
async fn a_process_serves_its_tools_and_ends_with_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().to_str().unwrap();
    for how in ["good", "noise"] {
        let client = peer(how).arg(mark).build().unwrap();
        assert_eq!(&*work(&client).await.text(), "done");
        let health = client.health();
        assert_eq!((health.is_connected, health.protocol.as_deref()), (true, Some("2025-11-25")));
        assert!(cfg!(not(target_os = "linux")) || running(&[how, mark]).len() == 1);
        drop(client);
        gone(&[how, mark]).await;
    }
}

#[tokio::test]
async fn one_that_does_not_end_is_killed_with_what_it_has_started() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().to_str().unwrap();
    let client = peer("stays").arg(mark).build().unwrap();
    assert_eq!(&*work(&client).await.text(), "done");
    client.close().await;
    assert!(running(&["stays", mark]).is_empty());
    let client = peer("parent").build().unwrap();
    let child = work(&client).await.text().into_owned();
    let is_there = || Path::new("/proc").join(&child).join("cmdline").exists();
    assert!(cfg!(not(target_os = "linux")) || is_there());
    client.close().await;
    for _ in 0..400 {
        // The parent that adopts the process may keep it as a zombie, which has an empty command
        // line.
        let line =
            std::fs::read(Path::new("/proc").join(&child).join("cmdline")).unwrap_or_default();
        if line.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("the child {child} is left");
}

#[tokio::test]
async fn a_mute_one_is_killed_when_the_time_for_connecting_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().to_str().unwrap();
    let client =
        peer("mute").arg(mark).connect_timeout(Duration::from_millis(300)).build().unwrap();
    let error = client.connect().await.unwrap_err();
    assert!(matches!(error, McpError::Silent { .. }), "{error}");
    gone(&["mute", mark]).await;
}

#[tokio::test]
async fn one_that_does_not_start_says_why_without_what_it_was_given() {
    let missing = McpClient::stdio("peer", "/no/such/program").build().unwrap();
    let error = missing.connect().await.unwrap_err();
    assert!(
        matches!(&error, McpError::Start { .. }) && error.to_string().contains("/no/such/program"),
        "{error}"
    );
    let crash = peer("crash").env("PEER_KEY", "sk-secret-1234").build().unwrap();
    let error = crash.connect().await.unwrap_err().to_string();
    assert!(error.contains("it said: cannot open the database with ***"), "{error}");
    assert!(error.contains("exit status: 3") && !error.contains("secret"), "{error}");
}

#[tokio::test]
async fn a_process_gets_no_keys_of_this_one() {
    let names = |client: McpClient| async move {
        serde_json::from_str::<Vec<String>>(&work(&client).await.text()).unwrap()
    };
    // Cargo sets this variable for each test.
    let own = "CARGO_MANIFEST_DIR";
    assert!(std::env::var_os(own).is_some());
    let telling = work(&peer("tells").env("PEER_KEY", "sk-secret-1234").build().unwrap()).await;
    assert_eq!(&*telling.text(), "my key is ***");
    let given = names(peer("environment").env("PEER_KEY", "k").build().unwrap()).await;
    assert!(
        given.iter().any(|name| name == "PEER_KEY") && given.iter().any(|name| name == "PATH"),
        "{given:?}"
    );
    assert!(!given.iter().any(|name| name == own), "{given:?}");
    let given = names(peer("environment").inherit_env().build().unwrap()).await;
    assert!(given.iter().any(|name| name == own), "{given:?}");
}

#[tokio::test]
async fn one_that_dies_in_a_call_is_started_again_and_called_again_only_where_that_does_no_harm() {
    for (policy, calls) in
        [(ToolPolicy::default(), 1), (ToolPolicy::default().effects(Effects::Read), 2)]
    {
        let folder = tempfile::tempdir().unwrap();
        let client =
            peer("dies").arg(folder.path().to_str().unwrap()).policy(policy).build().unwrap();
        let result = work(&client).await;
        assert!(result.output.contains("exit status: 9"), "{}", result.output);
        // A tool without side effects is retried, so its effect is never unknown.
        let unknown = result.output.contains("whether the call had its effect is unknown");
        assert_eq!(unknown, calls == 1, "{}", result.output);
        let made = std::fs::read_to_string(folder.path().join("calls")).unwrap();
        assert_eq!(made.lines().count().max(made.matches("called").count()), calls, "{made}");
        client.connect().await.unwrap();
        assert_eq!(client.health().connections, calls as u64 + 1);
    }
}

#[tokio::test]
async fn servers_of_a_file_are_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("servers.json");
    let program = agentflow::serde_json::json!(env!("CARGO_BIN_EXE_mcp-peer"));
    let json = format!(
        r#"{{"mcpServers": {{
            "peer": {{"type": "stdio", "command": {program}, "args": ["environment"], "env": {{"PEER_KEY": "${{NO_SUCH_ONE:-k}}"}}}},
            "other": {{"command": "/no/such/program"}},
            "off": {{"command": "/no/such/program", "disabled": true}}
        }}, "comment": "of another program"}}"#
    );
    std::fs::write(&file, json).unwrap();
    let config = McpConfig::from_file(&file).unwrap().allow(["peer"]).unwrap();
    let clients = config.clients().unwrap();
    assert_eq!(clients.len(), 1);
    assert!(work(&clients[0]).await.text().contains("PEER_KEY"));
    let error = McpConfig::from_file(folder.path().join("none.json")).unwrap_err().to_string();
    assert!(error.contains("none.json"), "{error}");
}

/// Protocol revisions that a server supports.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Revisions {
    Older,
    Both,
    Newest,
}

/// A program such as `npx` first installs its package. Afterwards it also answers the request that
/// has timed out.
#[tokio::test(start_paused = true)]
async fn a_server_that_starts_late_is_connected_to() {
    for revisions in [Revisions::Older, Revisions::Both, Revisions::Newest] {
        for seconds in [15, 45] {
            let starts = Arc::new(AtomicU64::new(0));
            let client = McpClient::in_memory("peer", move || {
                let (near, far) = tokio::io::duplex(1 << 16);
                // The second start is fast because the package is installed.
                let seconds = if starts.fetch_add(1, Ordering::SeqCst) == 0 { seconds } else { 1 };
                tokio::spawn(starts_late(far, revisions, seconds));
                near
            });
            let client = client.connect_timeout(Duration::from_secs(60)).build().unwrap();
            let connected = within("the connection", client.connect()).await;
            connected.unwrap_or_else(|error| panic!("{revisions:?} after {seconds} s: {error}"));
            assert_eq!(&*work(&client).await.text(), "done");
            let is_newest = client.health().protocol.as_deref() == Some("2026-07-28");
            assert_eq!(is_newest, revisions == Revisions::Newest, "{revisions:?}");
        }
    }
}

/// Is silent for some seconds, then answers all requests. The answer to `server/discover` is an
/// error or comes too late.
async fn starts_late(stream: DuplexStream, revisions: Revisions, seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (read, mut write) = tokio::io::split(stream);
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let server = json!({"name": "late", "version": "1"});
        let mut answer = match message["method"].as_str().unwrap_or_default() {
            "server/discover" if revisions != Revisions::Older => json!({"result": {
                "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": server},
            }}),
            "server/discover" => json!({"error": {"code": -32601, "message": "unknown"}}),
            "initialize" if revisions == Revisions::Newest => {
                json!({"error": {"code": -32601, "message": "unknown"}})
            }
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server});
                json!({"result": result})
            }
            "tools/list" => {
                let tools = json!([{"name": "work", "inputSchema": {"type": "object"}}]);
                json!({"result": {"tools": tools, "ttlMs": 0, "cacheScope": "private"}})
            }
            "tools/call" => json!({"result": {"content": [{"type": "text", "text": "done"}]}}),
            _ => continue,
        };
        if revisions != Revisions::Older && answer["result"].is_object() {
            answer["result"]["resultType"] = json!("complete");
        }
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = message["id"].clone();
        write.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    }
}
