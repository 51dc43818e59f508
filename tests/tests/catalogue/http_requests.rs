//! The tool `http_request`: its outputs, and that it contacts no other address, regardless of the
//! model's arguments, DNS results and server responses.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::message::{ToolCall, ToolResult, ToolStatus};
use agentflow::model::Secret;
use agentflow::serde_json::{Value, json};
use agentflow::tool::{Effects, FnTool};
use agentflow::tools::{AddressGuard, Alert, ApiAccess, ApiTool, HttpRequest};
use agentflow::{Agent, Runtime, Tool};
use agentflow_testing::{ScriptedModel, test_runtime};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::loopback_server::{Server, answered, json_of, read, redirect};

/// Allows requests to `127.0.0.1` only.
fn loopback() -> HttpRequest {
    HttpRequest::new().guard(AddressGuard::default().allow("127.0.0.1".parse().unwrap(), 32))
}

fn runtime(request: &HttpRequest) -> Runtime {
    test_runtime().tools(request.tool()).build()
}

async fn ask(request: &HttpRequest, arguments: Value) -> ToolResult {
    let call = ToolCall::new("1", "http_request", arguments.to_string());
    runtime(request).invoke(&call, &[]).await.unwrap()
}

async fn refused(request: &HttpRequest, arguments: Value, says: &str) {
    let result = ask(request, arguments.clone()).await;
    assert!(
        !result.status.is_success() && result.text().contains(says),
        "{arguments}: {}",
        result.text()
    );
}

fn read_json(result: &ToolResult) -> Value {
    assert!(result.status.is_success(), "{}", result.text());
    result.text().parse().unwrap()
}

#[tokio::test]
async fn an_answer_has_its_status_headers_and_body() {
    let server = Server::start(|request| match request.split(' ').nth(1).unwrap() {
        "/json" => json_of(&json!({"n": 1})),
        "/text" => answered(
            "200 OK",
            "content-type: text/plain\r\nset-cookie: a=b\r\nx-other: 1\r\netag: \"e\"\r\n",
            "héllo",
        ),
        "/broken" => answered("200 OK", "content-type: application/json\r\n", "{oh"),
        "/bytes" => {
            b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 2\r\n\r\n\xff\xfe"
                .to_vec()
        }
        _ => answered("404 Not Found", "", "gone"),
    })
    .await;
    let request = loopback();
    let read = read_json(&ask(&request, json!({"url": server.url("/json")})).await);
    let headers = json!({"content-type": "application/json; charset=utf-8"});
    assert_eq!(
        read,
        json!({"url": server.url("/json"), "status": 200, "headers": headers, "body": {"n": 1}})
    );
    let read = read_json(&ask(&request, json!({"url": server.url("/text")})).await);
    assert_eq!(
        (&read["body"], &read["headers"]),
        (&json!("héllo"), &json!({"content-type": "text/plain", "etag": "\"e\""}))
    );
    let read = read_json(&ask(&request, json!({"url": server.url("/broken")})).await);
    assert_eq!(read["body"], json!("{oh"));
    refused(
        &request,
        json!({"url": server.url("/bytes")}),
        "is not text of UTF-8, but `image/png`, with the status 200",
    )
    .await;
    let read = read_json(&ask(&request, json!({"url": server.url("/no")})).await);
    assert_eq!((&read["status"], &read["body"]), (&json!(404), &json!("gone")));
    let read =
        read_json(&ask(&request, json!({"url": server.url("/json"), "method": "head"})).await);
    assert_eq!((&read["status"], &read["body"]), (&json!(200), &json!("")));
    assert!(server.asked().last().unwrap().starts_with("HEAD /json"));
}

