//! Diagrams of workflows and runs: groups for nested workflows, statuses, and the SVG of both.

use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow::views::layout::{Diagram, DiagramStatus, LinkKind, NodeShape, SvgWriter};
use agentflow::views::{run_diagram, workflow_diagram};
use agentflow_testing::within;

/// Look up a part.
#[tool(idempotent)]
async fn look_up_part(part: String) -> Result<u32> {
    match part.as_str() {
        "" => Err(agentflow::Error::other("the part has no name")),
        _ => Ok(u32::try_from(part.len()).unwrap_or(u32::MAX)),
    }
}

/// Weigh a part.
#[tool(idempotent)]
async fn weigh_part(number: u32) -> u32 {
    number * 10
}

/// Quote a price.
#[tool(idempotent)]
async fn quote_price(weight: u32) -> Result<u32> {
    Ok(weight + 5)
}

/// Estimate a price.
#[tool(idempotent)]
async fn estimate_price(weight: u32) -> Result<u32> {
    Ok(weight + 9)
}

#[workflow]
async fn drawn_order(parts: Vec<String>) -> Result<u32> {
    let weights = map!(parts, |part| {
        let number = look_up_part(part).await?;
        weigh_part(number).await
    })
    .await?;
    let weight = weights.iter().sum::<u32>();
    let price = fallback!(quote_price(weight), estimate_price(weight)).await?;
    let rounded = repeat!(price, |price| weigh_part(price), max = 2).await?;
    let approval = gate!("pay {rounded}?").await?;
    let paid = if approval.is_granted() {
        let sent = weigh_part(rounded).await;
        sent
    } else {
        0
    };
    Ok(paid)
}

/// Returns the ids of nodes and groups, each with the group that contains it.
fn places(diagram: &Diagram) -> Vec<(&str, Option<&str>)> {
    let nodes = diagram.nodes.iter().map(|node| (node.id.as_str(), node.group.as_deref()));
    let groups = diagram.groups.iter().map(|group| (group.id.as_str(), group.group.as_deref()));
    nodes.chain(groups).collect()
}

#[test]
fn nested_workflows_are_groups() {
    let diagram = workflow_diagram(&drawn_order::workflow().graph());
    let places = places(&diagram);
    for place in [
        ("parts", None),
        ("weights", None),
        ("weights/number", Some("weights")),
        ("price", None),
        ("rounded", None),
        ("approval", None),
    ] {
        assert!(places.contains(&place), "{place:?} of {places:?}");
    }
    let in_price = places.iter().filter(|place| place.1 == Some("price")).count();
    assert_eq!(in_price, 2, "{places:?}");
    // The item of a nested workflow is not a node.
    assert!(!places.iter().any(|place| place.0 == "weights/part"), "{places:?}");
    let node = |id: &str| diagram.nodes.iter().find(|node| node.id == id).unwrap();
    assert_eq!(node("parts").shape, NodeShape::Pill);
    assert_eq!(node("approval").shape, NodeShape::Octagon);
    assert!(node("approval").label.contains("asks a person"), "{:?}", node("approval"));
    let has_edge =
        |from: &str, to: &str| diagram.edges.iter().find(|edge| edge.from == from && edge.to == to);
    assert!(has_edge("parts", "weights").is_some());
    assert_eq!(has_edge("rounded", "rounded").unwrap().label.as_deref(), Some("again"));
    assert!(diagram.edges.iter().any(|edge| edge.kind == LinkKind::Failure));

    let layout = diagram.layout();
    assert_eq!(layout.edges.len(), diagram.edges.len(), "an edge has an unknown end");
    let group = layout.groups.iter().find(|group| group.id == "weights").unwrap();
    let inner = layout.nodes.iter().find(|node| node.id == "weights/number").unwrap();
    assert!(group.area.contains(&inner.area));
    keep("workflow.svg", &SvgWriter::new().write(&layout));
}

#[tokio::test]
async fn a_run_has_statuses_in_its_diagram() {
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let parts = vec!["bolt".to_owned(), "nut".to_owned()];
    let run = runtime.start(drawn_order::workflow(), parts).await.unwrap();
    let id = run.run_id().clone();
    within("the question", run.asked()).await.unwrap().expect("a question");
    let of_run = runtime.run(&id).graph().await.unwrap();

    let graph = drawn_order::workflow().graph();
    let diagram = run_diagram(&of_run, Some(&graph));
    let group = diagram.groups.iter().find(|group| group.id == "weights").unwrap();
    assert_eq!(group.status, Some(DiagramStatus::Success));
    assert!(group.label.ends_with("\n2 of 2 items done"), "{group:?}");
    let approval = diagram.nodes.iter().find(|node| node.id == "approval").unwrap();
    assert_eq!(approval.status, Some(DiagramStatus::Waiting));
    let svg = SvgWriter::new().write(&diagram.layout());
    assert!(svg.contains(">waiting</text>") && svg.contains(">2 of 2 items done</text>"), "{svg}");
    keep("run.svg", &svg);

    // Without the graph, the nested workflow is one node.
    let folded = run_diagram(&of_run, None);
    assert!(folded.groups.is_empty());
    let weights = folded.nodes.iter().find(|node| node.id == "weights").unwrap();
    assert_eq!(weights.shape, NodeShape::Stack);
    assert!(weights.label.ends_with("2 of 2 items done"), "{weights:?}");
    assert_eq!(folded.layout().edges.len(), of_run.edges.len());
    keep("folded.svg", &SvgWriter::new().write(&folded.layout()));
    run.approve("approval", Approval::granted(), "ann").await.unwrap();
    assert!(within("the end", run.result()).await.unwrap() > 0);
    let ended = run_diagram(&runtime.run(&id).graph().await.unwrap(), Some(&graph));
    let group = ended.groups.iter().find(|group| group.id == "price").unwrap();
    assert_eq!(group.status, Some(DiagramStatus::Success));
}

/// Writes a drawing to the folder of this test program, for a look in a browser.
fn keep(name: &str, svg: &str) {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("graph_diagrams");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), svg).unwrap();
}
