//! The events of a run as a stream. A slow reader delays neither the run nor other readers.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::Stream;

use super::log::{EventLog, Next};
use super::read::read_events;
use super::shared::RunShared;
use crate::event::Event;
use crate::future::{BoxFuture, Exclusive};
use crate::store::StoreError;

/// A stream of the events of a run, starting with its first event. Includes deltas from the
/// subscription on. Ends with the run.
///
/// A slow reader loses deltas but never recorded events, and does not slow down the run. If events
/// of an earlier process cannot be read from the store, the stream ends and the error is logged.
pub struct Events {
    run: Arc<RunShared>,
    id: u64,
    /// Number of records of the log that were delivered or skipped.
    delivered: usize,
    earlier: EarlierEvents,
    ended: bool,
}

/// Events before the first record of the log: the log of a resumed run starts at its snapshot.
enum EarlierEvents {
    Reading(Exclusive<BoxFuture<'static, Result<Vec<Event>, StoreError>>>),
    Read(VecDeque<Event>),
}

impl Events {
    /// Creates a stream of the events after the first `after` events.
    pub(crate) fn new(run: Arc<RunShared>, after: u64) -> Self {
        // Subscribed before the store is read, so that no event is missed in between.
        let id = run.log.subscribe(true);
        let offset = run.log.offset();
        let earlier = match run.log.store() {
            Some((store, _)) if after < offset => {
                let (store, of) = (Arc::clone(store), run.id.clone());
                EarlierEvents::Reading(Exclusive::new(Box::pin(async move {
                    let mut events = read_events(&store, &of, after).await?;
                    // The later events come from the log.
                    events.retain(|event| event.seq <= offset);
                    Ok(events)
                })))
            }
            _ => EarlierEvents::Read(VecDeque::new()),
        };
        let delivered = usize::try_from(after.saturating_sub(offset)).unwrap_or(usize::MAX);
        Self { run, id, delivered, earlier, ended: false }
    }

    fn earlier(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let EarlierEvents::Reading(reading) = &mut self.earlier {
            let events = ready!(reading.get_mut().as_mut().poll(cx)).unwrap_or_else(|error| {
                tracing::warn!(run = %self.run.id, %error, "the earlier events of a run cannot be read");
                self.ended = true;
                Vec::new()
            });
            self.earlier = EarlierEvents::Read(events.into());
        }
        match &mut self.earlier {
            EarlierEvents::Read(events) => Poll::Ready(events.pop_front()),
            EarlierEvents::Reading(_) => Poll::Pending,
        }
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(event) = ready!(self.earlier(cx)) {
            return Poll::Ready(Some(event));
        }
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

/// The event stream of a run that is about to start. It is subscribed before the run executes, so
/// that no event is missed that the run emits before its handle exists. Dropping it ends the
/// subscription.
#[derive(Clone, Debug, Default)]
pub struct FirstEvents(Arc<Mutex<Option<Events>>>);

impl FirstEvents {
    pub(crate) fn begin(&self, run: &Arc<RunShared>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Events::new(Arc::clone(run), 0));
    }

    /// Returns the stream; `None` if no run has started.
    #[doc(hidden)]
    pub fn take(&self) -> Option<Events> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl EventLog {
    /// Waits until the log is closed.
    pub(super) async fn until_closed(&self) {
        let waiting = EndSubscriber { log: self, id: self.subscribe(false) };
        std::future::poll_fn(|cx| waiting.poll(cx)).await;
    }
}

/// A subscriber that waits for the end of a log without reading it.
struct EndSubscriber<'l> {
    log: &'l EventLog,
    id: u64,
}

impl EndSubscriber<'_> {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.log.state();
        if state.closed {
            return Poll::Ready(());
        }
        if let Some(subscriber) =
            state.rare().subscribers.iter_mut().find(|subscriber| subscriber.id == self.id)
        {
            subscriber.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for EndSubscriber<'_> {
    fn drop(&mut self) {
        self.log.unsubscribe(self.id);
    }
}
