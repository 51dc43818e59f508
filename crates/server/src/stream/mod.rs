//! Follows a run: by server-sent events, and by a WebSocket that also receives answers.

mod event_frames;
mod live_run;
mod run_stream;

pub(crate) use self::live_run::follow_live;
pub(crate) use self::run_stream::{StreamQuery, follow_run};
