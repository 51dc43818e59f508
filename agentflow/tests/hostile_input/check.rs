//! Checks for untrusted bytes: answers of providers' servers and stored data. The bounded test beside it and the fuzz
//! targets of `fuzz/` call the same functions. A check never requires that bytes are accepted.

use std::cell::OnceCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use agentflow::message::Conversation;
use agentflow::model::anthropic::Anthropic;
use agentflow::model::gemini::Gemini;
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::model::openai_responses::OpenAiResponses;
use agentflow::model::{HttpSettings, ModelError, ModelEvent, ModelRequest, ModelResponse, Secret};
use agentflow::{Event, Message, Model};
use futures_util::StreamExt;

/// One of the wire formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Chat Completions.
    Chat,
    /// Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini generateContent.
    Gemini,
}

impl Format {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Anthropic, Self::Gemini];
}

/// Everything that a call hands on, and how it ends.
type Answer = (Vec<ModelEvent>, Result<ModelResponse, ModelError>);

/// The bytes as a provider's answer: as a stream, the same stream in other pieces, and a document.
///
/// # Panics
/// When reading them does, or what is read breaks a promise.
pub(crate) fn answer(format: Format, bytes: &[u8]) {
    let whole = read(format, Body::Stream { bytes, piece: bytes.len().max(1) });
    let split = read(format, Body::Stream { bytes, piece: 7 });
    assert_eq!(shown(&whole), shown(&split), "the pieces in which a stream arrives change nothing");
    // The last event of Responses has the whole answer once more, which counts if the two differ.
    if let (events, Ok(response)) = &whole
        && format != Format::Responses
    {
        let (pieces, text) = (joined(events, text), response.text());
        if format == Format::Anthropic {
            // Its blocks can arrive interleaved, and the answer has them in the order in which they began.
            assert_eq!(sorted(&pieces), sorted(&text), "the pieces of the text make the text");
        } else {
            assert_eq!(pieces, text, "the pieces of the text make the text");
        }
    }
    for (_, ended) in [whole, read(format, Body::Document(bytes))] {
        let Ok(response) = ended else { continue };
        let said = Message::clone(&response.message);
        for call in said.tool_calls() {
            assert!(!call.id.is_empty(), "a call without id: {call:?}");
        }
        // It can be kept, read back, and sent to every provider.
        let mut conversation = Conversation::from(Message::user("hi"));
        conversation.push(said);
        kept(&conversation);
    }
}

fn sorted(text: &str) -> Vec<char> {
    let mut characters: Vec<char> = text.chars().collect();
    characters.sort_unstable();
    characters
}

/// Checks a whole HTTP response, head included, after which the connection is closed.
///
/// # Panics
/// Reading it panics, or it is refused without a message.
pub(crate) fn response(bytes: &[u8]) {
    for request in [ModelRequest::new("hi"), ModelRequest::new("hi").streamed()] {
        let (_, ended) = call(Format::Chat, Body::Response(bytes), request);
        if let Err(error) = ended {
            assert!(!error.to_string().trim().is_empty());
        }
    }
}

/// The bytes as a stored event.
///
/// # Panics
/// When reading or showing it does, or it changes on its way through the store.
pub(crate) fn event(bytes: &[u8]) {
    let Ok(event) = serde_json::from_slice::<Event>(bytes) else { return };
    let text = serde_json::to_string(&event).expect("an event that was read can be written");
    let again: Event = serde_json::from_str(&text).expect("an event that was written can be read");
    assert_eq!(event, again);
    assert_eq!(text, serde_json::to_string(&again).expect("as before"), "the stored form is stable");
    let line = event.line().to_string();
    assert!(!line.chars().any(char::is_control), "{line:?}");
    drop(Conversation::from_events([&event]));
}

/// The bytes as lines of a stored journal, of which those that cannot be read are left out.
///
/// # Panics
/// When making a conversation of any part of it from its beginning does.
pub(crate) fn journal(bytes: &[u8]) {
    let events: Vec<Event> =
        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    for end in 0..=events.len() {
        drop(Conversation::from_events(&events[..end]));
    }
}

/// The bytes as a stored conversation.
///
/// # Panics
/// When reading it or making requests of it does, or it changes on its way through the store.
pub(crate) fn conversation(bytes: &[u8]) {
    let Ok(conversation) = serde_json::from_slice::<Conversation>(bytes) else { return };
    kept(&conversation);
    drop(conversation.open_calls());
    for format in Format::ALL {
        drop(call(format, Body::Document(b"{}"), ModelRequest::new(conversation.clone())));
    }
}

fn kept(conversation: &Conversation) {
    let text = serde_json::to_string(conversation).expect("a conversation can be written");
    let again: Conversation = serde_json::from_str(&text).expect("a conversation that was written can be read");
    assert!(*conversation == again, "{text}");
}

