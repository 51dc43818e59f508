//! Tests the deletion of a session while another run is about to start in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentflow::agent::RunRequest;
use agentflow::message::Role;
use agentflow::prelude::*;
use agentflow::session::Session;
use agentflow::store::{MemoryStore, SessionStore, Store, StoreError, StoreErrorKind, StoreLayer};
use agentflow::{Error, Event, RunId, async_trait};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};

/// A store whose session `s` is deleted by another process between two reads of a starting run.
#[derive(Clone, Debug, Default)]
struct SessionDeletingStore {
    inner: MemoryStore,
    armed: Arc<AtomicBool>,
}

#[async_trait]
impl StoreLayer for SessionDeletingStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn read(&self, run: &RunId, after: u64, most: usize) -> Result<Vec<Event>, StoreError> {
        if self.armed.swap(false, Ordering::SeqCst) {
            self.inner.delete_session("s").await?;
        }
        self.inner.read(run, after, most).await
    }
}

async fn ask(store: &SessionDeletingStore, text: &str, session: Session) -> Result<String, Error> {
    let model = ScriptedModel::from_fn(|request| {
        let asked =
            request.messages.messages().iter().filter(|message| message.role() == Role::User);
        Turn::text(asked.map(|message| message.text().into_owned()).collect::<Vec<_>>().join("|"))
    });
    let agent = Agent::new(model).runtime(&test_runtime().store(store.clone()).build());
    let request = RunRequest::new(text).run_id(RunId::new(text)).session(session);
    Ok(agent.run(request).await?.into_output())
}

#[tokio::test]
async fn the_run_begins_it_anew_or_says_that_it_is_gone() {
    let store = SessionDeletingStore::default();
    for session in [Session::from("s"), Session::from("s").waiting()] {
        ask(&store, "one", Session::from("s")).await.unwrap();
        store.armed.store(true, Ordering::SeqCst);
        assert_eq!(ask(&store, "two", session).await.unwrap(), "two");
        store.inner.delete_session("s").await.unwrap();
    }
    for session in [Session::existing("s"), Session::from("s").after(RunId::new("one"))] {
        ask(&store, "one", Session::from("s")).await.unwrap();
        store.armed.store(true, Ordering::SeqCst);
        let Err(Error::Store(error)) = ask(&store, "two", session).await else {
            panic!("there is no such session")
        };
        assert_eq!(error.kind(), StoreErrorKind::NotFound);
        assert!(error.to_string().contains("session `s`"), "{error}");
    }
}
