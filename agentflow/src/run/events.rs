//! The events of a run as a stream. A slow reader delays nobody.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;

use super::log::Next;
use super::shared::RunShared;
use crate::event::Event;

/// The events of a run from its first on, deltas included from the moment of subscribing; ends with the run.
///
/// A slow reader loses deltas, never recorded events, and never holds the run up.
pub struct Events {
    run: Arc<RunShared>,
    id: u64,
    delivered: usize,
    ended: bool,
}

impl Events {
    pub(crate) fn new(run: Arc<RunShared>) -> Self {
        let id = run.log.subscribe();
        Self { run, id, delivered: 0, ended: false }
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match self.run.log.next_for(self.id, self.delivered, cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                self.ended = true;
                Poll::Ready(None)
            }
            Poll::Ready(Some(Next::Delta(event))) => Poll::Ready(Some(event)),
            Poll::Ready(Some(Next::Recorded { event, is_last })) => {
                self.ended = is_last;
                self.delivered += 1;
                Poll::Ready(Some(event))
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.run.log.unsubscribe(self.id);
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("delivered", &self.delivered).finish_non_exhaustive()
    }
}
