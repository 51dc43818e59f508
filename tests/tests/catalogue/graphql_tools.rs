//! Tools that send a single GraphQL operation, and the tool `alert`: requests, errors, and the
//! parts that a model cannot change.

use std::sync::Arc;

use agentflow::Tool;
use agentflow::message::{ToolCall, ToolResult, ToolStatus};
use agentflow::model::Secret;
use agentflow::serde_json::{self, Value, json};
use agentflow::tool::{Effects, FnTool};
use agentflow::tools::{AddressGuard, Alert, ApiAccess, ApiAuth, GraphqlTool};
use agentflow_testing::test_runtime;

use crate::loopback_server::{Server, answered, json_of, redirect};

fn loopback() -> ApiAccess {
    let here = "127.0.0.1".parse().unwrap();
    ApiAccess::new()
        .guard(AddressGuard::default().allow(here, 32))
        .resolver(move |_| async move { Ok(vec![here]) })
        .secret("SERVICE_KEY", Secret::new("sk-1234567890"))
}

async fn call(tool: FnTool, arguments: Value) -> ToolResult {
    let name = Tool::definition(&tool).name.to_string();
    test_runtime()
        .tools(tool)
        .build()
        .invoke(&ToolCall::new("1", name, arguments.to_string()), &[])
        .await
        .unwrap()
}

async fn refused(tool: FnTool, arguments: Value, status: ToolStatus, says: &str) {
    let result = call(tool, arguments).await;
    assert!(result.status == status && result.text().contains(says), "{says}: {result:?}");
}

const QUERY: &str = "query Issues($owner: String!, $first: Int = 10, $order: Order) { issues(owner: $owner) { title } }";

fn issues(server: &Server) -> GraphqlTool {
    GraphqlTool::new("issues", "Lists issues.", server.url("/graphql"), QUERY)
        .auth(ApiAuth::Bearer { secret: "SERVICE_KEY".to_owned() })
        .access(loopback())
}

fn body_of(request: &str) -> Value {
    serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test]
async fn the_document_is_fixed_and_the_variables_are_the_arguments() {
    let server =
        Server::start(|_| json_of(&json!({"data": {"issues": [{"title": "a"}, {"title": "b"}]}})))
            .await;
    let tool = issues(&server)
        .answer("$.issues[*].title")
        .variable("order", json!({"enum": ["NEW", "OLD"]}));
    let hostile = "x\") { secret } #";
    let result = call(tool.tool().unwrap(), json!({"owner": hostile, "order": "NEW"})).await;
    assert_eq!(result.text(), "[\"a\",\"b\"]");
    let sent = server.asked().remove(0);
    assert!(
        sent.starts_with("POST /graphql ")
            && sent.contains("authorization: Bearer sk-1234567890\r\n"),
        "{sent}"
    );
    let expected = json!({"query": QUERY, "operationName": "Issues", "variables": {"owner": hostile, "order": "NEW"}});
    assert_eq!(body_of(&sent), expected);
    for (arguments, says) in [
        (json!({}), "`owner`: this is missing"),
        (json!({"owner": "a", "order": "NEWEST"}), "`order`"),
        (json!({"owner": "a", "first": "ten"}), "`first`"),
        (json!({"owner": "a", "query": "{ secret }"}), "`query`: there is no such"),
    ] {
        refused(tool.tool().unwrap(), arguments, ToolStatus::InvalidArguments, says).await;
    }
    assert_eq!(server.asked(), Vec::<String>::new());
    let policy = |query: &str, again: bool| {
        let tool = GraphqlTool::new("t", "T.", "https://api.example.org", query);
        Tool::definition(&if again { tool.idempotent() } else { tool }.tool().unwrap())
            .policy
            .clone()
    };
    assert_eq!(policy("{ a }", false).effects, Effects::Read);
    assert!(
        policy("mutation { a }", false).effects == Effects::Write
            && !policy("mutation { a }", false).idempotent
    );
    assert!(policy("mutation { a }", true).idempotent);
    let read: GraphqlTool = serde_json::from_value(serde_json::to_value(&tool).unwrap()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::to_value(&tool).unwrap());
    let text = "name: a\ndescription: A.\nurl: https://api.example.org/graphql\nquery: |\n  query ($id: ID!) { a(id: $id) }\n";
    assert_eq!(
        Tool::definition(&GraphqlTool::read(text).unwrap().tool().unwrap()).parameters["required"],
        json!(["id"])
    );
}

#[tokio::test]
async fn errors_of_the_service_are_errors_of_the_tool() {
    let many: Vec<Value> =
        (0..9).map(|n| json!({"message": format!("{n}{}", "x".repeat(1000))})).collect();
    let path = json!([{"message": "no such owner sk-1234567890", "path": ["issues", 0, "title"]}]);
    for (answer, says) in [
        (
            json!({"errors": path, "data": {"issues": []}}),
            "answered with errors: no such owner *** (at `issues.0.title`)",
        ),
        (json!({"errors": many}), "; and 4 more"),
        (json!({"errors": [7]}), "an error without a message"),
        (json!({"data": null}), "has neither `data` nor `errors`"),
        (json!([1]), "has neither `data` nor `errors`"),
        (json!("text"), "has neither `data` nor `errors`"),
    ] {
        let server = Server::start(move |_| json_of(&answer)).await;
        let result = call(issues(&server).tool().unwrap(), json!({"owner": "a"})).await;
        assert!(
            result.status == ToolStatus::Error && result.text().contains(says),
            "{says}: {result:?}"
        );
        assert!(result.text().len() < 2000);
    }
    let server = Server::start(|_| {
        answered("400 Bad", "content-type: application/json\r\n", "{\"errors\": 1}")
    })
    .await;
    refused(
        issues(&server).tool().unwrap(),
        json!({"owner": "a"}),
        ToolStatus::InvalidArguments,
        "400 Bad Request",
    )
    .await;
    let tool = GraphqlTool::new("t", "T.", server.url("/"), "{ a }");
    refused(
        tool.tool().unwrap(),
        json!({}),
        ToolStatus::Error,
        "is not an address of the public internet",
    )
    .await;
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let tool =
        GraphqlTool::new("my tool", "", "https://api.example.org/{x}", "query ($id: ID!) { a")
            .header("host", "x")
            .answer("issues");
    assert_eq!(tool.tool().unwrap_err().problems().len(), 6, "{}", tool.tool().unwrap_err());
    let tool = GraphqlTool::new("t", "T.", "https://api.example.org", "query ($owner: ID!) { a }")
        .variable("ownr", json!({}));
    let says =
        "the tool `t` cannot be made: the query has no variable `ownr`; did you mean `owner`?";
    assert_eq!(tool.tool().unwrap_err().to_string(), says);
    let problems = GraphqlTool::read("nam: t\nqueri: x\n").unwrap_err().problems().to_vec();
    assert!(
        problems.contains(&"there is no field `queri`; did you mean `query`?".to_owned()),
        "{problems:?}"
    );
}

