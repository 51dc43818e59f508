//! Benchmark of workflow documents compared with Rust code: the time to read and check a document
//! of 1,000 calls, the cost of one of its nodes, and the cost of a condition in CEL. The node is
//! compared with two nodes of a `Workflow` whose bodies are code. The first makes the same call and
//! saves its output; the second does almost nothing.
//!
//! `cargo bench -p agentflow-sdk --features documents --bench documents`. The fastest of many short
//! rounds counts. Compared versions alternate.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use agentflow::document::Document;
use agentflow::expression::Expression;
use agentflow::message::ToolCall;
use agentflow::serde_json::{Value, json};
use agentflow::state::StateKey;
use agentflow::tool::{FnTool, Registry};
use agentflow::workflow::Node;
use agentflow::{Runtime, Workflow};

const NODES: usize = 1_000;
const ROUNDS: usize = 30;

/// Creates a tool that does almost nothing. It is dynamic, so its arguments are checked against its
/// schema.
fn dynamic(name: &str) -> FnTool {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false});
    let definition = agentflow::tool::ToolDefinition::new(name, "Add one.", parameters);
    let policy = agentflow::tool::ToolPolicy::default().effects(agentflow::tool::Effects::None);
    FnTool::dynamic(definition, |_, arguments: Value| {
        std::future::ready(plus_one(arguments["n"].as_u64().unwrap_or(0)))
    })
    .policy(policy)
}

#[derive(agentflow::serde::Deserialize, agentflow::schemars::JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Number {
    n: u64,
}

/// Creates the same tool with a typed argument.
fn typed(name: &str) -> FnTool {
    let policy = agentflow::tool::ToolPolicy::default().effects(agentflow::tool::Effects::None);
    FnTool::new(name, "Add one.", |_, Number { n }| std::future::ready(plus_one(n))).policy(policy)
}

fn plus_one(n: u64) -> Result<u64, std::convert::Infallible> {
    Ok(n.wrapping_add(1))
}

/// Writes a chain of calls in a typical style.
fn document(id: &str, tool: &str) -> String {
    let mut text = format!("id: {id}\nnodes:\n");
    for node in 0..NODES {
        let before = if node == 0 { "n".to_owned() } else { format!("n{}", node - 1) };
        let _ = write!(
            text,
            "  - id: n{node}\n    tool: {tool}\n    args_template: {{n: \"{{{before}}}\"}}\n    retry_limit: 0\n"
        );
    }
    text
}

fn chain() -> Workflow<(u64,), u64> {
    Workflow::build("chain", ["n"], |b, (n,)| {
        (0..NODES).fold(n, |before, at| {
            b.node(Node::new(format!("n{at}")), (before,), |_, (n,)| {
                std::future::ready(plus_one(n))
            })
        })
    })
    .expect("a chain")
}

/// Builds the same chain with nodes whose code does the work of a document's node: it calls the
/// tool by name with JSON arguments, reads the answer, and saves it in the state.
fn chain_of_calls() -> Workflow<(u64,), u64> {
    let registry = Arc::new({
        let mut registry = Registry::new();
        registry.register(typed("typed")).expect("the only tool");
        registry
    });
    Workflow::build("chain_of_calls", ["n"], |b, (n,)| {
        (0..NODES).fold(n, |before, at| {
            let (registry, key) =
                (Arc::clone(&registry), format!("n{at}").parse::<StateKey<u64>>().expect("a name"));
            b.node(Node::new(format!("n{at}")), (before,), move |cx, (n,)| {
                let (registry, key) = (Arc::clone(&registry), key.clone());
                async move {
                    let call = ToolCall::new("call", "typed", json!({ "n": n }).to_string());
                    let result = registry.invoke(&cx, &call, &[]).await;
                    let n: u64 =
                        serde_json::from_str(&result.output).map_err(|error| error.to_string())?;
                    cx.set(&key, &n).map_err(|error| error.to_string())?;
                    Ok::<_, String>(n)
                }
            })
        })
    })
    .expect("a chain")
}

