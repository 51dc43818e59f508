//! Agents and workflows as tools of an agent. They are part of its run and share its grants, its
//! end and its journal.

use std::time::Duration;

use agentflow::a2a_server::A2aServer;
use agentflow::agent::{AgentSettings, AgentTool, Limits};
use agentflow::document::Document;
use agentflow::event::EventKind;
use agentflow::mcp_server::McpServer;
use agentflow::message::ToolStatus;
use agentflow::prelude::*;
use agentflow::run::{RunHandle, RunResult};
use agentflow::serde_json::{Value, json};
use agentflow::store::MemoryStore;
use agentflow::tool::{Effects, FnTool, ToolRef};
use agentflow::workflow::WorkflowTool;
use agentflow::{Error, Event, RunId, Workflow};
use agentflow_testing::{CrashTest, ScriptedModel, Turn, check_events, test_runtime, within};
use futures_util::StreamExt;

use super::served::Lines;
use super::{double, judge};

/// Resource that `look_up` reads.
struct Desk(&'static str);

/// Look something up in a desk.
#[tool(idempotent, scopes("desk"))]
async fn look_up(desk: Inject<Desk>, word: String) -> String {
    format!("{word} is in the {}", desk.0)
}

/// Asks before it doubles.
#[workflow]
async fn ask_and_double(n: i64) -> Result<i64> {
    let approval = gate!("double {n}?", n).await?;
    let doubled = match approval {
        Approval::Granted { .. } => double(n).await?,
        Approval::Denied { .. } => 0,
    };
    Ok(doubled)
}

fn expert() -> Agent {
    let model = ScriptedModel::from_fn(|request| {
        match request.messages.messages().iter().any(|m| m.results().next().is_some()) {
            false => Turn::call("look_up", json!({"word": "tea"})),
            true => Turn::text(
                request.messages.last().unwrap().results().next().unwrap().output.clone(),
            ),
        }
    });
    Agent::new(model).name("expert").instruct("You know where things are.").tools(tools![look_up])
}

/// Creates a model that calls a tool once and answers with its result.
fn caller(tool: &'static str, arguments: Value) -> ScriptedModel {
    ScriptedModel::from_fn(move |request| {
        let result = request
            .messages
            .messages()
            .iter()
            .flat_map(|m| m.results().map(|r| r.output.clone()))
            .last();
        match result {
            None => Turn::call(tool, arguments.clone()),
            Some(output) => Turn::text(output),
        }
    })
    .capturing()
}

fn paths(events: &[Event], is: impl Fn(&EventKind) -> bool) -> Vec<String> {
    events.iter().filter(|event| is(&event.kind)).map(|event| event.path.to_string()).collect()
}

fn wrong_of(error: Error) -> String {
    error.to_string()
}

#[tokio::test]
async fn an_agent_is_called_as_part_of_the_run() {
    let model = caller("expert", json!({"request": "Where is the tea?"}));
    let runtime = test_runtime().resource(Desk("top drawer")).build();
    let agent = Agent::new(model.clone())
        .tools(expert())
        .settings(AgentSettings::new().grant(["desk"]))
        .runtime(&runtime);
    let result = agent.run("Tea, please.").await.unwrap();
    // The inner agent uses the grants and the resource of its caller.
    assert_eq!(result.output(), r#""\"tea is in the top drawer\"""#);
    let events = result.events();
    check_events(&events).unwrap();
    let started = paths(&events, |kind| matches!(kind, EventKind::AgentStarted(_)));
    assert_eq!(started.len(), 1, "{started:?}");
    assert!(started[0].starts_with("tool#1.expert"), "{started:?}");
    let tools = paths(&events, |kind| matches!(kind, EventKind::ToolStarted { .. }));
    assert!(tools[1].starts_with(&started[0]) && tools[1].ends_with("tool#1.look_up"), "{tools:?}");
    // The definition that the model receives.
    let request = &model.requests()[0];
    let definition = &request.tools.definitions()[0];
    assert_eq!(
        (&*definition.name, &*definition.description),
        ("expert", "You know where things are.")
    );
    assert_eq!(definition.parameters["required"], json!(["request"]));
    assert_eq!((definition.policy.effects, definition.policy.idempotent), (Effects::Write, true));
}

#[tokio::test]
async fn without_the_grant_the_tool_inside_is_refused_too() {
    let model = caller("expert", json!({"request": "Where is the tea?"}));
    let runtime = test_runtime().resource(Desk("top drawer")).build();
    let result =
        Agent::new(model).tools([expert()]).runtime(&runtime).run("Tea, please.").await.unwrap();
    assert!(
        result.output().contains("needs the scope `desk`, which this run was not granted"),
        "{}",
        result.output()
    );
}

#[tokio::test]
async fn a_workflow_takes_its_inputs_and_answers_with_its_output() {
    let model = ScriptedModel::new([
        Turn::call("double", json!({"m": 4})),
        Turn::call("double", json!({"n": "4"})),
        Turn::call("double", json!({"n": 4})),
        Turn::text("It is 8."),
    ])
    .capturing();
    let result = Agent::new(model.clone()).tools(double::workflow()).run("Twice 4?").await.unwrap();
    let answers: Vec<(ToolStatus, String)> = result
        .conversation()
        .messages()
        .iter()
        .flat_map(|message| {
            message.results().map(|result| (result.status, result.output.to_string()))
        })
        .collect();
    assert_eq!(
        answers[0],
        (ToolStatus::InvalidArguments, "there is no input `m`; did you mean `n`?".to_owned())
    );
    assert_eq!(answers[1].0, ToolStatus::InvalidArguments);
    assert_eq!(answers[2], (ToolStatus::Success, "8".to_owned()));
    let steps = paths(&result.events(), |kind| matches!(kind, EventKind::WorkflowStarted(_)));
    assert!(steps.len() == 1 && steps[0].starts_with("tool#3.double"), "{steps:?}");
    let definition = &model.requests()[0].tools.definitions()[0].clone();
    assert_eq!(
        (&*definition.description, definition.policy.effects),
        ("Doubles a number.", Effects::Read)
    );
}

#[tokio::test]
async fn an_agent_of_a_function_asks_what_the_function_asks() {
    let inner = ScriptedModel::new([Turn::text(r#"{"value": 4}"#)]).capturing();
    let model = caller("risk", json!({}));
    let runtime = test_runtime().model(inner.clone()).build();
    let tool = AgentTool::new(judge::agent("Rust".into(), "a change".into()))
        .name("risk")
        .description("The risk.");
    let result =
        Agent::new(model.clone()).tools(tool).runtime(&runtime).run("How risky?").await.unwrap();
    assert_eq!(result.output(), "4");
    assert_eq!(model.requests()[0].tools.definitions()[0].parameters["properties"], json!({}));
    assert!(inner.requests()[0].messages.last().unwrap().text().contains("a change"));
}

#[tokio::test]
async fn what_an_agent_as_a_tool_lacks_is_reported_when_its_caller_is_built() {
    let agent = Agent::new(ScriptedModel::new([])).name("outer").tools(expert());
    let error = wrong_of(agent.build().unwrap_err());
    assert!(
        error
            .starts_with("the agent `outer` cannot be built: the agent `expert` cannot be built: "),
        "{error}"
    );
    assert!(error.contains("Desk"), "{error}");
    let twice = Agent::new(ScriptedModel::new([]))
        .tools(double::workflow())
        .tools(WorkflowTool::new(&double::workflow()));
    assert!(wrong_of(twice.build().unwrap_err()).contains("two tools are named `double`"));
    let odd = Workflow::<(i64,), i64>::build("twice a day", ["n"], |b, (n,)| {
        b.value("n2", (n,), |(n,)| Ok::<_, Error>(2 * n))
    })
    .unwrap();
    let agent = Agent::new(ScriptedModel::new([]));
    assert!(wrong_of(agent.clone().tools(&odd).build().unwrap_err()).contains("`twice a day`"));
    let _ = agent.tools(WorkflowTool::new(&odd).name("work.twice")).build().unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_at_any_write_it_continues_where_it_was() {
    let model = caller("expert", json!({"request": "Where is the tea?"}));
    let agent = Agent::new(model).tools(expert()).settings(AgentSettings::new().grant(["desk"]));
    let report = CrashTest::agent(&agent, || "Tea, please.")
        .runtime(|runtime| runtime.resource(Desk("top drawer")))
        .twice()
        .run()
        .await;
    assert!(report.crashes() > 20, "{report:?}");
    assert_eq!(report.interrupted(), 0, "{report:?}");
    // A workflow that asks a person behaves the same.
    let agent = Agent::new(caller("ask_and_double", json!({"n": 4})))
        .tools([ToolRef::from(ask_and_double::workflow())]);
    let paths = {
        let store = MemoryStore::new();
        let (run, at) = asking(&store, &agent).await;
        run.abandon();
        at
    };
    let report =
        CrashTest::agent(&agent, || "Twice 4?").answer(paths, Approval::granted()).run().await;
    assert!(report.crashes() > 10 && report.interrupted() == 0, "{report:?}");
}

/// Starts a run and returns the path of its question.
async fn asking(store: &MemoryStore, agent: &Agent) -> (RunHandle<RunResult<String>>, String) {
    let runtime = test_runtime().store(store.clone()).build();
    let request = agentflow::agent::RunRequest::new("Twice 4?").run_id(RunId::new("asking"));
    let run = agent.clone().runtime(&runtime).start(request).unwrap();
    let mut events = run.events();
    loop {
        let event = within("the next event", events.next()).await.expect("it asks before its end");
        if matches!(event.kind, EventKind::ApprovalRequested(_)) {
            return (run, event.path.to_string());
        }
    }
}

#[tokio::test]
async fn a_gate_inside_is_answered_by_its_path() {
    let store = MemoryStore::new();
    let agent =
        Agent::new(caller("ask_and_double", json!({"n": 4}))).tools(ask_and_double::workflow());
    let (run, path) = asking(&store, &agent).await;
    assert!(path.starts_with("tool#1.ask_and_double") && path.ends_with("/approval"), "{path}");
    let runtime = test_runtime().store(store.clone()).build();
    runtime.run(run.run_id()).approve(&path, Approval::granted(), "ada").await.unwrap();
    assert_eq!(run.result().await.unwrap().output(), "8");
}

#[tokio::test]
async fn it_ends_with_the_run() {
    let inner = Agent::new(ScriptedModel::new([Turn::stall()])).name("inner");
    let agent = Agent::new(caller("inner", json!({"request": "Wait."}))).tools(inner);
    let run = agent.start("Go.").unwrap();
    let mut events = run.events();
    let mut asked = 0;
    while asked < 2 {
        asked += usize::from(matches!(
            within("the next event", events.next()).await.unwrap().kind,
            EventKind::ModelStarted { .. }
        ));
    }
    run.cancel("enough").await.unwrap();
    let all = run.events().collect::<Vec<_>>().await;
    check_events(&all).unwrap();
    assert_eq!(
        paths(&all, |kind| matches!(kind, EventKind::AgentFailed { .. })).len(),
        1,
        "{all:#?}"
    );

    // The caller's time limit applies, too.
    let inner = Agent::new(ScriptedModel::new([Turn::stall()])).name("inner");
    let limits = Limits::default().timeout(Duration::from_millis(50));
    let agent =
        Agent::new(caller("inner", json!({"request": "Wait."}))).tools(inner).settings(limits);
    assert!(matches!(agent.run("Go.").await.unwrap_err(), Error::Timeout { .. }));
}

#[tokio::test]
async fn its_failure_is_one_of_the_tool() {
    let inner =
        Agent::new(ScriptedModel::new([Turn::fails(agentflow::model::ModelErrorKind::Auth)]))
            .name("inner");
    let agent = Agent::new(caller("inner", json!({"request": "Go."}))).tools(inner);
    let result = agent.run("Go.").await.unwrap();
    let status =
        result.conversation().messages().iter().find_map(|m| m.results().next().map(|r| r.status));
    assert_eq!(status, Some(ToolStatus::Error));
    let no_request = Agent::new(caller("inner", json!({"question": "Go."})));
    let inner = Agent::new(ScriptedModel::new([])).name("inner");
    let result = no_request.tools(inner).run("Go.").await.unwrap();
    assert!(result.output().contains("question"), "{}", result.output());
    let single = FnTool::new("hello", "Says hello.", |_: Context, (): ()| async {
        Ok::<_, String>("hello")
    });
    assert_eq!(
        Agent::new(caller("hello", json!({}))).tools(single).run("Go.").await.unwrap().output(),
        r#""hello""#
    );
}

/// Keep the margin of {product} secret.
#[agent(model = "openai/gpt-5-mini", description = "Knows margins.")]
async fn margin_keeper(product: String) -> Result<String>;

/// Keep the loss of {product} secret.
#[agent(model = "openai/gpt-5-mini")]
async fn loss_keeper(product: String) -> Result<String>;

#[tokio::test]
async fn clients_are_shown_descriptions_of_agents_and_never_their_instructions() {
    let agent = |name: &'static str| {
        let model = ScriptedModel::from_fn(|_| Turn::text("no"));
        Agent::new(model).name(name).instruct("Keep the discount secret.")
    };
    let document = "name: shop\nagents:\n\
                    - {name: shop_clerk, model: openai/m, instruction: Keep it secret., description: Sells shoes.}\n\
                    - {name: shop_boss, model: openai/m, instruction: Keep it secret.}\n\
                    orchestration: {type: sequential, agents: [shop_clerk, shop_boss]}\n";
    let runtime = Runtime::builder()
        .store(MemoryStore::new())
        .agent(&agent("mute"))
        .agent(&agent("seller").settings(AgentSettings::new().description("Sells hats.")))
        .tools(AgentTool::new(agent("helper")))
        .tools(AgentTool::new(agent("guide")).description("Shows the way."))
        .document(Document::read("shop", document).unwrap())
        .build();
    let agents = ["mute", "seller", "margin_keeper", "loss_keeper", "shop_clerk", "shop_boss"];
    let mut client = Lines::greeted(&McpServer::from_runtime(&runtime).agents(agents)).await;
    let listed = client.ask(1, "tools/list", json!({})).await["result"]["tools"].clone();
    let cards = A2aServer::from_runtime(&runtime)
        .agents(agents)
        .card("http://127.0.0.1", None)
        .await
        .unwrap();
    let catalogue = runtime.catalogue().snapshot().await;
    let entries: Vec<&str> = catalogue.entries().iter().map(|entry| &*entry.description).collect();
    for shown in [listed.to_string(), json!(cards).to_string(), entries.join("\n")] {
        assert!(!shown.contains("secret"), "{shown}");
        for described in ["Sells hats.", "Knows margins.", "Sells shoes."] {
            assert!(shown.contains(described), "{described}: {shown}");
        }
    }
    assert!(listed.to_string().contains("Shows the way."), "{listed}");
    // Within the program, a tool without a description shows its agent's instructions to the
    // calling model.
    let helper = runtime.catalogue().tool("helper").await.unwrap();
    assert_eq!(&*helper.definition().description, "Keep the discount secret.");
    assert_eq!(
        &*ToolRef::from(margin_keeper::definition()).definition().description,
        "Knows margins."
    );
}
