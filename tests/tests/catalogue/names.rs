//! Name resolution: the origin of each entry, lookups by name, and duplicate names.

use agentflow::agent::AgentSettings;
use agentflow::async_trait;
use agentflow::error::RegistryError;
use agentflow::message::ToolStatus;
use agentflow::prelude::*;
use agentflow::runtime::{Catalogue, EntryKind, Origin};
use agentflow::serde_json::json;
use agentflow::tool::{FnTool, ToolPolicy, ToolRef, Toolset};
use agentflow::{Error, Workflow};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};

use super::{add, double, judge};

fn named(name: &str) -> FnTool {
    FnTool::new(name.to_owned(), "Says hello.", |_: Context, (): ()| async {
        Ok::<_, String>("hello")
    })
}

fn wrong(catalogue: &Catalogue) -> Vec<String> {
    catalogue.problems().iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn everything_that_is_linked_has_its_origin_and_its_schemas() {
    let catalogue = test_runtime().build().catalogue().snapshot().await.check().unwrap();
    let of = |kind, name| catalogue.get(kind, name).unwrap();
    let tool = of(EntryKind::Tool, "add");
    assert!(
        matches!(&tool.origin, Origin::Linked(place) if place.file.ends_with("catalogue/main.rs")),
        "{tool:?}"
    );
    assert_eq!(tool.input.as_ref().unwrap()["required"], json!(["a", "b"]));
    let agent = of(EntryKind::Agent, "judge");
    assert_eq!(&*agent.description, "Ask the agent `judge`.");
    assert_eq!(agent.output.as_ref().unwrap()["type"], "integer");
    let workflow = of(EntryKind::Workflow, "double");
    assert_eq!(&*workflow.description, "Doubles a number.");
    assert_eq!(workflow.input.as_ref().unwrap()["required"], json!(["n"]));
    assert_eq!(workflow.output.as_ref().unwrap()["type"], "integer");
    assert_eq!(of(EntryKind::Model, "anthropic").origin, Origin::BuiltIn);
    let near = catalogue.get(EntryKind::Workflow, "duoble").unwrap_err().to_string();
    assert_eq!(near, "this program has no workflow `duoble`; did you mean `double`?");
}

#[tokio::test]
async fn a_name_like_none_is_answered_with_those_that_are_known() {
    let runtime = test_runtime().build();
    for name in ["", "something else entirely"] {
        let agent = runtime.start_agent(name, "x").await.err().unwrap().to_string();
        let begins = format!("this program has no agent `{name}`; its ");
        assert!(agent.starts_with(&begins) && agent.contains("`judge`"), "{agent}");
        let workflow = runtime.start_named(name, json!({})).await.err().unwrap().to_string();
        let begins = format!("this program has no workflow `{name}`; its ");
        assert!(workflow.starts_with(&begins) && workflow.contains("`announce`"), "{workflow}");
        let model = runtime
            .catalogue()
            .snapshot()
            .await
            .get(EntryKind::Model, name)
            .unwrap_err()
            .to_string();
        assert!(model.contains("; its models are ") && model.contains("`anthropic`"), "{model}");
    }
}

#[tokio::test]
async fn what_is_linked_may_be_given_too() {
    let model = ScriptedModel::new([]);
    let runtime = test_runtime()
        .model(model)
        .tools(tools![add])
        .tools(tools![add])
        .workflow(&double::workflow())
        .schema("Order", json!({"type": "object"}))
        .build();
    let catalogue = runtime.catalogue().snapshot().await.check().unwrap();
    let add = catalogue.get(EntryKind::Tool, "add").unwrap();
    assert!(
        matches!(&add.origin, Origin::Given(place) if place.file.ends_with("names.rs")),
        "{add:?}"
    );
    assert_eq!(
        catalogue.of_kind(EntryKind::Workflow).filter(|entry| &*entry.name == "double").count(),
        1
    );
    assert_eq!(
        catalogue.get(EntryKind::Schema, "Order").unwrap().input,
        Some(json!({"type": "object"}))
    );
    assert_eq!(&*runtime.catalogue().tool("add").await.unwrap().definition().name, "add");
    let unknown = runtime.catalogue().tool("ad").await.unwrap_err().to_string();
    assert_eq!(unknown, "there is no tool `ad`; did you mean `add`?");
}

#[tokio::test]
async fn two_of_one_name_are_an_error_with_both_origins() {
    let other = Workflow::<(i64,), i64>::build("double", ["n"], |b, (n,)| {
        b.node("thrice", (n,), |_, (n,)| async move { Ok::<_, Error>(3 * n) })
    })
    .unwrap();
    let agent = Agent::new(ScriptedModel::new([])).name("judge");
    let runtime = test_runtime().tools([named("add")]).workflow(&other).agent(&agent).build();
    let catalogue = runtime.catalogue().snapshot().await;
    let said = wrong(&catalogue);
    assert_eq!(said.len(), 3, "{said:#?}");
    for (said, what) in said.iter().zip([
        "tools are named `add`",
        "agents are named `judge`",
        "workflows are named `double`",
    ]) {
        assert!(said.starts_with(&format!("two {what}: given to the runtime at ")), "{said}");
        assert!(said.contains("names.rs:") && said.contains(", and linked from "), "{said}");
        assert!(said.contains("catalogue/main.rs:"), "{said}");
    }
    // Each duplicate is reported when its name is used, and other names are not affected.
    let taken = |error: Error| {
        assert!(matches!(error, Error::Registry(RegistryError::NameTaken { .. })), "{error}");
    };
    taken(runtime.catalogue().tool("add").await.unwrap_err());
    taken(runtime.catalogue().workflow_graph("double").unwrap_err());
    taken(runtime.start_named("double", agentflow::value::Encoded::null()).await.unwrap_err());
    taken(catalogue.check().unwrap_err());
}

#[tokio::test]
async fn tools_whose_wire_name_is_one_are_refused_with_both_names() {
    let runtime = test_runtime().tools([named("files.read"), named("files__read")]).build();
    let expected = "a model would call the tools `files.read` and `files__read` by one name, `files__read`; rename one";
    assert_eq!(wrong(&runtime.catalogue().snapshot().await), [expected]);
    assert_eq!(
        &*runtime.catalogue().tool("files.read").await.unwrap().definition().name,
        "files__read"
    );
    let model = ScriptedModel::new([]);
    let agent = Agent::new(model).tools([named("files.read"), named("files__read")]);
    assert!(agent.build().unwrap_err().to_string().contains(expected));
}

#[tokio::test]
async fn who_agrees_to_a_tool_says_its_name() {
    let turns = || [Turn::call("files__read", json!({})), Turn::text("done")];
    let tool = || named("files.read").policy(ToolPolicy::default().approve());
    for (scope, status) in [
        ("approve:files.read", ToolStatus::Success),
        ("approve:files__read", ToolStatus::Success),
        ("approve:files.write", ToolStatus::Unauthorized),
    ] {
        let agent = Agent::new(ScriptedModel::new(turns()))
            .tools([tool()])
            .settings(AgentSettings::new().grant([scope]));
        let result = agent.run("Go.").await.unwrap();
        let statuses: Vec<ToolStatus> = result
            .conversation()
            .messages()
            .iter()
            .flat_map(|m| m.results().map(|r| r.status))
            .collect();
        assert_eq!(statuses, [status], "{scope}");
    }
}

struct Files;

#[async_trait]
impl Toolset for Files {
    fn name(&self) -> &str {
        "mcp.files"
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(vec![named("read").into(), named("list all").into()])
    }
}

struct Away;

#[async_trait]
impl Toolset for Away {
    fn name(&self) -> &str {
        "away"
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn std::error::Error + Send + Sync>> {
        Err("the server does not answer".into())
    }
}

#[tokio::test]
async fn the_tools_of_a_toolset_are_found_by_both_names() {
    let runtime = test_runtime().toolset(Files).toolset(Away).build();
    for name in ["mcp.files.list all", "mcp.files:list all", "mcp__files__list_all"] {
        let tool = runtime.catalogue().tool(name).await.unwrap();
        assert_eq!(&**tool.catalogue_name(), "mcp.files.list all");
        assert_eq!(&*tool.definition().name, "mcp__files__list_all");
    }
    let near = runtime.catalogue().tool("mcp.files.raed").await.unwrap_err().to_string();
    assert_eq!(near, "there is no tool `mcp.files.raed`; did you mean `mcp.files.read`?");
    // An unreachable toolset does not hide the others.
    let catalogue = runtime.catalogue().snapshot().await;
    assert_eq!(
        wrong(&catalogue),
        ["the tools of `away` could not be fetched: the server does not answer"]
    );
    let entry = catalogue.get(EntryKind::Tool, "mcp.files.read").unwrap();
    assert_eq!(entry.origin.to_string(), "from the toolset `mcp.files`");
    assert_eq!(
        catalogue.of_kind(EntryKind::Toolset).map(|entry| &*entry.name).collect::<Vec<_>>(),
        ["away", "mcp.files"]
    );
    assert!(matches!(runtime.catalogue().tool("away.x").await.unwrap_err(), Error::Toolset { .. }));
}

#[tokio::test]
async fn the_schema_of_an_input_has_its_definitions_where_they_are_referred_to() {
    #[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    struct Item {
        name: String,
    }
    let flow = Workflow::<(Vec<Item>, Option<Item>), u32>::build(
        "count",
        ["items", "more"],
        |b, (items, more)| {
            b.value("count", (items, more), |(items, more): (Vec<Item>, Option<Item>)| {
                Ok::<_, Error>(
                    u32::try_from(items.len()).unwrap_or_default() + u32::from(more.is_some()),
                )
            })
        },
    )
    .unwrap();
    let schema = flow.graph().input_schema();
    assert!(
        jsonschema::is_valid(&schema, &json!({"items": [{"name": "a"}], "more": null})),
        "{schema}"
    );
    assert!(
        !jsonschema::is_valid(&schema, &json!({"items": [{"nam": "a"}], "more": null})),
        "{schema}"
    );
    let _ = judge::definition();
}
