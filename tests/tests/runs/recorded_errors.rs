//! Tests errors as values: a step passes its `Result` to other steps, live and after a crash.

use agentflow::error::FailureKind;
use agentflow::model::ModelErrorKind;
use agentflow::prelude::*;
use agentflow::schemars::JsonSchema;
use agentflow::serde::{Deserialize, Serialize};
use agentflow::store::MemoryStore;
use agentflow_testing::{CrashTest, ScriptedModel, Turn, test_runtime};

/// Answer.
#[agent]
async fn answer_or_fail(cx: &Context, text: String) -> Result<String>;

async fn describe_result(tried: Result<String>) -> Result<String> {
    Ok(match tried {
        Ok(text) => text,
        Err(error) => format!("{}, {}: {error}", error.kind(), error.is_retryable()),
    })
}

#[workflow]
async fn try_and_describe(cx: &Context, text: String) -> Result<(String, String)> {
    let tried = answer_or_fail(cx, text).await;
    let first = describe_result(tried).await?;
    let second = describe_result(tried).await?;
    Ok((first, second))
}

#[tokio::test]
async fn a_step_may_give_its_error_to_others() {
    let model = ScriptedModel::new([Turn::text("yes"), Turn::fails(ModelErrorKind::Auth)]);
    let runtime = test_runtime().model(model.clone()).build();
    let cx = runtime.context();
    assert_eq!(
        try_and_describe(&cx, "Is it?".into()).await.unwrap(),
        ("yes".to_owned(), "yes".to_owned())
    );
    let (first, second) = try_and_describe(&cx, "And now?".into()).await.unwrap();
    assert_eq!(first, second);
    assert!(first.starts_with(&format!("{}, false: ", FailureKind::Auth)), "{first}");
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn an_error_given_to_others_is_the_same_after_each_crash() {
    let failing = || ScriptedModel::from_fn(|_| Turn::fails(ModelErrorKind::Auth));
    CrashTest::new(&try_and_describe::workflow(), || "And now?".to_owned())
        .runtime(move |runtime| runtime.model(failing()))
        .run()
        .await;
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
enum BillError {
    Declined { cents: u64 },
    Closed,
    Flow(agentflow::Error),
}

impl std::fmt::Display for BillError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Declined { cents } => write!(f, "{cents} declined"),
            Self::Closed => f.write_str("closed"),
            Self::Flow(error) => write!(f, "flow: {error}"),
        }
    }
}

impl From<agentflow::Error> for BillError {
    fn from(error: agentflow::Error) -> Self {
        Self::Flow(error)
    }
}

/// Charge.
#[tool]
async fn charge(customer: u64) -> Result<u64, BillError> {
    match customer {
        0 => Err(BillError::Closed),
        1..100 => Ok(customer * 100),
        _ => Err(BillError::Declined { cents: customer * 100 }),
    }
}

#[workflow]
async fn bill(customer: u64) -> Result<u64, BillError> {
    let cents = charge(customer).await?;
    Ok(cents)
}

/// An error without a JSON form.
struct Refused(String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<BillError> for Refused {
    fn from(error: BillError) -> Self {
        Self(format!("no: {error}"))
    }
}

impl From<agentflow::Error> for Refused {
    fn from(error: agentflow::Error) -> Self {
        Self(error.to_string())
    }
}

#[workflow]
async fn bill_politely(customer: u64) -> Result<u64, Refused> {
    let cents = charge(customer).await?;
    Ok(cents)
}

async fn outcome(customer: u64) -> Result<String, BillError> {
    let politely = match bill_politely(customer).await {
        Ok(cents) => cents.to_string(),
        Err(error) => error.to_string(),
    };
    Ok(match bill(customer).await {
        Ok(cents) => format!("{cents}, {politely}"),
        Err(BillError::Declined { cents }) => format!("not {cents}, {politely}"),
        Err(other) => format!("{other}, {politely}"),
    })
}

/// Note.
#[tool]
async fn note(line: String) {
    drop(line);
}

#[workflow]
async fn bill_each(customers: Vec<u64>) -> Result<Vec<String>, BillError> {
    let lines = map!(customers, |customer| outcome(customer)).await?;
    for customer in customers {
        let declined = matches!(bill(customer).await, Err(BillError::Declined { .. }));
        note(format!("{customer}: {declined}")).await;
    }
    Ok(lines)
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_nested_workflow_is_the_same_after_each_crash() {
    let expected =
        ["700, 700", "not 20000, no: 20000 declined", "closed, no: closed"].map(str::to_owned);
    assert_eq!(bill_each(vec![7, 200, 0]).await.unwrap(), expected);
    CrashTest::new(&bill_each::workflow(), || vec![7, 200, 0]).run().await;
}

#[workflow]
async fn charge_or_nobody(customer: u64) -> Result<u64, BillError> {
    let cents = fallback!(charge(customer), charge(0)).await?;
    Ok(cents)
}

#[tokio::test]
async fn the_error_of_a_fallback_is_that_of_its_last_branch() {
    assert_eq!(charge_or_nobody(7).await.unwrap(), 700);
    let error = charge_or_nobody(200).await.unwrap_err();
    assert!(matches!(error, BillError::Closed), "{error}");
}

/// An error whose alternate form shows its cause, like `anyhow::Error`.
struct ErrorWithSource;

impl std::fmt::Display for ErrorWithSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if f.alternate() {
            "could not fetch the page: 404: not found"
        } else {
            "could not fetch the page"
        })
    }
}

impl From<agentflow::Error> for ErrorWithSource {
    fn from(_: agentflow::Error) -> Self {
        Self
    }
}

