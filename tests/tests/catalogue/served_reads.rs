//! Resources and prompts of a served runtime: listing, reading, refusals and limits, in both
//! protocol eras and with our own client.

use std::sync::Arc;
use std::time::Duration;

use agentflow::mcp_server::{McpServer, ServedPrompt, ServedResource};
use agentflow::message::{Media, Part, Role};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow_testing::{hold_time, within};
use tokio::sync::Notify;

use crate::served::Lines;

fn server() -> McpServer {
    let server = McpServer::from_runtime(&Runtime::builder().max_output_bytes(1000).build())
        .tools::<&str>([]);
    server
        .resource(
            ServedResource::text("notes://b", "B").title("The second").description("What b is."),
        )
        .resource(ServedResource::bytes("notes://a", "image/png", [0, 255]))
        .resource(ServedResource::read("notes://days/{day}/{part}", |read| async move {
            match (read.value("day"), read.value("part")) {
                (Some("never"), _) => Err("there are no notes of this day".to_owned()),
                (Some("panic"), _) => panic!("a secret"),
                (Some("large"), _) => Ok("x".repeat(1001)),
                (day, part) => Ok(format!("{} {day:?} {part:?}", read.uri())),
            }
        }))
        // An exact address takes precedence over a template that matches it.
        .resource(ServedResource::text("notes://days/monday/noon", "Lunch."))
        .resource(ServedResource::text("notes://secret", "S").scopes(["secrets"]))
        .prompt(
            ServedPrompt::text("review", "Review this {language?} code: {code}")
                .argument("code", "What to review."),
        )
        .prompt(
            ServedPrompt::messages("picture", |given| async move {
                let media = Media::of_bytes("image/png", [1, 2]);
                let file = Media::of_bytes("text/plain", "hello")
                    .name(given.get("file").unwrap_or("none"));
                let user = Message::new(Role::User, [Part::Media(media), Part::Media(file)]);
                Ok::<_, String>(vec![user, Message::assistant("I see.")])
            })
            .argument("file", "An address."),
        )
        .prompt(
            ServedPrompt::text("hidden", "S")
                .scopes(["secrets"])
                .title("Hidden")
                .description("What it is."),
        )
}

async fn read(lines: &mut Lines, uri: &str) -> Value {
    lines.ask(1, "resources/read", json!({"uri": uri})).await
}

async fn get(lines: &mut Lines, name: &str, arguments: Value) -> Value {
    lines.ask(1, "prompts/get", json!({"name": name, "arguments": arguments})).await
}

