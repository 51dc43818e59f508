//! Tools of MCP servers in the catalogue and in agents: names, policies, outputs, changes, crashes.

use std::sync::Arc;

use agentflow::event::EventKind;
use agentflow::mcp::McpClient;
use agentflow::message::{ToolCall, ToolPart, ToolStatus};
use agentflow::prelude::*;
use agentflow::runtime::EntryKind;
use agentflow::serde_json::{Value, json};
use agentflow::tool::{Effects, ToolPolicy};
use agentflow_testing::{CrashTest, McpAnswer, ScriptedMcp, ScriptedModel, Turn, within};

/// Creates a server with the tools `read` and `write`.
fn notes() -> ScriptedMcp {
    let path = json!({"path": {"type": "string"}});
    ScriptedMcp::new([ScriptedMcp::tool("read", path.clone()), ScriptedMcp::tool("write", path)])
}

pub(super) fn client(server: &ScriptedMcp) -> agentflow::mcp::McpClientBuilder {
    let server = server.clone();
    McpClient::in_memory("notes", move || server.connect())
}

fn call(tool: &str, arguments: Value) -> ToolCall {
    ToolCall::new("c", tool, arguments.to_string())
}

async fn answer(
    server: &ScriptedMcp,
    tool: &str,
    arguments: Value,
) -> agentflow::message::ToolResult {
    let runtime = Runtime::builder().toolset(client(server).build().unwrap()).build();
    runtime.invoke(&call(tool, arguments), &[]).await.unwrap()
}

