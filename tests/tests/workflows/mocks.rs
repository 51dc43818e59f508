//! Mocks by name. They apply at any depth, the policies around a call stay active, and unexpected
//! calls fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use agentflow::error::FailureKind;
use agentflow::message::ToolStatus;
use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow::workflow::WorkflowTool;
use agentflow_testing::{
    Call, Calls, CrashTest, ExpectedQuestion, Mocks, ScriptedModel, TestClock, Turn, calls_of,
    check_events, final_text, happened_before, totals, trace,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Gives money back.
#[tool(retry = 1, timeout = "10s")]
async fn kit_refund(order: u32, cents: u32) -> Result<String> {
    unreachable!("{order} {cents}")
}

/// What an order is worth.
#[tool(effects = "none")]
fn kit_worth(order: u32) -> u32 {
    unreachable!("{order}")
}

/// Gives a lot of money back.
#[tool(approve, scopes("money"))]
async fn kit_pay_out(cents: u32) -> Result<u32> {
    unreachable!("{cents}")
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct KitFull {
    left: u32,
}

impl std::fmt::Display for KitFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "only {} are left", self.left)
    }
}

/// Takes goods.
#[tool]
async fn kit_take(pieces: u32) -> Result<u32, KitFull> {
    unreachable!("{pieces}")
}

#[derive(Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
struct KitRisk {
    level: u8,
}

/// How risky is {what}?
#[agent(model = "openai/gpt-5-mini")]
async fn kit_judge(cx: &Context, what: String) -> Result<KitRisk>;

/// Say it in other words: {what}
#[agent(model = "openai/gpt-5-mini", tools = [kit_worth])]
async fn kit_say(what: String) -> Result<String>;

#[workflow(name = "kit-ship")]
async fn kit_ship(order: u32) -> Result<String> {
    let sent = kit_refund(order, 1).await?;
    Ok(sent)
}

async fn by_a_helper(order: u32) -> Result<String> {
    let worth = kit_worth(order);
    kit_refund(order, worth).await
}

#[workflow(name = "kit-all")]
async fn kit_all(cx: &Context, order: u32) -> Result<String> {
    let first = kit_refund(order, 5).await?;
    let helped = by_a_helper(order).await?;
    let risk = kit_judge(cx, helped.clone()).await?;
    let said = kit_say(first).await?;
    let shipped = kit_ship(order).await?;
    Ok(format!("{helped}, {}, {said}, {shipped}", risk.level))
}

