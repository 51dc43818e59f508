//! A crash at each write of a run, for workflows that are data.

use std::sync::Arc;
use std::time::Duration;

use agentflow::prelude::*;
use agentflow::store::{MemoryStore, Store};
use agentflow::value::Encoded;
use agentflow::{Event, RunId};
use serde_json::Value;
use tokio::time::timeout;

use crate::store::{Cut, MortalStore};

/// How long a resumed run may take.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Runs the workflow of a name until its process ends, resumes it in another one, and shows `check` its output, its state and
/// its journal, with the place of the crash. Gives the number of crashes.
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
                None => match second.resume(&id).await {
                    // It is over at once when it waits for somebody.
                    Ok(handle) => (timeout(PATIENCE, handle.result()).await.expect("it waits").unwrap(), false),
                    Err(_) => (second.output(&id).await.unwrap(), false),
                },
            };
            let state = serde_json::to_value(second.run_state(&id).await.unwrap()).unwrap();
            check(&ended.decode().unwrap(), &state, second.journal(&id).await.unwrap(), &cut.to_string());
            if is_over {
                return crashes;
            }
            crashes += 1;
        }
    }
}
