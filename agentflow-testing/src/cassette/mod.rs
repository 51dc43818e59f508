//! Cassettes: the requests to a real model and its answers, recorded once and replayed strictly.
//!
//! The recorder sits at the `Model` and not at the wire, so a cassette is the same for every provider and shows no
//! header. It calls a model only in the mode that records.

mod asked;
mod format;
mod layout;
mod play;
mod scrub;
mod tape;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentflow::model::{ModelInfo, ModelRequest, ModelSource, ModelStream, OutputMode, OutputSchema};
use agentflow::{Model, Runtime};

use self::tape::Shared;

/// The environment variable that says whether [`Cassette::new`] records.
const VARIABLE: &str = "AGENTFLOW_RECORD";

/// A model whose calls are recorded to a file once, and replayed from it from then on: offline, free and always alike.
///
/// The usual form replays when the file exists and says how to record it when it does not:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use agentflow::Agent;
/// use agentflow_testing::Cassette;
///
/// let model = Cassette::new("tests/cassettes/greeting.json", "openai-chat/gpt-5-mini")?;
/// let result = Agent::new(model.clone()).run("I am Ada.").await?;
/// assert_eq!(result.output(), "Hello, Ada.");
/// model.finish();
/// # Ok(())
/// # }
/// ```
///
/// `AGENTFLOW_RECORD=1 cargo test NAME` records it anew, with the real model and its key. Record one test at a time,
/// and read the file before it is committed: it is JSON, one entry a call, made to be reviewed.
///
/// # What fails a replay
/// - A request that is not the next one of the cassette. The failure shows how they differ.
/// - A call after the last one of the cassette.
/// - A call of the cassette that was never made.
///
/// A request is its messages, tools (name, description, parameters), output schema and settings. Whether pieces are
/// wanted is no part of it: a call that was recorded with its pieces shows them to whoever wants them, and one that was
/// recorded whole comes whole.
///
/// The first two end the run with a model error that is not retryable. All three are remembered:
/// [`finish`](Self::finish) panics with every one, and so does dropping the last clone. Clones share one cassette.
///
/// # Calls at the same time
/// When calls overlapped while they were recorded, the file says `"order": "any"`, and a request is answered by the
/// first entry that is exactly it and was not played yet. Otherwise it says `"order": "recorded"`, and the calls must
/// come in that order. Agents that run side by side may by chance not have overlapped; then write `"any"` into the
/// file.
///
/// # Secrets
/// Headers and keys of the call itself are never in a cassette. What a message, an answer or an error may hold is taken
/// out before the file is written: the values of environment variables whose names end in `_API_KEY` and of
/// `ANTHROPIC_AUTH_TOKEN`, `GITHUB_TOKEN` and `HF_TOKEN`; what looks like a key (`Authorization: ..`, `Bearer ..`,
/// `sk-..`, `AIza..` and the like); and what [`scrub`](Self::scrub), [`scrub_variable`](Self::scrub_variable) and
/// [`scrub_with`](Self::scrub_with) name. A request is scrubbed in the same way before it is compared. A key from
/// elsewhere, such as a vault, must be named.
#[derive(Clone)]
#[doc(alias = "vcr")]
pub struct Cassette {
    info: ModelInfo,
    shared: Arc<Shared>,
}

impl Cassette {
    /// Replays the file; or records it, when the environment says so. The model is a name, such as
    /// `openai-chat/gpt-5-mini`, or a model; it is not called when the file is replayed, and needs no key then.
    ///
    /// `AGENTFLOW_RECORD` decides: `1` records anew, `missing` records when there is no such file, and `0`, nothing or
    /// no such variable never records. A path is relative to the package's folder, where `cargo test` runs its tests.
    ///
    /// # Errors
    /// When the file is not there and is not to be recorded; when it cannot be read or was recorded with another model;
    /// when the model's name leads to no model.
    pub fn new(path: impl Into<PathBuf>, model: impl Into<ModelSource>) -> Result<Self, CassetteError> {
        let path = path.into();
        let asked = std::env::var(VARIABLE).unwrap_or_default();
        let record = match asked.as_str() {
            "" | "0" => false,
            "1" => true,
            "missing" => !path.exists(),
            other => {
                let problem = format!("{VARIABLE} is `{other}`; set it to `1`, `missing` or `0`");
                return Err(CassetteError { path, problem });
            }
        };
        let model = model.into();
        if record {
            return Self::record(path, model);
        }
        let wanted = match model.info() {
            Ok(info) => info,
            Err(error) => return Err(CassetteError { path, problem: error.to_string() }),
        };
        let cassette = Self::replay(path)?;
        if cassette.info != wanted {
            cassette.shared.abandon();
            let problem = format!(
                "it was recorded with {} and is asked to be {}; set {VARIABLE}=1 to record it again",
                name(&cassette.info),
                name(&wanted)
            );
            return Err(CassetteError { path: cassette.shared.path().to_owned(), problem });
        }
        Ok(cassette)
    }