/// For comparing: errors have no equality, and how texts are divided may differ.
fn shown((events, ended): &Answer) -> String {
    format!("{:?} {:?} {ended:?}", joined(events, text), joined(events, reasoning))
}

fn joined(events: &[ModelEvent], pick: fn(&ModelEvent) -> &str) -> String {
    events.iter().map(pick).collect()
}

fn text(event: &ModelEvent) -> &str {
    if let ModelEvent::Text(text) = event { text } else { "" }
}

fn reasoning(event: &ModelEvent) -> &str {
    if let ModelEvent::Reasoning(text) = event { text } else { "" }
}

fn read(format: Format, body: Body<'_>) -> Answer {
    let request = ModelRequest::new("hi");
    let request = if matches!(body, Body::Stream { .. }) { request.streamed() } else { request };
    call(format, body, request)
}

/// One call over loopback. To read bytes without a socket, replace this function: nothing else knows that there is one.
fn call(format: Format, body: Body<'_>, request: ModelRequest) -> Answer {
    thread_local! {
        static LINE: OnceCell<Line> = const { OnceCell::new() };
    }
    LINE.with(|line| {
        let line = line.get_or_init(Line::new);
        *line.served.lock().expect("no panic while it is held") =
            Served { response: body.written(), closes: matches!(body, Body::Response(_)) };
        let (_, model) = line.models.iter().find(|(of, _)| *of == format).expect("each format has a model");
        line.tokio.block_on(async {
            let mut stream = model.stream(request);
            let mut events = Vec::new();
            while let Some(item) = stream.next().await {
                match item {
                    Ok(ModelEvent::Completed(response)) => {
                        assert!(stream.next().await.is_none(), "the answer is the last item");
                        return (events, Ok(*response));
                    }
                    Ok(event) => events.push(event),
                    Err(error) => return (events, Err(error)),
                }
            }
            panic!("a stream ends with an answer or an error");
        })
    })
}

/// The body of an answer.
#[derive(Clone, Copy)]
enum Body<'a> {
    /// Server-sent events, in pieces of so many bytes.
    Stream { bytes: &'a [u8], piece: usize },
    /// A JSON document.
    Document(&'a [u8]),
    /// A head and a body as they are.
    Response(&'a [u8]),
}

impl Body<'_> {
    /// The HTTP response.
    fn written(self) -> Vec<u8> {
        match self {
            Self::Stream { bytes, piece } => {
                let mut response =
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                        .to_vec();
                for piece in bytes.chunks(piece) {
                    response.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                    response.extend_from_slice(piece);
                    response.extend_from_slice(b"\r\n");
                }
                response.extend_from_slice(b"0\r\n\r\n");
                response
            }
            Self::Document(bytes) => {
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    bytes.len()
                );
                [head.as_bytes(), bytes].concat()
            }
            Self::Response(bytes) => bytes.to_vec(),
        }
    }
}

/// The answer of the server.
#[derive(Clone, Default)]
struct Served {
    response: Vec<u8>,
    /// The connection ends behind it.
    closes: bool,
}

/// A server on loopback that answers whatever is set, and a model of each format that calls it.
struct Line {
    served: Arc<Mutex<Served>>,
    models: Vec<(Format, Arc<dyn Model>)>,
    tokio: tokio::runtime::Runtime,
}

impl Line {
    fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
        let url = format!("http://{}/v1", listener.local_addr().expect("bound"));
        let served = Arc::new(Mutex::new(Served::default()));
        let answers = Arc::clone(&served);
        thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                let answers = Arc::clone(&answers);
                thread::spawn(move || serve(socket, &answers));
            }
        });
        let mut http = HttpSettings::default();
        http = http.max_retries(0);
        let key = || Secret::new("key");
        macro_rules! model {
            ($adapter:ident) => {
                Arc::new(
                    $adapter::builder("m").base_url(&*url).api_key(key()).http(http.clone()).build().expect("usable"),
                )
            };
        }
        let models: Vec<(Format, Arc<dyn Model>)> = vec![
            (Format::Chat, model!(OpenAiChat)),
            (Format::Responses, model!(OpenAiResponses)),
            (Format::Anthropic, model!(Anthropic)),
            (Format::Gemini, model!(Gemini)),
        ];
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { served, models, tokio }
    }
}

/// Answers the requests of one connection until it is closed.
fn serve(socket: TcpStream, answers: &Mutex<Served>) {
    socket.set_nodelay(true).expect("a socket");
    let mut reader = BufReader::new(&socket);
    let mut line = String::new();
    let mut length = 0;
    loop {
        line.clear();
        if !matches!(reader.read_line(&mut line), Ok(read) if read > 0) {
            return;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if line.trim_end().is_empty() {
            let mut body = vec![0; std::mem::take(&mut length)];
            let answer = answers.lock().expect("no panic while it is held").clone();
            let is_read = reader.read_exact(&mut body).is_ok();
            if !is_read || (&socket).write_all(&answer.response).is_err() || answer.closes {
                return;
            }
        }
    }
}
