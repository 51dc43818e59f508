//! Detects lines of a server that are not messages: the remains of a broken response, or output of
//! a logger.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Time to wait for the response after an incomplete message.
const AFTER_BROKEN: Duration = Duration::from_secs(1);
/// Time to wait for the response after another line, for a server that has not logged to its output
/// before.
const AFTER_TEXT: Duration = Duration::from_secs(30);
/// Maximum number of bytes of a line that are kept.
const MOST_KEPT: usize = 200;

/// The stray lines of one connection. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct StrayLines(Arc<SharedLines>);

#[derive(Default)]
struct SharedLines {
    seen: Mutex<SeenLines>,
    changed: Notify,
}

#[derive(Default)]
struct SeenLines {
    /// The newest stray line since the last message. An incomplete message takes precedence over
    /// other lines.
    stray: Option<StrayLine>,
    /// `true` once a message arrived after a stray line that is not an incomplete message. The
    /// server then writes its log to its output.
    has_log: bool,
}

#[derive(Clone)]
struct StrayLine {
    text: String,
    at: Instant,
    is_broken: bool,
}

/// Result of scanning a line for one complete JSON value.
#[derive(Default)]
pub(super) struct LineScan {
    kept: Vec<u8>,
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    /// `true` once an object or a list has ended.
    is_whole: bool,
    /// `true` if other characters precede or follow the value.
    has_rest: bool,
}

impl LineScan {
    /// Scans the next piece of the line, without its line break.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        let room = MOST_KEPT.saturating_sub(self.kept.len());
        self.kept.extend(bytes.iter().take(room));
        for byte in bytes {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_text => self.is_escaped = true,
                b'"' if self.depth > 0 => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' if !self.is_whole && !self.has_rest => self.depth += 1,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    self.is_whole = self.depth == 0;
                }
                byte if byte.is_ascii_whitespace() || self.depth > 0 => {}
                _ => self.has_rest = true,
            }
        }
    }
}

impl StrayLines {
    /// Records a complete line.
    pub(super) fn ended(&self, line: LineScan) {
        if line.kept.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if line.is_whole && !line.has_rest {
            // Most messages do not follow a stray line. They wake no waiting call.
            let Some(stray) = seen.stray.take() else { return };
            seen.has_log |= !stray.is_broken;
        } else if seen.stray.as_ref().is_none_or(|stray| !stray.is_broken) {
            let text = String::from_utf8_lossy(&line.kept).trim().to_owned();
            // Messages of JSON-RPC are objects, so this line is an incomplete message.
            let is_broken = text.starts_with('{');
            seen.stray = Some(StrayLine { text, at: Instant::now(), is_broken });
        }
        drop(seen);
        self.0.changed.notify_waiters();
    }

    /// Waits until a line arrives that is not a message and that no message follows in time. Then
    /// returns the line. Dropping the future has no effect.
    ///
    /// A server may write its log between its messages. If it has done so before, only incomplete
    /// messages count, and the call keeps its full time limit.
    pub(super) async fn wait_for_stray_line(&self, since: Instant) -> String {
        loop {
            // Registers for changes before the state is read, so that no change is missed.
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            let stray = {
                let seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.stray
                    .clone()
                    .filter(|stray| stray.at >= since && (stray.is_broken || !seen.has_log))
            };
            let Some(stray) = stray else {
                changed.await;
                continue;
            };
            let patience = if stray.is_broken { AFTER_BROKEN } else { AFTER_TEXT };
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(stray.at + patience) => return stray.text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(line: &str) -> LineScan {
        let mut scan = LineScan::default();
        line.as_bytes().chunks(3).for_each(|piece| scan.read(piece));
        scan
    }

    #[test]
    fn a_message_is_one_whole_object() {
        for (line, is_message) in [
            (r#"{"a": {"b": "}\\\"{"}}"#, true),
            (" {} ", true),
            ("[{}]", true),
            ("pong", false),
            (r#"{"a": {"b": 1}"#, false),
            (r#"{"a": "b}"#, false),
            ("{} {}", false),
            ("ready {}", false),
            ("[INFO] ready", false),
        ] {
            let scan = scan(line);
            assert_eq!(scan.is_whole && !scan.has_rest, is_message, "{line}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_without_an_answer_is_given_up_and_a_log_is_not() {
        let (lines, since) = (StrayLines::default(), Instant::now());
        lines.ended(scan("pong"));
        assert_eq!(lines.wait_for_stray_line(since).await, "pong");
        assert_eq!(since.elapsed(), AFTER_TEXT);
        lines.ended(scan("{}"));
        lines.ended(scan("working"));
        let waited =
            tokio::time::timeout(Duration::from_secs(3600), lines.wait_for_stray_line(since)).await;
        assert!(waited.is_err(), "{waited:?}");
        lines.ended(scan("{}"));
        let since = Instant::now();
        lines.ended(scan(r#"{"jsonrpc": "2.0", "res"#));
        assert_eq!(lines.wait_for_stray_line(since).await, r#"{"jsonrpc": "2.0", "res"#);
        assert_eq!(since.elapsed(), AFTER_BROKEN);
    }
}