    /// Records every call of a model. The file is written, and replaced, by [`finish`](Self::finish) or when the last
    /// clone is dropped; not by a test that panics, so a test that failed leaves the file as it was.
    ///
    /// # Errors
    /// When the model's name leads to no model.
    pub fn record(path: impl Into<PathBuf>, model: impl Into<ModelSource>) -> Result<Self, CassetteError> {
        let path = path.into();
        match Runtime::default().model(model) {
            Ok(model) => Ok(Self { info: model.info().clone(), shared: Arc::new(Shared::recording(path, model)) }),
            Err(error) => Err(CassetteError { path, problem: error.to_string() }),
        }
    }

    /// Replays a file and never calls a model.
    ///
    /// # Errors
    /// When the file is not there, or is not a cassette of this version of the format.
    pub fn replay(path: impl Into<PathBuf>) -> Result<Self, CassetteError> {
        let path = path.into();
        let read = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!(
                "there is no such file; record it by running the test with {VARIABLE}=1, with the model's key set"
            ),
            _ => format!("it cannot be read: {error}"),
        });
        match read.and_then(|text| format::read(&text)) {
            Ok(tape) => Ok(Self { info: tape.model.clone(), shared: Arc::new(Shared::playing(path, tape)) }),
            Err(problem) => Err(CassetteError { path, problem }),
        }
    }

    /// Takes a text out of everything: a key that is in no variable, the name of a person.
    #[must_use]
    pub fn scrub(self, text: impl Into<String>) -> Self {
        self.shared.scrubber(|scrubber| scrubber.text(text.into()));
        self
    }

    /// Takes the value of an environment variable out of everything. Its name is not secret.
    #[must_use]
    pub fn scrub_variable(self, name: impl Into<String>) -> Self {
        self.shared.scrubber(|scrubber| scrubber.variable(name.into()));
        self
    }

    /// Passes every text through a function, such as a regular expression that replaces. Used on its own result it must
    /// change nothing more, since what is replayed is scrubbed again.
    ///
    /// ```
    /// # use agentflow_testing::Cassette;
    /// # fn scrubbed(cassette: Cassette) -> Cassette {
    /// cassette.scrub_with(|text| text.replace("ada@example.com", "[address]"))
    /// # }
    /// ```
    #[must_use]
    pub fn scrub_with(self, rule: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.shared.scrubber(|scrubber| scrubber.rule(Arc::new(rule)));
        self
    }

    /// Whether calls are recorded, and not replayed.
    pub fn is_recording(&self) -> bool {
        self.shared.is_recording()
    }

    /// What was not as recorded so far. Entries that are left are not among it: the run may still continue.
    pub fn failures(&self) -> Vec<String> {
        self.shared.failures()
    }

    /// Ends it: a recording is written; of a replay everything must have been as recorded, and no entry may be left.
    ///
    /// # Panics
    /// When it was not so, with all that was not; when the file cannot be written.
    #[track_caller]
    pub fn finish(&self) {
        if let Some(problems) = self.shared.finish() {
            panic!("{problems}");
        }
    }
}

fn name(info: &ModelInfo) -> String {
    format!("{}/{}", info.provider, info.model)
}

impl Model for Cassette {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// The recorded model's own answer, which is kept beside the calls.
    fn output_mode(&self, schema: &OutputSchema, with_tools: bool) -> Result<OutputMode, String> {
        self.shared.output_mode(schema, with_tools)
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        Shared::stream(&self.shared, request)
    }
}

/// Shows no content.
impl fmt::Debug for Cassette {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cassette")
            .field("path", &self.shared.path())
            .field("model", &name(&self.info))
            .field("recording", &self.is_recording())
            .finish_non_exhaustive()
    }
}

/// Why a cassette cannot be used. Shown with `{:?}` it is the same sentence, since that is how `unwrap` shows it.
#[derive(Clone)]
pub struct CassetteError {
    path: PathBuf,
    problem: String,
}

impl CassetteError {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for CassetteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the cassette {} cannot be used: {}", self.path.display(), self.problem)
    }
}

impl fmt::Debug for CassetteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CassetteError {}
