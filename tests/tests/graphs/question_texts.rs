//! Tests questions of graphs, pipelines and documents: their placeholders are filled and checked,
//! and drawings show the questions.

use agentflow::Approval;
use agentflow::document::{Document, DocumentForm};
use agentflow::pipeline::Pipeline;
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, ToolRef, Toolset};
use agentflow::value::Encoded;
use agentflow::workflow::{Graph, GraphBody, GraphNode, Mapping, NodePolicy, Question, Reference};
use agentflow_testing::{test_runtime, within};
use serde_json::{Value, json};

use crate::documents::{problems, read};

/// Send money.
#[tool(approve)]
async fn question_texts_send(amount: i64) -> i64 {
    amount
}

const TRANSFER: &str = "name: transfer\ntopology:\n  sequence:\n    - gate: \"Transfer {input.amount} to {input.payee}?\"\n    - value: sent\n";

/// Approves the question of the node. Returns the question and the output of the workflow.
async fn asked(builder: RuntimeBuilder, name: &str, node: &str, input: Value) -> (String, Value) {
    let runtime = builder.store(MemoryStore::new()).build();
    let handle =
        runtime.start_named(name, Encoded::new(&json!({"input": input})).unwrap()).await.unwrap();
    let question =
        within("the question", handle.asked()).await.unwrap().expect("somebody is asked");
    assert!(question.path.starts_with(node), "{question:?}");
    runtime.run(handle.run_id()).approve(&question.id, Approval::granted(), "ada").await.unwrap();
    let output = handle.result().await.unwrap().decode().unwrap();
    (question.message, output)
}

#[tokio::test(start_paused = true)]
async fn a_question_is_filled_with_what_its_part_is_given() {
    let document = read(TRANSFER);
    let asks = asked(
        test_runtime().document(document.clone()),
        "transfer",
        "gate",
        json!({"amount": 5, "payee": "lee"}),
    );
    assert_eq!(asks.await, ("Transfer 5 to lee?".to_owned(), json!("sent")));
    // After another part, `input` is the output of that part. Double braces give a single brace.
    let gate = Pipeline::value(json!({"n": "{input}", "list": [1]}))
        >> Pipeline::gate("{{Is}} {input.n} of {input.list} fine?");
    let asks = asked(test_runtime().pipeline("made", &gate), "made", "gate", json!(7)).await;
    assert_eq!(asks, ("{Is} 7 of [1] fine?".to_owned(), json!({"n": 7, "list": [1]})));
    // The question of a policy may also read the state.
    let saved = Pipeline::value("ada").save("who")
        >> Pipeline::value("x").policy(NodePolicy::default().approve("{state.who}: {input}?"));
    let asks = asked(test_runtime().pipeline("made", &saved), "made", "value_2", json!(7)).await;
    assert_eq!(asks, ("ada: ada?".to_owned(), json!("x")));
    // An export contains the question as it was written.
    let tree = DocumentForm::Tree.export_with(document.graph(), document.inner()).unwrap();
    assert_eq!(
        tree["topology"]["sequence"][0]["gate"],
        "Transfer {input.amount} to {input.payee}?"
    );
    let graphs = gate.graphs("made").unwrap();
    let tree = DocumentForm::Tree.export(&graphs[0]).unwrap();
    assert_eq!(tree["topology"]["sequence"][1]["gate"], "{{Is}} {input.n} of {input.list} fine?");
    let tree = DocumentForm::Tree.export(&saved.graphs("made").unwrap()[0]).unwrap();
    assert_eq!(tree["topology"]["sequence"][1]["policy"]["approve"], "{state.who}: {input}?");
}

#[tokio::test(start_paused = true)]
async fn questions_of_graphs_are_filled() {
    let graph = |does: GraphBody, policy: NodePolicy| {
        Graph::new("asks", "asked")
            .with(GraphNode::input("input", json!(true)))
            .with(GraphNode::new("who", GraphBody::Value(Mapping::from("input"))))
            .with(GraphNode::new("asked", does).policy(policy))
    };
    let ask = GraphBody::Ask(Question::new("Is {who} right?"));
    let of_node = asked(
        test_runtime().graph(graph(ask, NodePolicy::default())),
        "asks",
        "asked",
        json!("lee"),
    )
    .await;
    assert_eq!(of_node.0, "Is lee right?");
    // The call of a tool that needs approval anyway.
    let send = GraphBody::Call(Reference::tool(
        "question_texts_send",
        Mapping::object([("amount", Mapping::from("input"))]),
    ));
    let policy = NodePolicy::default().approve("Send {who} dollars?");
    let of_call = asked(test_runtime().graph(graph(send, policy)), "asks", "asked", json!(5)).await;
    assert_eq!(of_call, ("Send 5 dollars?".to_owned(), json!(5)));
    // The node waits for outputs that only its question reads.
    let value = GraphBody::Value(Mapping::Value(json!(1)));
    let policy = NodePolicy::default().approve("Is {nodes.who.name?} {missing?} right?");
    let of_value =
        asked(test_runtime().graph(graph(value, policy)), "asks", "asked", json!({"name": "lee"}))
            .await;
    assert_eq!(of_value, ("Is lee  right?".to_owned(), json!(1)));
}

