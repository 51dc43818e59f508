//! The two streams of a cassette. One forwards a model's answer and records it; the other replays a
//! recorded answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use agentflow::Model;
use agentflow::model::{ModelError, ModelEvent, ModelRequest, ModelStream};
use futures_util::Stream;

use super::format::Came;
use super::tape::Shared;

type Item = Result<ModelEvent, ModelError>;

/// A stream that records a call.
pub(super) struct Recording {
    shared: Arc<Shared>,
    state: Recorder,
}

enum Recorder {
    /// The stream has not been polled. A call is recorded from its first poll.
    Asked(Arc<dyn Model>, Box<ModelRequest>),
    Passing(ModelStream, usize),
    Ended,
}

impl Recording {
    pub(super) fn new(shared: Arc<Shared>, model: Arc<dyn Model>, request: ModelRequest) -> Self {
        Self { shared, state: Recorder::Asked(model, Box::new(request)) }
    }
}

impl Stream for Recording {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let this = &mut *self;
        if let Recorder::Asked(..) = this.state
            && let Recorder::Asked(model, request) =
                std::mem::replace(&mut this.state, Recorder::Ended)
        {
            let at = this.shared.begin(&request);
            this.state = Recorder::Passing(model.stream(*request), at);
        }
        let Recorder::Passing(stream, at) = &mut this.state else { return Poll::Ready(None) };
        let (item, at) = (ready!(Pin::new(stream).poll_next(cx)), *at);
        let came = match &item {
            Some(Ok(ModelEvent::Completed(response))) => Came::Answer(response.clone()),
            Some(Ok(piece)) => {
                this.shared.piece(at, piece);
                return Poll::Ready(item);
            }
            Some(Err(error)) => Came::Error(Box::new(error.into())),
            None => Came::Cut,
        };
        this.state = Recorder::Ended;
        this.shared.end(at, came);
        Poll::Ready(item)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Recorder::Passing(_, at) = self.state {
            self.shared.end(at, Came::Dropped);
        }
    }
}

/// A stream that replays a call.
pub(super) struct Playing {
    shared: Arc<Shared>,
    state: PlayingState,
}

enum PlayingState {
    /// The stream has not been polled.
    Asked(Box<ModelRequest>),
    Pieces(std::vec::IntoIter<ModelEvent>, Came),
    Ended,
}

impl Playing {
    pub(super) fn new(shared: Arc<Shared>, request: ModelRequest) -> Self {
        Self { shared, state: PlayingState::Asked(Box::new(request)) }
    }
}

impl Stream for Playing {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Item>> {
        let this = &mut *self;
        if let PlayingState::Asked(request) = &this.state {
            match this.shared.play(request) {
                Ok((pieces, came)) => {
                    // A caller that does not stream expects only the complete answer.
                    let pieces = if request.stream { pieces } else { Vec::new() };
                    this.state = PlayingState::Pieces(pieces.into_iter(), came);
                }
                Err(error) => {
                    this.state = PlayingState::Ended;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        let PlayingState::Pieces(pieces, came) = &mut this.state else { return Poll::Ready(None) };
        if let Some(piece) = pieces.next() {
            return Poll::Ready(Some(Ok(piece)));
        }
        let last = match came {
            Came::Answer(answer) => Some(Ok(ModelEvent::Completed(answer.clone()))),
            Came::Error(error) => Some(Err((**error).clone().into())),
            Came::Cut => None,
            // The recorded caller dropped the call before its end, so no end is known.
            Came::Dropped => return Poll::Pending,
        };
        this.state = PlayingState::Ended;
        Poll::Ready(last)
    }
}