#[tokio::test]
async fn what_is_sent_is_what_was_given() {
    let server = Server::start(|_| json_of(&json!({}))).await;
    let request = loopback().methods(["GET", "POST"]);
    let arguments = json!({"url": server.url("/a?b=c d"), "method": "POST", "headers": {"x-mine": "1"}, "body": {"k": [1]}});
    read_json(&ask(&request, arguments).await);
    let sent = server.asked().remove(0);
    assert!(sent.starts_with("POST /a?b=c%20d HTTP/1.1\r\n"), "{sent}");
    assert!(
        sent.contains("x-mine: 1\r\n") && sent.contains("content-type: application/json\r\n"),
        "{sent}"
    );
    assert!(sent.ends_with("\r\n\r\n{\"k\":[1]}"), "{sent}");
    read_json(
        &ask(&request, json!({"url": server.url("/"), "method": "POST", "body": "a text"})).await,
    );
    assert!(server.asked().remove(0).ends_with("\r\n\r\na text"));
    assert_eq!(Tool::definition(&request.tool()).policy.effects, Effects::Write);
    assert_eq!(Tool::definition(&HttpRequest::new().tool()).policy.effects, Effects::Read);
}

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_however_they_are_written() {
    let server = Server::start(|_| json_of(&json!("reached"))).await;
    let port = server.port;
    let request = HttpRequest::new();
    for host in [
        "127.0.0.1",
        "localhost",
        "LOCALHOST.",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "①②⑦.⓪.⓪.①",
        "169.254.169.254",
        "[fe80::1]",
        "10.0.0.1",
    ] {
        refused(
            &request,
            json!({"url": format!("http://{host}:{port}/")}),
            "is not an address of the public internet",
        )
        .await;
    }
    for (url, says) in [
        ("file:///etc/passwd", "`file:` is not requested"),
        ("ftp://example.org", "`ftp:` is not requested"),
        ("gopher://example.org", "`gopher:` is not requested"),
        ("example.org", "`example.org` is not an address"),
        ("http://", "is not an address"),
        ("http://user:word@example.org/", "holds no user and no password"),
        ("http://example.org@127.0.0.1/", "holds no user and no password"),
    ] {
        refused(&request, json!({"url": url}), says).await;
    }
    refused(
        &request,
        json!({"url": format!("http://example.org/{}", "a".repeat(9000))}),
        "has at most 8192 bytes",
    )
    .await;
    assert_eq!(server.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_name_is_resolved_once_and_checked_whole() {
    let server = Server::start(|request| match request.starts_with("GET /again") {
        true => redirect("/end"),
        false => json_of(&json!("reached")),
    })
    .await;
    let url = |path: &str| format!("http://rebind.test:{}{path}", server.port);
    let calls = Arc::new(Mutex::new(0));
    let resolving = |all: Vec<Vec<&'static str>>| {
        *calls.lock().unwrap() = 0;
        let calls = Arc::clone(&calls);
        loopback().resolver(move |host| {
            assert_eq!(host, "rebind.test");
            let mut number = calls.lock().unwrap();
            let found: Vec<IpAddr> =
                all[*number].iter().map(|address| address.parse().unwrap()).collect();
            *number += 1;
            async move { Ok(found) }
        })
    };
    // The connection goes to the checked address, even if the name resolves differently later.
    let read = read_json(&ask(&resolving(vec![vec!["127.0.0.1"]]), json!({"url": url("/")})).await);
    assert_eq!((&read["body"], *calls.lock().unwrap()), (&json!("reached"), 1));
    // One forbidden address among several is refused.
    let request = resolving(vec![vec!["127.0.0.1", "127.0.0.2"]]);
    refused(&request, json!({"url": url("/")}), "`rebind.test` is not requested: 127.0.0.2 is not")
        .await;
    // The name resolves differently between two hops.
    server.asked();
    let request = resolving(vec![vec!["127.0.0.1"], vec!["10.0.0.7"]]);
    refused(
        &request,
        json!({"url": url("/again")}),
        "`rebind.test` is not requested: 10.0.0.7 is not",
    )
    .await;
    assert_eq!(server.asked().len(), 1);
    refused(
        &resolving(vec![vec![]]),
        json!({"url": url("/")}),
        "the host `rebind.test` has no address",
    )
    .await;
    let failing = loopback().resolver(|_| async { Err(std::io::Error::other("no such name")) });
    refused(
        &failing,
        json!({"url": url("/")}),
        "the host `rebind.test` is not found: no such name",
    )
    .await;
}

#[tokio::test]
async fn redirects_are_requests_like_the_first() {
    let other = Server::start(|_| json_of(&json!("other"))).await;
    let to_other = other.url("/landed");
    let server = Server::start(move |request| match request.split(' ').nth(1).unwrap() {
        "/private" => redirect("http://10.0.0.1/"),
        "/metadata" => redirect("http://169.254.169.254/latest/meta-data"),
        "/file" => redirect("file:///etc/passwd"),
        "/loop" => redirect("/loop"),
        "/away" => redirect(&to_other),
        "/repeat" => answered("307 Temporary Redirect", &format!("location: {to_other}\r\n"), ""),
        "/here" => redirect("landed?x=1"),
        "/nowhere" => answered("302 Found", "", "no location"),
        _ => json_of(&json!("landed")),
    })
    .await;
    let request = loopback().methods(["GET", "POST", "DELETE"]).max_redirects(3);
    let get = |path: &str| json!({"url": server.url(path), "headers": {"authorization": "mine", "x-mine": "1"}});
    refused(&request, get("/private"), "`10.0.0.1` is not requested").await;
    refused(&request, get("/metadata"), "`169.254.169.254` is not requested").await;
    refused(&request, get("/file"), "`file:` is not requested").await;
    server.asked();
    refused(&request, get("/loop"), "there are more than 3 redirects").await;
    assert_eq!(server.asked().len(), 4);
    let read = read_json(&ask(&request, get("/here")).await);
    assert_eq!(read["url"], json!(server.url("/landed?x=1")));
    assert!(server.asked()[1].contains("authorization: mine"), "it is the same host");
    let read = read_json(&ask(&request, get("/away")).await);
    assert_eq!(read["body"], json!("other"));
    let sent = other.asked().remove(0);
    assert!(!sent.contains("mine"), "{sent}");
    let read = read_json(&ask(&request, get("/nowhere")).await);
    assert_eq!((&read["status"], &read["body"]), (&json!(302), &json!("no location")));
    // A request with side effects is not repeated at another server. A redirected POST is
    // followed with GET.
    let post = |path: &str, method: &str| json!({"url": server.url(path), "method": method});
    refused(&request, post("/repeat", "POST"), "which it was not meant for").await;
    refused(&request, post("/away", "DELETE"), "which it was not meant for").await;
    assert_eq!(other.asked(), Vec::<String>::new());
    read_json(&ask(&request, post("/away", "POST")).await);
    assert!(other.asked()[0].starts_with("GET /landed"));
    let read = read_json(&ask(&loopback().max_redirects(0), get("/here")).await);
    assert_eq!(
        (&read["status"], &read["headers"]["location"]),
        (&json!(302), &json!("landed?x=1"))
    );
}

#[tokio::test]
async fn keys_reach_one_host_and_nobody_else() {
    let echo = |request: &str| json_of(&json!({"sent": request}));
    let (server, other) = (Server::start(echo).await, Server::start(echo).await);
    let to_other = format!("http://other.test:{}/", other.port);
    let redirecting = Server::start(move |_| redirect(&to_other)).await;
    let key = || Secret::new("Bearer sk-1234567890");
    let request = loopback()
        .secret_header(format!("api.test:{}", server.port), "authorization", key())
        .secret_header(format!("api.test:{}", redirecting.port), "authorization", key())
        .resolver(|_| async { Ok(vec!["127.0.0.1".parse().unwrap()]) });
    let read = ask(&request, json!({"url": format!("http://api.test:{}/", server.port)})).await;
    assert!(server.asked()[0].contains("authorization: Bearer sk-1234567890"));
    assert!(
        read.text().contains("***") && !read.text().contains("sk-1234567890"),
        "{}",
        read.text()
    );
    ask(&request, json!({"url": format!("http://other.test:{}/", other.port)})).await;
    ask(&request, json!({"url": format!("http://api.test:{}/", redirecting.port)})).await;
    assert!(redirecting.asked()[0].contains("sk-1234567890"));
    let asked = other.asked();
    assert!(asked.len() == 2 && !asked.concat().contains("sk-"), "{asked:?}");
    let own = json!({"url": format!("http://api.test:{}/", server.port), "headers": {"Authorization": "x"}});
    refused(&request, own, "the header `authorization` of `api.test` is set already").await;
    assert!(!format!("{request:?}").contains("sk-"));
    // Another port of the host is another server, also after a redirect and for a key without a
    // port.
    let to_port = format!("http://api.test:{}/", other.port);
    let leading = Server::start(move |_| redirect(&to_port)).await;
    let request = request
        .secret_header(format!("api.test:{}", leading.port), "authorization", key())
        .secret_header("api.test", "authorization", key());
    ask(&request, json!({"url": format!("http://api.test:{}/", leading.port)})).await;
    assert!(leading.asked()[0].contains("sk-1234567890"));
    let asked = other.asked();
    assert!(asked.len() == 1 && !asked.concat().contains("sk-"), "{asked:?}");
    // The key is not sent to a public address without TLS.
    let public = HttpRequest::new()
        .secret_header("api.test", "authorization", Secret::new("Bearer sk-1234567890"))
        .resolver(|_| async { Ok(vec!["203.0.114.1".parse().unwrap()]) });
    refused(&public, json!({"url": "http://api.test/"}), "which is sent over `https:` alone").await;
}

#[tokio::test]
async fn hosts_methods_and_headers_are_those_that_are_allowed() {
    let server = Server::start(|_| json_of(&json!({}))).await;
    let request = loopback().hosts(["127.0.0.1", "*.example.org"]);
    read_json(&ask(&request, json!({"url": server.url("/")})).await);
    let says = "the host `example.com` is not requested; there are: 127.0.0.1, *.example.org";
    refused(&request, json!({"url": "https://example.com/"}), says).await;
    refused(&request, json!({"url": "https://example.org.evil.com/"}), "is not requested").await;
    refused(
        &request,
        json!({"url": server.url("/"), "method": "POST"}),
        "the method `POST` is not used; there are: GET, HEAD",
    )
    .await;
    refused(&request, json!({"url": server.url("/"), "body": "x"}), "a GET has no body").await;
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Metadata-Flavor",
        "proxy-authorization",
        "X-aws-ec2-metadata-token",
        "X-HTTP-Method-Override",
        "X-Method-Override",
        "X-HTTP-Method",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Real-IP",
        "True-Client-IP",
        "X-Original-URL",
        "X-Rewrite-URL",
    ] {
        let arguments = json!({"url": server.url("/"), "headers": {name: "1"}});
        refused(&request, arguments, "is not set by a caller").await;
    }
    refused(
        &request,
        json!({"url": server.url("/"), "headers": {"a b": "1"}}),
        "is not the name of a header",
    )
    .await;
    refused(
        &request,
        json!({"url": server.url("/"), "headers": {"a": "1\r\nb: 2"}}),
        "cannot be sent",
    )
    .await;
    let wrong = ask(&request, json!({"adress": "x"})).await;
    assert_eq!(wrong.status, ToolStatus::InvalidArguments);
}

