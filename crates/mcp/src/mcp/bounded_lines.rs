//! An `AsyncRead` wrapper that fails when a line exceeds the size limit for messages. It passes the
//! bytes on unchanged, and reports lines that are not messages to [`StrayLines`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::connection::Ending;
use super::stray_lines::{LineScan, StrayLines};

/// Reason for the end of a connection whose peer closed its output.
pub(crate) const CLOSED: &str = "it closed its output";

/// A reader that fails when a line has more than `most` bytes. The failure ends the connection,
/// because the response in that line is lost.
pub(crate) struct BoundedLines<R> {
    inner: R,
    most: usize,
    /// Number of bytes since the last line break.
    line: usize,
    ending: Ending,
    /// Collects lines that are not messages, with the scan of the current line.
    strays: Option<(StrayLines, LineScan)>,
}

impl<R> BoundedLines<R> {
    pub(crate) fn new(inner: R, most: usize, ending: Ending) -> Self {
        Self { inner, most, line: 0, ending, strays: None }
    }

    /// Reports lines that are not messages to `strays`.
    pub(super) fn noting(mut self, strays: StrayLines) -> Self {
        self.strays = Some((strays, LineScan::default()));
        self
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, buf));
        let new = &buf.filled()[before..];
        match &read {
            Err(error) => self.ending.because(error.to_string()),
            Ok(()) if new.is_empty() => self.ending.because(CLOSED.to_owned()),
            Ok(()) => {}
        }
        if let Some((strays, line)) = &mut self.strays {
            for piece in new.split_inclusive(|byte| *byte == b'\n') {
                line.read(piece.strip_suffix(b"\n").unwrap_or(piece));
                if piece.ends_with(b"\n") {
                    strays.ended(std::mem::take(line));
                }
            }
        }
        // `self.line` persists between reads, because one line may arrive in several pieces.
        let most = self.most;
        let is_over = new.split_inclusive(|byte| *byte == b'\n').any(|piece| {
            self.line += piece.len();
            let is_over = self.line > most;
            if piece.ends_with(b"\n") {
                self.line = 0;
            }
            is_over
        });
        if is_over {
            let problem = format!("a message has more than {most} bytes");
            self.ending.because(problem.clone());
            // A failed read must not report filled bytes.
            buf.set_filled(before);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, problem)));
        }
        Poll::Ready(read)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn read(bytes: &[u8], most: usize) -> (io::Result<usize>, Option<String>) {
        let ending = Ending::default();
        let mut reader = BoundedLines::new(bytes, most, ending.clone());
        let mut all = Vec::new();
        let read = reader.read_to_end(&mut all).await;
        (read, ending.reason())
    }

    #[tokio::test]
    async fn a_line_of_as_many_bytes_as_allowed_is_read_and_one_more_is_not() {
        assert_eq!(read(b"1234\n1234\n", 5).await.0.unwrap(), 10);
        let (refused, reason) = read(b"1234\n12345\n", 5).await;
        assert_eq!(refused.unwrap_err().to_string(), "a message has more than 5 bytes");
        assert_eq!(reason.unwrap(), "a message has more than 5 bytes");
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_bounded_too() {
        assert!(read(&[b'a'; 100], 99).await.0.is_err());
        assert_eq!(read(&[b'a'; 100], 100).await.1.unwrap(), "it closed its output");
    }
}
