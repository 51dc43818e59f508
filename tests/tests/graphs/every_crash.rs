//! Runs workflows that are data, with a crash at each write.

use std::sync::Arc;
use std::time::Duration;

use agentflow::prelude::*;
use agentflow::store::{MemoryStore, Store};
use agentflow::value::Encoded;
use agentflow::{Event, RunId};
use serde_json::Value;
use tokio::time::timeout;

use crate::store::{Cut, MortalStore};

/// Maximum time for a resumed run, in the test's clock.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Runs the workflow and ends its process at each write in turn. Resumes the run in another process
/// and passes its output, state and journal to `check`, with the position of the crash. Returns the
/// number of crashes.
pub(super) async fn every_crash(
    build: impl Fn(MortalStore) -> Runtime,
    name: &str,
    input: Value,
    check: impl Fn(&Value, &Value, Vec<Event>, &str),
) -> usize {
    let (mut crashes, mut write) = (0, 0);
    loop {
        write += 1;
        for kept_write in [false, true] {
            let kept: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let (id, cut) = (RunId::new("crashed"), Cut { write, kept: kept_write });
            let store = MortalStore::new(&kept, Some(cut));
            let first = build(store.clone());
            let started = async {
                let start = first.start_named(name, Encoded::new(&input).unwrap());
                start.run_id(id.clone()).caller("ada").await.unwrap().result().await
            };
            let ended = tokio::select! {
                ended = started => Some(ended.unwrap()),
                () = store.died() => None,
            };
            let second = build(MortalStore::new(&kept, None));
            let (ended, is_over) = match ended {
                Some(ended) => (ended, true),
                None if kept.record(&id).await.unwrap().is_none() => continue,
                None => match second.run(&id).resume().await {
                    // The timeout fails the test if the run waits for a person.
                    Ok(handle) => (
                        timeout(PATIENCE, handle.result()).await.expect("it waits").unwrap(),
                        false,
                    ),
                    Err(_) => (second.run(&id).output().await.unwrap(), false),
                },
            };
            let state = serde_json::to_value(second.run(&id).state().await.unwrap()).unwrap();
            check(
                &ended.decode().unwrap(),
                &state,
                second.run(&id).journal().await.unwrap(),
                &cut.to_string(),
            );
            if is_over {
                return crashes;
            }
            crashes += 1;
        }
    }
}