#[tokio::test]
async fn they_are_listed_in_order() {
    let mut lines = Lines::greeted(&server()).await;
    let listed = lines.ask(1, "resources/list", json!({})).await;
    let listed = listed["result"]["resources"].as_array().unwrap().clone();
    let uris: Vec<_> = listed.iter().map(|resource| resource["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["notes://a", "notes://b", "notes://days/monday/noon", "notes://secret"]);
    let second = json!({
        "uri": "notes://b", "name": "notes://b", "title": "The second", "description": "What b is.", "mimeType": "text/plain"
    });
    assert_eq!(listed[1], second);
    let listed = lines.ask(2, "resources/templates/list", json!({})).await;
    let templates =
        json!([{"uriTemplate": "notes://days/{day}/{part}", "name": "notes://days/{day}/{part}"}]);
    assert_eq!(listed["result"]["resourceTemplates"], templates);
    let listed = lines.ask(3, "prompts/list", json!({})).await;
    let review = json!([
        {"name": "language", "required": false},
        {"name": "code", "description": "What to review.", "required": true},
    ]);
    let prompts = json!([
        {"name": "hidden", "title": "Hidden", "description": "What it is."},
        {"name": "picture", "arguments": [{"name": "file", "description": "An address.", "required": true}]},
        {"name": "review", "arguments": review},
    ]);
    assert_eq!(listed["result"]["prompts"], prompts);
}

#[tokio::test]
async fn a_server_without_them_does_not_know_the_methods() {
    let server = McpServer::from_runtime(&Runtime::builder().build()).tools::<&str>([]);
    let mut lines = Lines::greeted(&server).await;
    for method in ["resources/list", "resources/templates/list", "prompts/list"] {
        assert_eq!(lines.ask(1, method, json!({})).await["error"]["code"], -32601, "{method}");
    }
}

#[tokio::test]
async fn a_resource_is_read_by_its_address() {
    let mut lines = Lines::greeted(&server()).await;
    let contents = |answer: &Value| answer["result"]["contents"][0].clone();
    let read_b = contents(&read(&mut lines, "notes://b").await);
    assert_eq!(read_b, json!({"uri": "notes://b", "mimeType": "text/plain", "text": "B"}));
    let read_a = contents(&read(&mut lines, "notes://a").await);
    assert_eq!(read_a, json!({"uri": "notes://a", "mimeType": "image/png", "blob": "AP8="}));
    assert_eq!(contents(&read(&mut lines, "notes://days/monday/noon").await)["text"], "Lunch.");
    let made = contents(&read(&mut lines, "notes://days/monday/ten%20o'clock").await);
    let text = r#"notes://days/monday/ten%20o'clock Some("monday") Some("ten o'clock")"#;
    assert_eq!(made, json!({"uri": "notes://days/monday/ten%20o'clock", "text": text}));
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error_that_says_why() {
    let mut lines = Lines::greeted(&server()).await;
    let long = format!("notes://{}", "x".repeat(9000));
    for (uri, code, said) in [
        ("notes://c", -32002, "there is no resource `notes://c`; did you mean `notes://a`?"),
        ("notes://days/monday", -32002, "there is no resource `notes://days/monday`"),
        ("notes://days/a/b/c", -32002, "there is no resource"),
        (long.as_str(), -32002, "an address has at most 8192 bytes"),
        ("notes://days/never/x", -32603, "there are no notes of this day"),
        ("notes://days/panic/x", -32603, "it could not be made"),
        ("notes://days/large/x", -32603, "has 1001 bytes, and 1000 is the most"),
        ("notes://secret", -32003, "the resource `notes://secret` needs the scope `secrets`"),
    ] {
        let answer = read(&mut lines, uri).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(said), "{uri}: {message}");
        assert!(!message.contains("a secret"), "{message}");
        assert_eq!(answer["error"]["code"], code, "{uri}");
    }
    let mut granted = Lines::greeted(&server().grant(["secrets"])).await;
    assert_eq!(read(&mut granted, "notes://secret").await["result"]["contents"][0]["text"], "S");
}

#[tokio::test]
async fn a_prompt_is_filled_in() {
    let mut lines = Lines::greeted(&server()).await;
    let made = get(&mut lines, "review", json!({"code": "{code}", "language": "Rust"})).await;
    let message = json!({"role": "user", "content": {"type": "text", "text": "Review this Rust code: {code}"}});
    assert_eq!(made["result"]["messages"], json!([message]));
    let made = get(&mut lines, "picture", json!({"file": "notes://b"})).await;
    let contents = json!({"uri": "notes://b", "mimeType": "text/plain", "text": "hello"});
    let messages = json!([
        {"role": "user", "content": {"type": "image", "data": "AQI=", "mimeType": "image/png"}},
        {"role": "user", "content": {"type": "resource", "resource": contents}},
        {"role": "assistant", "content": {"type": "text", "text": "I see."}},
    ]);
    assert_eq!(made["result"]["messages"], messages);
    for (name, arguments, said) in [
        ("reviews", json!({}), "there is no prompt `reviews`; did you mean `review`?"),
        ("review", json!({}), "the prompt `review` needs the argument `code`"),
        ("review", json!({"code": "x", "lang": "y"}), "has no argument `lang`"),
        ("review", json!({"code": 1}), "the argument `code` must be a text"),
        ("hidden", json!({}), "the prompt `hidden` needs the scope `secrets`"),
        ("review", json!({"code": "x".repeat(2000)}), "and 1000 is the most"),
    ] {
        let answer = get(&mut lines, name, arguments).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(said), "{name}: {message}");
    }
}

#[tokio::test]
async fn a_prompt_asks_for_what_a_client_leaves_out() {
    let plan = ServedPrompt::text("plan", "Plan {days} days in {place}, {mood?}.")
        .argument("days", "How many.")
        .asked_argument("place", "Where to.")
        .asked_argument("mood", "For whom.");
    let server = McpServer::from_runtime(&Runtime::builder().build())
        .tools::<&str>([])
        .max_arguments(1000)
        .prompt(plan);
    let of = |arguments: Value, responses: Value, capabilities: Value| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "lines", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        json!({"name": "plan", "arguments": arguments, "inputResponses": responses, "_meta": meta})
    };
    let forms = || json!({"elicitation": {}});
    let mut lines = Lines::of(&server);
    let listed = lines.ask(1, "prompts/list", of(json!({}), json!({}), forms())).await;
    let required = listed["result"]["prompts"][0]["arguments"].as_array().unwrap().clone();
    assert_eq!(
        required.iter().map(|one| &one["required"]).collect::<Vec<_>>(),
        [true, false, false],
        "{listed}"
    );
    let days = json!({"days": "2"});
    let asked = lines.ask(1, "prompts/get", of(days.clone(), json!({}), forms())).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let form = &asked["result"]["inputRequests"]["arguments"]["params"]["requestedSchema"];
    assert_eq!(form["required"], json!(["place", "mood"]), "{asked}");
    assert_eq!(
        form["properties"]["place"],
        json!({"type": "string", "description": "Where to."}),
        "{asked}"
    );
    let said =
        |content: Value| json!({"arguments": {"action": "accept", "content": content}, "other": 7});
    // Answers for arguments that are already given or were not requested are ignored.
    let content = json!({"place": "Oslo", "days": "9", "mood": 7, "more": "x"});
    let again = lines.ask(1, "prompts/get", of(days.clone(), said(content), forms())).await;
    let request = &again["result"]["inputRequests"]["arguments"]["params"];
    assert_eq!(request["requestedSchema"]["required"], json!(["mood"]), "{again}");
    assert!(request["message"].as_str().unwrap().contains("`mood` must be a text"), "{again}");
    let content = json!({"place": "Oslo", "mood": "with children"});
    let made = lines.ask(1, "prompts/get", of(days.clone(), said(content), forms())).await;
    let text = &made["result"]["messages"][0]["content"]["text"];
    assert_eq!(text, "Plan 2 days in Oslo, with children.", "{made}");
    for (params, code, problem) in [
        // No question is sent for arguments that the client must provide itself.
        (of(json!({}), json!({}), forms()), -32602, "needs the argument `days`"),
        (of(days.clone(), json!({}), json!({})), -32021, "needs the argument `place`"),
        (
            of(days.clone(), json!({"arguments": {"action": "decline"}}), forms()),
            -32602,
            "needs the argument `place`",
        ),
        (
            of(days.clone(), said(json!({"place": "x".repeat(999), "mood": "y"})), forms()),
            -32602,
            "1000 is the most",
        ),
        (
            of(json!({"days": "2", "place": "Oslo", "where": "x"}), json!({}), forms()),
            -32602,
            "no argument `where`",
        ),
    ] {
        let refused = lines.ask(1, "prompts/get", params).await;
        assert_eq!(refused["error"]["code"], code, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(problem), "{refused}");
    }
    // A client of an earlier revision has to send all required arguments.
    let mut lines = Lines::greeted_with(&server, forms()).await;
    let refused = get(&mut lines, "plan", days).await;
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("needs the argument `place`"),
        "{refused}"
    );
}

