//! Waiting for a run to ask. It reads what is recorded and answers nothing.

use futures_util::StreamExt;

use super::attach::mirror;
use super::events::Events;
use super::handle::RunHandle;
use crate::error::{Error, Result};
use crate::event::{Event, EventKind};

impl<T> RunHandle<T> {
    /// Waits until `open` finds something in the run's journal, which it sees when all of it is read and after each further
    /// question; `None` when the run has ended without.
    pub(crate) async fn until_asks<Q>(&self, open: impl Fn(&[Event]) -> Option<Q>) -> Result<Option<Q>> {
        self.until_found(|event| matches!(event.kind, EventKind::ApprovalRequested(_)), open).await
    }

    /// The same; `matters` says after which events it looks again.
    pub(crate) async fn until_found<Q>(
        &self,
        matters: impl Fn(&Event) -> bool,
        open: impl Fn(&[Event]) -> Option<Q>,
    ) -> Result<Option<Q>> {
        let mut life = self.life().clone();
        let mut is_left = false;
        loop {
            let log = &life.shared.log;
            let (mut journal, mut is_new) = (Vec::new(), true);
            // What is there already counts even if nothing follows.
            let there = log.visible();
            let mut events = Events::new(life.shared.clone(), 0);
            while let Some(event) = events.next().await {
                if !event.is_recorded() {
                    continue;
                }
                is_new |= matters(&event);
                let is_last = event.seq >= there.max(log.visible());
                journal.push(event);
                if is_new && is_last {
                    if let Some(question) = open(&journal) {
                        return Ok(Some(question));
                    }
                    is_new = false;
                }
            }
            if log.end().is_some() {
                return Ok(None);
            }
            if !log.is_closed() {
                return Err(Error::Lost { reason: "its earlier events cannot be read from the store".to_owned() });
            }
            // It stopped without an end: at its journal here, or in the reach of this process.
            if life.is_executed() || is_left {
                return life.end().await.map(|_| None);
            }
            is_left = true;
            life = mirror(&life.shared.host, self.run_id()).await?;
        }
    }
}
