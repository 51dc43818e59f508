//! HTTP tools that are described as data: requests, outputs and reported mistakes. The model's
//! arguments cannot change the host or the path, and a key is sent only to its own service.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentflow::message::{ToolCall, ToolResult, ToolStatus};
use agentflow::model::Secret;
use agentflow::serde_json::{self, Value, json};
use agentflow::store::MemoryStore;
use agentflow::tool::Effects;
use agentflow::tools::{
    AddressGuard, ApiAccess, ApiAuth, ApiParameter, ApiTool, Paging, ParameterPlace,
};
use agentflow::{Runtime, Tool};
use agentflow_testing::test_runtime;

use crate::loopback_server::{Server, answered, json_of, redirect};

const KEY: &str = "sk-1234567890 &/+";

/// Allows requests to this machine under any host name.
fn loopback() -> ApiAccess {
    let here = "127.0.0.1".parse().unwrap();
    ApiAccess::new()
        .guard(AddressGuard::default().allow(here, 32))
        .resolver(move |_| async move { Ok(vec![here]) })
        .secret("SERVICE_KEY", Secret::new(KEY))
}

fn runtime(tool: &ApiTool) -> Runtime {
    test_runtime().tools(tool.tool().unwrap()).build()
}

async fn call(tool: &ApiTool, arguments: Value) -> ToolResult {
    let tool_name = serde_json::to_value(tool).unwrap()["name"].as_str().unwrap().to_owned();
    runtime(tool).invoke(&ToolCall::new("1", tool_name, arguments.to_string()), &[]).await.unwrap()
}

async fn given(tool: &ApiTool, arguments: Value) -> Value {
    let result = call(tool, arguments).await;
    assert!(result.status.is_success(), "{}", result.text());
    serde_json::from_str(&result.text()).unwrap_or_else(|_| Value::from(result.text()))
}

async fn refused(tool: &ApiTool, arguments: Value, status: ToolStatus, says: &str) {
    let result = call(tool, arguments.clone()).await;
    assert!(result.status == status && result.text().contains(says), "{arguments}: {result:?}");
}

fn path_of(request: &str) -> &str {
    request.split(' ').nth(1).unwrap()
}

#[tokio::test]
async fn each_argument_is_sent_in_its_place() {
    let server =
        Server::start(|_| json_of(&json!({"items": [{"title": "a"}, {"title": "b"}]}))).await;
    let tool = ApiTool::read(&format!(
        "
name: search_issues
description: Searches the issues of a repository.
method: post
url: {}
parameters:
  owner: {{in: path, description: Whose it is.}}
  number: {{in: path, schema: {{type: integer}}}}
  labels: {{in: query, name: 'label[]', schema: {{type: array, items: {{type: string}}}}, required: false}}
  trace: {{in: header, name: X-Trace, required: false}}
  title: {{in: field}}
  done: {{in: field, schema: {{type: [boolean, 'null']}}, required: false}}
headers: {{accept: application/vnd.test+json}}
answer: $.items[*].title
",
        server.url("/repos/{owner}/i-{number}.json?state=open")
    ))
    .unwrap()
    .access(loopback());
    let arguments = json!({"owner": "a b", "number": 7, "labels": ["x&y", "z"], "trace": "t", "title": "q", "done": null});
    assert_eq!(given(&tool, arguments).await, json!(["a", "b"]));
    let sent = server.asked().remove(0);
    let line = "POST /repos/a%20b/i-7.json?state=open&label%5B%5D=x%26y&label%5B%5D=z HTTP/1.1\r\n";
    assert!(sent.starts_with(line), "{sent}");
    for header in [
        "x-trace: t\r\n",
        "accept: application/vnd.test+json\r\n",
        "content-type: application/json\r\n",
    ] {
        assert!(sent.contains(header), "{sent}");
    }
    assert!(sent.ends_with("\r\n\r\n{\"done\":null,\"title\":\"q\"}"), "{sent}");
    given(&tool, json!({"owner": "a", "number": 7, "title": "q"})).await;
    assert!(server.asked()[0].starts_with("POST /repos/a/i-7.json?state=open HTTP/1.1\r\n"));
    // Invalid arguments are refused by the tool's schema and never sent.
    refused(
        &tool,
        json!({"owner": "a", "number": "7x", "title": "q"}),
        ToolStatus::InvalidArguments,
        "`number`",
    )
    .await;
    refused(
        &tool,
        json!({"owner": "a", "number": 7}),
        ToolStatus::InvalidArguments,
        "`title`: this is missing",
    )
    .await;
    refused(
        &tool,
        json!({"owner": "a", "number": 7, "title": "q", "x": 1}),
        ToolStatus::InvalidArguments,
        "`x`",
    )
    .await;
    assert_eq!(server.asked(), Vec::<String>::new());
    let definition = Arc::clone(Tool::definition(&tool.tool().unwrap()));
    assert_eq!(
        definition.parameters["properties"]["owner"],
        json!({"type": "string", "description": "Whose it is."})
    );
    assert_eq!(definition.parameters["required"], json!(["number", "owner", "title"]));
}

