//! The inbox: open questions, answers, approvals with changed arguments.

use agentflow::serde_json::{Value, json};
use agentflow_testing::within;

use crate::client::{Client, Served};
use crate::workflows::runtime;

async fn question(client: &Client, run: &str) -> Value {
    let path = format!("/api/v1/runs/{run}/questions");
    within("the question", async {
        loop {
            let questions = client.get(&path).await.ok();
            if let Some(question) = questions.as_array().unwrap().first() {
                return question.clone();
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

#[tokio::test]
async fn the_first_answer_is_final() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let run = client.start("server_publish", json!({"text": "news"})).await;
    let asked = question(&client, &run).await;
    assert_eq!((&asked["message"], &asked["about"]), (&json!("publish news?"), &json!("news")));
    let inbox = client.get("/api/v1/questions?workflow_id=server_publish").await.ok();
    assert_eq!((&inbox["total"], &inbox["items"][0]), (&json!(1), &asked));

    let id = asked["question_id"].as_str().unwrap();
    let path = format!("/api/v1/runs/{run}/questions/{id}/answer");
    let wrong = client.post(&path, json!({"answer": {"decision": "perhaps"}})).await;
    assert_eq!(wrong.problem(), (422, "wrong_answer"));
    let granted = json!({"answer": {"decision": "granted"}});
    client.post(&path, granted.clone()).await.ok();
    let second = client.post(&path, granted).await;
    assert_eq!(second.problem(), (409, "wrong_state"));
    assert_eq!(client.until(&run, "success").await["output"], "news");
    let inbox = client.get("/api/v1/questions").await.ok();
    assert_eq!(inbox["total"], 0);
}

#[tokio::test]
async fn two_people_cannot_answer_one_question() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    for round in 0..10 {
        let run = client.start("server_publish", json!({"text": "news"})).await;
        let asked = question(&client, &run).await;
        let id = asked["question_id"].as_str().unwrap();
        let path = format!("/api/v1/runs/{run}/questions/{id}/answer");
        let grant = client.post(&path, json!({"answer": {"decision": "granted"}}));
        let deny = client.post(&path, json!({"answer": {"decision": "denied"}}));
        let (grant, deny) = futures_util::future::join(grant, deny).await;
        let output = client.until(&run, "success").await["output"].clone();
        let expected = if grant.status == 200 { "news" } else { "nothing" };
        assert_eq!(output, expected, "round {round}");
        assert_eq!([grant.status, deny.status].iter().filter(|status| **status == 200).count(), 1);
    }
}

#[tokio::test]
async fn an_approval_may_change_the_arguments() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let run = client.start("server_payment", json!({"cents": 500})).await;
    let asked = question(&client, &run).await;
    let node = asked["node_id"].as_str().unwrap().replace('/', "%2F").replace('#', "%23");
    let path = format!("/api/v1/runs/{run}/nodes/{node}/approve");
    let denied = json!({"approved": false, "arguments": {"cents": 1}});
    assert_eq!(client.post(&path, denied).await.problem(), (422, "invalid_request"));
    let invalid = json!({"approved": true, "arguments": {"cents": "many"}});
    assert_eq!(client.post(&path, invalid).await.problem(), (422, "wrong_answer"));
    client.post(&path, json!({"approved": true, "arguments": {"cents": 5}})).await.ok();
    assert_eq!(client.until(&run, "success").await["output"], 5);
}
