//! Tests handoffs between agents: the history that goes along, limits, refusals, and crashes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::agent::{AgentOutline, AgentSettings, Hooks, Limits, RunRequest, Team};
use agentflow::middleware::Flow;
use agentflow::model::{ModelInfo, ModelRequest, ModelStream, OutputMode, OutputSchema};
use agentflow::prelude::*;
use agentflow::runtime::Changes;
use agentflow::serde_json::{self, json};
use agentflow::{Error, Model, RunId, schemars, serde};
use agentflow_testing::{
    CrashTest, EffectLog, ScriptedModel, Turn, check_events, test_runtime, trace,
};
use agentflow_tests::ProcessStore;

/// Refunds an order.
#[tool(scopes(money))]
async fn team_refund(cx: &Context, log: Inject<EffectLog>, order: u32) -> String {
    log.note(cx);
    format!("refunded {order}")
}

/// Looks an order up.
#[tool(effects = "read")]
async fn team_look(order: u32) -> String {
    format!("{order} was paid twice")
}

fn to(agent: &str) -> Turn {
    Turn::call("transfer_to_agent", json!({"agent": agent}))
}

fn triage(turns: impl IntoIterator<Item = Turn>) -> Agent {
    Agent::new(ScriptedModel::new(turns)).name("triage").instruct("Find out what it is about.")
}

fn billing(turns: impl IntoIterator<Item = Turn>) -> Agent {
    Agent::new(ScriptedModel::new(turns)).name("billing").instruct("You know payments.")
}

#[tokio::test]
async fn the_conversation_goes_along_under_other_instructions_and_tools() {
    let first = triage([Turn::calls([
        ("team_look", json!({"order": 7})),
        ("transfer_to_agent", json!({"agent": "billing"})),
    ])
    .expect_system("Find out what it is about.")
    .expect_tools(["team_look", "transfer_to_agent"])])
    .tools(tools![team_look]);
    let refunds = billing([
        Turn::call("team_refund", json!({"order": 7})).expect_system("You know payments.").check(
            |request| {
                let told = &request.tools.definitions();
                let names: Vec<_> = told.iter().map(|tool| &*tool.name).collect();
                assert_eq!(names, ["team_refund", "transfer_to_agent"]);
                let texts: Vec<String> =
                    request.messages.messages().iter().map(|one| one.text().into_owned()).collect();
                assert!(!texts.iter().any(|text| text.contains("Find out")), "{texts:?}");
                assert!(
                    request
                        .messages
                        .last()
                        .unwrap()
                        .results()
                        .any(|result| result.output.contains("paid twice"))
                );
            },
        ),
        Turn::text("Done."),
    ])
    .tools(tools![team_refund])
    .settings(AgentSettings::new().grant(["money"]));
    let log = EffectLog::new();
    let team = Team::new(first, &["billing"]).agent(refunds, &["triage"]).build().unwrap();
    let run = team.resource(log.clone()).start("I paid twice for 7.").unwrap();
    let result = run.result().await.unwrap();
    assert_eq!(result.output(), "Done.");
    assert_eq!(result.steps(), 3);
    let lines = trace(result.events());
    assert_eq!(
        lines,
        [
            "run.started \"I paid twice for 7.\"",
            "model#1 completed tool_calls",
            "tool#1.team_look started {\"order\":7}",
            "tool#1.transfer_to_agent started {\"agent\":\"billing\"}",
            "tool#1.team_look completed \"7 was paid twice\"",
            "tool#1.transfer_to_agent completed \"`billing` has the conversation now\"",
            "agent.handoff from triage to billing",
            "model#2 completed tool_calls",
            "tool#2.team_refund started {\"order\":7}",
            "tool#2.team_refund completed \"refunded 7\"",
            "model#3 completed stop \"Done.\"",
            "run.completed \"Done.\"",
        ]
    );
    check_events(&result.events()).unwrap();
}