#[test]
fn mistakes_in_questions_are_found() {
    let misspelt = TRANSFER.replace("{input.amount}", "{inptu.amount}");
    let found = problems(&misspelt);
    assert!(
        found.len() == 1
            && found[0].contains("`{inptu}`")
            && found[0].ends_with("did you mean `input`?"),
        "{found:?}"
    );
    let open = problems(&TRANSFER.replace("{input.amount}", "{input.amount"));
    assert!(open.len() == 1 && open[0].starts_with("4:23: "), "{open:?}");
    let schema = TRANSFER.replace(
        "  sequence:",
        "  input: {type: object, properties: {amount: {}}, additionalProperties: false}\n  sequence:",
    );
    let found = problems(&schema);
    assert!(
        found.len() == 2 && found[1].starts_with("5:41: ") && found[1].contains("`{input.payee}`"),
        "{found:?}"
    );
    let error = Pipeline::gate("Is {input right?").graphs("made").unwrap_err().to_string();
    assert!(error.starts_with("the part `gate`: the text `Is {input right?`: "), "{error}");
    let policy = "name: w\ntopology: {value: 1, policy: {approve: 'may {x'}}\n";
    assert!(Document::read("w.yaml", policy).is_err());
}

/// Checks that a question cannot read a key with the scope `user` or `app`, since such keys are in
/// the store. An earlier part must read the key.
#[tokio::test(start_paused = true)]
async fn a_key_of_the_store_is_read_before_the_question() {
    for (key, line) in [("user:nick", "4:19"), ("app:firm", "4:19")] {
        let text =
            format!("name: w\ntopology:\n  sequence:\n    - gate: \"May {{{key}}} go on?\"\n");
        let says = format!(
            "{line}: the question of `gate` reads the state: `{key}` cannot be read here, since it is in the store; read it \
             before, in a node or a part that makes a value, and name that one here"
        );
        assert_eq!(problems(&text), [says], "{text}");
    }
    let policy = "name: w\ntopology: {value: 1, policy: {approve: 'may {user:nick} go on?'}}\n";
    let found = problems(policy);
    assert!(found.len() == 1 && found[0].starts_with("2:46: the question of `value`"), "{found:?}");
    // The fix that the message suggests works.
    let text = "name: w\ntopology:\n  sequence:\n    - {value: Ada, save: 'user:nick'}\n    - {value: '{user:nick}', as: who}\n    \
                - gate: \"May {nodes.who} go on?\"\n    - value: yes\n";
    let runtime = test_runtime().document(read(text)).store(MemoryStore::new()).build();
    let input = Encoded::new(&json!({"input": 1})).unwrap();
    let handle = runtime.start_named("w", input).caller("ada").await.unwrap();
    let question =
        within("the question", handle.asked()).await.unwrap().expect("somebody is asked");
    assert_eq!(question.message, "May Ada go on?");
}

#[test]
fn pictures_show_that_a_person_is_asked() {
    let graph = read(TRANSFER).graph().clone();
    let (mermaid, dot) = (graph.to_mermaid(), graph.to_dot());
    let question = "Transfer {input.amount} to {input.payee}?";
    assert!(mermaid.contains(&format!("n1{{{{\"gate<br/>asks: {question}\"}}}}\n")), "{mermaid}");
    assert!(
        dot.contains(&format!("n1 [label=\"gate\\nasks: {question}\", shape=hexagon];\n")),
        "{dot}"
    );
    let edges = "workflow_id: it\npermissions: {require_approval: true}\nnodes:\n  - {node_id: a, kind: router, permissions: {require_approval: true}}\nedges: []\n";
    let mermaid = read(edges).graph().to_mermaid();
    for asks in ["{{\"begin<br/>asks: may `it` begin?\"}}", "{{\"a<br/>asks: may `a` begin?\"}}"] {
        assert!(mermaid.contains(asks), "{asks}\n{mermaid}");
    }
    // A tool that needs approval by its own policy.
    let call = Pipeline::tool("question_texts_send").with(json!({"amount": "{input}"}));
    let runtime = test_runtime().pipeline("made", call).build();
    let mermaid = runtime.catalogue().workflow_graph("made").unwrap().to_mermaid();
    assert!(
        mermaid
            .contains("{{\"question_texts_send (tool)<br/>asks: call `question_texts_send`?\"}}"),
        "{mermaid}"
    );
}