#[tokio::test(start_paused = true)]
async fn what_is_called_in_a_step_is_replaced_however_deep() {
    let mocks = Mocks::new()
        .tool(
            "kit_refund",
            [
                Call::with(json!({"order": 7, "cents": 5})).returns("first"),
                Call::containing(json!({"cents": 500})).returns("helped"),
            ],
        )
        .tool(
            "kit_worth",
            Call::any().computes(|arguments| json!(arguments["order"].as_u64().unwrap() + 493)),
        )
        .agent(
            "kit_judge",
            Call::matching("a question about what helped", |asked| {
                asked.to_string().contains("helped")
            })
            .returns(KitRisk { level: 3 }),
        )
        .agent("kit_say", Call::any().returns("said"))
        .workflow(
            "kit-ship",
            Call::with(json!({"order": 7})).returns("shipped").after(Duration::from_secs(60)),
        );
    let run = mocks.runtime().build().start(kit_all::workflow(), 7).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "helped, 3, said, shipped");
    mocks.finish();
    let events = run.recorded();
    check_events(&events).unwrap();
    let calls = calls_of(&events, "kit_refund");
    let paths: Vec<String> = calls.iter().map(|call| call.path.to_string()).collect();
    assert_eq!(paths, ["first/tool#1.kit_refund", "helped/tool#1.kit_refund"]);
    assert_eq!(calls[1].arguments, json!({"order": 7, "cents": 500}));
    assert_eq!(calls[1].outcome, Some(Ok(json!("helped"))));
    assert_eq!(final_text(&events).as_deref(), Some("helped, 3, said, shipped"));
    assert!(happened_before(&events, "helped completed ..", "risk agent.started .."));
    assert!(!happened_before(&events, "run.completed ..", "shipped workflow.completed .."));
    assert_eq!((totals(&events).model_calls, totals(&events).tool_calls), (2, 3));
    assert!(
        trace(&events).contains(&r#"shipped workflow.completed "shipped""#.to_owned()),
        "{:#?}",
        trace(&events)
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_model_calls_is_replaced_in_an_agent_in_a_workflow_that_is_a_tool() {
    #[workflow(name = "kit-advise")]
    async fn kit_advise(order: u32) -> Result<String> {
        let said = kit_say(order.to_string()).await?;
        Ok(said)
    }
    let inner = ScriptedModel::new([
        Turn::call("kit_worth", json!({"order": 9})),
        Turn::text("it is worth 3").expect_result("kit_worth", 3),
    ]);
    let outer = ScriptedModel::new([
        Turn::call("kit-advise", json!({"order": 9})),
        Turn::text("fine").expect_result("kit-advise", "it is worth 3"),
    ]);
    let mocks = Mocks::new().tool("kit_worth", Call::with(json!({"order": 9})).returns(3));
    let runtime = mocks.runtime().agent_model("kit_say", inner.clone()).build();
    let agent = Agent::new(outer.clone())
        .tools(WorkflowTool::new(&kit_advise::workflow()))
        .runtime(&runtime);
    let result = agent.run("What is it?").await.unwrap();
    mocks.finish();
    inner.finish();
    outer.finish();
    let calls = calls_of(result.events(), "kit_worth");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].path.to_string(), "tool#1.kit-advise/said/tool#1.kit_worth");
}

#[tokio::test(start_paused = true)]
async fn policies_stay_around_what_is_replaced() {
    #[workflow(name = "kit-policies")]
    async fn kit_policies(cents: u32) -> Result<String> {
        let paid = async { Ok::<_, agentflow::Error>(kit_pay_out(cents).await? + 1) }.await?;
        let slow = by_a_helper(paid).await?;
        Ok(slow)
    }
    // Without the scope no question is asked and no call is made.
    let mocks = Mocks::new()
        .tool("kit_pay_out", Calls::never())
        .tool("kit_worth", Calls::never())
        .person([]);
    let error = kit_policies::workflow().run(&mocks.runtime().build(), 3).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Unauthorized, "{error}");
    mocks.finish();

    let mocks = Mocks::new()
        .tool("kit_pay_out", Call::with(json!({"cents": 3})).returns(4))
        .tool("kit_worth", Call::any().returns(1))
        .tool(
            "kit_refund",
            [
                Call::any().returns("too late").after(Duration::from_secs(11)),
                Call::any().returns("in time"),
            ],
        )
        .person([ExpectedQuestion::at("paid/tool#1.kit_pay_out")
            .asking("kit_pay_out")
            .about(json!({"cents": 3}))]);
    let run =
        mocks.runtime().grant(["money"]).build().start(kit_policies::workflow(), 3).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "in time");
    mocks.finish();
    let events = run.recorded();
    let took = events.last().unwrap().time.since(TestClock::START);
    assert!(took > Duration::from_secs(10), "{took:?}");
    assert!(happened_before(
        &events,
        "paid/tool#1.kit_pay_out approval.resolved ..",
        "paid/tool#1.kit_pay_out started .."
    ));
    check_events(&events).unwrap();

    // The model receives the refusal of a tool that it may not call, and the timeout of a slow one.
    let model = ScriptedModel::new([
        Turn::calls([
            ("kit_pay_out", json!({"cents": 1})),
            ("kit_refund", json!({"order": 1, "cents": 1})),
        ]),
        Turn::text("I see.")
            .expect_failure("kit_pay_out", ToolStatus::Unauthorized, "money")
            .expect_failure("kit_refund", ToolStatus::Timeout, "10s"),
    ]);
    // The tool's policy retries it for every caller.
    let slow = || Call::any().after(Duration::from_secs(60));
    let mocks =
        Mocks::new().tool("kit_pay_out", Calls::never()).tool("kit_refund", [slow(), slow()]);
    let agent = Agent::new(model.clone())
        .tools(tools![kit_pay_out, kit_refund])
        .runtime(&mocks.runtime().build());
    agent.run("Pay.").await.unwrap();
    model.finish();
    mocks.finish();
}