#[tokio::test]
async fn a_body_is_whole_or_of_fields() {
    let server = Server::start(|_| answered("204 No Content", "", "")).await;
    let tool = ApiTool::new("put", "Puts a list.", "PUT", server.url("/list"))
        .parameter("list", ApiParameter::new(ParameterPlace::Body).schema(json!({"type": "array"})))
        .access(loopback());
    assert_eq!(given(&tool, json!({"list": [1, "2"]})).await, Value::Null);
    assert!(server.asked()[0].ends_with("\r\n\r\n[1,\"2\"]"));
    let text = Server::start(|_| answered("200 OK", "content-type: text/plain\r\n", "seven")).await;
    let tool = ApiTool::new("get", "Gets.", "GET", text.url("/")).access(loopback());
    assert_eq!(given(&tool, json!({})).await, json!("seven"));
    let says = "the answer is not JSON, but a text that begins with `seven`";
    refused(&tool.clone().answer("$.a"), json!({}), ToolStatus::Error, says).await;
    let broken =
        Server::start(|_| answered("200 OK", "content-type: application/json\r\n", "{oh")).await;
    let tool = ApiTool::new("get", "Gets.", "GET", broken.url("/")).access(loopback());
    refused(&tool, json!({}), ToolStatus::Error, "says that it is JSON and is not").await;
}

