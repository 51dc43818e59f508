//! Expectations of a scripted turn on the request that it answers.
//!
//! Each expectation inspects the request and describes a mismatch; it changes nothing.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use agentflow::message::{Role, ToolResult, ToolStatus};
use agentflow::model::{ModelRequest, ModelSettings};
use serde::Serialize;
use serde_json::Value;

use crate::diff::diff;
use crate::show::conversation_lines;
use crate::trace::TraceLines;
use crate::turn::Turn;

/// A condition on a request.
///
/// The lock is never taken; it makes the type `Sync`.
pub(crate) struct Expectation(Mutex<Box<Check>>);

type Check = dyn FnOnce(&ModelRequest) -> Result<(), String> + Send;

impl Expectation {
    /// Checks a request. A panic counts as a mismatch.
    pub(crate) fn check(self, request: &ModelRequest) -> Result<(), String> {
        without_panic(|| self.0.into_inner().unwrap_or_else(PoisonError::into_inner)(request))
            .and_then(|result| result)
    }
}

/// Runs a closure of the test and converts its panic into a string.
pub(crate) fn without_panic<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body))
        .map_err(|panic| format!("its closure panicked: {}", panic_text(&*panic)))
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Expectations on the request. Each may be used several times. All of them are checked, and every
/// mismatch is reported.
impl Turn {
    fn expecting(
        mut self,
        expectation: impl FnOnce(&ModelRequest) -> Result<(), String> + Send + 'static,
    ) -> Self {
        self.expectations.push(Expectation(Mutex::new(Box::new(expectation))));
        self
    }

    /// Checks the request with a closure. A panic in it, such as a failed `assert_eq!`, fails the
    /// script.
    ///
    /// ```
    /// # use agentflow_testing::Turn;
    /// let turn = Turn::text("4").check(|request| assert_eq!(request.settings.get_temperature(), Some(0.0)));
    /// # let _ = turn;
    /// ```
    pub fn check(self, check: impl FnOnce(&ModelRequest) + Send + 'static) -> Self {
        self.expecting(move |request| {
            check(request);
            Ok(())
        })
    }

    /// Requires that the newest message is exactly this text.
    pub fn expect_last(self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.expecting(move |request| {
            let last = request.messages.last().map(|message| message.text()).unwrap_or_default();
            let (expected, actual): (Vec<_>, Vec<_>) =
                (text.lines().collect(), last.lines().collect());
            // Texts are compared without wildcards. The line diff, which has wildcards, is only for
            // display.
            if text == last {
                return Ok(());
            }
            let shown =
                diff(&expected, &actual).unwrap_or_else(|| format!("- {text:?}\n+ {last:?}"));
            Err(format!("the newest message is another one:\n{shown}"))
        })
    }

    /// Requires that a message or a tool result contains this text.
    pub fn expect_text(self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.expecting(move |request| {
            let found = request.messages.messages().iter().any(|message| {
                message.text().contains(&text)
                    || message.results().any(|result| result.output.contains(&text))
            });
            if found { Ok(()) } else { Err(format!("no message contains {text:?}")) }
        })
    }

    /// Requires that no message and no tool result contains this text.
    pub fn expect_no_text(self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.expecting(move |request| {
            let found = request.messages.messages().iter().any(|message| {
                message.text().contains(&text)
                    || message.results().any(|result| result.output.contains(&text))
            });
            if found { Err(format!("a message contains {text:?}, which none may")) } else { Ok(()) }
        })
    }

    /// Requires that the instructions (all system messages, joined by line feeds) are exactly this
    /// text.
    pub fn expect_system(self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.expecting(move |request| {
            let messages =
                request.messages.messages().iter().filter(|message| message.role() == Role::System);
            let actual = messages.map(|message| message.text()).collect::<Vec<_>>().join("\n");
            if text == actual {
                return Ok(());
            }
            let (expected, lines): (Vec<_>, Vec<_>) =
                (text.lines().collect(), actual.lines().collect());
            let shown =
                diff(&expected, &lines).unwrap_or_else(|| format!("- {text:?}\n+ {actual:?}"));
            Err(format!("the instructions are others:\n{shown}"))
        })
    }

    /// Requires this conversation, with one line for each part of a message: `system: ..`,
    /// `user: ..`, `assistant: ..`, `assistant thinks: ..`, `assistant calls TOOL ARGUMENTS`,
    /// `tool NAME: OUTPUT`, `tool NAME failed (STATUS): TEXT`.
    ///
    /// A line that ends in ` ..` matches any rest of the line, and `..` matches any number of
    /// lines, as in [`assert_trace`](crate::assert_trace()).
    pub fn expect_conversation(self, lines: impl TraceLines) -> Self {
        let expected = lines.into_lines();
        self.expecting(move |request| {
            let actual =
                conversation_lines(request.messages.messages().iter().map(|message| &**message));
            match diff(&expected, &actual) {
                None => Ok(()),
                Some(diff) => Err(format!("the conversation is another one:\n{diff}")),
            }
        })
    }