#[tokio::test(start_paused = true)]
async fn an_error_is_one_of_the_functions_own_type() {
    async fn some_of(pieces: u32) -> Result<u32> {
        Ok(match kit_take(pieces).await {
            Err(KitFull { left }) => kit_take(left).await.unwrap_or_default(),
            Ok(taken) => taken,
        })
    }
    #[workflow(name = "kit-stock")]
    async fn kit_stock(pieces: u32) -> Result<u32> {
        let taken = some_of(pieces).await?;
        Ok(taken)
    }
    let mocks = Mocks::new().tool(
        "kit_take",
        [
            Call::with(json!({"pieces": 9})).fails_with(KitFull { left: 4 }),
            Call::with(json!({"pieces": 4})).returns(4),
        ],
    );
    assert_eq!(kit_stock::workflow().run(&mocks.runtime().build(), 9).await.unwrap(), 4);
    mocks.finish();
    // A text cannot be converted to that error type, so it ends the step.
    let mocks = Mocks::new().tool("kit_take", Call::any().fails("the door is closed"));
    let error =
        kit_stock::workflow().run(&mocks.runtime().build(), 9).await.unwrap_err().to_string();
    assert!(error.contains("the door is closed"), "{error}");
    mocks.finish();
}

#[tokio::test(start_paused = true)]
async fn an_agent_answers_by_its_type_and_a_workflow_with_its_output() {
    let mocks = Mocks::new().agent(
        "kit_judge",
        [Call::any().returns(json!({"level": "high"})), Call::any().returns(json!({"level": 9}))],
    );
    #[workflow(name = "kit-judged")]
    async fn kit_judged(cx: &Context, what: String) -> Result<u8> {
        let risk = kit_judge(cx, what).await?;
        Ok(risk.level)
    }
    let level =
        kit_judged::workflow().run(&mocks.runtime().build(), "it".to_owned()).await.unwrap();
    assert_eq!(level, 9, "an answer that does not fit goes back, as it does to a model");
    mocks.finish();
    // A list is returned as the declared type, independent of the form that providers require.
    let list = Agent::new("openai/gpt-5-mini").name("kit-list").output::<Vec<u8>>();
    let mocks = Mocks::new().agent("kit-list", Call::any().returns([1, 2]));
    assert_eq!(
        *list.runtime(&mocks.runtime().build()).run("Which?").await.unwrap().output(),
        [1, 2]
    );
    mocks.finish();
    let mocks = Mocks::new().agent("kit_judge", Call::any().fails("no judge today"));
    let error = kit_judged::workflow()
        .run(&mocks.runtime().build(), "it".to_owned())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("no judge today"), "{error}");
    mocks.finish();
    let mocks = Mocks::new().workflow("kit-ship", Call::any().fails("no lorry"));
    #[workflow(name = "kit-shipping")]
    async fn kit_shipping(order: u32) -> Result<String> {
        let shipped = kit_ship(order).await?;
        Ok(shipped)
    }
    let error =
        kit_shipping::workflow().run(&mocks.runtime().build(), 1).await.unwrap_err().to_string();
    assert!(error.contains("no lorry"), "{error}");
    mocks.finish();
}

/// A connection that no test of this file provides.
struct KitDirectory;

/// Creates an account.
#[tool]
async fn kit_create(directory: Inject<KitDirectory>, name: String) -> Result<u32> {
    let _ = &*directory;
    unreachable!("{name}")
}

/// Removes an account.
#[tool]
async fn kit_remove(directory: Inject<KitDirectory>, id: u32) -> Result<u32> {
    let _ = &*directory;
    Ok(id)
}

