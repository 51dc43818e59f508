//! A server on loopback for one benchmark case. It reads requests one after another and answers
//! each with the next answer of the case.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Serves answers with one content type and returns the address. Its thread runs until the program
/// ends.
pub(crate) fn serve(
    content_type: &'static str,
    mut answer: impl FnMut() -> Arc<str> + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("the listener has an address");
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // Errors are ignored: the client notices a broken connection, and the next connection
            // continues.
            let _ = converse(&connection, content_type, &mut answer);
        }
    });
    format!("http://{address}")
}

fn converse(
    connection: &TcpStream,
    content_type: &str,
    answer: &mut impl FnMut() -> Arc<str>,
) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(64 * 1024, connection);
    let mut writer = connection;
    let (mut line, mut body) = (String::new(), Vec::new());
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            match line.split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().unwrap_or(0);
                }
                _ if line.trim_end().is_empty() => break,
                _ => {}
            }
        }
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
        let text = answer();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
            text.len()
        );
        // A short answer is sent in one write, so that the client wakes up once.
        match text.len() {
            ..16384 => writer.write_all(&[head.as_bytes(), text.as_bytes()].concat())?,
            _ => {
                writer.write_all(head.as_bytes())?;
                writer.write_all(text.as_bytes())?;
            }
        }
    }
}