    /// Requires this number of messages, including instructions.
    pub fn expect_messages(self, count: usize) -> Self {
        self.expecting(move |request| {
            let actual = request.messages.len();
            if actual == count {
                Ok(())
            } else {
                Err(format!("there are {actual} messages, not {count}"))
            }
        })
    }

    /// Requires that exactly these tools are offered, in any order.
    pub fn expect_tools<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        let mut expected: Vec<String> = names.into_iter().map(Into::into).collect();
        expected.sort();
        self.expecting(move |request| {
            let actual = offered(request);
            match diff(&expected, &actual) {
                None => Ok(()),
                Some(diff) => Err(format!("other tools are offered:\n{diff}")),
            }
        })
    }

    /// Requires that this tool is offered. Other tools may be offered too.
    pub fn expect_tool(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.expecting(move |request| {
            let actual = offered(request);
            if actual.contains(&&*name) {
                return Ok(());
            }
            Err(format!("the tool `{name}` is not offered; there are {actual:?}"))
        })
    }

    /// Requires that a tool has returned this value since the last message of the model. `call` is
    /// the name of the tool or the id of the call. If the tool was called several times, one
    /// matching result is enough.
    ///
    /// # Panics
    /// If the value cannot be serialized to JSON.
    pub fn expect_result(self, call: impl Into<String>, value: impl Serialize) -> Self {
        let call = call.into();
        let expected = match serde_json::to_value(&value) {
            Ok(value) => value,
            Err(error) => panic!("the expected result of `{call}` has no JSON form: {error}"),
        };
        self.expecting(move |request| {
            let results = results_of(request, &call)?;
            let equal = |result: &&ToolResult| {
                result.status.is_success()
                    && serde_json::from_str::<Value>(&result.output)
                        .is_ok_and(|actual| actual == expected)
            };
            if results.iter().any(equal) {
                return Ok(());
            }
            Err(format!(
                "the result of `{call}` is another one:\n- success: {expected}\n{}",
                shown(&results)
            ))
        })
    }

    /// Requires that a tool call has failed with this status since the last message of the model,
    /// and that the model receives text that contains `text`. `call` is the name of the tool or the
    /// id of the call.
    pub fn expect_failure(
        self,
        call: impl Into<String>,
        status: ToolStatus,
        text: impl Into<String>,
    ) -> Self {
        let (call, text) = (call.into(), text.into());
        self.expecting(move |request| {
            let results = results_of(request, &call)?;
            if results.iter().any(|result| result.status == status && result.output.contains(&text))
            {
                return Ok(());
            }
            Err(format!(
                "the result of `{call}` is another one:\n- {status}: .. {text} ..\n{}",
                shown(&results)
            ))
        })
    }

    /// Requires these settings.
    pub fn expect_settings(self, settings: ModelSettings) -> Self {
        self.expecting(move |request| {
            if *request.settings == settings {
                return Ok(());
            }
            let lines = |settings: &ModelSettings| {
                let text = serde_json::to_string_pretty(settings)
                    .unwrap_or_else(|error| error.to_string());
                text.lines().map(ToOwned::to_owned).collect::<Vec<_>>()
            };
            let diff = diff(&lines(&settings), &lines(&request.settings)).unwrap_or_default();
            Err(format!("the settings are others:\n{diff}"))
        })
    }
}

fn offered(request: &ModelRequest) -> Vec<&str> {
    request.tools.definitions().iter().map(|definition| &*definition.name).collect()
}

/// Returns the results of a tool or a call since the last message of the model.
fn results_of<'r>(request: &'r ModelRequest, call: &str) -> Result<Vec<&'r ToolResult>, String> {
    // Results before the last message of the model belong to earlier turns.
    let new = request
        .messages
        .messages()
        .iter()
        .rev()
        .take_while(|message| message.role() != Role::Assistant);
    let all: Vec<&ToolResult> =
        new.flat_map(|message| message.results()).map(|result| &**result).collect();
    let found: Vec<_> = all
        .iter()
        .copied()
        .filter(|result| result.name == call || result.call_id == call)
        .collect();
    if found.is_empty() {
        return Err(match all.is_empty() {
            true => {
                format!("no tool has answered since the model spoke last, and `{call}` should have")
            }
            false => format!("`{call}` has not answered; there is\n{}", shown(&all)),
        });
    }
    Ok(found)
}

fn shown(results: &[&ToolResult]) -> String {
    let lines: Vec<String> = results
        .iter()
        .map(|result| format!("+ {}: {} ({})", result.status, result.output, result.call_id))
        .collect();
    lines.join("\n")
}