#[tokio::test]
async fn what_cannot_be_offered_is_an_error_before_anything_is_served() {
    let none = || McpServer::from_runtime(&Runtime::builder().build());
    for (server, said) in [
        (
            none().resource(ServedResource::text("b", "")),
            "the resource `b`: an address begins with a scheme",
        ),
        (none().resource(ServedResource::text("a://{b", "")), "a `{` in it has no `}`"),
        (
            none().prompt(ServedPrompt::text("p", "{a.b}")),
            "the prompt `p`: `{a.b}` is a part of a value",
        ),
        (none().prompt(ServedPrompt::text("p", "{a")), "the prompt `p`"),
        (
            none().prompt(ServedPrompt::text("p", "{code}").argument("cod", "x")),
            "its text has no `{cod}`; did you mean `code`?",
        ),
        (none().prompt(ServedPrompt::text("", "x")), "it has no name"),
        (
            none().prompt(ServedPrompt::text("p", "x")).prompt(ServedPrompt::text("p", "y")),
            "the prompt `p`: another prompt has this name",
        ),
        (
            none()
                .resource(ServedResource::text("a://b", ""))
                .resource(ServedResource::text("a://b", "")),
            "the resource `a://b`: another resource has this name",
        ),
    ] {
        let problem = server.check().await.unwrap_err().to_string();
        assert!(problem.contains(said), "{problem}");
    }
}

/// A function that never ends is stopped by the time limit, and by a client that cancels.
#[tokio::test(start_paused = true)]
async fn a_read_has_a_time_limit_and_is_cancelled() {
    struct SaysStop(Arc<Notify>);
    impl Drop for SaysStop {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let (begun, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (has_begun, has_stopped) = (Arc::clone(&begun), Arc::clone(&stopped));
    let server = McpServer::from_runtime(&Runtime::builder().build()).tools::<&str>([]);
    let server = server.resource(ServedResource::read("notes://never", move |_| {
        let stop = SaysStop(Arc::clone(&has_stopped));
        let begun = Arc::clone(&has_begun);
        async move {
            let _stop = stop;
            begun.notify_one();
            std::future::pending::<Result<String, String>>().await
        }
    }));
    let mut lines = Lines::greeted(&server).await;
    let answer = tokio::time::timeout(Duration::from_secs(61), read(&mut lines, "notes://never"))
        .await
        .unwrap();
    assert!(
        answer["error"]["message"].as_str().unwrap().contains("it was not made within 60s"),
        "{answer}"
    );
    within("`stopped`", stopped.notified()).await;
    within("`begun`", begun.notified()).await;

    lines.send(7, "resources/read", json!({"uri": "notes://never"})).await;
    within("`begun`", hold_time(begun.notified())).await;
    lines.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})).await;
    within("`stopped`", hold_time(stopped.notified())).await;
}