#[tokio::test]
async fn a_model_reaches_no_other_host_and_no_other_path() {
    let server = Server::start(|_| json_of(&json!("reached"))).await;
    let tool = ApiTool::new(
        "page",
        "Gets a page.",
        "GET",
        server.url("/v1/{space}/pages/{page}?key=fixed"),
    )
    .parameter("space", ApiParameter::new(ParameterPlace::Path))
    .parameter("page", ApiParameter::new(ParameterPlace::Path))
    .parameter("q", ApiParameter::new(ParameterPlace::Query).optional())
    .parameter("note", ApiParameter::new(ParameterPlace::Header).sent_as("x-note").optional())
    .access(loopback());
    for value in [
        "",
        ".",
        "..",
        "../..",
        "a/../../admin",
        "..\\admin",
        "%2e%2e",
        "%2E%2E%2Fadmin",
        "%252e%252e%252f",
        "a\r\nx: y",
        "a\n",
        "\0",
        "/..",
        "./x",
    ] {
        refused(
            &tool,
            json!({"space": value, "page": "p"}),
            ToolStatus::InvalidArguments,
            "`space`",
        )
        .await;
        refused(
            &tool,
            json!({"space": "s", "page": value}),
            ToolStatus::InvalidArguments,
            "`page`",
        )
        .await;
    }
    assert_eq!(server.asked(), Vec::<String>::new());
    for (value, sent) in [
        ("a/b", "a%2Fb"),
        ("a?x=1", "a%3Fx%3D1"),
        ("a#b", "a%23b"),
        ("@10.0.0.1", "%4010.0.0.1"),
        ("//evil.test/", "%2F%2Fevil.test%2F"),
        ("http://evil.test", "http%3A%2F%2Fevil.test"),
        ("a;b=c", "a%3Bb%3Dc"),
        ("a HTTP/1.1", "a%20HTTP%2F1.1"),
    ] {
        given(&tool, json!({"space": value, "page": "p"})).await;
        let asked = server.asked().remove(0);
        assert_eq!(path_of(&asked), format!("/v1/{sent}/pages/p?key=fixed"), "{value}");
        assert!(asked.contains(&format!("host: 127.0.0.1:{}\r\n", server.port)), "{asked}");
    }
    // Also in the query and in headers.
    given(&tool, json!({"space": "s", "page": "p", "q": "x&key=mine#y\r\nz: 1"})).await;
    let asked = server.asked().remove(0);
    assert_eq!(path_of(&asked), "/v1/s/pages/p?key=fixed&q=x%26key%3Dmine%23y%0D%0Az%3A+1");
    let header = json!({"space": "s", "page": "p", "note": "x\r\nauthorization: mine"});
    refused(
        &tool,
        header,
        ToolStatus::InvalidArguments,
        "the value of the header `x-note` cannot be sent",
    )
    .await;
    assert_eq!(server.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_service_in_a_private_network_is_reached_where_the_host_allows_it_alone() {
    let server = Server::start(|_| json_of(&json!("reached"))).await;
    let at =
        |host: &str| ApiTool::new("get", "Gets.", "GET", format!("http://{host}:{}/", server.port));
    for host in ["127.0.0.1", "localhost", "2130706433", "[::1]", "169.254.169.254", "10.0.0.1"] {
        refused(
            &at(host),
            json!({}),
            ToolStatus::Error,
            "is not an address of the public internet",
        )
        .await;
    }
    let rebound = ApiAccess::new().resolver(|_| async { Ok(vec!["127.0.0.1".parse().unwrap()]) });
    let tool = at("api.test").access(rebound);
    refused(&tool, json!({}), ToolStatus::Error, "`api.test` is not requested: 127.0.0.1 is not")
        .await;
    // A host that is not listed is refused when the tool is built.
    let error = at("api.test").access(loopback().hosts(["*.example.org"])).tool().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the host `api.test` is not requested; there are: *.example.org"),
        "{error}"
    );
    assert_eq!(server.asked(), Vec::<String>::new());
    // Redirects are never followed.
    let to = server.url("/landed");
    let leading = Server::start(move |_| redirect(&to)).await;
    let tool = ApiTool::new("get", "Gets.", "GET", leading.url("/")).access(loopback());
    let says = "the server redirects to `127.0.0.1` with the status 302 Found, and redirects are not followed";
    refused(&tool, json!({}), ToolStatus::Error, says).await;
    assert_eq!(server.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_key_that_a_description_names_goes_to_hosts_that_the_program_has_named() {
    let server = Server::start(|_| json_of(&json!("reached"))).await;
    let read = |auth: &str| {
        let text =
            format!("name: get\ndescription: Gets.\nurl: http://api.test:{}/\n{auth}", server.port);
        ApiTool::read(&text).unwrap()
    };
    let named = || read("auth: {kind: bearer, secret: SERVICE_KEY}\n");
    // Otherwise the author of a description could send any key of the program to any host.
    let error = named().access(loopback()).tool().unwrap_err();
    assert!(
        error.to_string().contains("say with `ApiAccess::hosts` which hosts keys may go to"),
        "{error}"
    );
    assert!(named().access(ApiAccess::new()).tool().is_err());
    let error = named().access(loopback().hosts(["*.example.org"])).tool().unwrap_err();
    assert!(error.to_string().contains("the host `api.test` is not requested"), "{error}");
    assert_eq!(server.asked(), Vec::<String>::new());
    // Another port of the host may belong to another server.
    let error = named().access(loopback().hosts(["api.test"])).tool().unwrap_err();
    assert!(
        error.to_string().contains("name the host with its port in `ApiAccess::hosts`"),
        "{error}"
    );
    let at_port = loopback().hosts([format!("api.test:{}", server.port)]);
    assert_eq!(given(&named().access(at_port), json!({})).await, "reached");
    let asked = server.asked().remove(0);
    assert!(asked.contains(&format!("authorization: Bearer {KEY}\r\n")), "{asked}");
    // Without a key, any host that the guard allows is permitted. A tool built in code may use any
    // key.
    assert_eq!(given(&read("").access(loopback()), json!({})).await, "reached");
    let own = ApiTool::new("get", "Gets.", "GET", format!("http://api.test:{}/", server.port));
    let own = own.auth(ApiAuth::Bearer { secret: "SERVICE_KEY".to_owned() }).access(loopback());
    assert_eq!(given(&own, json!({})).await, "reached");
}

#[tokio::test]
async fn a_key_is_seen_by_its_service_alone() {
    let echo = |request: &str| match request.contains("/refuse") {
        true => answered("403 Forbidden", "content-type: text/plain\r\n", request),
        false => json_of(&json!({"sent": request})),
    };
    let server = Server::start(echo).await;
    let key = || "SERVICE_KEY".to_owned();
    let encoded = "sk-1234567890+%26%2F%2B";
    for (auth, sent) in [
        (ApiAuth::Bearer { secret: key() }, format!("authorization: Bearer {KEY}\r\n")),
        (
            ApiAuth::Header { name: "X-Api-Key".to_owned(), secret: key() },
            format!("x-api-key: {KEY}\r\n"),
        ),
        (ApiAuth::Query { name: "key".to_owned(), secret: key() }, format!("?a=1&key={encoded} ")),
        (
            ApiAuth::Basic { user: "ada".to_owned(), secret: key() },
            "authorization: Basic YWRhOnNrLTEyMzQ1Njc4OTAgJi8r\r\n".to_owned(),
        ),
    ] {
        for path in ["/echo?a=1", "/refuse?a=1"] {
            let tool = ApiTool::new("get", "Gets.", "GET", server.url(path))
                .auth(auth.clone())
                .access(loopback());
            let runtime =
                test_runtime().tools(tool.tool().unwrap()).store(MemoryStore::new()).build();
            let result = runtime.invoke(&ToolCall::new("1", "get", "{}"), &[]).await.unwrap();
            let asked = server.asked().remove(0);
            assert!(asked.contains(&sent), "{asked}");
            let text = result.text();
            assert!(text.contains("***"), "{text}");
            for form in [KEY, encoded, "1234567890", "YWRhOnNr"] {
                assert!(!text.contains(form), "{form}: {text}");
            }
            assert!(!format!("{tool:?}").contains("1234567890"));
            assert!(!serde_json::to_string(&tool).unwrap().contains("1234567890"));
        }
    }
    // Without the key nothing is sent. Without TLS the key is not sent to a public address.
    let auth = ApiAuth::Bearer { secret: "MISSING_KEY_OF_A_TEST".to_owned() };
    let tool = ApiTool::new("get", "Gets.", "GET", server.url("/")).auth(auth).access(loopback());
    refused(&tool, json!({}), ToolStatus::Error, "there is no key `MISSING_KEY_OF_A_TEST`").await;
    let auth = ApiAuth::Bearer { secret: "ghp_TheKeyItself".to_owned() };
    let tool = ApiTool::new("get", "Gets.", "GET", server.url("/")).auth(auth).access(loopback());
    refused(&tool, json!({}), ToolStatus::Error, "there is no key that `auth` names").await;
    let public = loopback().resolver(|_| async { Ok(vec!["203.0.114.1".parse().unwrap()]) });
    let tool = ApiTool::new("get", "Gets.", "GET", "http://api.test/").access(public);
    let tool = tool.auth(ApiAuth::Bearer { secret: key() });
    refused(
        &tool,
        json!({}),
        ToolStatus::Error,
        "`api.test` is called with a key, which is sent over `https:` alone",
    )
    .await;
    assert_eq!(server.asked(), Vec::<String>::new());
    // An invalid key does not appear in the error.
    let broken = loopback().secret("SERVICE_KEY", Secret::new("sk-1234567890\r\nx: y"));
    let tool = ApiTool::new("get", "Gets.", "GET", server.url("/"))
        .auth(ApiAuth::Bearer { secret: key() });
    let result = call(&tool.access(broken), json!({})).await;
    assert!(!result.status.is_success() && !result.text().contains("sk-"), "{}", result.text());
}

#[tokio::test]
async fn a_status_says_what_kind_of_error_it_is() {
    let server = Server::start(|request| {
        let status = path_of(request).trim_start_matches('/').replace('-', " ");
        answered(
            &status,
            "content-type: application/json\r\nretry-after-ms: 1\r\n",
            &"{\"why\": 1} ".repeat(1000),
        )
    })
    .await;
    for (status, kind) in [
        ("400-Bad", ToolStatus::InvalidArguments),
        ("401-Who", ToolStatus::Unauthorized),
        ("403-No", ToolStatus::Unauthorized),
        ("404-Gone", ToolStatus::Error),
        ("422-What", ToolStatus::InvalidArguments),
        ("504-Late", ToolStatus::Timeout),
        ("500-Oh", ToolStatus::Error),
    ] {
        let tool = ApiTool::new("get", "Gets.", "GET", server.url(&format!("/{status}")))
            .access(loopback());
        let result = call(&tool, json!({})).await;
        assert_eq!(result.status, kind, "{status}");
        let text = result.text();
        assert!(
            text.contains(&status[..3]) && text.contains("{\"why\": 1}") && text.len() < 700,
            "{text}"
        );
    }
}

#[tokio::test]
async fn what_may_pass_is_retried_and_a_write_is_not() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let server = Server::start(move |request| {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        let status = path_of(request).trim_start_matches('/').to_owned();
        match number {
            0 | 1 => answered(&format!("{status} Later"), "retry-after-ms: 1\r\n", ""),
            _ => json_of(&json!(request.lines().any(|line| line.starts_with("idempotency-key: ")))),
        }
    })
    .await;
    let tool = |method: &str, status: &str| {
        count.store(0, Ordering::SeqCst);
        ApiTool::new("call", "Calls.", method, server.url(&format!("/{status}"))).access(loopback())
    };
    assert_eq!(given(&tool("GET", "503"), json!({})).await, json!(false));
    assert_eq!(server.asked().len(), 3);
    assert_eq!(given(&tool("PUT", "503").idempotent(), json!({})).await, json!(false));
    let keyed = tool("POST", "503").idempotency_key("idempotency-key");
    assert_eq!(given(&keyed, json!({})).await, json!(true));
    let keys = server.asked().split_off(3);
    let keys: Vec<&str> = keys
        .iter()
        .map(|one| one.lines().find(|line| line.starts_with("idempotency-key")).unwrap())
        .collect();
    assert!(keys.len() == 3 && keys[0] == keys[1] && keys[1] == keys[2], "{keys:?}");
    // The request may have taken effect, so it is not retried.
    refused(&tool("POST", "503"), json!({}), ToolStatus::Error, "the server answered 503").await;
    assert_eq!(server.asked().len(), 1);
    // The status 429 means that the request had no effect, so it is retried.
    assert_eq!(given(&tool("POST", "429"), json!({})).await, json!(false));
    assert_eq!(server.asked().len(), 3);
    refused(&tool("GET", "404"), json!({}), ToolStatus::Error, "404").await;
    assert_eq!(server.asked().len(), 1);
    let none = tool("GET", "503").access(loopback().max_retries(0));
    refused(&none, json!({}), ToolStatus::Error, "503").await;
    assert_eq!(server.asked().len(), 1);
    let policy = |tool: ApiTool| Tool::definition(&tool.tool().unwrap()).policy.clone();
    assert_eq!(policy(tool("HEAD", "1")).effects, Effects::Read);
    assert!(
        policy(tool("PUT", "1")).effects == Effects::Write && !policy(tool("PUT", "1")).idempotent
    );
    assert!(policy(tool("PUT", "1").idempotent()).idempotent && policy(keyed).idempotent);
}

#[tokio::test]
async fn a_wait_that_is_longer_than_the_call_is_not_begun() {
    let server = Server::start(|_| answered("503 Later", "retry-after: 100\r\n", "busy")).await;
    let tool = ApiTool::new("get", "Gets.", "GET", server.url("/")).access(loopback());
    refused(&tool, json!({}), ToolStatus::Error, "503 Service Unavailable: busy").await;
    assert_eq!(server.asked().len(), 1);
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", mute.local_addr().unwrap());
    let tool = ApiTool::new("get", "Gets.", "GET", url)
        .access(loopback().timeout(Duration::from_millis(200)));
    refused(&tool, json!({}), ToolStatus::Timeout, "the call did not end within 200ms").await;
    let large = Server::start(|_| json_of(&json!("x".repeat(5000)))).await;
    let tool =
        ApiTool::new("get", "Gets.", "GET", large.url("/")).access(loopback().max_bytes(4000));
    refused(&tool, json!({}), ToolStatus::OutputTooLarge, "the answer has more than 4000 bytes")
        .await;
}

/// Starts a service with seven items in pages of three, for every kind of paging.
async fn pages() -> Server {
    Server::start(|request| {
        let url: Vec<&str> = path_of(request).split(['?', '&']).collect();
        let number = |name: &str| {
            url.iter()
                .find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse::<usize>().ok())
        };
        let page = |from: usize| (from..7).take(3).map(|n| json!({"n": n})).collect::<Vec<_>>();
        match url[0] {
            "/link" => {
                let from = number("from").unwrap_or(0);
                let link = match from + 3 < 7 {
                    true => format!(
                        "link: </link?from={}>; rel=\"next\", </link>; rel=\"first\"\r\n",
                        from + 3
                    ),
                    false => "link: </link>; rel=\"first\"\r\n".to_owned(),
                };
                answered(
                    "200 OK",
                    &format!("content-type: application/json\r\n{link}"),
                    &json!(page(from)).to_string(),
                )
            }
            "/url" => {
                let from = number("from").unwrap_or(0);
                let next = if from + 3 < 7 {
                    json!(format!("url?from={}", from + 3))
                } else {
                    Value::Null
                };
                json_of(&json!({"rows": page(from), "next": next}))
            }
            "/cursor" => {
                let from = number("cursor").unwrap_or(0);
                let next = if from + 3 < 7 { json!(from + 3) } else { json!("") };
                json_of(&json!({"rows": page(from), "next": next}))
            }
            "/page" => json_of(&json!({"rows": page((number("page").unwrap() - 1) * 3)})),
            "/offset" => json_of(&json!({"rows": page(number("offset").unwrap())})),
            _ => answered("404 Not Found", "", ""),
        }
    })
    .await
}

#[tokio::test]
async fn all_pages_of_a_list_are_read() {
    let server = pages().await;
    let parameter = |name: &str| name.to_owned();
    let all: Vec<Value> = (0..7).map(|n| json!(n)).collect();
    for (path, answer, paging, requests) in [
        ("/link", "$[*].n", Paging::LinkHeader, 3),
        ("/url", "$.rows[*].n", Paging::NextUrl { at: "$.next".to_owned() }, 3),
        (
            "/cursor",
            "$.rows[*].n",
            Paging::Cursor { at: "$.next".to_owned(), parameter: parameter("cursor") },
            3,
        ),
        ("/page?size=3", "$.rows[*].n", Paging::Page { parameter: parameter("page"), first: 1 }, 4),
        ("/offset?size=3", "$.rows[*].n", Paging::Offset { parameter: parameter("offset") }, 4),
    ] {
        let tool =
            ApiTool::new("list", "Lists.", "GET", server.url(path)).answer(answer).paging(paging);
        let tool =
            tool.auth(ApiAuth::Query { name: "key".to_owned(), secret: "SERVICE_KEY".to_owned() });
        let tool = tool.access(loopback());
        assert_eq!(given(&tool, json!({})).await, json!({"items": all, "more": false}), "{path}");
        let asked = server.asked();
        assert!(
            asked.len() == requests
                && asked.iter().all(|one| path_of(one).matches("key=").count() == 1),
            "{asked:?}"
        );
        // The tool round-trips as data.
        let read: ApiTool = serde_json::from_value(serde_json::to_value(&tool).unwrap()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::to_value(&tool).unwrap());
        let two = given(&tool.clone().max_pages(2), json!({})).await;
        assert_eq!(
            (two["items"].as_array().unwrap().len(), &two["more"]),
            (6, &json!(true)),
            "{path}"
        );
        assert_eq!(server.asked().len(), 2);
        let says = "more than 40 bytes";
        refused(
            &tool.access(loopback().max_bytes(40)),
            json!({}),
            ToolStatus::OutputTooLarge,
            says,
        )
        .await;
        server.asked();
    }
}

#[tokio::test]
async fn a_next_page_elsewhere_is_not_asked_for() {
    let other = Server::start(|_| json_of(&json!([]))).await;
    for (next, says) in [
        (other.url("/"), "the next page is said to be at `127.0.0.1`"),
        (
            "http://169.254.169.254/latest".to_owned(),
            "the next page is said to be at `169.254.169.254`",
        ),
        ("https://127.0.0.1/".to_owned(), "the next page is said to be at"),
        ("//evil.test/x".to_owned(), "the next page is said to be at `evil.test`"),
        ("file:///etc/passwd".to_owned(), "the next page is said to be at"),
        ("http://a:b@127.0.0.1/".to_owned(), "the next page is said to be at"),
        ("/same".to_owned(), "that it is its own next one"),
        ("http://[".to_owned(), "cannot be read"),
    ] {
        let link = next.clone();
        let server = Server::start(move |_| json_of(&json!({"rows": [1], "next": link}))).await;
        let tool = ApiTool::new("list", "Lists.", "GET", server.url("/same"))
            .answer("$.rows")
            .paging(Paging::NextUrl { at: "$.next".to_owned() })
            .access(loopback());
        refused(&tool, json!({}), ToolStatus::Error, says).await;
        assert_eq!(server.asked().len(), 1, "{next}");
    }
    assert_eq!(other.asked(), Vec::<String>::new());
    // A service with endless pages, and a service whose pages are not lists.
    let count = AtomicUsize::new(0);
    let endless = Server::start(move |_| {
        json_of(&json!({"rows": [1], "next": count.fetch_add(1, Ordering::SeqCst)}))
    })
    .await;
    let tool = ApiTool::new("list", "Lists.", "GET", endless.url("/"))
        .answer("$.rows")
        .paging(Paging::Cursor { at: "$.next".to_owned(), parameter: "c".to_owned() })
        .access(loopback());
    assert_eq!(given(&tool, json!({})).await["more"], json!(true));
    assert_eq!(endless.asked().len(), 10);
    refused(&tool.answer("$"), json!({}), ToolStatus::Error, "a page has no list of items").await;
}

#[test]
fn all_mistakes_of_a_description_are_reported_at_once() {
    let wrong = |text: &str| ApiTool::read(text).unwrap_err().problems().to_vec();
    let text = "
name: issues
descripton: Lists.
url: https://api.example.org/{a}
methods: GET
parameters:
  a: {in: pth}
  b: {schema: {type: string}}
  c: {in: query, requird: false}
auth: {kind: bearer, secrt: KEY}
max_pages: many
";
    let mut problems = wrong(text);
    problems.sort();
    assert_eq!(
        problems,
        [
            "`auth`: there is no field `secrt`; did you mean `secret`?",
            "`max_pages`: invalid type: string \"many\", expected a whole number, 0 or more",
            "`parameters.a.in`: there is no word `pth`; did you mean `path`?",
            "`parameters.b`: `in` is missing; give it a value",
            "`parameters.c.requird`: there is no field `requird`; did you mean `required`?",
            "there is no field `descripton`; did you mean `description`?",
            "there is no field `methods`; did you mean `method`?",
        ]
    );
    assert!(wrong("a: [1")[0].starts_with("line 1: "), "{:?}", wrong("a: [1"));
    assert!(
        wrong("name: x\n\tdescription: y")[0].starts_with("line 2: "),
        "{:?}",
        wrong("name: x\n\tdescription: y")
    );
    assert!(
        wrong("{\"name\": 1, \"name\": 2}")[0].contains("given twice"),
        "{:?}",
        wrong("{\"name\": 1, \"name\": 2}")
    );
    assert!(wrong(&" ".repeat(300 << 10))[0].contains("at most 262144 are read"));
    let tool = ApiTool::new("open issues", " ", "GTE", "https://api.example.org/{ownr}/{x?")
        .parameter("owner", ApiParameter::new(ParameterPlace::Path).optional())
        .parameter(
            "deep",
            ApiParameter::new(ParameterPlace::Query).schema(json!({"type": "object"})),
        )
        .parameter("bad", ApiParameter::new(ParameterPlace::Query).schema(json!({"type": "strin"})))
        .parameter("key", ApiParameter::new(ParameterPlace::Header).sent_as("Authorization"))
        .header("host", "other")
        .auth(ApiAuth::Bearer { secret: String::new() })
        .answer("rows[0]")
        .max_pages(0);
    let problems = tool.tool().unwrap_err().problems().join("\n");
    for says in [
        "the name `open issues` cannot be that of a tool",
        "`description` is empty",
        "the method `GTE` is not used; did you mean `GET`?",
        "does not begin the name of a placeholder",
        "`owner` stands in the path, so it has to be given",
        "`deep` is of the type `object`",
        "the schema of `bad`: this is not a JSON Schema",
        "the header `authorization` is set twice",
        "the header `host` is not set by a tool",
        "`secret` of `auth` is empty",
        "`answer`: `rows[0]` is not a JSONPath query",
        "`max_pages` is at least 1",
    ] {
        assert!(problems.contains(says), "{says}\n{problems}");
    }
    let tool = ApiTool::new("x", "X.", "GET", "https://api.example.org/{ownr}")
        .parameter("owner", ApiParameter::new(ParameterPlace::Path))
        .parameter("body", ApiParameter::new(ParameterPlace::Body))
        .parameter("field", ApiParameter::new(ParameterPlace::Field));
    let problems = tool.tool().unwrap_err().to_string();
    for says in [
        "the tool `x` cannot be made, for 4 reasons:\n- the url has `{ownr}`, and there is no parameter of it with `in: path`; did you mean `owner`?",
        "`owner` stands in no place of the url; write `{owner}` there; did you mean `{ownr}`?",
        "a request has one body",
        "a GET has no body; use `in: query`",
    ] {
        assert!(problems.contains(says), "{says}\n{problems}");
    }
}