/// A server that never stops, responds slowly or not at all, or breaks off.
#[tokio::test]
async fn a_server_that_misbehaves_is_an_error_in_bounded_time_and_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut stream, request) = read(stream).await;
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n";
                match request.split(' ').nth(1).unwrap_or_default() {
                    "/mute" => tokio::time::sleep(Duration::from_secs(60)).await,
                    "/drip" => {
                        let _ = stream.write_all(format!("{head}\r\n").as_bytes()).await;
                        while stream.write_all(b"x").await.is_ok() {
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                    }
                    "/endless" => {
                        let _ = stream.write_all(format!("{head}\r\n").as_bytes()).await;
                        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
                    }
                    "/short" => {
                        let _ = stream
                            .write_all(format!("{head}content-length: 100\r\n\r\nabc").as_bytes())
                            .await;
                    }
                    "/lies" => {
                        let length = "content-length: 99999999999\r\n\r\nabc";
                        let _ = stream.write_all(format!("{head}{length}").as_bytes()).await;
                        tokio::time::sleep(Duration::from_secs(60)).await;
                    }
                    "/garbage" => {
                        let _ = stream.write_all(b"\0\0\0\0 this is not HTTP\r\n\r\n").await;
                    }
                    "/headers" => {
                        let _ = stream.write_all(head.as_bytes()).await;
                        while stream
                            .write_all(b"x-long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n")
                            .await
                            .is_ok()
                        {}
                    }
                    _ => {}
                }
            });
        }
    });
    let request = loopback().max_bytes(100_000).timeout(Duration::from_secs(60));
    let impatient = request.clone().timeout(Duration::from_millis(300));
    for path in ["/mute", "/drip", "/lies"] {
        let asked = json!({"url": format!("http://127.0.0.1:{port}{path}")});
        refused(&impatient, asked, "the call did not end within 300ms").await;
    }
    for (path, says) in [
        ("/endless", "the answer has more than 100000 bytes"),
        ("/short", "the answer broke off"),
        ("/garbage", "did not answer"),
        ("/headers", "`127.0.0.1` did not answer"),
        ("/closes", "`127.0.0.1` did not answer"),
    ] {
        refused(&request, json!({"url": format!("http://127.0.0.1:{port}{path}")}), says).await;
    }
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    refused(&request, json!({"url": format!("http://{free}/")}), "`127.0.0.1` did not answer")
        .await;
}