async fn fetch(url: &str) -> Result<String, ErrorWithSource> {
    if url.is_empty() { Err(ErrorWithSource) } else { Ok(url.to_owned()) }
}

#[workflow]
async fn fetch_page(url: String) -> Result<String, ErrorWithSource> {
    let page = fetch(&url).await?;
    Ok(page)
}

#[tokio::test]
async fn what_was_behind_an_error_is_kept() {
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let run = runtime.start(fetch_page::workflow(), String::new()).await.unwrap();
    let error = run.result().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the step `page` failed: could not fetch the page: 404: not found"
    );
    let record = runtime.run(run.run_id()).record().await.unwrap();
    assert_eq!(
        record.error.as_deref(),
        Some("the step `page` failed: could not fetch the page: 404: not found")
    );
    let report = runtime.run(run.run_id()).inspect().await.unwrap();
    let page = report.nodes.iter().find(|node| node.name == "page").unwrap();
    assert_eq!(page.error.as_deref(), Some("could not fetch the page: 404: not found"));
    let agentflow::Error::Node { failure, .. } = error else { panic!("{error}") };
    assert_eq!(failure.cause(), Some("404: not found"));
    let recorded = agentflow::Error::Recorded(failure);
    assert_eq!(recorded.to_string(), "could not fetch the page");
    assert_eq!(std::error::Error::source(&recorded).unwrap().to_string(), "404: not found");
}

/// Fails with a different error for each number.
async fn fails_as(which: u32) -> Result<u32> {
    use agentflow::Error;
    use agentflow::model::ModelError;
    Err(match which {
        0 => Error::Timeout { limit: std::time::Duration::from_secs(7) },
        1 => ModelError::new(ModelErrorKind::RateLimited, "slow down").with_status(429).into(),
        2 => Error::MaxStepsReached { steps: 4 },
        3 => Error::LlmCallLimit { calls: 5 },
        4 => Error::NoAnswer { stop_reason: "length".to_owned() },
        5 => {
            Error::BudgetExceeded { budget: "cents".into(), message: "no money is left".to_owned() }
        }
        6 => Error::Cancelled { reason: "enough".into() },
        7 => Error::Lost { reason: "gone".to_owned() },
        _ => return Ok(which),
    })
}

async fn passed_on(number: u32) -> Result<u32> {
    Ok(number)
}

#[workflow]
async fn by_variant(which: u32) -> Result<u32> {
    let value = match fails_as(which).await {
        Ok(value) => value,
        Err(agentflow::Error::Timeout { limit }) => passed_on(limit.as_secs() as u32).await?,
        Err(agentflow::Error::Model(error)) => {
            passed_on(error.status().unwrap_or(0).into()).await?
        }
        Err(agentflow::Error::MaxStepsReached { steps }) => passed_on(steps).await?,
        Err(agentflow::Error::LlmCallLimit { calls }) => passed_on(calls).await?,
        Err(agentflow::Error::NoAnswer { stop_reason }) => {
            passed_on(stop_reason.len() as u32).await?
        }
        Err(agentflow::Error::BudgetExceeded { budget, .. }) => {
            passed_on(budget.len() as u32 + 100).await?
        }
        Err(agentflow::Error::Cancelled { reason }) => passed_on(reason.len() as u32 + 200).await?,
        Err(other) => return Err(other),
    };
    Ok(value)
}

#[tokio::test(start_paused = true)]
async fn a_match_on_a_recorded_error_takes_the_arm_of_its_variant() {
    for (which, expected) in [(0, 7), (1, 429), (2, 4), (3, 5), (4, 6), (5, 105), (6, 206), (9, 9)]
    {
        assert_eq!(by_variant(which).await.unwrap(), expected, "{which}");
        CrashTest::new(&by_variant::workflow(), move || which).run().await;
    }
    // The caller sees the variant too.
    assert!(matches!(by_variant(7).await, Err(agentflow::Error::Lost { .. })));
}

#[workflow]
async fn fails_within(which: u32) -> Result<u32> {
    let value = fails_as(which).await?;
    Ok(value)
}

/// Ask again and again.
#[agent(tools = [asks_on], max_steps = 2)]
async fn never_answers(cx: &Context, text: String) -> Result<String>;

/// Asks on.
#[tool]
async fn asks_on() -> u32 {
    1
}

/// Matches the errors of a workflow and of an agent, which are recorded below the step.
async fn nested_variants(cx: &Context) -> Result<(u64, u32)> {
    let limit = match fails_within(0).await {
        Err(agentflow::Error::Timeout { limit }) => limit.as_secs(),
        other => panic!("it is not a time-out: {other:?}"),
    };
    let steps = match never_answers(cx, "Go on.".to_owned()).await {
        Err(agentflow::Error::MaxStepsReached { steps }) => steps,
        other => panic!("it is not a limit of steps: {other:?}"),
    };
    Ok((limit, steps))
}

#[workflow]
async fn variants_of_nested(cx: &Context) -> Result<(u64, u32)> {
    let both = nested_variants(cx).await?;
    let again = passed_on(both.1).await?;
    Ok((both.0, again))
}

#[tokio::test(start_paused = true)]
async fn nested_errors_keep_their_variant_after_each_crash() {
    let model =
        || ScriptedModel::from_fn(|_| Turn::call("asks_on", agentflow::serde_json::json!({})));
    let test = CrashTest::new(&variants_of_nested::workflow(), || ())
        .runtime(move |runtime| runtime.model(model()));
    let report = test.may_differ_when_interrupted().run().await;
    assert!(report.crashes() > 5, "{report:?}");
}
