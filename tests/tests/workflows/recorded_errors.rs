//! Errors as values: a step gives its `Result` to others, live and after a crash.

use agentflow::error::FailureKind;
use agentflow::model::ModelErrorKind;
use agentflow::prelude::*;
use agentflow_testing::{ScriptedModel, Turn, test_runtime};

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
    assert_eq!(try_and_describe(&cx, "Is it?".into()).await.unwrap(), ("yes".to_owned(), "yes".to_owned()));
    let (first, second) = try_and_describe(&cx, "And now?".into()).await.unwrap();
    assert_eq!(first, second);
    assert!(first.starts_with(&format!("{}, false: ", FailureKind::Auth)), "{first}");
    model.finish();
}
