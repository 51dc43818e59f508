//! One `Authenticate` and one `AccessControl`, both written with the public API alone, for a
//! runtime, an MCP server and an A2A server.

use agentflow::a2a::{A2aClient, A2aErrorCode, A2aMessage};
use agentflow::a2a_server::A2aServer;
use agentflow::access::{AccessAction, AccessControl, AccessRequest};
use agentflow::document::Document;
use agentflow::error::FailureKind;
use agentflow::event::EventKind;
use agentflow::front::{AuthRefusal, Authenticate, RequestHead};
use agentflow::mcp_server::McpServer;
use agentflow::prelude::*;
use agentflow::runtime::CallerRuntime;
use agentflow::serde_json::json;
use agentflow::store::{MemoryStore, RunFilter, SessionFilter, StoreErrorKind};
use agentflow::{Caller, Error, RunId};
use agentflow_testing::within;

use crate::a2a_served::serve;
use crate::served_over_http::{post, served};

/// Asks before it says it.
#[workflow]
async fn callers_gate(text: String) -> Result<String> {
    let approval = gate!("say {text}?", text).await?;
    Ok(if approval.is_granted() { text } else { "nothing".to_owned() })
}

/// Returns the name of its caller.
#[workflow]
async fn callers_name(cx: &Context, text: String) -> Result<String> {
    let said = format!("{text} for {}", cx.caller().map_or("nobody", Caller::name));
    Ok(said)
}

/// Trusts a header that names the user.
pub(crate) struct ByHeader;

#[agentflow::async_trait]
impl Authenticate for ByHeader {
    async fn authenticate(&self, request: RequestHead) -> Result<Caller, AuthRefusal> {
        match request.header("x-user") {
            Some("mallory") => Err(AuthRefusal::forbidden("this account is closed")),
            Some("busy") => Err(AuthRefusal::unavailable("the directory does not answer")),
            Some(user) => Ok(user_named(user)),
            None => Ok(Caller::anonymous()),
        }
    }
}

pub(crate) fn user_named(user: &str) -> Caller {
    let caller = Caller::new(user).with_groups(["desk"]);
    match user {
        "root" => caller.with_roles(["operator"]),
        "audit" => caller.with_roles(["auditor"]),
        _ => caller,
    }
}

/// Known callers start runs and call tools, and control their own things. Auditors read everything,
/// and operators control everything.
pub(crate) struct OwnRuns;

#[agentflow::async_trait]
impl AccessControl for OwnRuns {
    async fn allows(&self, request: AccessRequest<'_>) -> bool {
        let caller = request.caller();
        match request.action() {
            AccessAction::Start | AccessAction::CallTool => {
                !caller.is_anonymous() && request.name() != "callers_vault"
            }
            AccessAction::Read | AccessAction::ReadSession | AccessAction::ReadMemory => {
                request.is_own() || caller.has_role("auditor") || caller.has_role("operator")
            }
            AccessAction::Delete | AccessAction::DeleteSession => caller.has_role("operator"),
            _ => request.is_own() || caller.has_role("operator"),
        }
    }

    fn narrow(&self, caller: &Caller, filter: RunFilter) -> RunFilter {
        match caller.has_role("auditor") || caller.has_role("operator") {
            true => filter,
            false => filter.caller(caller.name()),
        }
    }

    fn narrow_sessions(&self, caller: &Caller, filter: SessionFilter) -> SessionFilter {
        match caller.has_role("auditor") || caller.has_role("operator") {
            true => filter,
            false => filter.caller(caller.name()),
        }
    }
}

fn runtime() -> Runtime {
    Runtime::builder().store(MemoryStore::new()).access_control(OwnRuns).build()
}

async fn act(runtime: &CallerRuntime, id: &RunId, action: &str) -> Result<()> {
    let run = runtime.run(id);
    match action {
        "record" => run.record().await.map(drop),
        "journal" => run.journal().await.map(drop),
        "events" => run.events(0).await.map(drop),
        "state" => run.state().await.map(drop),
        "artifacts" => run.artifacts().await.map(drop),
        "questions" => run.questions().await.map(drop),
        "inspect" => run.inspect().await.map(drop),
        "inspect_node" => run.inspect_node("approval").await.map(drop),
        "attach" => run.attach().await.map(drop),
        "pause" => run.pause().await,
        "unpause" => run.unpause().await,
        "cancel" => run.cancel("enough").await,
        "close" => run.close().await,
        "message" => run.send_message("hello").await,
        "retry" => run.retry("approval", "somebody").await,
        "answer" => run.approve("approval", Approval::granted(), "somebody").await,
        "resume" => run.resume().await.map(drop),
        "delete" => run.delete().await.map(drop),
        "handle" => run.attach().await?.cancel("enough").await,
        other => panic!("no action {other}"),
    }
}

