//! `agentwf serve`: the API, the page, A2A and MCP from one process, and its end.

use std::process::Command;
use std::time::Duration;

use agentflow::a2a::A2aClient;
use agentflow_testing::{wait_until, within};
use agentflow_tests::{Process, terminate};
use serde_json::{Value, json};

use super::cli_workflows::{done, failure};

const HOST: &str = env!("CARGO_BIN_EXE_agentwf-host");

/// Starts a server. Returns it with its address.
fn served(args: &[&str]) -> (Process, String) {
    let mut command = Command::new(HOST);
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(args);
    command.env("SERVE_KEY", "sesame-street");
    let mut server = Process::start(&mut command).unwrap();
    let url = server.wait_until("its address", |process| {
        process.output().lines().find(|line| line.starts_with("http://")).map(str::to_owned)
    });
    (server, url)
}

async fn request(url: &str, token: Option<&str>, body: Option<Value>) -> (u16, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = match body {
        Some(body) => {
            client.post(url).header("content-type", "application/json").body(body.to_string())
        }
        None => client.get(url),
    };
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let response = within("a response", request.send()).await.unwrap();
    (response.status().as_u16(), within("the body", response.text()).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_serves_everything() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    let (server, url) = served(&["--store", store.to_str().unwrap(), "--a2a", "--mcp"]);
    let (status, page) = request(&url, None, None).await;
    assert!(status == 200 && page.contains("assets/app.js"), "{page}");
    let body = json!({"word": "a", "times": 2});
    let (status, ran) = request(&format!("{url}/api/workflows/quick/run"), None, Some(body)).await;
    let ran: Value = serde_json::from_str(&ran).unwrap();
    assert_eq!((status, &ran["status"]), (200, &json!("success")), "{ran}");

    let far = A2aClient::at("far", &url).build().unwrap();
    let card = within("the card", far.card()).await.unwrap();
    assert!(card.skills.iter().any(|skill| skill.id == "quick"), "{card:?}");
    let mcp = format!("{url}/mcp");
    let tools = tokio::task::block_in_place(|| done(&["mcp", "tools", "--url", &mcp]));
    assert!(tools.stdout.contains("quick"), "{tools:?}");

    // An unfinished run continues in the next process.
    let flag = folder.path().join("flag");
    let body = json!({"input_data": {"file": flag}});
    let started = request(&format!("{url}/api/v1/workflows/slow/runs"), None, Some(body)).await;
    let started: Value = serde_json::from_str(&started.1).unwrap();
    let run = started["run_id"].as_str().unwrap();
    let (code, said) = end(server);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("the run `{run}` is not finished")), "{said}");
    let (_server, url) = served(&["--store", store.to_str().unwrap()]);
    std::fs::write(&flag, "").unwrap();
    within("the end of the run", async {
        loop {
            let (_, found) = request(&format!("{url}/api/v1/runs/{run}"), None, None).await;
            let found: Value = serde_json::from_str(&found).unwrap();
            if found["status"] == "success" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

/// Sends SIGTERM and waits for the end. Returns the exit code and the output.
fn end(mut server: Process) -> (Option<i32>, String) {
    terminate(server.id());
    let status = wait_until("the end of the server", || server.ended());
    (status.code(), server.output())
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_send_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    let args = ["--store", store.to_str().unwrap(), "--token-from", "SERVE_KEY", "--a2a", "--mcp"];
    let (_server, url) = served(&args);
    for (path, body) in
        [("/api/v1/runs", None), ("/mcp", Some(json!({}))), ("/a2a/quick", Some(json!({})))]
    {
        let (status, text) = request(&format!("{url}{path}"), None, body).await;
        assert_eq!(status, 401, "{path}: {text}");
    }
    let token = Some("sesame-street");
    assert_eq!(request(&format!("{url}/api/v1/runs"), token, None).await.0, 200);
    // The page has no data, and asks for the token itself.
    assert_eq!(request(&format!("{url}/assets/app.js"), None, None).await.0, 200);
}

#[test]
fn mistakes_name_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    let serve =
        |more: &[&str]| failure(&[&["serve", "--store", store.to_str().unwrap()], more].concat());
    let beyond = serve(&["--listen", "0.0.0.0:0"]);
    assert!(beyond.contains("--token-from"), "{beyond}");
    let no_address = serve(&["--listen", "here"]);
    assert!(no_address.contains("127.0.0.1:3000"), "{no_address}");
    let unset = serve(&["--token-from", "NO_SUCH_VARIABLE"]);
    assert!(unset.contains("`NO_SUCH_VARIABLE` is not set"), "{unset}");
}