/// Returns the microseconds of the fastest round.
async fn fastest(rounds: usize, mut work: impl AsyncFnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let began = Instant::now();
        work().await;
        best = best.min(began.elapsed().as_secs_f64() * 1e6);
    }
    best
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let texts =
        [("typed", document("typed", "typed")), ("dynamic", document("dynamic", "dynamic"))];
    let base = || Runtime::builder().tools(typed("typed")).tools(dynamic("dynamic"));
    println!("{:<58} {:>10} {:>7} {:>8}", "a document of 1,000 calls", "", "ratio", "aim");
    let mut first = 0.0;
    for (name, text) in &texts {
        let runtime = base().build();
        let read = async || {
            let document = Document::read("bench.yaml", text.as_str()).expect("a document");
            runtime.documents().check(&document).await.expect("right");
        };
        let millis = fastest(ROUNDS, read).await / 1e3;
        let ratio =
            if first == 0.0 { "        ".to_owned() } else { format!("{:>7.2}", millis / first) };
        let aim = if first == 0.0 { "50 ms" } else { "1.2" };
        first = millis;
        println!(
            "{:<58} {millis:>7.1} ms {ratio:>7} {aim:>8}",
            format!("read and checked, {name} tools")
        );
    }

    let mut builder = base();
    for (_, text) in &texts {
        builder =
            builder.document(Document::read("bench.yaml", text.as_str()).expect("a document"));
    }
    let runtime = builder.build();
    let (code, calls) = (chain(), chain_of_calls());
    let (mut of_code, mut of_calls, mut of_documents) = (f64::MAX, f64::MAX, [f64::MAX; 2]);
    for _ in 0..ROUNDS {
        // The versions alternate, so that other load affects all of them.
        let run = async || assert_eq!(code.run(&runtime, 0).await.expect("a run"), NODES as u64);
        of_code = of_code.min(fastest(1, run).await);
        let run = async || assert_eq!(calls.run(&runtime, 0).await.expect("a run"), NODES as u64);
        of_calls = of_calls.min(fastest(1, run).await);
        for (at, (name, _)) in texts.iter().enumerate() {
            let run = async || {
                let run = runtime.start_named(*name, json!({"n": 0})).await.expect("a run");
                assert_eq!(run.result().await.expect("an output").as_str(), "1000");
            };
            of_documents[at] = of_documents[at].min(fastest(1, run).await);
        }
    }
    println!("{:<58} {:>7.2} µs", "a node whose body is code", of_code / NODES as f64);
    let ratio = of_calls / of_code;
    println!(
        "{:<58} {:>7.2} µs {ratio:>7.2}",
        "a node whose code calls the tool and saves",
        of_calls / NODES as f64
    );
    for (at, (name, _)) in texts.iter().enumerate() {
        let micros = of_documents[at] / NODES as f64;
        let of = format!("a node of a document, {name} tool");
        println!("{of:<58} {micros:>7.2} µs {:>7.2} {:>8}", of_documents[at] / of_calls, "1.5");
    }

    let order =
        json!({"order": {"total": 120, "kind": "b", "lines": [{"n": 1}, {"n": 5}]}, "open": true});
    for text in [
        "order.total > 100 && order.kind in ['a', 'b']",
        "open && order.lines.exists(line, line.n > 3) && size(order.kind) == 1",
    ] {
        let condition: Expression = text.parse().expect("an expression");
        let micros = fastest(ROUNDS, async || {
            for _ in 0..1000 {
                assert_eq!(black_box(condition.evaluate(black_box(&order))), Ok(Value::Bool(true)));
            }
        });
        println!(
            "{:<58} {:>7.2} µs {:>7} {:>8}",
            format!("`{}..`", &text[..35]),
            micros.await / 1e3,
            "",
            "5 µs"
        );
    }
}
