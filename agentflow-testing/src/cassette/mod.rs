//! Cassettes record the requests to a real model and its answers once, and replay them strictly.
//!
//! [`Cassette`] wraps the `Model` trait and not the HTTP client, so cassettes have the same form
//! for every provider and contain no headers. `tape` keeps the recorded or remaining calls, `play`
//! implements the streams, `asked` is the comparable form of a request, `scrub` removes secrets,
//! and `format` and `layout` define the file. A real model is called only while recording.

mod asked;
mod format;
mod layout;
mod play;
mod scrub;
mod tape;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentflow::model::{
    ModelInfo, ModelRequest, ModelSource, ModelStream, OutputMode, OutputSchema,
};
use agentflow::{Model, Runtime};

use self::tape::Shared;

/// The environment variable that controls whether [`Cassette::new`] records.
const VARIABLE: &str = "AGENTFLOW_RECORD";

/// A model that records its calls to a file once and later replays them: offline, without cost and
/// with the same result every time.
///
/// [`Cassette::new`] replays the file if it exists. Otherwise its error explains how to record it:
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
/// `AGENTFLOW_RECORD=1 cargo test NAME` records the file again, with the real model and its key.
/// Record one test at a time, and review the file before you commit it. It is JSON with one entry
/// per call.
///
/// # Mismatches that fail a replay
/// - A request that differs from the next one of the cassette. The failure shows a diff.
/// - A call after the last one of the cassette.
/// - A call of the cassette that was never made.
///
/// A request consists of its messages, tools (name, description, parameters), output schema and
/// settings. Streaming is not compared: a call that was recorded as a stream can be replayed with
/// or without its pieces, and a call that was recorded without streaming is replayed as a complete
/// answer.
///
/// The first two end the run with a model error that is not retryable. All three are recorded:
/// [`finish`](Self::finish) panics with all of them, and so does dropping the last clone. Clones
/// share one cassette.
///
/// # Concurrent calls
/// If calls overlapped during the recording, the file contains `"order": "any"`, and a request is
/// answered by the first equal entry that has not been played. Otherwise it contains
/// `"order": "recorded"`, and the calls must be made in this order. Calls of concurrent agents may
/// not have overlapped by chance; then change the value to `"any"` in the file.
///
/// # Secrets
/// A cassette never contains headers or the key of the call. The following values are removed from
/// messages, answers and errors before the file is written: the values of environment variables
/// whose names end in `_API_KEY`, and of `ANTHROPIC_AUTH_TOKEN`, `GITHUB_TOKEN` and `HF_TOKEN`;
/// strings that look like a key (`Authorization: ..`, `Bearer ..`, `sk-..`, `AIza..` and the like);
/// and values given to [`scrub`](Self::scrub), [`scrub_variable`](Self::scrub_variable) and
/// [`scrub_with`](Self::scrub_with). Requests are scrubbed in the same way before they are
/// compared. Keys from other sources, such as a vault, must be given to one of these methods.
#[derive(Clone)]
#[doc(alias = "vcr")]
pub struct Cassette {
    info: ModelInfo,
    shared: Arc<Shared>,
}

impl Cassette {
    /// Replays the file, or records it if the environment asks for it. The model is a name, such as
    /// `openai-chat/gpt-5-mini`, or a model. A replay does not call the model and needs no key.
    ///
    /// The variable `AGENTFLOW_RECORD` decides: `1` always records, `missing` records if the file
    /// does not exist, and `0`, an empty value or no value never records. A relative path starts at
    /// the package's folder, where `cargo test` runs its tests.
    ///
    /// # Errors
    /// If the file does not exist and is not to be recorded, if it cannot be read or was recorded
    /// with another model, if the model's name is unknown, or if `AGENTFLOW_RECORD` has a different
    /// value.
    pub fn new(
        path: impl Into<PathBuf>,
        model: impl Into<ModelSource>,
    ) -> Result<Self, CassetteError> {
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
            // Otherwise dropping the unused cassette would panic about its unplayed calls.
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

    /// Records every call of a model. [`finish`](Self::finish), or dropping the last clone, writes
    /// the file and replaces an existing one. A test that panics writes nothing, so a failed test
    /// does not change the file.
    ///
    /// # Errors
    /// If the model's name is unknown.
    pub fn record(
        path: impl Into<PathBuf>,
        model: impl Into<ModelSource>,
    ) -> Result<Self, CassetteError> {
        let path = path.into();
        match Runtime::default().model(model) {
            Ok(model) => Ok(Self {
                info: model.info().clone(),
                shared: Arc::new(Shared::recording(path, model)),
            }),
            Err(error) => Err(CassetteError { path, problem: error.to_string() }),
        }
    }

    /// Replays a file and never calls a model.
    ///
    /// # Errors
    /// If the file does not exist, or is not a cassette of this format version.
    pub fn replay(path: impl Into<PathBuf>) -> Result<Self, CassetteError> {
        let path = path.into();
        let read = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!(
                "there is no such file; record it by running the test with {VARIABLE}=1, with the model's key set"
            ),
            _ => format!("it cannot be read: {error}"),
        });
        match read.and_then(|text| format::read(&text)) {
            Ok(tape) => {
                Ok(Self { info: tape.model.clone(), shared: Arc::new(Shared::playing(path, tape)) })
            }
            Err(problem) => Err(CassetteError { path, problem }),
        }
    }

    /// Removes a string everywhere, such as a key that is not in a variable or the name of a
    /// person.
    #[must_use]
    pub fn scrub(self, text: impl Into<String>) -> Self {
        self.shared.scrubber(|scrubber| scrubber.text(text.into()));
        self
    }

    /// Removes the value of an environment variable everywhere. The name itself is not treated as
    /// secret.
    #[must_use]
    pub fn scrub_variable(self, name: impl Into<String>) -> Self {
        self.shared.scrubber(|scrubber| scrubber.variable(name.into()));
        self
    }

    /// Passes every string through a function, such as a replacement by a regular expression. The
    /// function must be idempotent, because replayed strings are scrubbed again.
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

    /// Returns `true` if calls are recorded, and `false` if they are replayed.
    pub fn is_recording(&self) -> bool {
        self.shared.is_recording()
    }

    /// Returns the mismatches so far. Remaining entries are not included, because the run may still
    /// continue.
    pub fn failures(&self) -> Vec<String> {
        self.shared.failures()
    }

    /// Writes a recording, or checks that a replay had no mismatch and played all entries.
    ///
    /// # Panics
    /// If there is a mismatch or an entry is left, with all of them, or if the file cannot be
    /// written.
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

    /// Returns the answer of the recorded model, which the file contains.
    fn output_mode(&self, schema: &OutputSchema, with_tools: bool) -> Result<OutputMode, String> {
        self.shared.output_mode(schema, with_tools)
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        Shared::stream(&self.shared, request)
    }
}

/// Omits the content of the cassette.
impl fmt::Debug for Cassette {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cassette")
            .field("path", &self.shared.path())
            .field("model", &name(&self.info))
            .field("recording", &self.is_recording())
            .finish_non_exhaustive()
    }
}

/// An error that prevents the use of a cassette. `{:?}` prints the same sentence as `{}`, so that
/// `unwrap` shows it in a readable form.
#[derive(Clone)]
pub struct CassetteError {
    path: PathBuf,
    problem: String,
}

impl CassetteError {
    /// Returns the path of the file.
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
