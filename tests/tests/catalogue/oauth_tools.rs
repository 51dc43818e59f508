//! Data-described tools whose service requires OAuth 2.0 access tokens: when tokens are requested,
//! cached and renewed, and that no key is exposed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentflow::message::{ToolCall, ToolResult, ToolStatus};
use agentflow::model::Secret;
use agentflow::serde_json::json;
use agentflow::tools::{AddressGuard, ApiAccess, ApiTool, GraphqlTool};
use agentflow_testing::test_runtime;

use crate::loopback_server::{Server, answered, json_of};

const SECRET: &str = "client-secret-&1";
const REFRESH: &str = "refresh-of-a-person";

fn access(port: u16) -> ApiAccess {
    ApiAccess::new()
        .guard(AddressGuard::default().allow("127.0.0.1".parse().unwrap(), 32))
        .hosts([format!("127.0.0.1:{port}")])
        .secret("APP_SECRET", Secret::new(SECRET))
        .secret("APP_REFRESH", Secret::new(REFRESH))
        .max_retries(0)
}

/// Starts an authorization server at `/token` and a service that accepts only the newest token.
/// Tokens last this many seconds.
async fn service(seconds: u64) -> (Server, Arc<AtomicUsize>) {
    let given = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&given);
    let server = Server::start(move |request| {
        if request.starts_with("POST /token ") {
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            let token = format!("token-{number}");
            return json_of(
                &json!({"access_token": token, "token_type": "Bearer", "expires_in": seconds,
                                   "refresh_token": format!("rotated-{number}")}),
            );
        }
        let newest = format!("authorization: Bearer token-{}\r\n", count.load(Ordering::SeqCst));
        match request.contains(&newest) {
            true => json_of(&json!({"data": "secret plans"})),
            false => answered("401 Unauthorized", "", "no such token"),
        }
    })
    .await;
    (server, given)
}

fn tool(server: &Server, more: &str) -> ApiTool {
    let text = format!(
        "name: plans\ndescription: Lists plans.\nurl: {}\nauth: {{kind: oauth2, token_url: '{}', client_id: 'app one', secret: \
         APP_SECRET{more}}}\n",
        server.url("/plans"),
        server.url("/token")
    );
    ApiTool::read(&text).unwrap().access(access(server.port))
}

async fn call(runtime: &agentflow::Runtime) -> ToolResult {
    runtime.invoke(&ToolCall::new("1", "plans", "{}"), &[]).await.unwrap()
}

#[tokio::test]
async fn a_client_is_given_a_token_once_and_a_new_one_when_it_is_refused() {
    let (server, given) = service(3600).await;
    let runtime = test_runtime()
        .tools(tool(&server, ", scopes: [plans.read, plans.write]").tool().unwrap())
        .build();
    for _ in 0..2 {
        let result = call(&runtime).await;
        assert!(result.status.is_success() && result.text().contains("secret plans"), "{result:?}");
    }
    assert_eq!(given.load(Ordering::SeqCst), 1);
    let asked = server.asked().remove(0);
    // The client sends its secret in the encoding of RFC 6749, section 2.3.1.
    assert!(
        asked.contains("authorization: Basic YXBwK29uZTpjbGllbnQtc2VjcmV0LSUyNjE=\r\n"),
        "{asked}"
    );
    assert!(
        asked.ends_with("\r\n\r\ngrant_type=client_credentials&scope=plans.read+plans.write"),
        "{asked}"
    );
    // Revokes a token before it expires.
    given.fetch_add(1, Ordering::SeqCst);
    let result = call(&runtime).await;
    assert!(result.status.is_success(), "{result:?}");
    let asked = server.asked();
    assert_eq!(
        asked.iter().map(|request| request.split(' ').nth(1).unwrap()).collect::<Vec<_>>(),
        ["/plans", "/token", "/plans"]
    );
    assert!(asked[1].contains("grant_type=client_credentials"), "{}", asked[1]);
}

#[tokio::test]
async fn a_refresh_token_of_a_person_is_used_and_its_successors() {
    let (server, given) = service(0).await;
    let runtime =
        test_runtime().tools(tool(&server, ", refresh_token: APP_REFRESH").tool().unwrap()).build();
    for _ in 0..2 {
        assert!(call(&runtime).await.status.is_success());
    }
    // Each token had expired before the next call.
    assert_eq!(given.load(Ordering::SeqCst), 2);
    let asked: Vec<String> =
        server.asked().into_iter().filter(|request| request.starts_with("POST /token ")).collect();
    assert!(
        asked[0].ends_with(&format!("grant_type=refresh_token&refresh_token={REFRESH}")),
        "{}",
        asked[0]
    );
    assert!(asked[1].ends_with("grant_type=refresh_token&refresh_token=rotated-1"), "{}", asked[1]);
}

#[tokio::test]
async fn a_refusal_shows_no_key() {
    let server = Server::start(|request| {
        let body = format!("{{\"error\": \"invalid_client\", \"seen\": {request:?}}}");
        answered("400 Bad Request", "content-type: application/json\r\n", &body)
    })
    .await;
    let runtime =
        test_runtime().tools(tool(&server, ", refresh_token: APP_REFRESH").tool().unwrap()).build();
    let result = call(&runtime).await;
    assert_eq!(result.status, ToolStatus::Unauthorized, "{result:?}");
    let text = result.text();
    assert!(
        text.contains("no access token of `127.0.0.1` for `app one`")
            && text.contains("invalid_client"),
        "{text}"
    );
    for key in [SECRET, REFRESH, "YXBwK29uZTpjbGllbnQtc2VjcmV0LSUyNjE="] {
        assert!(!text.contains(key), "{text}");
    }
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_token_endpoint_is_a_host_that_the_program_has_named() {
    let (server, _) = service(3600).await;
    let described = tool(&server, "").access(access(server.port).hosts(["127.0.0.1:1"]));
    assert!(described.tool().is_err());
    let text = format!(
        "name: plans\ndescription: It.\nurl: {}\nauth: {{kind: oauth2, token_url: 'https://login.example.org/token', client_id: '', \
         secret: APP_SECRET}}\n",
        server.url("/plans")
    );
    let error =
        ApiTool::read(&text).unwrap().access(access(server.port)).tool().unwrap_err().to_string();
    for says in [
        "`client_id` of `auth` is empty",
        "`token_url` of `auth`: the host `login.example.org` is not requested",
    ] {
        assert!(error.contains(says), "{error}");
    }
    // A GraphQL service is called in the same way.
    let text = format!(
        "name: plans\ndescription: It.\nurl: {}\nquery: 'query {{ plans }}'\nauth: {{kind: oauth2, token_url: '{}', client_id: a, \
         secret: APP_SECRET}}\n",
        server.url("/graph"),
        server.url("/token")
    );
    let plans = GraphqlTool::read(&text).unwrap().access(access(server.port)).tool().unwrap();
    let result = call(&test_runtime().tools(plans).build()).await;
    assert!(result.status.is_success() && result.text().contains("secret plans"), "{result:?}");
}
