//! An operator for the kill test. It inspects all runs of a store in turn and sends control
//! requests, mostly where one is due. It uses only run ids and public functions.

use std::time::Duration;

use agentflow::serde_json::json;
use agentflow::store::{RunFilter, RunStatus, StoreErrorKind};
use agentflow::{Approval, Error, Result, RunId, Runtime};
use agentflow_tests::kill::{Look, WordFile};

/// Requests that the operator may send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperatorMode {
    /// Also sends requests that nothing requires, such as cancel and pause.
    Fickle,
    /// Sends only the requests that a run needs in order to end.
    Helpful,
}

pub(crate) struct Operator {
    pub(crate) runtime: Runtime,
    pub(crate) words: WordFile,
    pub(crate) random: fastrand::Rng,
    pub(crate) mood: OperatorMode,
    /// Probability of cancelling a cancellable run at each inspection, in 256ths. A high value also
    /// hits runs that have just started a step.
    pub(crate) cancels: u8,
}

impl Operator {
    /// Works until the process ends.
    pub(crate) async fn work(mut self) -> Result<std::convert::Infallible> {
        loop {
            let mut runs = self.runtime.runs().list(RunFilter::new()).await?;
            self.random.shuffle(&mut runs);
            for run in runs {
                let ended = matches!(run.status, RunStatus::Success | RunStatus::Cancelled);
                if !ended {
                    self.look_after(&run.run_id).await?;
                }
            }
            self.pause().await;
        }
    }

    async fn pause(&mut self) {
        tokio::time::sleep(Duration::from_millis(self.random.u64(1..12))).await;
    }

    async fn look_after(&mut self, run: &RunId) -> Result<()> {
        let events = self.runtime.run(run).journal().await?;
        let look = Look::of(&events);
        let mut due: Vec<(&str, String)> = Vec::new();
        if look.end.is_none() {
            due.extend(look.asking.iter().map(|node| ("answer", node.clone())));
            due.extend(look.interrupted.iter().map(|node| ("retry", whole(node).to_owned())));
            if look.paused && (self.mood == OperatorMode::Helpful || self.random.u8(..) < 90) {
                due.push(("unpause", String::new()));
            }
            if self.mood == OperatorMode::Fickle {
                if !look.paused && self.random.u8(..) < 20 {
                    due.push(("pause", String::new()));
                }
                if run.as_str().ends_with("-c") && self.random.u8(..) < self.cancels {
                    due.push(("cancel", String::new()));
                }
            }
        } else if look.end == Some("run.failed") {
            due.extend(
                self.random.choice(&look.failed).map(|node| ("retry", whole(node).to_owned())),
            );
        }
        self.random.shuffle(&mut due);
        due.dedup();
        for (kind, node) in due.into_iter().take(2) {
            self.say(run, kind, &node, look.events).await?;
        }
        Ok(())
    }

    async fn say(&mut self, run: &RunId, kind: &str, node: &str, seen: u64) -> Result<()> {
        let token = format!("w{:08x}-{}", self.random.u32(..), std::process::id());
        let id = run.as_str();
        let begin = json!({"what": "begin", "token": token, "kind": kind, "run": id, "node": node, "seen": seen});
        self.words.write(&begin).expect("the word is kept");
        let runtime = &self.runtime;
        let outcome = match kind {
            "answer" if node.ends_with("amount") => {
                runtime.run(run).answer(node, &5_u64, &token).await
            }
            "answer" => runtime.run(run).approve(node, Approval::granted(), &token).await,
            "retry" => runtime.run(run).retry(node, &token).await,
            "cancel" => runtime.run(run).cancel(&token).await,
            "pause" => runtime.run(run).pause().await,
            _ => runtime.run(run).unpause().await,
        };
        let end = match &outcome {
            Ok(()) => json!({"what": "ok", "token": token}),
            Err(error) => json!({"what": "err", "token": token, "message": error.to_string()}),
        };
        self.words.write(&end).expect("the outcome is kept");
        if let Err(error) = &outcome
            && (!matches!(error, Error::Control(_)) || error.kind() == "no_response")
        {
            self.words.complain(&format!("operator, {kind}: {error}")).expect("it is kept");
        }
        if outcome.is_ok() {
            // The store answers, so this count includes the accepted request and none of the later
            // ones.
            match runtime.run(run).record().await {
                Ok(record) => {
                    let after = json!({"what": "after", "token": token, "after": record.events});
                    self.words.write(&after).expect("it is kept");
                }
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.pause().await;
        Ok(())
    }
}

/// Returns the map node that an item belongs to. A decision applies to the whole map.
fn whole(node: &str) -> &str {
    let last = node.rsplit('/').next().unwrap_or(node);
    match node.rsplit_once('[') {
        Some((whole, rest)) if rest.ends_with(']') && !last.starts_with("tool#") => whole,
        _ => node,
    }
}