#[tokio::test]
async fn a_port_of_a_host_counts_and_a_name_that_no_request_can_have_is_refused_at_once() {
    let server = Server::start(|_| json_of(&json!({"n": 1}))).await;
    let address = server.url("/");
    let port: u16 = address.rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap();
    let named = loopback().hosts([format!("127.0.0.1:{port}")]);
    assert_eq!(read_json(&ask(&named, json!({"url": address})).await)["body"]["n"], 1);
    let other = loopback().hosts([format!("127.0.0.1:{}", port ^ 1)]);
    refused(&other, json!({"url": address}), "the host `127.0.0.1` is not requested").await;

    for host in ["https://api.example.org", "api.example.org/v1", "example.org:99999", ""] {
        let says = format!("`{host}` is not the name of a host");
        let secret = || Secret::new("key");
        let made: [(&str, &dyn Fn() -> FnTool); 3] = [
            ("http_request", &|| HttpRequest::new().hosts([host]).tool()),
            ("http_request", &|| HttpRequest::new().secret_header(host, "x-key", secret()).tool()),
            ("alert", &|| {
                Alert::new("ADDRESS_OF_A_TEST").access(ApiAccess::new().hosts([host])).tool()
            }),
        ];
        for (name, tool) in made {
            let error =
                Agent::new(ScriptedModel::new([])).tools(tool()).build().unwrap_err().to_string();
            assert!(error.contains(&says), "{error}");
            let call =
                ToolCall::new("1", name, r#"{"url": "https://api.example.org/", "message": "a"}"#);
            let error = test_runtime()
                .tools(tool())
                .build()
                .invoke(&call, &[])
                .await
                .unwrap_err()
                .to_string();
            assert!(error.contains(&says), "{error}");
        }
        let described =
            ApiTool::new("issues", "Lists issues.", "GET", "https://api.example.org/issues");
        let error =
            described.access(ApiAccess::new().hosts([host])).tool().unwrap_err().to_string();
        assert!(error.contains(&says), "{error}");
        assert!(
            HttpRequest::new().root_certificate(host, "").unwrap_err().to_string().contains(&says)
        );
    }
}
