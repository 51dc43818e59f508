//! Callers: authentication, access control, and how denied things look.

use agentflow::Caller;
use agentflow::access::{AccessAction, AccessControl, AccessRequest};
use agentflow::front::{AuthRefusal, RequestHead};
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::server::{Server, ServerError};
use agentflow::store::MemoryStore;

use crate::client::Served;
use crate::workflows::runtime;

/// Everyone starts runs and controls their own. Operators control all runs.
struct OwnRuns;

#[agentflow::async_trait]
impl AccessControl for OwnRuns {
    async fn allows(&self, request: AccessRequest<'_>) -> bool {
        match request.action() {
            AccessAction::Start => request.name() != "server_payment",
            AccessAction::Delete => request.caller().has_role("operator"),
            _ => request.is_own_run() || request.caller().has_role("operator"),
        }
    }
}

async fn by_header(request: RequestHead) -> std::result::Result<Caller, AuthRefusal> {
    match request.header("x-user") {
        Some("root") => Ok(Caller::new("root").with_roles(["operator"])),
        Some(user) => Ok(Caller::new(user)),
        None => Err(AuthRefusal::unauthenticated("log in first")),
    }
}

#[tokio::test]
async fn a_run_of_another_caller_looks_like_none() {
    let runtime = Runtime::builder().store(MemoryStore::new()).access_control(OwnRuns).build();
    let served = Served::new(Server::new(&runtime).authenticate(by_header)).await;
    let client = served.client();
    let (ada, bob) = (client.with("x-user", "ada"), client.with("x-user", "bob"));
    let root = client.with("x-user", "root");
    let run = ada.start("server_publish", json!({"text": "news"})).await;
    ada.until(&run, "paused").await;
    let question = ada.get(&format!("/api/v1/runs/{run}/questions")).await.ok();
    let id = question[0]["question_id"].as_str().unwrap();

    let run_path = format!("/api/v1/runs/{run}");
    let reads =
        ["", "/graph", "/stream", "/live", "/artifacts", "/questions", "/nodes/approval/detail"];
    for read in reads {
        let denied = bob.get(&format!("{run_path}{read}")).await;
        let absent = bob.get(&format!("/api/v1/runs/nothing{read}")).await;
        assert_eq!((denied.status, absent.status), (404, 404), "{read}");
        let hidden = denied.json.to_string().replace(&run, "nothing");
        assert_eq!(hidden, absent.json.to_string(), "{read}");
    }
    let posts = [
        ("/pause", json!({})),
        ("/resume", json!({})),
        ("/cancel", json!({})),
        ("/close", json!({})),
        ("/messages", json!({"text": "x"})),
        ("/nodes/approval/retry", json!({})),
        ("/nodes/approval/approve", json!({"approved": true})),
        (&format!("/questions/{id}/answer"), json!({"answer": {"decision": "granted"}})),
    ];
    for (path, body) in posts {
        let denied = bob.post(&format!("{run_path}{path}"), body).await;
        assert_eq!(denied.problem(), (404, "not_found"), "{path}");
    }
    assert_eq!(bob.get("/api/v1/runs").await.ok()["total"], 0);
    assert_eq!(bob.get("/api/v1/questions").await.ok()["total"], 0);
    assert_eq!(root.get("/api/v1/runs").await.ok()["total"], 1);

    let start = "/api/v1/workflows/server_payment/runs";
    let denied = ada.post(start, json!({"input_data": {"cents": 1}})).await;
    assert_eq!(denied.problem(), (403, "access_denied"));
    let none = client.get("/api/v1/runs").await;
    assert_eq!(none.problem(), (401, "not_authenticated"));
    assert_eq!(none.headers["www-authenticate"], "Bearer");
    assert_eq!(client.get("/health").await.status, 200);

    // The answer is recorded with its caller.
    root.post(&format!("{run_path}/nodes/approval/approve"), json!({"approved": true})).await.ok();
    ada.until(&run, "success").await;
    let node = ada.get(&format!("{run_path}/nodes/approval/detail")).await.ok();
    assert_eq!(node["attempts"][0]["answered_by"], "root", "{node}");
    assert_eq!(ada.delete(&run_path).await.problem(), (403, "access_denied"));
    assert_eq!(root.delete(&run_path).await.status, 204);
}

#[tokio::test]
async fn other_machines_need_authentication() {
    let runtime = runtime();
    let refused = Server::new(&runtime).serve(([0, 0, 0, 0], 0).into()).await;
    assert!(matches!(refused, Err(ServerError::NotAuthenticated { .. })), "{refused:?}");
    let without = Runtime::builder().build();
    assert!(matches!(Server::new(&without).router(), Err(ServerError::NoStore)));
}
