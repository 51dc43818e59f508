//! `ScriptedA2a` and `A2aClient::in_memory`: scripted agents with and without streams, in paused
//! time, and every way a script can fail a test.

use std::time::Duration;

use agentflow::a2a::{
    A2aClient, A2aClientBuilder, A2aContent, A2aError, A2aErrorCode, A2aMessage, A2aPushConfig,
    A2aTaskQuery, A2aTaskState, A2aUpdate,
};
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow_testing::{A2aTurn, ScriptedA2a, ScriptedModel, Turn, within};
use futures_util::StreamExt;

fn client(far: &ScriptedA2a) -> A2aClientBuilder {
    let near = far.clone();
    A2aClient::in_memory("far", far.card(), move |request| near.respond(request))
}

fn with_and_without_streams(turns: impl Fn() -> Vec<A2aTurn>) -> [ScriptedA2a; 2] {
    [ScriptedA2a::new("Far", turns()), ScriptedA2a::new("Far", turns()).without_streams()]
}

fn hello() -> A2aMessage {
    A2aMessage::user_text("Hello")
}

#[tokio::test(start_paused = true)]
async fn an_agent_calls_it_and_reads_what_the_script_says() {
    let turns = || vec![A2aTurn::text("42").expect_text("What is the answer?").after_work()];
    for far in with_and_without_streams(turns) {
        let model = ScriptedModel::new([
            Turn::call("a2a__far", json!({"message": "What is the answer?"})),
            Turn::with(|request| {
                let seen =
                    request.messages.last().and_then(|message| message.results().next()).unwrap();
                Turn::text(seen.output.clone())
            }),
        ]);
        let answer = Agent::new(model)
            .tools(client(&far).build().unwrap())
            .run("Ask.")
            .await
            .unwrap()
            .to_string();
        assert!(
            answer.contains(r#""output":"42""#) && answer.contains(r#""state":"completed""#),
            "{answer}"
        );
        far.finish();
        assert_eq!(far.messages()[0]["parts"][0]["text"], "What is the answer?");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_and_what_breaks_off_is_resumed() {
    let turns = || {
        vec![
            A2aTurn::asks("Which colour?"),
            A2aTurn::data(json!({"colour": "blue"})).expect_text("blue"),
            A2aTurn::text("after a break").after_a_break(),
            A2aTurn::message("no task"),
            A2aTurn::fails("it broke"),
        ]
    };
    for far in with_and_without_streams(turns) {
        let client = client(&far).build().unwrap();
        let asked = client.ask(&hello()).await.unwrap();
        let task = asked.task().unwrap();
        assert_eq!(
            (task.status.state, task.said().as_deref()),
            (A2aTaskState::InputRequired, Some("Which colour?"))
        );
        let answered = client.ask(&A2aMessage::user_text("blue").task(&task.id)).await.unwrap();
        assert_eq!(
            answered.task().unwrap().artifacts[0].parts[0].content,
            A2aContent::Data(json!({"colour": "blue"}))
        );
        assert_eq!(client.ask(&hello()).await.unwrap().text(), "after a break");
        assert_eq!(client.ask(&hello()).await.unwrap().text(), "no task");
        let failed = client.ask(&hello()).await.unwrap();
        assert_eq!(failed.task().unwrap().status.state, A2aTaskState::Failed);
        assert_eq!(client.tasks(&A2aTaskQuery::default()).await.unwrap().tasks.len(), 3);
        let late = client.subscribe(&task.id).await.err().unwrap();
        assert_eq!(late.code(), Some(A2aErrorCode::UnsupportedOperation));
        far.finish();
        assert_eq!(far.messages().len(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn errors_silence_and_a_lost_connection_have_their_errors() {
    let turns =
        || vec![A2aTurn::error(-32005, "no pictures"), A2aTurn::hang_up(), A2aTurn::silence()];
    for far in with_and_without_streams(turns) {
        let client = client(&far).request_timeout(Duration::from_secs(7)).build().unwrap();
        let error = client.ask(&hello()).await.unwrap_err();
        assert_eq!(error.code(), Some(A2aErrorCode::ContentTypeNotSupported), "{error}");
        assert!(matches!(client.ask(&hello()).await.unwrap_err(), A2aError::Lost { .. }));
        let error = client.ask(&hello()).await.unwrap_err();
        assert!(
            matches!(error, A2aError::Silent { limit, .. } if limit == Duration::from_secs(7)),
            "{error}"
        );
        far.finish();
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_nobody_waits_for_is_cancelled() {
    for far in with_and_without_streams(|| vec![A2aTurn::works()]) {
        let client = client(&far).build().unwrap();
        let waited = tokio::time::timeout(Duration::from_secs(30), client.ask(&hello())).await;
        assert!(waited.is_err(), "{waited:?}");
        within("the cancellation to arrive", async {
            while far.cancelled().is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(far.cancelled(), ["task-1"]);
        assert_eq!(client.task("task-1").await.unwrap().status.state, A2aTaskState::Canceled);
        assert_eq!(
            client.cancel("task-1").await.unwrap_err().code(),
            Some(A2aErrorCode::TaskNotCancelable)
        );
        far.finish();
    }
    let far = ScriptedA2a::new("Far", [A2aTurn::works()]);
    let client = client(&far).build().unwrap();
    let id = client.send(&hello()).await.unwrap().task().unwrap().id.clone();
    let config = client
        .create_push_config(&id, &A2aPushConfig::new("https://client.example/").id("c"))
        .await
        .unwrap();
    assert_eq!((config.id.as_deref(), config.task_id.as_deref()), (Some("c"), Some(&*id)));
    assert_eq!(client.push_config(&id, "c").await.unwrap(), config);
    assert_eq!(client.push_configs(&id, None).await.unwrap().configs, [config]);
    client.delete_push_config(&id, "c").await.unwrap();
    assert_eq!(
        client.push_config(&id, "c").await.unwrap_err().code(),
        Some(A2aErrorCode::TaskNotFound)
    );
    let mut stream = client.subscribe(&id).await.unwrap();
    assert!(
        matches!(within("the next event", stream.next()).await, Some(Ok(A2aUpdate::Task(task))) if task.id == id)
    );
    far.finish();
}

#[tokio::test(start_paused = true)]
async fn what_is_otherwise_than_scripted_fails() {
    let far = ScriptedA2a::new("Far", [A2aTurn::text("a").expect_text("b"), A2aTurn::text("c")]);
    let near = client(&far).build().unwrap();
    assert!(near.ask(&hello()).await.unwrap_err().to_string().contains("expected: b; sent: Hello"));
    let answer = A2aMessage::user_text("blue").task("task-9");
    assert!(
        near.ask(&answer).await.unwrap_err().to_string().contains("`task-9`, which asks nothing")
    );
    assert!(near.ask(&hello()).await.unwrap_err().to_string().contains("no turn is left"));
    assert_eq!(far.failures().len(), 3, "{:?}", far.failures());
    far.forgive();

    let unused = ScriptedA2a::new("Far", [A2aTurn::text("a")]);
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(unused)));
    let said = *dropped.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(said, "1 turns were never asked for");
    let nothing_works = std::panic::catch_unwind(|| A2aTurn::message("a").after_work());
    assert!(
        nothing_works
            .unwrap_err()
            .downcast::<String>()
            .unwrap()
            .contains("no task could be at work")
    );
}