#[tokio::test]
async fn they_are_in_the_catalogue_under_the_name_of_their_server() {
    for server in [notes(), notes().without_handshake(), notes().paged(1)] {
        let runtime = Runtime::builder().toolset(client(&server).build().unwrap()).build();
        let catalogue = runtime.catalogue().snapshot().await.check().unwrap();
        let tools = catalogue.of_kind(EntryKind::Tool).map(|entry| &*entry.name);
        let names: Vec<&str> = tools.filter(|name| name.starts_with("mcp.")).collect();
        assert_eq!(names, ["mcp.notes.read", "mcp.notes.write"]);
        for name in ["mcp.notes.read", "mcp.notes:read", "mcp__notes__read", "notes:read"] {
            assert_eq!(
                &**runtime.catalogue().tool(name).await.unwrap().catalogue_name(),
                "mcp.notes.read",
                "{name}"
            );
        }
        let unknown = runtime.catalogue().tool("mcp.notes.raed").await.unwrap_err().to_string();
        assert!(unknown.contains("`mcp.notes.read`"), "{unknown}");
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn a_schema_is_checked_as_far_as_it_can_be() {
    let with = |name: &str, schema: Value| json!({"name": name, "inputSchema": schema});
    let mail = json!({"type": "string", "pattern": "^(?!noreply).+@.+$"});
    let server = ScriptedMcp::from_fn(
        [
            with("mail", json!({"type": "object", "properties": {"to": mail}, "required": ["to"]})),
            with(
                "elsewhere",
                json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/schema"}}}),
            ),
            with("empty", json!({})),
            json!({"name": "answers", "inputSchema": {"type": "object"},
                "outputSchema": {"type": "object", "properties": {"to": mail}}}),
        ],
        |_: &str, _: &Value| McpAnswer::text("sent"),
    );
    let client = client(&server).build().unwrap();
    let runtime = Runtime::builder().toolset(client.clone()).build();
    let catalogue = runtime.catalogue().snapshot().await.check().unwrap();
    assert_eq!(client.health().left_out, []);
    for (name, unchecked) in [
        ("mail", Some("`/properties/to/pattern`")),
        ("elsewhere", Some("leads to no schema")),
        ("empty", None),
        ("answers", None),
    ] {
        let entry = catalogue.get(EntryKind::Tool, &format!("mcp.notes.{name}")).unwrap();
        let said = entry.unchecked.join("\n");
        assert_eq!(said.is_empty(), unchecked.is_none(), "{name}: {said}");
        assert!(said.contains(unchecked.unwrap_or_default()), "{name}: {said}");
    }
    let call = async |name: &str, arguments: Value| {
        let call = ToolCall::new("c", format!("mcp.notes.{name}"), arguments.to_string());
        runtime.invoke(&call, &[]).await.unwrap().status
    };
    assert_eq!(call("mail", json!({"to": "noreply@example.com"})).await, ToolStatus::Success);
    assert_eq!(call("mail", json!({"to": 7})).await, ToolStatus::InvalidArguments);
    assert_eq!(call("empty", json!({})).await, ToolStatus::Success);
}

#[tokio::test]
async fn a_null_for_an_optional_argument_is_left_out_unless_the_schema_allows_it() {
    let properties = json!({"query": {"type": "string"}, "limit": {"type": "integer"}, "after": {"type": ["string", "null"]}});
    let schema = json!({"type": "object", "properties": properties, "required": ["query"]});
    let find = || {
        ScriptedMcp::from_fn(
            [json!({"name": "find", "inputSchema": schema})],
            |_: &str, _: &Value| McpAnswer::text("ok"),
        )
    };
    let server = find();
    let result =
        answer(&server, "mcp.notes.find", json!({"query": "a", "limit": null, "after": null}))
            .await;
    assert_eq!(result.status, ToolStatus::Success, "{}", result.text());
    assert_eq!(server.calls(), [("find".to_owned(), json!({"query": "a", "after": null}))]);
    let server = find();
    let result = answer(&server, "mcp.notes.find", json!({"query": null})).await;
    assert_eq!(
        (result.status, server.calls().len()),
        (ToolStatus::InvalidArguments, 0),
        "{}",
        result.text()
    );
}

#[tokio::test]
async fn a_call_has_the_policy_and_the_checks_of_any_other() {
    let server = notes().answers([("read", McpAnswer::text("one"))]);
    let policy = ToolPolicy::default().scopes(["notes"]);
    let client = client(&server).tool_policy("read", policy).build().unwrap();
    let runtime = Runtime::builder().toolset(client).build();
    let refused = runtime.invoke(&call("mcp.notes.read", json!({})), &[]).await.unwrap();
    assert_eq!(refused.status, ToolStatus::Unauthorized);
    let wrong = runtime
        .invoke(&call("mcp.notes.read", json!({"path": 7})), &["notes".into()])
        .await
        .unwrap();
    assert_eq!(wrong.status, ToolStatus::InvalidArguments);
    assert!(wrong.output.contains("`path`"), "{}", wrong.output);
    assert!(server.calls().is_empty());
    let read = runtime
        .invoke(&call("mcp.notes.read", json!({"path": "a"})), &["notes".into()])
        .await
        .unwrap();
    assert_eq!((read.status, &*read.text()), (ToolStatus::Success, "one"));
    assert_eq!(server.calls(), [("read".to_owned(), json!({"path": "a"}))]);
    server.finish();
}

#[tokio::test]
async fn lists_say_which_tools_are_offered() {
    for (client, expected) in [
        (client(&notes()).allow_tools(["read", "other"]), ["mcp.notes.read"]),
        (client(&notes()).deny_tools(["write"]), ["mcp.notes.read"]),
    ] {
        let tools = client.build().unwrap().toolset().tools().await.unwrap();
        assert_eq!(
            tools.iter().map(|tool| tool.catalogue_name().to_string()).collect::<Vec<_>>(),
            expected
        );
    }
}

#[tokio::test]
async fn what_a_server_says_of_its_tools_makes_no_policy_wider() {
    let hinted = |name: &str, hints: Value| {
        let mut tool = ScriptedMcp::tool(name, json!({}));
        tool["annotations"] = hints;
        tool
    };
    let server = ScriptedMcp::new([
        hinted("reads", json!({"readOnlyHint": true, "idempotentHint": true})),
        hinted("says_nothing", json!({})),
        hinted("writes", json!({"readOnlyHint": false, "idempotentHint": false})),
    ]);
    let policies = |client: McpClient| async move {
        let tools = client.toolset().tools().await.unwrap();
        let of = |tool: &agentflow::tool::ToolRef| {
            let policy = &tool.definition().policy;
            (policy.effects, policy.idempotent)
        };
        tools.iter().map(of).collect::<Vec<_>>()
    };
    let (write, read) = (Effects::Write, Effects::Read);
    let builder = || client(&server);
    assert_eq!(
        policies(builder().build().unwrap()).await,
        [(write, false), (write, false), (write, false)]
    );
    let trusted = builder().trust_hints().build().unwrap();
    assert_eq!(policies(trusted).await, [(read, true), (write, false), (write, false)]);
    // The program's policy for all tools is overridden by a tool's hint that it has side effects.
    let reading =
        builder().policy(ToolPolicy::default().effects(read).idempotent()).build().unwrap();
    assert_eq!(policies(reading).await, [(read, true), (read, true), (write, false)]);
    // For a tool with its own policy in the program, the server's hints are ignored.
    let known =
        builder().trust_hints().tool_policy("reads", ToolPolicy::default()).build().unwrap();
    assert_eq!(policies(known).await[0], (write, false));
    let known =
        builder().tool_policy("writes", ToolPolicy::default().effects(read)).build().unwrap();
    assert_eq!(policies(known).await[2], (read, false));
}

#[tokio::test]
async fn an_answer_is_its_structured_value_or_its_text_with_files_and_links() {
    let whole = json!({"content": [
        {"type": "text", "text": "first"},
        {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "note://a", "text": "second"}},
        {"type": "resource", "resource": {"uri": "note://b", "blob": "AAA=", "mimeType": "application/zip"}},
        {"type": "resource_link", "uri": "note://c", "name": "c", "mimeType": "text/plain"},
        {"type": "audio", "data": "AAA=", "mimeType": "audio/wav"},
    ]});
    let server = notes().answers([
        ("read", McpAnswer::Result(whole)),
        ("read", McpAnswer::structured(json!({"n": 1}))),
        (
            "read",
            McpAnswer::Result(json!({"content": [{"type": "text", "text": "One."}], "structuredContent": {"n": 1}})),
        ),
        ("read", McpAnswer::Result(json!({"content": []}))),
        ("read", McpAnswer::Result(json!({"content": [{"type": "text", "text": "no such note"}], "isError": true}))),
        ("read", McpAnswer::Error(-32602, "a path is needed".to_owned())),
        ("read", McpAnswer::Error(-32000, "the disk is full".to_owned())),
    ]);
    let whole = answer(&server, "mcp.notes.read", json!({})).await;
    assert_eq!(&*whole.text(), "first\nsecond");
    let parts: Vec<String> = whole
        .parts()
        .iter()
        .map(|part| match part {
            ToolPart::Media(file) => file.url.clone(),
            ToolPart::Link(link) => format!("{} {:?}", link.uri, link.mime_type),
            _ => String::new(),
        })
        .collect();
    assert_eq!(
        parts,
        [
            "data:image/png;base64,iVBORw==",
            "data:application/zip;base64,AAA=",
            "data:audio/wav;base64,AAA=",
            "note://c Some(\"text/plain\")",
        ]
    );
    for (output, text) in [(r#"{"n":1}"#, r#"{"n":1}"#), (r#"{"n":1}"#, "One."), (r#""""#, "")] {
        let result = answer(&server, "mcp.notes.read", json!({})).await;
        assert_eq!(
            (result.status, &*result.output, &*result.text()),
            (ToolStatus::Success, output, text)
        );
    }
    for (status, says) in [
        (ToolStatus::Error, "no such note"),
        (ToolStatus::InvalidArguments, "(-32602): a path is needed"),
        (ToolStatus::Error, "(-32000): the disk is full"),
    ] {
        let result = answer(&server, "mcp.notes.read", json!({})).await;
        assert_eq!(result.status, status);
        assert!(result.output.contains(says), "{}", result.output);
    }
    server.finish();
}

#[tokio::test]
async fn an_answer_that_its_tool_does_not_declare_is_an_error() {
    let mut tool = ScriptedMcp::tool("count", json!({}));
    tool["outputSchema"] =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let server = ScriptedMcp::new([tool]).answers([
        ("count", McpAnswer::structured(json!({"n": 1}))),
        ("count", McpAnswer::structured(json!({"n": "one"}))),
        ("count", McpAnswer::text("one")),
    ]);
    assert_eq!(&*answer(&server, "mcp.notes.count", json!({})).await.output, r#"{"n":1}"#);
    for says in ["`n`: ", "no structured value"] {
        let result = answer(&server, "mcp.notes.count", json!({})).await;
        assert_eq!(result.status, ToolStatus::Error);
        assert!(result.output.contains(says), "{}", result.output);
    }
}

#[tokio::test]
async fn progress_is_shown_as_it_arrives() {
    let words =
        vec![json!({"progress": 1, "total": 2, "message": "half"}), json!({"progress": 2.5})];
    let server =
        notes().answers([("read", McpAnswer::Progress(words, Box::new(McpAnswer::text("all"))))]);
    let model = ScriptedModel::new([Turn::call("mcp__notes__read", json!({})), Turn::text("done")]);
    let agent = Agent::new(model).tools(client(&server).build().unwrap());
    let mut stream = agent.stream("Go.").unwrap();
    let mut shown = Vec::new();
    while let Some(event) =
        within("the next event", futures_util::StreamExt::next(&mut stream)).await
    {
        if let EventKind::StepProgress { value } = &event.kind {
            shown.push(value.decode::<Value>().unwrap());
        }
    }
    assert_eq!(
        shown,
        [json!({"progress": 1.0, "total": 2.0, "message": "half"}), json!({"progress": 2.5})]
    );
}

#[tokio::test]
async fn a_change_of_the_tools_counts_from_the_next_turn() {
    for server in [notes(), notes().without_handshake()] {
        let new = vec![ScriptedMcp::tool("find", json!({}))];
        let server = server.answers([
            ("read", McpAnswer::NewTools(new, Box::new(McpAnswer::text("one")))),
            ("find", McpAnswer::text("two")),
        ]);
        let client = client(&server).build().unwrap();
        let toolset = client.toolset();
        let before = toolset.tools().await.unwrap();
        let model = ScriptedModel::new([
            Turn::call("mcp__notes__read", json!({})),
            Turn::call("mcp__notes__find", json!({})),
            Turn::text("done"),
        ])
        .capturing();
        let result = Agent::new(model.clone()).tools(client).run("Go.").await.unwrap();
        assert_eq!(result.output(), "done");
        let offered: Vec<usize> =
            model.requests().iter().map(|request| request.tools.definitions().len()).collect();
        assert_eq!(offered, [2, 1, 1]);
        assert_eq!(before.len(), 2);
        server.finish();
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled_at_the_server() {
    for server in [notes(), notes().without_handshake()] {
        let server =
            server.answers([("read", McpAnswer::Silence), ("read", McpAnswer::text("one"))]);
        let runtime = Runtime::builder().toolset(client(&server).build().unwrap()).build();
        let asked = call("mcp.notes.read", json!({}));
        let mut first = Box::pin(runtime.invoke(&asked, &[]));
        tokio::select! {
            _ = &mut first => panic!("it has no answer"),
            () = server.wait_until(|server| server.calls().len() == 1) => {}
        }
        drop(first);
        server.wait_until(|server| server.cancelled() == 1).await;
        // The connection is still usable.
        assert_eq!(&*runtime.invoke(&asked, &[]).await.unwrap().text(), "one");
        assert_eq!(server.connections(), 1);
        server.finish();
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_cancelled_when_its_time_is_over() {
    let server = notes().answers([("read", McpAnswer::Silence)]);
    let runtime = Runtime::builder().toolset(client(&server).build().unwrap()).build();
    let began = tokio::time::Instant::now();
    let result = runtime.invoke(&call("mcp.notes.read", json!({})), &[]).await.unwrap();
    assert_eq!((result.status, began.elapsed().as_secs()), (ToolStatus::Timeout, 60));
    server.wait_until(|server| server.cancelled() == 1).await;
}

#[tokio::test]
async fn a_workflow_of_data_calls_them_by_name() {
    use agentflow::workflow::Graph;
    let server = notes().answers([("read", McpAnswer::structured(json!({"text": "one"})))]);
    let graph: Graph = serde_json::from_value(json!({
        "version": 1, "name": "reading", "output": "page", "concurrency": 1,
        "nodes": [{"name": "page", "does": {"call": {"kind": "tool", "name": "mcp.notes.read", "with": {"object": {}}}}}],
    }))
    .unwrap();
    let runtime = Runtime::builder().toolset(client(&server).build().unwrap()).graph(graph).build();
    let input = agentflow::value::Encoded::new(&json!({})).unwrap();
    let output = runtime.start_named("reading", input).await.unwrap().result().await.unwrap();
    assert_eq!(output.decode::<Value>().unwrap(), json!({"text": "one"}));
    server.finish();
}

#[tokio::test(start_paused = true)]
async fn a_crash_repeats_a_call_only_where_that_does_no_harm() {
    for (policy, is_repeated) in
        [(ToolPolicy::default(), false), (ToolPolicy::default().effects(Effects::Read), true)]
    {
        let server = ScriptedMcp::from_fn([ScriptedMcp::tool("read", json!({}))], |_, _| {
            McpAnswer::text("one")
        });
        let client = client(&server).policy(policy).build().unwrap();
        let model = ScriptedModel::from_fn(|request| match request.messages.len() {
            1 => Turn::call("mcp__notes__read", json!({})),
            _ => Turn::text("done"),
        });
        let agent = Agent::new(model).tools(client);
        let report =
            CrashTest::agent(&agent, || "Go.").twice().may_differ_when_interrupted().run().await;
        assert!(report.crashes() > 10, "{report:?}");
        assert_eq!(report.interrupted() == 0, is_repeated, "{report:?}");
    }
}

#[tokio::test]
async fn they_are_shared_by_agents_and_their_connection_ends_with_the_last() {
    let server = notes();
    let client = client(&server).build().unwrap();
    let agents = [
        Agent::new(ScriptedModel::new([])).tools(client.clone()),
        Agent::new(ScriptedModel::new([])).tools(client.clone()),
    ];
    let (first, second) = (client.toolset(), client.toolset());
    let (one, other) = tokio::join!(first.tools(), second.tools());
    assert!(Arc::ptr_eq(&one.unwrap(), &other.unwrap()));
    assert!(client.health().is_connected);
    assert_eq!(client.health().implementation.as_deref(), Some("scripted 1"));
    assert_eq!(server.connections(), 1);
    client.close().await;
    assert!(!client.health().is_connected);
    drop(agents);
}
