//! Resources and prompts of MCP servers: lists in both protocol eras, caching of lists, reads and
//! errors.

use std::time::Duration;

use agentflow::mcp::{McpClient, McpContent, McpError};
use agentflow::message::{Part, Role, ToolCall, ToolPart, ToolStatus};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::tool::Effects;
use agentflow_testing::{McpAnswer, ScriptedMcp, ScriptedModel, Turn};

use super::mcp_tools::client;

fn note(name: &str) -> Value {
    json!({"uri": format!("note://{name}"), "name": name, "description": format!("The note {name}."), "mimeType": "text/plain"})
}

/// Creates a server with two resources, a template and a prompt, in unsorted order.
fn notes() -> ScriptedMcp {
    let template = json!({"uriTemplate": "note:///{name}", "name": "all"});
    let prompt = |name: &str| {
        let arguments = [json!({"name": "of", "required": true}), json!({"name": "in"})];
        json!({"name": name, "description": "Sums up.", "arguments": arguments})
    };
    ScriptedMcp::new([])
        .resources([note("b"), note("a"), note("b")])
        .resource_templates([template])
        .prompts([prompt("sum"), prompt("add")])
}

fn eras() -> [fn() -> ScriptedMcp; 3] {
    [notes, || notes().without_handshake(), || notes().paged(1)]
}

fn built(server: &ScriptedMcp) -> McpClient {
    client(server).build().unwrap()
}

#[tokio::test]
async fn they_are_listed_in_order_in_both_eras() {
    for server in eras().map(|server| server()) {
        let client = built(&server);
        let resources = client.resources().await.unwrap();
        let uris: Vec<&str> = resources.iter().map(|resource| resource.uri.as_str()).collect();
        assert_eq!(uris, ["note://a", "note://b"]);
        assert_eq!(resources[0].description.as_deref(), Some("The note a."));
        assert_eq!(resources[0].mime_type.as_deref(), Some("text/plain"));
        assert_eq!(client.resource_templates().await.unwrap()[0].uri_template, "note:///{name}");
        let prompts = client.prompts().await.unwrap();
        let arguments: Vec<(&str, bool)> = prompts[0]
            .arguments
            .iter()
            .map(|argument| (argument.name.as_str(), argument.required))
            .collect();
        assert_eq!(
            (prompts[0].name.as_str(), &*arguments),
            ("add", &[("of", true), ("in", false)][..])
        );
        assert_eq!((prompts.len(), server.connections()), (2, 1));
        server.finish();
    }
}

#[tokio::test]
async fn of_a_server_without_them_the_lists_are_empty_and_nothing_is_asked() {
    for server in [ScriptedMcp::new([]), ScriptedMcp::new([]).without_handshake()] {
        let client = built(&server);
        assert!(
            client.resources().await.unwrap().is_empty()
                && client.resource_templates().await.unwrap().is_empty()
        );
        assert!(client.prompts().await.unwrap().is_empty());
        assert_eq!((server.listed("resources/list"), server.listed("prompts/list")), (0, 0));
        let error = client.resource("note://a").await.unwrap_err();
        assert!(matches!(error, McpError::Refused { request: "resources/read", .. }), "{error}");
        server.forgive();
    }
}

#[tokio::test]
async fn a_resource_is_its_texts_and_its_bytes() {
    let contents = json!({"contents": [
        {"uri": "note://a/1", "mimeType": "text/plain", "text": "one"},
        {"uri": "note://a/2", "blob": "iVBORw==", "mimeType": "image/png"},
        {"uri": "note://a/3", "blob": "iVBORw"},
    ]});
    for server in eras().map(|server| server()) {
        let server = server.answers_reads([("note://a", McpAnswer::Result(contents.clone()))]);
        let read = built(&server).resource("note://a").await.unwrap();
        assert_eq!(read[0].text(), Some("one"));
        let McpContent::Bytes { uri, mime_type, bytes } = &read[1] else { panic!("{read:?}") };
        assert_eq!(
            (uri.as_str(), mime_type.as_deref(), &bytes[..]),
            ("note://a/2", Some("image/png"), &b"\x89PNG"[..])
        );
        assert!(
            matches!(&read[2], McpContent::Bytes { bytes, mime_type: None, .. } if bytes == b"\x89PNG")
        );
        assert_eq!(server.reads(), ["note://a"]);
        server.finish();
    }
}