/// Returns `ok` also for a request that the state of the run does not permit: access was granted.
pub(crate) fn outcome(result: Result<()>) -> &'static str {
    match result {
        Ok(()) | Err(Error::Control(_)) => "ok",
        Err(Error::AccessDenied { .. }) => "denied",
        Err(Error::Store(error)) => match error.kind() {
            StoreErrorKind::NotFound => "absent",
            StoreErrorKind::Unfinished | StoreErrorKind::Busy => "ok",
            _ => panic!("{error}"),
        },
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn each_action_is_allowed_or_denied_by_the_access_control() {
    const READS: [&str; 9] = [
        "record",
        "journal",
        "events",
        "state",
        "artifacts",
        "questions",
        "inspect",
        "inspect_node",
        "attach",
    ];
    const CONTROLS: [&str; 9] =
        ["pause", "unpause", "cancel", "close", "message", "retry", "answer", "resume", "handle"];
    let runtime = runtime();
    for (user, reads, controls, deletes) in [
        ("ada", "ok", "ok", "denied"),
        ("bob", "absent", "absent", "absent"),
        ("audit", "ok", "denied", "denied"),
        ("root", "ok", "ok", "ok"),
    ] {
        let of_user = runtime.for_caller(user_named(user));
        let expected = READS
            .map(|action| (action, reads))
            .into_iter()
            .chain(CONTROLS.map(|action| (action, controls)))
            .chain([("delete", deletes)]);
        for (action, expected) in expected {
            let ada = runtime.for_caller(user_named("ada"));
            let run = ada.start(callers_gate::workflow(), "rain".to_owned()).await.unwrap();
            within("the question", run.asked()).await.unwrap().unwrap();
            let result = within(action, act(&of_user, run.run_id(), action)).await;
            assert_eq!(outcome(result), expected, "{user} {action}");
        }
    }
    // A denied run looks like a missing one.
    let bob = runtime.for_caller("bob");
    let ada = runtime.runs().list(RunFilter::new().limit(1)).await.unwrap().remove(0).run_id;
    let denied = bob.run(&ada).cancel("enough").await.unwrap_err().to_string();
    let missing = RunId::new("missing");
    let absent = bob.run(&missing).cancel("enough").await.unwrap_err().to_string();
    assert_eq!(denied.replace(ada.as_str(), "missing"), absent);
}

#[tokio::test]
async fn lists_contain_the_runs_that_a_caller_may_read() {
    let runtime = runtime();
    for (user, runs) in [("ada", 3), ("bob", 2)] {
        for _ in 0..runs {
            let of_user = runtime.for_caller(user);
            let run = of_user.start(callers_gate::workflow(), "rain".to_owned()).await.unwrap();
            within("the question", run.asked()).await.unwrap().unwrap();
        }
    }
    for (user, expected) in [("ada", 3), ("bob", 2), ("eve", 0), ("audit", 5), ("root", 5)] {
        let of_user = runtime.for_caller(user_named(user));
        assert_eq!(of_user.runs().list(RunFilter::new()).await.unwrap().len(), expected, "{user}");
        let limited = of_user.runs().list(RunFilter::new().limit(2)).await.unwrap();
        assert_eq!(limited.len(), expected.min(2), "{user}");
        let count = of_user.runs().count(RunFilter::new().limit(1)).await.unwrap();
        assert_eq!(count, expected as u64, "{user}");
        let questions = of_user.runs().questions(RunFilter::new()).await.unwrap();
        assert_eq!(questions.len(), expected, "{user}");
    }
}

#[tokio::test]
async fn a_caller_is_recorded_with_its_run_and_its_requests() {
    let runtime = runtime();
    let ada = runtime.for_caller(user_named("ada").with_scopes(["news"]));
    let request = ada.start(callers_gate::workflow(), "rain".to_owned()).caller("somebody else");
    let run = request.await.unwrap();
    within("the question", run.asked()).await.unwrap().unwrap();
    let root = runtime.for_caller(user_named("root"));
    root.run(run.run_id()).pause().by("somebody else").await.unwrap();
    root.run(run.run_id()).unpause().await.unwrap();
    run.approve("approval", Approval::granted(), "somebody else").await.unwrap();
    assert_eq!(within("the output", run.result()).await.unwrap(), "rain");
    let events = runtime.run(run.run_id()).journal().await.unwrap();
    let EventKind::RunStarted(started) = &events[0].kind else { panic!("{:?}", events[0]) };
    let caller = started.started_by().unwrap();
    assert_eq!(caller, user_named("ada").with_scopes(["news"]));
    assert_eq!(started.terms().scopes, ["news".into()]);
    let report = runtime.run(run.run_id()).inspect().await.unwrap();
    let controls: Vec<(AccessAction, Option<&str>)> =
        report.controls.iter().map(|control| (control.action, control.by.as_deref())).collect();
    assert_eq!(
        controls,
        [
            (AccessAction::Pause, Some("root")),
            (AccessAction::Unpause, Some("root")),
            (AccessAction::Answer, Some("ada")),
        ]
    );
    // The start of an unknown workflow is denied like the start of a known workflow.
    for name in ["callers_vault", "callers_gate"] {
        let caller = if name == "callers_gate" { Caller::anonymous() } else { Caller::new("ada") };
        let denied = runtime.for_caller(caller).start_named(name, json!({"text": "rain"})).await;
        assert!(matches!(denied, Err(Error::AccessDenied { .. })), "{name}");
    }
}

#[tokio::test]
async fn a_node_starts_only_for_its_roles_and_users() {
    let text = "workflow_id: callers_desk\npermissions: {allowed_roles: [operator], allowed_users: [ada]}\n\
                nodes:\n  - {node_id: all, kind: terminal}\nedges: []\n";
    let document = Document::read("callers_desk", text).unwrap();
    let runtime = Runtime::builder().store(MemoryStore::new()).document(document).build();
    for (user, is_allowed) in [("ada", true), ("root", true), ("bob", false)] {
        let of_user = runtime.for_caller(user_named(user));
        let run = of_user.start_named("callers_desk", json!({"input": {"n": 1}})).await.unwrap();
        match within("the end", run.result()).await {
            Ok(_) => assert!(is_allowed, "{user}"),
            Err(error) => {
                assert!(!is_allowed, "{user}: {error}");
                assert_eq!(error.kind(), FailureKind::Unauthorized, "{error}");
                assert!(error.to_string().contains("the caller `bob` may not run"), "{error}");
            }
        }
    }
    let run = runtime.start_named("callers_desk", json!({"input": {"n": 1}})).await.unwrap();
    let error = within("the end", run.result()).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Unauthorized, "{error}");
}

