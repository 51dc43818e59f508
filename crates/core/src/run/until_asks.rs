//! Waits for a run to ask a question. Only reads the journal.

use futures_util::StreamExt;

use super::attach::mirror;
use super::events::Events;
use super::handle::RunHandle;
use crate::error::{Error, Result};
use crate::event::{Event, EventKind};

impl<T> RunHandle<T> {
    /// Waits until `open` finds a question in the journal. It is called with the whole journal when
    /// all recorded events were read, and after each further question. Returns `None` if the run
    /// ends without one.
    pub(crate) async fn until_asks<Q>(
        &self,
        open: impl Fn(&[Event]) -> Option<Q>,
    ) -> Result<Option<Q>> {
        self.wait_for_event(|event| matches!(event.kind, EventKind::ApprovalRequested(_)), open)
            .await
    }

    /// Like [`until_asks`](Self::until_asks), but calls `open` after each event for which `matters`
    /// returns `true`.
    pub(crate) async fn wait_for_event<Q>(
        &self,
        matters: impl Fn(&Event) -> bool,
        open: impl Fn(&[Event]) -> Option<Q>,
    ) -> Result<Option<Q>> {
        let mut life = self.life().clone();
        let mut is_left = false;
        loop {
            let log = &life.shared.log;
            let (mut journal, mut is_new) = (Vec::new(), true);
            // The recorded events are examined even if no event follows.
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
                return Err(Error::Lost {
                    reason: "its earlier events cannot be read from the store".to_owned(),
                });
            }
            // The run stopped without an end. Follows it through the store, once.
            if life.is_executed() || is_left {
                return life.end().await.map(|_| None);
            }
            is_left = true;
            life = mirror(&life.shared.host, self.run_id()).await?;
        }
    }
}