#[tokio::test]
async fn a_prompt_is_messages_that_a_model_reads() {
    let messages = json!({"description": "A sum.", "messages": [
        {"role": "user", "content": {"type": "text", "text": "Sum up."}},
        {"role": "assistant", "content": {"type": "text", "text": "What?"}},
        {"role": "user", "content": {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}},
        {"role": "user", "content": {"type": "resource", "resource": {"uri": "note://a", "text": "one"}}},
        {"role": "user", "content": {"type": "resource", "resource": {"uri": "note://z", "blob": "AAA="}}},
        {"role": "user", "content": {"type": "resource_link", "uri": "note://b", "name": "b"}},
    ]});
    for server in eras().map(|server| server()) {
        let server = server.answers_prompts([("sum", McpAnswer::Result(messages.clone()))]);
        let messages = built(&server).prompt("sum", &[("of", "a"), ("in", "b")]).await.unwrap();
        let said: Vec<(Role, String)> =
            messages.iter().map(|message| (message.role(), message.text().into_owned())).collect();
        let expected = [
            (Role::User, "Sum up."),
            (Role::Assistant, "What?"),
            (Role::User, ""),
            (Role::User, "one"),
            (Role::User, ""),
            (Role::User, "[b: note://b]"),
        ];
        assert_eq!(said, expected.map(|(role, text)| (role, text.to_owned())));
        let files: Vec<&str> = messages
            .iter()
            .flat_map(|message| message.parts())
            .filter_map(|part| match part {
                Part::Media(file) => Some(file.url.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(
            files,
            ["data:image/png;base64,iVBORw==", "data:application/octet-stream;base64,AAA="]
        );
        assert_eq!(server.prompted(), [("sum".to_owned(), json!({"of": "a", "in": "b"}))]);
        server.finish();
    }
}

/// Lets the task that handles the server's notifications run.
async fn heard() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_list_counts_until_the_server_says_that_it_changed() {
    let changed =
        McpAnswer::NewPrompts(Vec::new(), Box::new(McpAnswer::contents("note://a", "two")));
    let server = notes().answers_reads([
        (
            "note://a",
            McpAnswer::NewResources(
                vec![note("c")],
                Box::new(McpAnswer::contents("note://a", "one")),
            ),
        ),
        ("note://a", changed),
    ]);
    let client = built(&server);
    for _ in 0..3 {
        assert_eq!(
            (client.resources().await.unwrap().len(), client.prompts().await.unwrap().len()),
            (2, 2)
        );
    }
    assert_eq!((server.listed("resources/list"), server.listed("prompts/list")), (1, 1));
    client.resource("note://a").await.unwrap();
    heard().await;
    assert_eq!(
        (client.resources().await.unwrap()[0].uri.as_str(), client.prompts().await.unwrap().len()),
        ("note://c", 2)
    );
    client.resource("note://a").await.unwrap();
    heard().await;
    assert!(client.prompts().await.unwrap().is_empty());
    assert_eq!((server.listed("resources/list"), server.listed("prompts/list")), (2, 2));
    // A new connection may reach another version of the server, so lists are fetched again.
    client.close().await;
    client.resources().await.unwrap();
    assert_eq!(server.listed("resources/list"), 3);
    server.finish();
}

#[tokio::test(start_paused = true)]
async fn a_list_counts_as_long_as_the_server_says() {
    let server = notes().without_handshake().lists_count_for(Duration::from_secs(90));
    let client = built(&server);
    // Until the subscription for changes is active, a fetched list may already be outdated.
    client.resources().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.resources().await.unwrap();
    let asked = server.listed("resources/list");
    tokio::time::sleep(Duration::from_secs(80)).await;
    client.resources().await.unwrap();
    assert_eq!(server.listed("resources/list"), asked);
    tokio::time::sleep(Duration::from_secs(10)).await;
    client.resources().await.unwrap();
    assert_eq!(server.listed("resources/list"), asked + 1);
    // A list without a lifetime is fetched each time.
    let server = notes().without_handshake();
    let client = built(&server);
    for _ in 0..3 {
        client.resources().await.unwrap();
    }
    assert_eq!(server.listed("resources/list"), 3);
}

#[tokio::test(start_paused = true)]
async fn tools_are_listed_again_when_their_time_is_over() {
    for (says, seconds) in [(90, 90), (1, 30)] {
        let server = notes().without_handshake().lists_count_for(Duration::from_secs(says));
        let toolset = built(&server).toolset();
        toolset.tools().await.unwrap();
        tokio::time::sleep(Duration::from_secs(seconds - 1)).await;
        toolset.tools().await.unwrap();
        assert_eq!(server.listed("tools/list"), 1, "{says}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        toolset.tools().await.unwrap();
        toolset.tools().await.unwrap();
        assert_eq!(server.listed("tools/list"), 2, "{says}");
    }
}

#[tokio::test]
async fn one_that_asks_a_person_first_is_an_error_that_says_what() {
    let properties = json!({"who": {"type": "string"}});
    let asks = |answer: McpAnswer| answer.after_asking("Who are you?", properties.clone());
    let server = notes()
        .without_handshake()
        .answers_reads([("note://a", asks(McpAnswer::contents("note://a", "one")))])
        .answers_prompts([("sum", asks(McpAnswer::prompt("Sum up.")))]);
    let client = built(&server);
    let read = client.resource("note://a").await.unwrap_err();
    assert_eq!(
        read.to_string(),
        "the MCP server `notes` does not answer `resources/read` before a person has answered, who can only be asked in \
         the call of a tool: the MCP server `notes` asks: Who are you?"
    );
    let prompt = client.prompt("sum", &[]).await.unwrap_err();
    assert!(matches!(prompt, McpError::Asks { request: "prompts/get", .. }), "{prompt}");
    assert!(server.answered().is_empty());
    // On an open connection the question is declined, and the server continues with its fallback.
    let server =
        notes().answers_reads([("note://a", asks(McpAnswer::contents("note://a", "one")))]);
    assert_eq!(built(&server).resource("note://a").await.unwrap()[0].text(), Some("one"));
    assert_eq!(server.answered(), [json!({"action": "decline"})]);
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_is_read_once_more_and_what_is_refused_is_not() {
    let server = notes()
        .answers_reads([
            ("note://a", McpAnswer::HangUp),
            ("note://a", McpAnswer::contents("note://a", "one")),
        ])
        .answers_prompts([("sum", McpAnswer::Error(-32602, "`of` is missing".to_owned()))]);
    let client = built(&server);
    assert_eq!(client.resource("note://a").await.unwrap()[0].text(), Some("one"));
    assert_eq!(server.connections(), 2);
    let error = client.prompt("sum", &[]).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the MCP server `notes` refused `prompts/get` (-32602): `of` is missing"
    );
    server.finish();
}

#[tokio::test]
async fn an_agent_lists_and_reads_them_where_the_program_says_so() {
    let picture = json!({"contents": [
        {"uri": "note://b", "text": "two"}, {"uri": "note://b/p", "blob": "iVBORw==", "mimeType": "image/png"},
    ]});
    let server = notes().answers_reads([
        ("note://a", McpAnswer::contents("note://a", "one")),
        ("note://b", McpAnswer::Result(picture)),
        ("note://x", McpAnswer::Error(-32602, "there is no such note".to_owned())),
    ]);
    let notes = client(&server).resources_as_tools().build().unwrap();
    let tools = notes.toolset().tools().await.unwrap();
    let of = |tool: &agentflow::tool::ToolRef| {
        (tool.catalogue_name().to_string(), tool.definition().policy.effects)
    };
    let both = ["mcp.notes.list_resources", "mcp.notes.read_resource"]
        .map(|name| (name.to_owned(), Effects::Read));
    assert_eq!(tools.iter().map(of).collect::<Vec<_>>(), both);
    let model = ScriptedModel::new([
        Turn::call("mcp__notes__list_resources", json!({"contains": "note a"})),
        Turn::call("mcp__notes__read_resource", json!({"uri": "note://a"})),
        Turn::text("done"),
    ])
    .capturing();
    let agent = Agent::new(model.clone()).tools(notes.clone());
    assert_eq!(agent.run("Read.").await.unwrap().output(), "done");
    let last = &model.requests()[2].messages;
    let results: Vec<String> =
        last.messages().iter().flat_map(|m| m.results().map(|of| of.text().into_owned())).collect();
    let listed: Value = serde_json::from_str(&results[0]).unwrap();
    assert_eq!(
        (&listed["resources"][0]["uri"], listed["resources"].as_array().unwrap().len()),
        (&json!("note://a"), 1)
    );
    assert_eq!(results[1], "one");
    let runtime = Runtime::builder().toolset(notes).build();
    let call =
        |uri: &str| ToolCall::new("c", "notes:read_resource", json!({"uri": uri}).to_string());
    let read = runtime.invoke(&call("note://b"), &[]).await.unwrap();
    assert_eq!(&*read.text(), "two");
    assert!(
        matches!(&read.parts()[0], ToolPart::Media(file) if file.url == "data:image/png;base64,iVBORw==")
    );
    let unknown = runtime.invoke(&call("note://x"), &[]).await.unwrap();
    assert_eq!(unknown.status, ToolStatus::InvalidArguments, "{}", unknown.output);
    server.finish();
}

#[tokio::test]
async fn a_servers_own_tool_of_that_name_stays() {
    let server =
        ScriptedMcp::new([ScriptedMcp::tool("read_resource", json!({}))]).resources([note("a")]);
    let client = client(&server).resources_as_tools().build().unwrap();
    let tools = client.toolset().tools().await.unwrap();
    assert_eq!(
        tools.iter().map(|tool| tool.definition().policy.effects).collect::<Vec<_>>(),
        [Effects::Read, Effects::Write]
    );
    let left_out = client.health().left_out;
    assert!(left_out.len() == 1 && left_out[0].1.contains("the server's own tool"), "{left_out:?}");
}

#[tokio::test]
async fn what_is_otherwise_than_scripted_is_kept() {
    let server = notes().answers_reads([("note://a", McpAnswer::contents("note://a", "one"))]);
    let client = built(&server);
    assert!(client.resource("note://b").await.is_err() && client.prompt("sum", &[]).await.is_err());
    assert_eq!(
        server.failures(),
        [
            "`note://b` was read, and `note://a` was due",
            "`sum` was asked for as a prompt, and no answer is left"
        ]
    );
    server.forgive();
    let server = notes().answers_prompts([("sum", McpAnswer::prompt("Sum up."))]);
    assert_eq!(server.failures(), ["1 answers were never asked for, the next one for `sum`"]);
    server.forgive();
}
