//! Tests workflows that are refused: two agents that save under one key and may run at the same
//! time, two calls in one value that both need approval, and a call that cannot ask about its
//! arguments.
//!
//! This is a separate test program, since it links a workflow that cannot be built.

use agentflow::Workflow;
use agentflow::prelude::*;
use agentflow_testing::{Call, Calls, Mocks};

static VERDICT: StateKey<String> = StateKey::session("verdict");

/// Judge the style.
#[agent(model = "openai/gpt-5-mini", output_key = VERDICT)]
async fn twice_style(cx: &Context, text: String) -> Result<String>;

/// Judge the facts.
#[agent(model = "openai/gpt-5-mini", output_key = VERDICT)]
async fn twice_facts(cx: &Context, text: String) -> Result<String>;

#[workflow(name = "twice-beside")]
async fn beside(cx: &Context, text: String) -> Result<String> {
    let style = twice_style(cx, text.clone()).await?;
    let facts = twice_facts(cx, text).await?;
    Ok(format!("{style} {facts}"))
}

#[workflow(name = "twice-after")]
async fn one_after_the_other(cx: &Context, text: String) -> Result<String> {
    let style = twice_style(cx, text.clone()).await?;
    #[after(style)]
    let facts = twice_facts(cx, text).await?;
    Ok(format!("{style} {facts}"))
}

#[workflow(name = "twice-read")]
async fn one_reads_the_other(cx: &Context, text: String) -> Result<String> {
    let style = twice_style(cx, text).await?;
    let facts = twice_facts(cx, style).await?;
    Ok(facts)
}

#[workflow(name = "twice-arms")]
async fn in_two_arms(cx: &Context, text: String) -> Result<String> {
    let is_long = text.len() > 5;
    let verdict =
        if is_long { twice_style(cx, text).await? } else { twice_facts(cx, text).await? };
    Ok(verdict)
}

#[workflow(name = "twice-inner")]
async fn inner(cx: &Context, text: String) -> Result<String> {
    let style = twice_style(cx, text).await?;
    Ok(style)
}

#[workflow(name = "twice-nested")]
async fn in_a_nested_workflow(cx: &Context, text: String) -> Result<String> {
    let style = inner(cx, text.clone()).await?;
    let facts = twice_facts(cx, text).await?;
    Ok(format!("{style} {facts}"))
}

#[workflow(name = "twice-items")]
async fn of_items(cx: &Context, texts: Vec<String>) -> Result<Vec<String>> {
    let styles = map!(texts, |text| twice_style(cx, text)).await?;
    Ok(styles)
}

#[workflow(name = "twice-rounds")]
async fn of_rounds(cx: &Context, texts: Vec<String>) -> Result<u32> {
    for text in texts {
        let style = twice_style(cx, text).await?;
        noted(style).await;
    }
    Ok(1)
}

async fn noted(_style: String) {}

fn mocks() -> Mocks {
    let any = || Calls::endless([Call::any().returns("good")]);
    Mocks::new().agent("twice_style", any()).agent("twice_facts", any())
}

/// Returns the reason why a workflow cannot be built.
fn refused<In, Out>(workflow: fn() -> Workflow<In, Out>) -> String {
    let panic = std::panic::catch_unwind(move || drop(workflow())).expect_err("it is refused");
    panic.downcast_ref::<String>().expect("it panics with a text").clone()
}

#[test]
fn two_branches_that_save_under_one_key_are_refused() {
    let expected = |name: &str| {
        format!(
            "the workflow `{name}` cannot be built: `style` and `facts` may run at the same time, and each of them saves \
             `verdict` in the state; let the second wait for the first, by `#[after(..)]`, or give one of them its own key"
        )
    };
    assert_eq!(refused(beside::workflow), expected("twice-beside"));
    assert_eq!(refused(in_a_nested_workflow::workflow), expected("twice-nested"));
    assert_eq!(
        refused(of_items::workflow),
        "the workflow `twice-items` cannot be built: the items of `styles` run at the same time, and each of them saves \
         `verdict` in the state; return the answers and save their list, or let one item follow the other, in a `for` loop"
    );
}

#[tokio::test]
async fn what_runs_in_an_order_may_save_under_one_key() {
    let mocks = mocks();
    let runtime = mocks.runtime().build();
    let text = || "some text".to_owned();
    assert_eq!(one_after_the_other::workflow().run(&runtime, text()).await.unwrap(), "good good");
    assert_eq!(one_reads_the_other::workflow().run(&runtime, text()).await.unwrap(), "good");
    assert_eq!(in_two_arms::workflow().run(&runtime, text()).await.unwrap(), "good");
    assert_eq!(of_rounds::workflow().run(&runtime, vec![text(), text()]).await.unwrap(), 1);
}

/// Stamps a paper, with a person's approval.
#[tool(approve)]
fn twice_stamp(papers: u32) -> u32 {
    papers
}

#[workflow(name = "twice-stamped")]
async fn stamped(papers: u32) -> Result<u32> {
    let done = twice_stamp(papers) + twice_stamp(1);
    Ok(done)
}

#[workflow(name = "twice-once-stamped")]
async fn stamped_once(papers: u32) -> Result<u32> {
    let done = twice_stamp(papers + 1);
    Ok(done)
}

/// The node would ask about its inputs instead of the arguments of the call.
#[tokio::test]
async fn a_call_that_cannot_ask_about_its_arguments_is_refused() {
    let error = stamped_once(1).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the workflow `twice-once-stamped` cannot be built: the node `done` calls `twice_stamp`, which needs a person's \
         approval and is not `async`, so it cannot ask about its arguments; make the tool `async`"
    );
}

/// An approval covers one call.
#[tokio::test]
async fn two_calls_of_one_value_that_need_an_approval_are_refused() {
    let error = stamped(1).await.unwrap_err().to_string();
    assert!(
        error.contains("the node `done` makes 2 calls that each need a person's approval"),
        "{error}"
    );
}
