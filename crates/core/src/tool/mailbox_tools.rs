//! The tools with which a model sends and reads the messages of a mailbox. `Context` stores the
//! messages.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Effects, FnTool, ToolDefinition, ToolPolicy};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::mailbox::{Mail, Mailbox};

/// Maximum size of the messages that a model gets at once, in bytes.
const READ_AT_ONCE: usize = 32 << 10;

#[derive(Deserialize)]
struct Letter<M> {
    to: String,
    message: M,
}

#[derive(Serialize)]
struct Read<M> {
    messages: Vec<Mail<M>>,
    left: usize,
}

impl<M: Serialize + DeserializeOwned + JsonSchema + Send + 'static> Mailbox<M> {
    /// Creates the tools with which a model writes and reads as `agent`.
    ///
    /// For a mailbox `notes` they are `notes_send {"to": .., "message": ..}` and `notes_read {}`.
    /// `notes_read` returns `{"messages": [{"from": .., "message": ..}], "left": 0}`: at most 32
    /// KiB of messages at once, and the number of messages that are left.
    ///
    /// The model cannot write under another agent's name. The calls of one turn do not see each
    /// other's messages; a message is read in a later turn.
    ///
    /// # Errors
    /// [`Error::Mailbox`] if the mailbox does not have that agent.
    pub fn tools(&self, agent: &str) -> Result<[FnTool; 2]> {
        let refused = |problem: String| Error::Mailbox { mailbox: self.name(), problem };
        // Checked here, so that a typo is an error at start-up and not in a call.
        let agent = self.known(agent).map_err(refused)?;
        Ok([self.sending(agent), self.reading(agent)])
    }

    fn sending(&self, agent: &'static str) -> FnTool {
        let mailbox = self.clone();
        let about = format!("Sends a message to another agent. You write as `{agent}`.");
        let definition = self.definition("send", about, letter_schema::<M>(self.agents()));
        FnTool::from_definition(
            definition,
            move |cx: Context, Letter { to, message }: Letter<M>| {
                let sent = cx.send_mail(&mailbox, agent, &to, &message);
                std::future::ready(sent.map(|()| format!("sent to `{to}`")))
            },
            true,
        )
    }

    fn reading(&self, agent: &'static str) -> FnTool {
        let mailbox = self.clone();
        let about = "Takes the messages that other agents have sent you, the first one first. Each is given once; with \
                     `left` above 0, call it again.";
        let parameters = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let definition = self.definition("read", about.to_owned(), parameters);
        FnTool::from_definition(
            definition,
            move |cx: Context, (): ()| {
                let taken = cx.take_mail_within(&mailbox, agent, READ_AT_ONCE);
                std::future::ready(taken.map(|(messages, left)| Read { messages, left }))
            },
            true,
        )
    }

    fn definition(&self, verb: &str, about: String, parameters: Value) -> ToolDefinition {
        let name = format!("{}_{verb}", self.name());
        // Mailbox changes are part of the call's own record, so an interrupted call has changed
        // nothing.
        ToolDefinition::new(name, about, parameters)
            .policy(ToolPolicy::default().effects(Effects::None))
    }
}

fn letter_schema<M: JsonSchema>(agents: &[&str]) -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true);
    let mut generator = settings.into_generator();
    let message = generator.subschema_for::<M>();
    let mut schema = json!({
        "type": "object",
        "properties": {
            "to": {"type": "string", "enum": agents, "description": "The agent that reads it."},
            "message": message.to_value(),
        },
        "required": ["to", "message"],
        "additionalProperties": false,
    });
    let definitions = generator.take_definitions(true);
    if !definitions.is_empty() {
        schema["$defs"] = definitions.into();
    }
    schema
}