#[workflow]
async fn kit_welcome(cx: &Context, name: String) -> Result<u32> {
    let id = kit_create(cx.inject()?, name).await?;
    Ok(id)
}

#[workflow]
async fn kit_renew(cx: &Context, name: String) -> Result<u32> {
    let id = kit_create(cx.inject()?, name).await?;
    let id = kit_remove(cx.inject()?, id).await?;
    Ok(id)
}

#[tokio::test(start_paused = true)]
async fn a_replaced_tool_needs_no_resource() {
    let mocks = Mocks::new()
        .tool("kit_create", Calls::endless([Call::with(json!({"name": "ada"})).returns(7)]));
    let runtime = mocks.runtime().build();
    assert_eq!(kit_welcome::workflow().run(&runtime, "ada".to_owned()).await.unwrap(), 7);
    let model =
        ScriptedModel::new([Turn::call("kit_create", json!({"name": "ada"})), Turn::text("done")]);
    let agent = Agent::new(model).tools(tools![kit_create]).runtime(&runtime).build().unwrap();
    assert_eq!(agent.run("Create ada.").await.unwrap().output(), "done");
    // A second tool that is not mocked still needs the resource, so the run does not start.
    let error =
        kit_renew::workflow().run(&runtime, "ada".to_owned()).await.unwrap_err().to_string();
    assert!(error.contains("KitDirectory` for the tool `kit_remove`"), "{error}");
    assert!(!error.contains("kit_create"), "{error}");
    let both =
        Agent::new(ScriptedModel::new([])).tools(tools![kit_create, kit_remove]).runtime(&runtime);
    assert!(both.build().unwrap_err().to_string().contains("for the tool `kit_remove`"));
    // Without mocks the resource is required.
    let error =
        kit_welcome::workflow().run(&Runtime::default(), "ada".to_owned()).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::MissingResource);
}

fn panic_of(act: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(act)).unwrap_err();
    panic
        .downcast_ref::<String>()
        .cloned()
        .unwrap_or_else(|| (*panic.downcast_ref::<&str>().unwrap()).to_owned())
}

#[tokio::test(start_paused = true)]
async fn what_is_not_expected_fails_the_call_and_the_test() {
    let mocks = Mocks::new()
        .tool("kit_refund", Call::with(json!({"order": 8, "cents": 1})))
        .tool("kit_worth", [Call::any().times(2)]);
    let error =
        kit_ship::workflow().run(&mocks.runtime().build(), 7).await.unwrap_err().to_string();
    let problem = |attempt: &str| {
        format!(
            "the tool `kit_refund` at `sent{attempt}/tool#1.kit_refund` was called with {{\"cents\":1,\"order\":7}}: expected \
             was a call with {{\"cents\":1,\"order\":8}}"
        )
    };
    let (first, retried) = (problem(""), problem("/attempt#2"));
    assert!(error.contains(&retried), "{error}");
    assert_eq!(mocks.failures(), [first.clone(), retried.clone()]);
    let finished = mocks.clone();
    assert_eq!(
        panic_of(move || finished.finish()),
        format!(
            "the calls of the run differ from those that the mocks expect\n\n{first}\n\n{retried}\n\nthe tool `kit_refund` was never \
             called with {{\"cents\":1,\"order\":8}}\n\nthe tool `kit_worth` was never called with any arguments\n\nthe \
             tool `kit_worth` was never called with any arguments\n"
        )
    );
    let left = Mocks::new().workflow("kit-ship", Call::any());
    assert!(
        panic_of(|| drop(left))
            .contains("the workflow `kit-ship` was never called with any arguments")
    );
    let twice = || drop(Mocks::new().agent("a", Call::any()).agent("a", Call::any()));
    assert_eq!(panic_of(twice), "the agent `a` has two mocks; give one all its calls");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_or_ends_the_run() {
    #[workflow(name = "kit-asks")]
    async fn kit_asks(n: u32) -> Result<u32> {
        #[node(timeout = "7d")]
        let more: u32 = gate!("how many more?", n).await?;
        Ok(n + more)
    }
    let asked = |mocks: &Mocks| {
        let runtime = mocks.runtime().build();
        async move { kit_asks::workflow().run(&runtime, 1).await }
    };
    let mocks = Mocks::new().person([ExpectedQuestion::at("more")
        .about(1)
        .answers(4)
        .after(Duration::from_secs(86_400))]);
    assert_eq!(asked(&mocks).await.unwrap(), 5);
    mocks.finish();
    let mocks = Mocks::new().person([ExpectedQuestion::at("more").stays_open()]);
    assert_eq!(asked(&mocks).await.unwrap_err().kind(), FailureKind::Timeout);
    mocks.finish();
    let mocks = Mocks::new().person([ExpectedQuestion::at("more").about(2)]);
    let error = asked(&mocks).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Cancelled);
    let problem =
        "`more` asked a person \"how many more?\" about 1: expected was at `more`, about 2";
    assert!(error.to_string().contains(problem), "{error}");
    assert!(panic_of(|| mocks.finish()).contains("nobody was asked at `more`, about 2"));
    // An answer of the wrong type is refused, like an answer of a person.
    let mocks = Mocks::new().person([ExpectedQuestion::at("more").answers("many")]);
    let error = asked(&mocks).await.unwrap_err().to_string();
    assert!(error.contains("the answer does not fit what `more` asks for"), "{error}");
    mocks.finish();
}