/// Checks that drawings contain only nodes and keys that the author wrote, not nodes that the
/// compiler adds.
#[test]
fn pictures_show_no_nodes_that_nobody_wrote() {
    let text = "workflow_id: it
nodes:
  - {node_id: how, kind: router, condition_expr: kind, on_error: skip_node}
  - {node_id: ask, kind: a2a, task: Look., on_error: skip_node, input_mapping: {x: kind}, dependencies: [{dependency_id: d, dependency_type: a2a_agent, fixed_ref: {agent_id: r}}]}
  - {node_id: end, kind: terminal}
edges:
  - {from_node_id: how, to_node_id: ask, edge_type: conditional, condition_key: large}
  - {from_node_id: ask, to_node_id: end, edge_type: conditional, condition_key: text}
";
    let mermaid = read(text).graph().to_mermaid();
    let lines: Vec<&str> = mermaid.lines().map(str::trim).collect();
    let expected = ["n0 --> n3", "n3 -->|\"large\"| n5", "n5 -->|\"text\"| n6"];
    assert!(
        ["begin", "context", "skipped", "failed"].iter().all(|word| !mermaid.contains(word)),
        "{mermaid}"
    );
    for line in expected {
        assert!(lines.contains(&line), "{line}\n{mermaid}");
    }
    // With an approval before the workflow, the first node comes from the document.
    let asks = text.replace("nodes:", "permissions: {require_approval: true}\nnodes:");
    assert!(read(&asks).graph().to_mermaid().contains("begin"));
}

/// Checks that a question about a call shows the arguments, even if they come only from the state.
#[tokio::test(start_paused = true)]
async fn a_question_about_a_call_shows_arguments_of_the_state() {
    let dependency = "[{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {server_id: far, tool_name: echo}}]";
    let document = |mapping: &str| {
        format!(
            "workflow_id: it\nnodes:\n  - {{node_id: a, kind: mcp, {mapping}permissions: {{require_approval: true}}, \
             dependencies: {dependency}}}\nedges: []\n"
        )
    };
    let saved = Pipeline::value(json!({"n": "{input}"})).save("order")
        >> Pipeline::tool("question_texts_echo")
            .with(json!({"order": "{state.order}", "input": "{input.n}"}))
            .policy(NodePolicy::default().approve("go on?"));
    for (builder, input, about) in [
        (
            Runtime::builder().document(read(&document(""))),
            json!({"a": 2, "b": 3}),
            json!({"a": 2, "b": 3}),
        ),
        (
            Runtime::builder().document(read(&document("input_mapping: {sum: a, none: c}, "))),
            json!({"a": 2, "b": 3}),
            json!({"sum": 2}),
        ),
        (
            Runtime::builder().pipeline("it", saved),
            json!(7),
            json!({"order": {"n": 7}, "input": 7}),
        ),
    ] {
        let runtime = builder.toolset(Far).store(MemoryStore::new()).build();
        let handle = runtime
            .start_named("it", Encoded::new(&json!({"input": input})).unwrap())
            .await
            .unwrap();
        let question =
            within("the question", handle.asked()).await.unwrap().expect("somebody is asked");
        assert_eq!(question.about.decode::<Value>().unwrap(), about, "{question:?}");
        runtime
            .run(handle.run_id())
            .approve(&question.id, Approval::granted(), "ada")
            .await
            .unwrap();
        handle.result().await.unwrap();
    }
}

/// Echo the arguments.
#[tool(effects = "read")]
async fn question_texts_echo(order: Value, input: i64) -> String {
    format!("{order} {input}")
}

struct Far;

#[agentflow::async_trait]
impl Toolset for Far {
    fn name(&self) -> &str {
        "mcp.far"
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn std::error::Error + Send + Sync>> {
        let echo = |_: Context, given: serde_json::Map<String, Value>| async move {
            Ok::<_, String>(json!(given).to_string())
        };
        Ok(vec![FnTool::new("echo", "Echoes the arguments.", echo).into()])
    }
}
