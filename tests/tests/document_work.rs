//! Measures the work of reading a document and of running a document with a revised list. Doubling
//! the size must about double the allocated memory, in each form and notation.
//!
//! This is a separate test program, since it counts allocations.

use agentflow::document::{Document, DocumentForm};
use agentflow::prelude::*;
use agentflow::value::Encoded;
use agentflow::workflow::{NextNode, NodeDecision};
use agentflow_testing::test_runtime;
use serde_json::json;

/// Returns the number of bytes allocated while the document is read. Memory that a growing list
/// allocates again counts again.
fn work(text: &str, form: DocumentForm) -> u64 {
    let mut found = None;
    let counted = allocation_counter::measure(|| found = Some(Document::read("it.yaml", text)));
    let document = found.unwrap().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(document.form(), form);
    counted.bytes_total
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

/// Builds a chain of nodes. With `is_turned` the nodes and edges are listed last to first.
fn chain(count: usize, is_turned: bool) -> String {
    let nodes = lines(count, |at| {
        let kind = if at == 0 {
            "router, condition_expr: 'true'".to_owned()
        } else {
            format!("join, join_group: g{at}")
        };
        format!("  - {{node_id: n{at}, kind: {kind}}}\n")
    });
    let mut edges: Vec<String> = (1..count)
        .map(|at| {
            format!("  - {{from_node_id: n{}, to_node_id: n{at}, edge_type: parallel, join_group: g{at}}}\n", at - 1)
        })
        .collect();
    let mut nodes: Vec<&str> = nodes.lines().collect();
    if is_turned {
        nodes.reverse();
        edges.reverse();
    }
    format!("workflow_id: it\nnodes:\n{}\nedges:\n{}", nodes.join("\n"), edges.concat())
}

/// Builds a router with many arms. Each arm leads to a node that calls an MCP server.
fn arms(count: usize) -> String {
    let nodes = lines(count, |at| {
        format!(
            "  - {{node_id: n{at}, kind: mcp, dependencies: [{{dependency_id: d, dependency_type: mcp_tool, fixed_ref: \
             {{server_id: s, tool_name: t}}}}], on_error: route_to_node, on_error_node_id: end, output_mapping: {{k{at}: a}}}}\n"
        )
    });
    let edges = lines(count, |at| {
        format!("  - {{from_node_id: way, to_node_id: n{at}, condition_key: k{at}}}\n")
    });
    format!(
        "workflow_id: it\nnodes:\n  - {{node_id: way, kind: router, condition_expr: kind}}\n  - {{node_id: end, kind: \
         terminal}}\n{nodes}edges:\n{edges}"
    )
}

/// Builds a chain of tool calls. Each call depends on the next one in the document.
fn calls(count: usize) -> String {
    let nodes = lines(count, |at| {
        let depends =
            if at + 1 == count { String::new() } else { format!(", depends_on: [n{}]", at + 1) };
        format!("  - {{id: n{at}, tool: t{depends}}}\n")
    });
    format!("id: it\nnodes:\n{nodes}")
}

fn steps(count: usize) -> String {
    format!(
        "workflow_id: it\nsteps:\n{}",
        lines(count, |at| format!("  - {{node_id: n{at}, kind: a2a, task: asks}}\n"))
    )
}

/// Builds a chain of values. Each node reads the next one in the document, and all save the same
/// state key.
fn values(count: usize) -> String {
    let nodes = lines(count, |at| {
        let value = if at + 1 == count {
            "{value: 1}".to_owned()
        } else {
            format!("{{from: n{}}}", at + 1)
        };
        format!("  - {{name: n{at}, does: {{value: {value}}}, saves: {{k: ''}}}}\n")
    });
    format!("name: it\noutput: n0\nnodes:\n{nodes}")
}

/// Builds sequences that are nested `depth` levels deep, with `beside` tool calls at each level.
fn deep(depth: usize, beside: usize) -> String {
    let calls = lines(beside, |_| "{tool: t}, ".to_owned());
    let inner = (0..depth)
        .fold("{tool: t}".to_owned(), |inner, _| format!("{{sequence: [{calls}{inner}]}}"));
    format!("name: it\ntopology: {inner}\n")
}

/// Builds a sequence of loops. Each loop is an inner workflow of the same name.
fn rounds(count: usize) -> String {
    let parts =
        lines(count, |_| "    - {loop: {sequence: [{tool: t}, {tool: t}]}, max: 2}\n".to_owned());
    format!("name: it\ntopology:\n  sequence:\n{parts}")
}

/// Builds a chain of values. Each node runs only if the previous value exists.
fn conditions(count: usize) -> String {
    let nodes = lines(count, |at| match at {
        0 => "  - {name: n0, does: {value: {value: 1}}}\n".to_owned(),
        _ => {
            let before = format!("n{}", at - 1);
            format!(
                "  - {{name: n{at}, does: {{value: {{from: {before}}}}}, edges: [{{from: {before}, when: {{exists: {{from: \
                 {before}}}}}}}]}}\n"
            )
        }
    });
    format!("name: it\noutput: n{}\nnodes:\n{nodes}", count - 1)
}

/// Builds a chain of values. Each node runs only if another field of the input exists.
fn parts(count: usize) -> String {
    let properties = lines(count, |at| format!("p{at}: {{type: [integer, 'null']}}, "));
    let nodes = lines(count, |at| {
        let before = if at == 0 { "order".to_owned() } else { format!("n{}", at - 1) };
        format!(
            "  - {{name: n{at}, does: {{value: {{from: order, at: /p{at}}}}}, edges: [{{from: {before}, when: {{exists: {{from: \
             order, at: /p{at}, or: null}}}}}}]}}\n"
        )
    });
    format!(
        "name: it\noutput: n{}\nnodes:\n  - {{name: order, kind: input, schema: {{type: object, properties: \
         {{{properties}}}}}}}\n{nodes}",
        count - 1
    )
}

/// Builds a router with `count` arms, and one node behind each arm. The arms compare one field
/// (`is_one`) or test one field each. The nodes save one shared key if only one arm can be taken.
fn routes(count: usize, all: bool, is_one: bool) -> String {
    let arms = lines(count, |at| match is_one {
        true => format!(
            "{{arm: a{at}, when: {{equals: [{{from: order, at: /kind}}, {{value: k{at}}}]}}}}, "
        ),
        false => format!("{{arm: a{at}, when: {{is: {{from: order, at: /p{at}}}}}}}, "),
    });
    let saves = if !all || is_one { ", saves: {k: ''}" } else { "" };
    let nodes = lines(count, |at| {
        format!(
            "  - {{name: n{at}, does: {{value: {{value: {at}}}}}, edges: [{{from: way, arm: a{at}}}]{saves}}}\n"
        )
    });
    let edges = lines(count, |at| format!("{{from: n{at}}}, "));
    format!(
        "name: it\noutput: out\nnodes:\n  - {{name: order, kind: input}}\n  - {{name: way, does: {{route: {{all: {all}, arms: \
         [{arms}]}}}}}}\n{nodes}  - {{name: out, does: {{value: {{state: k, or: 0}}}}, begins: {{barrier: 1}}, edges: \
         [{edges}]}}\n"
    )
}

#[test]
fn twice_as_much_of_a_document_is_about_twice_the_work() {
    type Written = fn(usize) -> String;
    let all: [(&str, DocumentForm, Written, usize); 14] = [
        ("a chain", DocumentForm::Edges, |count| chain(count, false), 1000),
        ("a chain from its end", DocumentForm::Edges, |count| chain(count, true), 1000),
        ("arms", DocumentForm::Edges, arms, 500),
        ("calls", DocumentForm::Tools, calls, 1000),
        ("steps", DocumentForm::Steps, steps, 1000),
        ("values", DocumentForm::Graph, values, 1000),
        ("many parts", DocumentForm::Tree, |count| deep(1, count), 1000),
        ("inner workflows", DocumentForm::Tree, rounds, 500),
        ("conditions", DocumentForm::Graph, conditions, 500),
        ("conditions on parts", DocumentForm::Graph, parts, 500),
        ("arms by one value", DocumentForm::Graph, |count| routes(count, false, true), 500),
        ("all arms by one value", DocumentForm::Graph, |count| routes(count, true, true), 500),
        ("arms by parts", DocumentForm::Graph, |count| routes(count, false, false), 500),
        ("all arms by parts", DocumentForm::Graph, |count| routes(count, true, false), 500),
    ];
    for (name, form, written, count) in all {
        let [once, twice] = [count, 2 * count].map(|count| work(&written(count), form));
        assert!(twice < once * 5 / 2, "{name}: {once} and {twice} bytes");
    }
}

#[test]
fn parts_that_are_deeper_are_no_more_work() {
    // Both documents have about the same number of parts. Values may nest 24 levels deep.
    let [flat, deep] = [deep(2, 600), deep(24, 50)].map(|text| work(&text, DocumentForm::Tree));
    assert!(deep < flat * 3 / 2, "{flat} and {deep} bytes");
}

#[test]
fn documents_of_ten_thousand_nodes_are_read() {
    for (text, form) in [
        (chain(10_000, false), DocumentForm::Edges),
        (chain(10_000, true), DocumentForm::Edges),
        (calls(10_000), DocumentForm::Tools),
        (steps(10_000), DocumentForm::Steps),
        (values(10_000), DocumentForm::Graph),
        (deep(1, 10_000), DocumentForm::Tree),
    ] {
        let document = Document::read("it.yaml", text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(document.form(), form);
        assert!(document.graph().nodes.len() >= 10_000, "{form}");
    }
}

#[test]
fn documents_of_thousands_of_conditions_are_read() {
    for text in [
        conditions(4_000),
        parts(2_000),
        routes(4_000, false, true),
        routes(2_000, false, true),
        // With this many arms that may be taken together, their conditions are not compared.
        routes(2_000, true, true),
        routes(4_000, false, false),
        routes(4_000, true, false),
    ] {
        let document = Document::read("it.yaml", text).unwrap_or_else(|error| panic!("{error}"));
        assert!(document.graph().nodes.len() >= 2_000);
    }
}

#[test]
fn so_many_mistakes_are_listed() {
    let nodes = lines(400, |at| format!("  - {{name: n{at}, does: {{value: {{from: m{at}}}}}}}\n"));
    let error =
        Document::read("it.yaml", format!("name: it\noutput: n0\nnodes:\n{nodes}")).unwrap_err();
    let problems = error.problems();
    assert_eq!(problems.len(), 301);
    assert!(
        problems[0].message().starts_with("the node `n0` reads or follows `m0`"),
        "{:?}",
        problems[0]
    );
    assert!(
        problems[300].message().ends_with(" more problems are not listed; correct these first"),
        "{:?}",
        problems[300]
    );
}

/// Revise a list to what it is.
#[tool(effects = "none", max_output = 1_000_000)]
async fn work_decide(next: NextNode) -> NodeDecision {
    match next.node.as_str() {
        "each" => NodeDecision::Revise {
            arguments: json!({"items": next.outputs["items"]}),
            reason: String::new(),
        },
        _ => NodeDecision::Continue,
    }
}

/// Count the bytes of a text.
#[tool(effects = "none")]
async fn work_length(text: String) -> usize {
    text.len()
}

#[test]
fn the_items_of_a_revised_list_are_read_once() {
    let text = "name: it
output: each
decider: {kind: tool, name: work_decide}
nodes:
  - {name: items, kind: input, schema: {type: array, items: {type: string}}}
  - name: each
    does: {map: {items: items, call: {kind: tool, name: work_length, with: {object: {text: {item: ''}}}}}}
";
    let document = Document::read("it.yaml", text).unwrap_or_else(|error| panic!("{error}"));
    // A runtime of one thread: the counter counts the allocations of the current thread only.
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let work = |count: usize| {
        let counted = allocation_counter::measure(|| {
            let ended = tokio.block_on(async {
                let runtime = test_runtime().document(document.clone()).build();
                let input = Encoded::new(&json!({"items": vec!["x".repeat(400); count]})).unwrap();
                runtime.start_named("it", input).await.unwrap().result().await.unwrap()
            });
            assert_eq!(ended.decode::<Vec<usize>>().unwrap(), vec![400; count]);
        });
        counted.bytes_total
    };
    // The first run allocates data that the process creates only once.
    work(1);
    let [once, twice] = [300, 600].map(work);
    assert!(twice < once * 5 / 2, "{once} and {twice} bytes");
}
