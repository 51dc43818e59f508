//! A session belongs to the caller of its first run.

use agentflow::Error;
use agentflow::agent::RunRequest;
use agentflow::prelude::*;
use agentflow::session::Session;
use agentflow::store::{MemoryStore, SqliteStore, StoreErrorKind};
use agentflow_testing::{ScriptedModel, Turn};

fn agent(runtime: &Runtime) -> Agent {
    let model = ScriptedModel::from_fn(|request| {
        let said: Vec<String> =
            request.messages.messages().iter().map(|message| message.text().into_owned()).collect();
        Turn::text(said.join("|"))
    });
    Agent::new(model).runtime(runtime)
}

fn asked(text: &str, session: Session, caller: Option<&str>) -> RunRequest {
    let request = RunRequest::new(text).session(session);
    caller.map(str::to_owned).into_iter().fold(request, RunRequest::caller)
}

#[tokio::test]
async fn a_run_of_another_caller_is_refused_unless_the_program_allows_it() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [Runtime::builder().store(MemoryStore::new()), {
        Runtime::builder()
            .store(SqliteStore::open(folder.path().join("sessions.db")).await.unwrap())
    }];
    for runtime in stores.map(agentflow::runtime::RuntimeBuilder::build) {
        let agent = agent(&runtime);
        agent.run(asked("the code is 7", Session::new("s"), Some("ada"))).await.unwrap();
        for (session, caller) in [
            (Session::new("s"), Some("bob")),
            (Session::existing("s"), Some("bob")),
            (Session::new("s").waiting(), Some("bob")),
            (Session::new("s"), None),
        ] {
            let error = agent.run(asked("which code?", session, caller)).await.unwrap_err();
            let Error::Store(error) = error else { panic!("{error}") };
            assert_eq!(error.kind(), StoreErrorKind::NotFound, "{error}");
            assert!(
                error.to_string().contains("`Session::shared`")
                    && !error.to_string().contains("ada"),
                "{error}"
            );
        }
        assert_eq!(runtime.sessions().get("s").await.unwrap().runs, 1);
        let own =
            agent.run(asked("which code?", Session::existing("s"), Some("ada"))).await.unwrap();
        assert_eq!(own.output(), "the code is 7|the code is 7|which code?");
        let shared = agent
            .run(asked("and mine?", Session::existing("s").shared(), Some("bob")))
            .await
            .unwrap();
        assert!(shared.output().ends_with("|and mine?"), "{}", shared.output());
        assert_eq!(runtime.sessions().get("s").await.unwrap().caller.as_deref(), Some("ada"));
        // A caller cannot continue a session without a caller.
        agent.run(asked("hello", Session::new("t"), None)).await.unwrap();
        assert!(agent.run(asked("hello", Session::new("t"), Some("bob"))).await.is_err());
        agent.run(asked("again", Session::new("t"), None)).await.unwrap();
    }
}
