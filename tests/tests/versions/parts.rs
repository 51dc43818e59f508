//! A difference between two versions of a workflow or an agent is reported by name, and the
//! runtime's `Changes` setting decides if it is accepted.

use agentflow::agent::{Limits, RunRequest};
use agentflow::definition::Presence;
use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::runtime::Changes;
use agentflow::store::{MemoryStore, RunStatus, Store};
use agentflow::tool::{FnTool, ToolDefinition, ToolPolicy};
use agentflow::{Error, RunId, Runtime};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};
use serde_json::{Value, json};

fn refund(description: &str, parameters: Value) -> FnTool {
    FnTool::dynamic(ToolDefinition::new("refund", description, parameters), |_, _| async {
        Ok::<_, String>("paid")
    })
}

fn cents(note: &str, kind: &str) -> Value {
    json!({"type": "object", "properties": {"cents": {"type": kind, "description": note}}})
}

/// Builds one version of the agent `clerk`. Its model answers, or never finishes if `ends` is
/// false.
fn clerk(instructions: &str, tools: Vec<FnTool>, ends: bool) -> Agent {
    let model =
        ScriptedModel::from_fn(move |_| if ends { Turn::text("done") } else { Turn::stall() });
    Agent::new(model).name("clerk").instruct(instructions).tools(tools)
}

fn process(store: &MemoryStore, agent: &Agent) -> Runtime {
    test_runtime().store(store.clone()).agent(agent).build()
}

/// Starts a run of the first version and ends its process.
async fn begun() -> (MemoryStore, RunId) {
    let store = MemoryStore::new();
    let first = clerk("Be kind.", vec![refund("Pays back.", cents("how much", "integer"))], false);
    let runtime = process(&store, &first);
    let run = RunId::new("run");
    let handle =
        first.runtime(&runtime).start(RunRequest::from("Pay 5.").run_id(run.clone())).unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    handle.abandon();
    tokio::task::yield_now().await;
    (store, run)
}

/// Returns the differences that `inspect` reports, and for each `Changes` rule `true` if the run is
/// resumed.
async fn resumed(second: &Agent) -> (Vec<String>, Vec<bool>) {
    let (mut differs, mut accepted) = (Vec::new(), Vec::new());
    for changes in [Changes::Refuse, Changes::AcceptCompatible, Changes::AcceptAll] {
        let (store, run) = begun().await;
        let runtime = process(&store, second).with_changes(changes);
        differs = runtime
            .run(&run)
            .inspect()
            .await
            .unwrap()
            .differences
            .iter()
            .map(ToString::to_string)
            .collect();
        let before = store.read(&run, 0, 1000).await.unwrap();
        let mut recovered = runtime.recover().await.unwrap();
        match recovered.left.pop() {
            None => {
                recovered.resumed.pop().unwrap().result().await.unwrap();
                accepted.push(true);
            }
            Some((_, error)) => {
                assert!(matches!(&error, Error::PartsChanged { what: "agent", .. }), "{error}");
                assert_eq!(error.kind(), "definition_changed");
                assert_eq!(store.read(&run, 0, 1000).await.unwrap(), before, "nothing is written");
                // Resuming through a typed handle follows the same rule.
                second.clone().runtime(&runtime).resume(&run).await.unwrap_err();
                accepted.push(false);
            }
        }
    }
    (differs, accepted)
}

#[tokio::test(start_paused = true)]
async fn an_agent_of_the_same_version_differs_in_nothing() {
    let (differs, accepted) =
        resumed(&clerk("Be kind.", vec![refund("Pays back.", cents("how much", "integer"))], true))
            .await;
    assert_eq!((differs, accepted), (Vec::new(), vec![true, true, true]));
}

