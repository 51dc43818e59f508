//! The web page: its files, its headers, and its views in a real browser.

use std::path::PathBuf;
use std::process::Command;

use agentflow::serde_json::json;
use agentflow::server::Server;
use agentflow_testing::within;

use crate::client::{Client, Served};
use crate::workflows::runtime;

#[tokio::test]
async fn the_files_of_the_page_have_strict_headers() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let index = client.get("/").await;
    let text = String::from_utf8(index.bytes).unwrap();
    let policy = index.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let (mut size, mut files) = (text.len(), 0);
    let mut waiting: Vec<String> = names(&text, "assets/");
    let mut seen = Vec::new();
    while let Some(name) = waiting.pop() {
        if seen.contains(&name) {
            continue;
        }
        let file = client.get(&format!("/assets/{name}")).await;
        assert_eq!(file.status, 200, "{name}");
        assert_eq!(file.headers["x-content-type-options"], "nosniff");
        assert_eq!(file.headers["content-security-policy"], policy);
        let text = String::from_utf8(file.bytes).unwrap();
        (size, files) = (size + text.len(), files + 1);
        for forbidden in ["innerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://"] {
            let is_namespace = forbidden == "http://" && name.ends_with(".svg");
            assert!(is_namespace || !text.contains(forbidden), "{name} has `{forbidden}`");
        }
        waiting.extend(names(&text, "from \"./"));
        seen.push(name);
    }
    assert_eq!(files, 13, "{seen:?}");
    assert!(size < 200_000, "the page has {size} bytes");
    assert_eq!(client.get("/assets/nothing.js").await.problem(), (404, "not_found"));

    let without = Served::new(Server::new(&runtime()).page(false)).await;
    assert_eq!(without.client().get("/").await.problem(), (404, "unknown_path"));
}

/// Returns the names of files that follow a prefix in a text.
fn names(text: &str, prefix: &str) -> Vec<String> {
    let parts = text.split(prefix).skip(1);
    parts.map(|part| part.split('"').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_page_may_be_mounted_below_a_path() {
    let runtime = runtime();
    let router = axum::Router::new().nest("/flows", Server::new(&runtime).router().unwrap());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let index = client.get("/flows").await;
    let text = String::from_utf8(index.bytes).unwrap();
    assert!(text.contains("src=\"flows/assets/app.js\""), "{text}");
    assert_eq!(client.get("/flows/assets/app.js").await.status, 200);
    assert_eq!(client.get("/flows/api/v1/runs").await.status, 200);
}

/// Returns Chromium, or `None` with a line that says why the test is skipped.
#[allow(clippy::print_stdout, reason = "a skipped test says why")]
fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    for folder in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
        for name in names {
            if folder.join(name).is_file() {
                return Some(folder.join(name));
            }
        }
    }
    println!("skipped: no Chromium is installed; `apt-get install chromium`");
    None
}

/// Opens a view and returns its document after the scripts have run.
async fn view(browser: PathBuf, url: String) -> String {
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new("timeout");
    command.arg("60").arg(browser).args(["--headless", "--no-sandbox", "--disable-gpu"]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.args(["--virtual-time-budget=4000", "--dump-dom"]).arg(url);
    let output = within("the browser", tokio::task::spawn_blocking(move || command.output()));
    let output = output.await.unwrap().unwrap();
    drop(profile);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_shows_runs_questions_and_hostile_texts() {
    let Some(browser) = browser() else { return };
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let hostile = "<img src=x onerror=\"document.body.id='attacked'\"><script>document.body.id='attacked'</script>";
    let done = client.start("server_quadruple", json!({"n": 3})).await;
    client.until(&done, "success").await;
    let asks = client.start("server_publish", json!({"text": hostile})).await;
    client.until(&asks, "paused").await;
    let base = format!("http://{}", served.address);
    let escaped = "&lt;img src=x onerror=";
    let views = [
        ("#/runs", vec!["server_quadruple", "status-success", "status-paused"]),
        (
            &format!("#/runs/{done}"),
            vec!["workflow.node.completed", "status-success", "once", "twice"],
        ),
        (&format!("#/runs/{asks}"), vec![escaped, "Grant", "Deny"]),
        ("#/inbox", vec![escaped, "Grant", "Deny"]),
        ("#/workflows", vec!["server_payment", "Pays after a person has approved the amount."]),
        ("#/workflows/server_payment", vec!["cents", "type=\"number\"", "Start"]),
        ("#/catalogue", vec!["server_double", "Doubles a number."]),
        ("#/health", vec!["Health", "Version"]),
        ("#/chat", vec!["Chat"]),
        ("#/nothing", vec!["No such view"]),
    ];
    for (path, expected) in views {
        let shown = view(browser.clone(), format!("{base}/{path}")).await;
        for text in expected {
            assert!(shown.contains(text), "{path} has no `{text}`:\n{shown}");
        }
        assert!(!shown.contains("id=\"attacked\""), "{path}:\n{shown}");
        assert!(!shown.contains("class=\"error\">undefined"), "{path}:\n{shown}");
    }
}