#[tokio::test]
async fn two_callers_of_an_mcp_server() {
    let runtime = runtime();
    let server = McpServer::from_runtime(&runtime).workflows(["callers_name"]);
    let address = served(server.authenticate(ByHeader)).await;
    let params = json!({"name": "callers_name", "arguments": {"text": "rain"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    for (user, status, said) in [
        ("x-user: ada\r\n", 200, "rain for ada"),
        ("x-user: bob\r\n", 200, "rain for bob"),
        ("", 200, "the caller `anonymous` may not start `callers_name`"),
        ("x-user: mallory\r\n", 403, "this account is closed"),
        ("x-user: busy\r\n", 503, "the directory does not answer"),
    ] {
        let (got, answer) = post(address, user, &body.to_string()).await;
        assert_eq!(got, status, "{user}: {answer}");
        assert!(answer.contains(said), "{user}: {answer}");
    }
    let runs = runtime.for_caller("ada").runs().list(RunFilter::new()).await.unwrap();
    assert_eq!(runs.len(), 1);
    let events = runtime.run(&runs[0].run_id).journal().await.unwrap();
    let EventKind::RunStarted(started) = &events[0].kind else { panic!("{:?}", events[0]) };
    assert_eq!(started.started_by(), Some(user_named("ada")));
}

#[tokio::test]
async fn two_callers_of_an_a2a_server() {
    let runtime = runtime();
    let server = A2aServer::from_runtime(&runtime).workflows(["callers_gate"]);
    let url = serve(server.authenticate(ByHeader)).await;
    let client = |user: &str| A2aClient::at("far", &url).header("x-user", user).build().unwrap();
    let (ada, bob) = (client("ada"), client("bob"));
    let message = A2aMessage::user_text("rain");
    let sent = within("the task", ada.send(&message)).await.unwrap();
    let task = sent.task().unwrap().id.as_str();
    assert_eq!(ada.task(task).await.unwrap().id, task);
    let not_found = Some(A2aErrorCode::TaskNotFound);
    assert_eq!(bob.task(task).await.unwrap_err().code(), not_found);
    assert_eq!(bob.cancel(task).await.unwrap_err().code(), not_found);
    let anonymous = A2aClient::at("far", &url).build().unwrap();
    assert_eq!(anonymous.task(task).await.unwrap_err().code(), not_found);
    assert!(anonymous.ask(&message).await.is_err());
    // An auditor may read the task of another caller, but a server shows a client only its own.
    assert_eq!(client("audit").task(task).await.unwrap_err().code(), not_found);
    let mallory = client("mallory").task(task).await.unwrap_err();
    assert!(mallory.to_string().contains("403"), "{mallory}");
    ada.cancel(task).await.unwrap();
}