#[tokio::test]
async fn agents_that_transfer_in_a_circle_end_with_an_error() {
    let first = triage([to("billing"), to("billing"), to("billing")])
        .settings(Limits::default().max_handoffs(4));
    let team = Team::new(first, &["billing"])
        .agent(billing([to("triage"), to("triage")]), &["triage"])
        .build()
        .unwrap();
    let error = team.run("Hello?").await.unwrap_err();
    assert!(matches!(error, Error::HandoffLimit { handoffs: 4, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "the agents of the team transferred the conversation 4 times, which is the limit; see whether they transfer in a \
         circle, or raise the limit with `max_handoffs`"
    );
}

#[tokio::test]
async fn the_first_transfer_of_a_turn_counts_and_a_wrong_name_is_said() {
    let first = triage([
        to("biling"),
        Turn::calls([
            ("transfer_to_agent", json!({"agent": "billing"})),
            ("transfer_to_agent", json!({"agent": "tech"})),
        ])
        .check(|request| {
            let said = request.messages.last().unwrap().results().next().unwrap().output.clone();
            assert_eq!(said, "`agent`: you cannot transfer to `biling`; did you mean `billing`?");
        }),
    ]);
    let knows = billing([Turn::text("Yes?").check(|request| {
        let results: Vec<_> = request.messages.last().unwrap().results().map(|one| one.output.clone()).collect();
        assert_eq!(
            results,
            [
                "\"`billing` has the conversation now\"",
                "the conversation is transferred once in a turn, as the first call says; this one was not made"
            ]
        );
    })]);
    let tech = Agent::new(ScriptedModel::new([])).name("tech");
    let team = Team::new(first, &["billing", "tech"])
        .agent(knows, &[])
        .agent(tech, &["billing"])
        .build()
        .unwrap();
    assert_eq!(team.run("Hello?").await.unwrap().output(), "Yes?");
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Verdict {
    refund: bool,
}

/// A model with the given mode for typed answers.
struct Answering(ScriptedModel, OutputMode);

impl Model for Answering {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        self.0.stream(request)
    }

    fn output_mode(&self, _: &OutputSchema, _: bool) -> std::result::Result<OutputMode, String> {
        Ok(self.1)
    }
}

#[tokio::test]
async fn the_answer_is_of_the_first_agents_type_however_a_model_gives_it() {
    for (one, other) in
        [(OutputMode::Native, OutputMode::Tool), (OutputMode::Tool, OutputMode::Native)]
    {
        let answer = json!({"refund": true});
        let turn = match other {
            OutputMode::Tool => Turn::call("final_answer", answer),
            _ => Turn::text(answer.to_string()),
        };
        let first = Agent::new(Answering(ScriptedModel::new([to("billing")]), one)).name("triage");
        let last = Agent::new(Answering(ScriptedModel::new([turn]), other)).name("billing");
        let team =
            Team::new(first.output::<Verdict>(), &["billing"]).agent(last, &[]).build().unwrap();
        assert_eq!(*team.run("Refund?").await.unwrap().output(), Verdict { refund: true });
    }
}

fn crashing(log: &EffectLog) -> Agent {
    // A function instead of a script, since a crash repeats calls and would use the script up.
    let first = ScriptedModel::from_fn(|_| {
        Turn::calls([
            ("team_refund", json!({"order": 1})),
            ("transfer_to_agent", json!({"agent": "billing"})),
        ])
    });
    let second = ScriptedModel::from_fn(|request| {
        let last = request.messages.last().unwrap();
        match last.results().next().map(|result| result.name.clone()).as_deref() {
            Some("team_refund") if last.results().count() == 1 => Turn::text("Both are refunded."),
            _ => Turn::call("team_refund", json!({"order": 2})),
        }
    });
    let first = Agent::new(first)
        .name("triage")
        .instruct("First.")
        .tools(tools![team_refund])
        .settings(AgentSettings::new().grant(["money"]));
    let second = Agent::new(second)
        .name("billing")
        .instruct("Second.")
        .tools(tools![team_refund])
        .settings(AgentSettings::new().grant(["money"]));
    Team::new(first.resource(log.clone()), &["billing"]).agent(second, &["triage"]).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_team_is_resumed_from_every_write() {
    let log = EffectLog::new();
    let report =
        CrashTest::agent(&crashing(&log), || "Refund both.").effects(&log).twice().run().await;
    for path in ["tool#1.team_refund", "tool#2.team_refund"] {
        assert!(report.step(path).is_some(), "{report}");
    }
}

#[workflow]
async fn team_in_a_step(cx: &Context, orders: Vec<u32>) -> Result<Vec<String>> {
    let answers = map!(orders, |order| team_asked(cx, order)).await?;
    Ok(answers)
}

/// Asks the team.
#[tool]
async fn team_asked(cx: &Context, order: u32) -> Result<String> {
    let log = cx.inject::<EffectLog>()?;
    Ok(crashing(&log).run_in(cx, format!("Refund {order}.")).await?.into_output())
}

#[tokio::test(start_paused = true)]
async fn a_team_within_a_step_is_resumed_from_every_write() {
    let log = EffectLog::new();
    let of_runtime = log.clone();
    CrashTest::new(&team_in_a_step::workflow(), || vec![3, 4])
        .runtime(move |runtime| runtime.resource(of_runtime.clone()))
        .effects(&log)
        .run()
        .await;
}

#[tokio::test]
async fn a_team_is_a_tool_of_another_agent() {
    let team = Team::new(triage([to("billing")]), &["billing"])
        .agent(billing([Turn::text("Gone.")]), &[])
        .build()
        .unwrap();
    let caller = ScriptedModel::new([
        Turn::call("triage", json!({"request": "Why?"})),
        Turn::text("It is gone."),
    ]);
    let result = Agent::new(caller).tools(team).run("Why?").await.unwrap();
    assert_eq!(result.output(), "It is gone.");
    assert!(
        trace(result.events())
            .contains(&"tool#1.triage agent.handoff from triage to billing".to_owned()),
        "{:#?}",
        trace(result.events())
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_is_not_resumed_by_a_team_that_lacks_the_agent() {
    let store = ProcessStore::new();
    let id = RunId::new("run-1");
    let stalls = Team::new(triage([to("billing")]), &["billing"])
        .agent(billing([Turn::stall()]), &[])
        .build()
        .unwrap();
    let runtime = test_runtime().store(store.clone()).build();
    let run = stalls.runtime(&runtime).start(RunRequest::new("Hello?").run_id(id.clone())).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.abandon();
    tokio::time::sleep(Duration::from_secs(1)).await;

    let runtime = test_runtime().store(store.process(2)).build();
    let tech = Agent::new(ScriptedModel::new([])).name("tech");
    let other = Team::new(triage([]), &["tech"]).agent(tech, &[]).build().unwrap();
    let error = other.clone().runtime(&runtime).resume(&id).await.unwrap_err().to_string();
    let problem = "the run was transferred to `billing`, which is not in the team any more";
    assert!(error.contains(problem), "{error}");
    let accepting = other.runtime(&runtime.with_changes(Changes::AcceptAll));
    let error = accepting.resume(&id).await.unwrap_err().to_string();
    assert!(error.contains(problem), "{error}");
    let same = Team::new(triage([]), &["billing"])
        .agent(billing([Turn::text("Hello!")]), &[])
        .build()
        .unwrap();
    let run = same.runtime(&runtime).resume(&id).await.unwrap();
    assert_eq!(run.result().await.unwrap().output(), "Hello!");
}

#[tokio::test]
async fn callbacks_are_those_of_the_agent_that_has_the_conversation() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noting = |agent: Agent, who: &'static str| {
        let (models, agents) = (Arc::clone(&seen), Arc::clone(&seen));
        let hooks = Hooks::new()
            .before_agent(move |_| {
                agents.lock().unwrap().push(format!("{who} agent"));
                Ok(Flow::Continue)
            })
            .before_model(move |step| {
                models.lock().unwrap().push(format!("{who} model of {}", step.agent()));
                Ok(Flow::Continue)
            });
        agent.with(hooks)
    };
    let first = noting(triage([to("billing")]), "first");
    let second = noting(billing([Turn::text("Here.")]), "second");
    let team = Team::new(first, &["billing"]).agent(second, &[]).build().unwrap();
    assert_eq!(team.run("Hello?").await.unwrap().output(), "Here.");
    assert_eq!(
        *seen.lock().unwrap(),
        ["first agent", "first model of triage", "second model of billing"]
    );
}

#[tokio::test]
async fn grants_do_not_go_along() {
    let log = EffectLog::new();
    let refunds = billing([
        Turn::call("team_refund", json!({"order": 1})),
        Turn::text("I may not.").check(|request| {
            let result = request.messages.last().unwrap().results().next().unwrap().clone();
            assert_eq!(result.status, agentflow::message::ToolStatus::Unauthorized);
        }),
    ]);
    let first = triage([to("billing")])
        .settings(AgentSettings::new().grant(["money"]))
        .resource(log.clone());
    let team = Team::new(first, &["billing"])
        .agent(refunds.tools(tools![team_refund]), &[])
        .build()
        .unwrap();
    assert_eq!(team.run("Hello?").await.unwrap().output(), "I may not.");

    // Scopes of the run apply to all of its agents.
    let refunds = billing([Turn::call("team_refund", json!({"order": 1})), Turn::text("Done.")]);
    let first = triage([to("billing")]).resource(log.clone());
    let team = Team::new(first, &["billing"])
        .agent(refunds.tools(tools![team_refund]), &[])
        .build()
        .unwrap();
    assert_eq!(
        team.run(RunRequest::new("Hello?").grant(["money"])).await.unwrap().output(),
        "Done."
    );
}

/// Judge {text}.
#[agent(model = "openai/gpt-5-mini")]
async fn team_judge(text: String) -> Result<String>;

#[test]
fn a_wrong_team_is_refused_with_what_to_do() {
    let agent = |name: &str| Agent::new(ScriptedModel::new([])).name(name);
    let problem = |team: Team| match team.build().and_then(Agent::build).unwrap_err() {
        Error::Build { what: "agent", problem, .. } => problem,
        error => panic!("{error}"),
    };
    let first = || agent("triage");
    for (team, expected) in [
        (Team::new(first(), &["biling"]).agent(agent("billing"), &[]), "did you mean `billing`?"),
        (Team::new(first(), &["triage"]), "`triage` may transfer to itself; remove that target"),
        (
            Team::new(first(), &["a"]).agent(agent("a"), &[]).agent(agent("a"), &[]),
            "two agents of the team have the name `a`",
        ),
        (
            Team::new(first(), &["a"]).agent(agent("a"), &[]).agent(agent("b"), &["a"]),
            "no agent transfers to `b`",
        ),
        (
            Team::new(first(), &["a"]).agent(agent("a"), &[]).about("c", "x"),
            "`about` names the agent `c`",
        ),
        (
            Team::new(first(), &["team_judge"]).agent(team_judge::agent("x".into()), &[]),
            "leave only instructions",
        ),
        (
            Team::new(first(), &["a"])
                .agent(Team::new(agent("a"), &["b"]).agent(agent("b"), &[]).build().unwrap(), &[]),
            "its agent `a` is a team itself",
        ),
        (
            Team::new(
                first().tools(agentflow::tool::FnTool::new(
                    "transfer_to_agent",
                    "Mine.",
                    |_: Context, (): ()| async { Ok::<_, Error>("x") },
                )),
                &["a"],
            )
            .agent(agent("a"), &[]),
            "the tool name `transfer_to_agent` is taken; rename that tool",
        ),
    ] {
        let problem = problem(team);
        assert!(problem.contains(expected), "{problem}");
    }
}

#[tokio::test]
async fn a_built_team_is_not_renamed_to_what_its_agents_do_not_know() {
    let team =
        || Team::new(triage([]), &["billing"]).agent(billing([]), &["triage"]).build().unwrap();
    for name in ["desk", "billing"] {
        let error = team().name(name).run("Hello?").await.unwrap_err().to_string();
        assert!(error.contains("name that agent before `Team::new`"), "{error}");
    }
    // Renaming is allowed if no agent hands back to the first one.
    let one_way = Team::new(triage([to("billing")]), &["billing"])
        .agent(billing([Turn::text("Yes.")]), &[])
        .build();
    assert_eq!(one_way.unwrap().name("desk").run("Hello?").await.unwrap().output(), "Yes.");
}

#[test]
fn a_team_is_drawn_with_dashed_arrows() {
    let agent = |name: &str| Agent::new(ScriptedModel::new([])).name(name);
    let team = Team::new(agent("triage"), &["a", "b"])
        .agent(agent("a"), &["triage"])
        .agent(agent("b"), &[])
        .build()
        .unwrap();
    let outline = AgentOutline::of(&team);
    let (mermaid, dot) = (outline.to_mermaid(), outline.to_dot());
    assert_eq!(mermaid.matches("-.->|\"may transfer to\"|").count(), 3, "{mermaid}");
    assert_eq!(dot.matches("style=dashed").count(), 3, "{dot}");
    assert_eq!(serde_json::to_value(&outline).unwrap()["handoffs"], json!(["a", "b"]));
}
