//! Many agents in one workflow, and many tests in a short time, all of them scripted.

use std::time::Instant;

use agentflow::Workflow;
use agentflow::prelude::*;
use agentflow::workflow::Node;
use agentflow_testing::{
    Call, Mocks, ScriptedModel, Turn, assert_trace, check_events, test_runtime, totals,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A draft that one half of the agents passes to the other and back, checked by the compiler and by
/// its schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
struct KitDraft {
    text: String,
    revision: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
struct KitReview {
    of_revision: u32,
    remark: String,
}

const PAIRS: u32 = 50;

#[tokio::test(start_paused = true)]
#[expect(clippy::print_stdout, reason = "the time is worth seeing")]
async fn a_hundred_agents_with_typed_contracts() {
    let writer =
        |n: u32| Agent::new("openai/gpt-5-mini").name(format!("writer-{n}")).output::<KitDraft>();
    let reader =
        |n: u32| Agent::new("openai/gpt-5-mini").name(format!("reader-{n}")).output::<KitReview>();
    let flow = Workflow::<(KitReview,), KitDraft>::build("hundred", ["first"], |b, (first,)| {
        let (mut review, mut drafts) = (first, Vec::new());
        for n in 0..PAIRS {
            let draft = b.node(
                Node::new(format!("write{n}")),
                (review,),
                move |cx, (review,): (KitReview,)| {
                    let writer = writer(n);
                    async move {
                        Ok::<_, agentflow::Error>(
                            writer.run_in(&cx, review.remark).await?.into_output(),
                        )
                    }
                },
            );
            review = b.node(
                Node::new(format!("read{n}")),
                (draft,),
                move |cx, (draft,): (KitDraft,)| {
                    let reader = reader(n);
                    async move {
                        Ok::<_, agentflow::Error>(
                            reader.run_in(&cx, draft.text).await?.into_output(),
                        )
                    }
                },
            );
            drafts.push(draft);
        }
        drafts.pop().unwrap()
    })
    .unwrap();
    let mut mocks = Mocks::new();
    for n in 0..PAIRS {
        let (asked, text) = (format!("remark {n}"), format!("text {n}"));
        let draft = KitDraft { text: text.clone(), revision: n };
        let review = KitReview { of_revision: n, remark: format!("remark {}", n + 1) };
        mocks = mocks
            .agent(
                format!("writer-{n}"),
                Call::containing(json!({"message": asked})).returns(draft),
            )
            .agent(
                format!("reader-{n}"),
                Call::containing(json!({"message": text})).returns(review),
            );
    }
    let first = KitReview { of_revision: 0, remark: "remark 0".to_owned() };
    let began = Instant::now();
    let run = mocks.runtime().build().start(flow, first).await.unwrap();
    assert_eq!(run.result().await.unwrap(), KitDraft { text: "text 49".to_owned(), revision: 49 });
    println!("a workflow of {} agents took {:?}", 2 * PAIRS, began.elapsed());
    let events = run.recorded();
    check_events(&events).unwrap();
    assert_eq!(totals(&events).model_calls, 100);
    mocks.finish();
}

/// Add two integers.
#[tool(effects = "none")]
fn kit_scale_add(a: u32, b: u32) -> u32 {
    a + b
}

#[workflow(name = "kit-scale")]
async fn kit_scale(n: u32) -> Result<u32> {
    let twice = kit_scale_add(n, n);
    let thrice = kit_scale_add(twice, n);
    Ok(thrice)
}

#[test]
#[expect(clippy::print_stdout, reason = "the time is worth seeing")]
fn a_thousand_tests() {
    let began = Instant::now();
    for n in 0..500_u32 {
        let paused = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        paused.block_on(async {
            let model = ScriptedModel::new([
                Turn::call("kit_scale_add", json!({"a": n, "b": 1})).expect_tools(["kit_scale_add"]),
                Turn::text("Done.").expect_result("kit_scale_add", n + 1),
            ]);
            let agent = Agent::new(model.clone()).tools(tools![kit_scale_add]).runtime(&test_runtime().build());
            let result = agent.run("Add.").await.unwrap();
            let sum = n + 1;
            assert_trace(
                result.events(),
                format!(
                    "run.started \"Add.\"\nmodel#1 completed tool_calls\ntool#1.kit_scale_add started {{\"a\":{n},\"b\":1}}\n\
                     tool#1.kit_scale_add completed {sum}\nmodel#2 completed ..\nrun.completed \"Done.\""
                )
                .as_str(),
            );
            model.finish();
        });
    }
    for n in 0..500_u32 {
        let paused = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        paused.block_on(async {
            let calls = [
                Call::with(json!({"a": n, "b": n})).returns(2 * n),
                Call::with(json!({"a": 2 * n, "b": n})).returns(3 * n),
            ];
            let mocks = Mocks::new().tool("kit_scale_add", calls);
            assert_eq!(
                kit_scale::workflow().run(&mocks.runtime().build(), n).await.unwrap(),
                3 * n
            );
            mocks.finish();
        });
    }
    println!("1000 scripted tests took {:?}", began.elapsed());
}