#[tokio::test(start_paused = true)]
async fn a_question_of_a_process_that_died_is_answered_by_the_next() {
    #[workflow(name = "kit-resumed")]
    async fn kit_resumed(n: u32) -> Result<u32> {
        let ok = gate!("go on?", n).await?;
        let worth = match ok {
            Approval::Granted { .. } => kit_worth(n),
            Approval::Denied { .. } => 0,
        };
        Ok(worth)
    }
    let store = MemoryStore::new();
    let first = Mocks::new().person([ExpectedQuestion::at("ok").stays_open()]);
    let run = {
        let runtime = first.runtime().store(store.clone()).build();
        let run = runtime.start(kit_resumed::workflow(), 3).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        runtime.drain(Duration::ZERO).await;
        run.run_id().clone()
    };
    first.finish();
    let next = Mocks::new()
        .tool("kit_worth", Call::with(json!({"order": 3})).returns(0))
        .person([ExpectedQuestion::at("ok")]);
    let run = next.runtime().store(store).build().run(&run).resume().await.unwrap();
    assert_eq!(run.result().await.unwrap().decode::<Value>().unwrap(), json!(0));
    next.finish();
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_write_changes_nothing() {
    let mocks = Mocks::new()
        .tool("kit_refund", Calls::endless([Call::any().returns("refunded")]))
        .tool("kit_worth", Calls::endless([Call::any().returns(2)]))
        .agent("kit_judge", Calls::endless([Call::any().returns(KitRisk { level: 1 })]))
        .agent("kit_say", Calls::endless([Call::any().returns("said")]))
        .workflow("kit-ship", Calls::endless([Call::any().returns("shipped")]));
    let given = mocks.clone();
    let report = CrashTest::new(&kit_all::workflow(), || 7)
        .runtime(move |runtime| runtime.replace(given.clone()))
        .run()
        .await;
    assert!(report.crashes() > 20, "{report}");
    mocks.finish();
}

#[tokio::test(start_paused = true)]
async fn a_tool_in_a_value_is_not_passed_by() {
    fn doubled(order: u32) -> u32 {
        2 * kit_worth(order)
    }
    #[workflow(name = "kit-valued")]
    async fn kit_valued(order: u32) -> Result<u32> {
        let worth = doubled(order);
        Ok(worth)
    }
    let mocks = Mocks::new().tool("kit_worth", Calls::endless([Call::any().returns(2)]));
    let error =
        kit_valued::workflow().run(&mocks.runtime().build(), 1).await.unwrap_err().to_string();
    assert!(error.contains("`kit_worth` is replaced in this runtime"), "{error}");
    mocks.finish();
}