#[tokio::test]
async fn an_alert_goes_where_the_host_says() {
    let server = Server::start(|_| {
        answered("200 OK", "content-type: text/plain\r\n", "the secret of the service")
    })
    .await;
    let at = |url: String| loopback().secret("ALERTS", Secret::new(url));
    let alert = Alert::new("ALERTS").access(at(server.url("/T0/B1-token"))).field("text");
    let result = call(alert.tool(), json!({"message": "the \"store\"\r\nis full"})).await;
    assert_eq!(result.text(), "{\"sent\":true}");
    let sent = server.asked().remove(0);
    assert!(
        sent.starts_with("POST /T0/B1-token ") && sent.contains("\r\nidempotency-key: "),
        "{sent}"
    );
    assert_eq!(body_of(&sent), json!({"text": "the \"store\"\r\nis full"}));
    assert_eq!(Tool::definition(&alert.tool()).policy.effects, Effects::Write);
    assert!(!format!("{alert:?}").contains("token"));
    for (arguments, says) in [
        (
            json!({"message": "x".repeat(5000)}),
            "a message has at most 4096 bytes, and this one has 5000",
        ),
        (json!({"message": " "}), "the message is empty"),
        (json!({"message": "x", "url": "https://evil.test"}), "`url`"),
    ] {
        refused(alert.tool(), arguments, ToolStatus::InvalidArguments, says).await;
    }
    assert_eq!(server.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn an_alert_succeeds_with_any_response_body() {
    let bodies: [(&str, String); 3] = [
        ("content-type: application/json\r\n", "ok".to_owned()),
        ("content-type: application/json\r\n", String::new()),
        ("content-type: text/plain\r\n", "x".repeat(2 << 20)),
    ];
    for (head, body) in bodies {
        let server = Server::start(move |_| answered("200 OK", head, &body)).await;
        let access = loopback().secret("ALERTS", Secret::new(server.url("/T0/B1-token")));
        let result =
            call(Alert::new("ALERTS").access(access).tool(), json!({"message": "full"})).await;
        assert_eq!(result.text(), "{\"sent\":true}");
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn an_alert_shows_no_address_and_is_sent_once() {
    let message = || json!({"message": "full"});
    let at = |url: String| loopback().secret("ALERTS", Secret::new(url));
    // A temporary failure is not retried, since people may have been alerted already.
    let server =
        Server::start(|request| answered("503 Later", "retry-after-ms: 1\r\n", request)).await;
    let url = server.url("/T0/B1-token");
    let alert = Alert::new("ALERTS").access(at(url.clone()));
    let result = call(alert.tool(), message()).await;
    assert!(result.text().contains("503") && !result.text().contains(&url), "{}", result.text());
    assert!(!result.text().contains("B1-token"), "{}", result.text());
    assert_eq!(server.asked().len(), 1);
    let to = server.url("/T0/B1-token");
    let leading = Arc::new(Server::start(move |_| redirect(&to)).await);
    refused(
        Alert::new("ALERTS").access(at(leading.url("/"))).tool(),
        message(),
        ToolStatus::Error,
        "are not followed",
    )
    .await;
    assert_eq!(server.asked(), Vec::<String>::new());
    for (url, says) in [
        ("not an address B1-token", "is not one that is called"),
        ("ftp://example.org/B1-token", "is not one that is called"),
        ("http://u:B1-token@example.org/", "is not one that is called"),
    ] {
        let result = call(Alert::new("ALERTS").access(at(url.to_owned())).tool(), message()).await;
        assert!(
            result.text().contains(says) && !result.text().contains("B1-token"),
            "{}",
            result.text()
        );
    }
    // The address guard and the TLS rule apply.
    for url in ["http://127.0.0.1:1/B1-token", "http://169.254.169.254/B1-token"] {
        let access = ApiAccess::new().secret("ALERTS", Secret::new(url));
        let says = "is not an address of the public internet";
        refused(Alert::new("ALERTS").access(access).tool(), message(), ToolStatus::Error, says)
            .await;
    }
    let public = at("http://hooks.test/B1-token".to_owned())
        .resolver(|_| async { Ok(vec!["203.0.114.1".parse().unwrap()]) });
    refused(
        Alert::new("ALERTS").access(public).tool(),
        message(),
        ToolStatus::Error,
        "over `https:` alone",
    )
    .await;
    refused(
        Alert::new("NO_ADDRESS_OF_A_TEST").tool(),
        message(),
        ToolStatus::Error,
        "there is no key `NO_ADDRESS",
    )
    .await;
}