#[tokio::test(start_paused = true)]
async fn texts_and_limits_of_an_agent_are_compatible() {
    let second =
        clerk("Be brief.", vec![refund("Gives money back.", cents("in cents", "integer"))], true);
    let (differs, accepted) = resumed(&second.settings(Limits::default().max_steps(3))).await;
    assert_eq!(
        differs,
        [
            "the agent `clerk`: its instructions",
            "the agent `clerk`: its limits",
            "the tool `refund`: its description"
        ]
    );
    assert_eq!(accepted, [false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn the_schema_of_a_tool_is_not_compatible() {
    let second = clerk("Be kind.", vec![refund("Pays back.", cents("how much", "string"))], true);
    let (differs, accepted) = resumed(&second).await;
    assert_eq!(differs, ["the tool `refund`: the schema of its parameters"]);
    assert_eq!(accepted, [false, false, true]);
    let (store, run) = begun().await;
    assert_eq!(
        process(&store, &second).run(&run).resume().await.unwrap_err().to_string(),
        "the agent `clerk` has changed since the run began: the tool `refund`: the schema of its parameters; to continue \
         all the same, accept it with `Changes::AcceptAll`, or by `agentwf runs resume --changes accept-all`"
    );
}

#[tokio::test(start_paused = true)]
async fn the_policy_of_a_tool_is_compatible_and_named() {
    let slow =
        refund("Pays back.", cents("how much", "integer")).policy(ToolPolicy::default().retry(3));
    let (differs, accepted) = resumed(&clerk("Be kind.", vec![slow], true)).await;
    assert_eq!(differs, ["the tool `refund`: its policy"]);
    assert_eq!(accepted, [false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_by_the_version_that_was_accepted_for_it() {
    let (store, run) = begun().await;
    let second =
        |ends| clerk("Be kind.", vec![refund("Pays back.", cents("how much", "string"))], ends);
    let accepting = process(&store, &second(false)).with_changes(Changes::AcceptAll);
    let handle = accepting.run(&run).resume().await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    handle.abandon();
    tokio::task::yield_now().await;
    // The resumed run now has the second definition, so it no longer matches the first version.
    let first = clerk("Be kind.", vec![refund("Pays back.", cents("how much", "integer"))], true);
    let error = process(&store, &first).run(&run).resume().await.unwrap_err().to_string();
    assert!(error.contains("the tool `refund`: the schema of its parameters"), "{error}");
    let strict = process(&store, &second(true)).with_changes(Changes::Refuse);
    assert_eq!(strict.run(&run).inspect().await.unwrap().differences, []);
    strict.run(&run).resume().await.unwrap().result().await.unwrap();
    assert_eq!(
        store.record(&run).await.unwrap().unwrap().definition,
        None,
        "it is a run of an agent"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_tool_is_compatible_and_one_that_is_gone_is_not() {
    let other = FnTool::dynamic(
        ToolDefinition::new("look", "Looks.", json!({"type": "object"})),
        |_, _| async { Ok::<_, String>("seen") },
    );
    let both =
        clerk("Be kind.", vec![refund("Pays back.", cents("how much", "integer")), other], true);
    assert_eq!(
        resumed(&both).await,
        (vec!["the tool `look` is new".to_owned()], vec![false, true, true])
    );
    let none = clerk("Be kind.", Vec::new(), true);
    assert_eq!(
        resumed(&none).await,
        (vec!["the tool `refund` is gone".to_owned()], vec![false, false, true])
    );
}

#[tokio::test(start_paused = true)]
async fn a_workflow_names_the_tools_and_agents_that_differ_in_it() {
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).build();
    let events = |run: RunId| {
        let store = store.clone();
        async move { store.read(&run, 0, 1000).await.unwrap() }
    };
    let handle = runtime.start(counted::workflow(), 1).await.unwrap();
    handle.result().await.unwrap();
    let began = events(handle.run_id().clone()).await;
    let EventKind::RunStarted(started) = &began[0].kind else { panic!("{:?}", began[0]) };
    let stored = store.definition(started.parts.as_ref().unwrap()).await.unwrap().unwrap();
    let definition: agentflow::definition::Definition = serde_json::from_str(&stored).unwrap();
    assert_eq!(definition.id(), *started.parts.as_ref().unwrap());
    let parts: Vec<&str> = definition.parts.keys().map(String::as_str).collect();
    assert_eq!(
        parts,
        [
            "agent parts_judge",
            "node n",
            "node output",
            "node said",
            "node said/else/yield",
            "node said/end",
            "node said/then/judge",
            "node seen",
            "tool parts_look",
            "workflow parts_inner"
        ]
    );
    // Simulate the definition of a run of this version with other parts.
    let mut other = definition.clone();
    other
        .parts
        .get_mut("tool parts_look")
        .unwrap()
        .insert("parameters".to_owned(), "another".into());
    other
        .parts
        .get_mut("agent parts_judge")
        .unwrap()
        .insert("instructions".to_owned(), "another".into());
    let differences = other.differences(&definition);
    let said: Vec<(String, bool)> =
        differences.iter().map(|one| (one.to_string(), one.compatible)).collect();
    assert_eq!(
        said,
        [
            ("the agent `parts_judge`: its instructions".to_owned(), true),
            ("the tool `parts_look`: the schema of its parameters".to_owned(), false)
        ]
    );
    assert!(differences.iter().all(|one| one.presence == Presence::Changed));
    assert_eq!(store.record(handle.run_id()).await.unwrap().unwrap().status, RunStatus::Success);
}

/// Looks.
#[tool(effects = "read", name = "parts_look")]
async fn look(n: u64) -> u64 {
    n + 6
}

/// Judge it.
#[agent(name = "parts_judge", model = "none/none", tools = [look])]
async fn judge(n: u64) -> Result<String>;

#[workflow(name = "parts_inner")]
async fn inner(n: u64) -> Result<u64> {
    let seen = look(n).await;
    Ok(seen)
}

#[workflow(name = "parts")]
async fn counted(n: u64) -> Result<String> {
    let seen = inner(n).await?;
    let said = if seen > 100 { judge(seen).await? } else { "few".to_owned() };
    Ok(said)
}
